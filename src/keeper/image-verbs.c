/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>

#include "base/path.h"
#include "keeper/box.h"
#include "keeper/image.h"

/*
 * image_add: unpack a stranger's archive in a confined child.  Who owns cayd can
 * fill the disk up to what it says, and have any files lie in images/, owned by
 * ids no process has; none of them is ever executed or read by this program.
 */
int verb_image_add(const struct keeper *k, const void *request, int fd, struct verb_result *result,
		   struct cay_err *err)
{
	const struct verb_image_add *q = request;
	struct image_added added = { .config_fd = -EBADF };
	int r = image_add(k->images, fd, q->bytes, &added, err);

	if (r < 0)
		return r;
	memcpy(result->image.digest, added.digest, sizeof(added.digest));
	result->image.bytes = added.bytes;
	result->fd = added.config_fd;
	return 0;
}

static int used_by(const struct keeper *k, const uint8_t digest[static 32])
{
	int copy = openat(k->boxes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;
	int found = 0;

	if (!d) {
		cay_closep(&copy);
		return -errno;
	}
	while (!found && (e = readdir(d))) { /* NOLINT(concurrency-mt-unsafe): d is ours */
		auto_close int dir = -EBADF;
		struct box_record record;

		if (e->d_name[0] == '.')
			continue;
		dir = path_open(k->boxes, e->d_name, O_RDONLY | O_DIRECTORY, 0);
		found = dir < 0 ? dir : box_record_read(dir, &record);
		if (found == -ENOENT) /* removed meanwhile */
			found = 0;
		else if (found == 0)
			found = record.magic &&
				memcmp(record.image, digest, sizeof(record.image)) == 0;
	}
	(void)closedir(d);
	return found;
}

/*
 * image_remove: who owns cayd can remove any image that no sandbox uses.
 */
int verb_image_remove(const struct keeper *k, const void *request, int fd,
		      struct verb_result *result, struct cay_err *err)
{
	const struct verb_image_remove *q = request;
	int r = used_by(k, q->digest);

	(void)fd;
	(void)result;
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read boxes/");
	if (r > 0)
		return cay_fail(err, CAY_E_STATE, "a sandbox uses this image");
	return image_remove(k->images, q->digest, err);
}
