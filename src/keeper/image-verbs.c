/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/failpoint.h"
#include "base/path.h"
#include "keeper/image-store.h"
#include "keeper/keeper-sandbox.h"
#include "unpack/digest.h"

/*
 * image_add: unpack an untrusted archive in a confined child.  An attacker who owns cayd can
 * fill the disk up to the size it names, and place any files in images/, owned by ids no
 * process has; this program never executes or reads them.
 */
int verb_image_add(const struct keeper *k, const void *request, int fd, struct verb_result *result,
		   struct cay_err *err)
{
	const struct verb_image_add *q = request;
	struct image_store_added added = { .config_fd = -EBADF };
	int r = image_store_add(k->images, fd, q->bytes, q->which, &added, err);

	if (r < 0)
		return r;
	memcpy(result->image.digest, added.digest, sizeof(added.digest));
	result->image.bytes = added.bytes;
	result->fd = added.config_fd;
	return 0;
}

static int image_is_used(const struct keeper *k, const uint8_t digest[static 32])
{
	int copy = openat(k->sandboxes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;
	int found = 0;

	if (!d) {
		cay_closep(&copy);
		return -errno;
	}
	while (!found && (e = readdir(d))) { /* NOLINT(concurrency-mt-unsafe): d is ours */
		auto_close int dir = -EBADF;
		struct keeper_sandbox_record record;

		if (e->d_name[0] == '.')
			continue;
		dir = path_open(k->sandboxes, e->d_name, O_RDONLY | O_DIRECTORY, 0);
		found = dir < 0 ? dir : keeper_sandbox_read_record(dir, &record);
		if (found == -ENOENT || found == -ENOTDIR) /* removed meanwhile, or not a sandbox */
			found = 0;
		else if (found == 0)
			found = record.magic &&
				memcmp(record.image, digest, sizeof(record.image)) == 0;
	}
	(void)closedir(d);
	return found;
}

/* image_remove: an attacker who owns cayd can remove any image that no sandbox uses. */
int verb_image_remove(const struct keeper *k, const void *request, int, struct verb_result *,
		      struct cay_err *err)
{
	const struct verb_image_remove *q = request;
	int r = image_is_used(k, q->digest);

	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read boxes/");
	if (r > 0)
		return cay_fail(err, CAY_E_STATE, "a sandbox uses this image");
	return image_store_remove(k->images, &k->disk, q->digest, err);
}

/* An identity, not a hash of the contents: hashing gigabytes is not worth a name that is never
 * compared outside this node. */
static int image_commit_digest(const struct verb_image_commit *q, struct digest *ret)
{
	static const char what[] = "cay layer";
	struct hash h;
	int r = hash_init(&h);

	if (r < 0)
		return r;
	r = hash_update(&h, what, sizeof(what));
	r = r < 0 ? r : hash_update(&h, q->parent, sizeof(q->parent));
	r = r < 0 ? r : hash_update(&h, &q->sandbox, sizeof(q->sandbox));
	r = r < 0 ? r : hash_update(&h, &q->generation, sizeof(q->generation));
	r = r < 0 ? r : hash_finish(&h, ret);
	hash_fini(&h);
	return r;
}

static int keeper_sandbox_commit_image(const struct keeper *k, struct sandbox *sb,
				       const struct digest *d, struct cay_err *err)
{
	uint8_t chain[IMAGE_LAYERS_MAX][32];
	struct stat st;
	int r = image_store_read_chain(k->images, sb->record.image, chain);

	/* check before the sandbox is ended */
	if (r == -ELOOP || r == IMAGE_LAYERS_MAX)
		return cay_fail(err, CAY_E_LIMIT, "an image has at most %d layers",
				IMAGE_LAYERS_MAX);
	if (fstatat(sb->dir, IMAGE_DISK, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cay_fail(err, CAY_E_STATE, "%s has no disk: its files are in memory",
				sb->name);
	r = sb->cgroup.v2 < 0 ? 0 : sandbox_cgroup_kill(&sb->cgroup, SANDBOX_KILL_MS, err);
	r = r < 0 ? r : failpoint_hit(FAULT_COMMIT_KILLED);
	return r < 0 ? r
		     : image_store_commit(k->images, &k->disk, sb->dir, sb->record.image, d->byte,
					  /* copy= */ NULL, err);
}

/*
 * image_commit: end a sandbox and turn its changes into an image.  An attacker who owns cayd
 * can do that to any sandbox; the files stay in the foreign range and below the image they
 * were written over.  Idempotent.
 */
int verb_image_commit(const struct keeper *k, const void *request, int, struct verb_result *result,
		      struct cay_err *err)
{
	const struct verb_image_commit *q = request;
	char name[DIGEST_HEX + 8];
	auto_keeper_sandbox b = KEEPER_SANDBOX_INIT;
	struct digest d;
	struct stat st;
	int r = keeper_sandbox_open(k, &q->sandbox, q->generation, &b, err);

	if (r < 0 && r != -ENOENT)
		return r;
	if (image_commit_digest(q, &d) < 0)
		return cay_no_memory(err);
	image_dir_name(d.byte, name);
	if (fstatat(k->images, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		*err = (struct cay_err){};
		r = 0;
	} else if (r >= 0 && memcmp(b.record.image, q->parent, sizeof(q->parent)) != 0) {
		r = cay_fail(err, CAY_E_STATE, "%s was not created from this image", b.name);
	} else if (r >= 0) {
		r = keeper_sandbox_commit_image(k, &b, &d, err);
	}
	memcpy(result->commit.digest, d.byte, sizeof(d.byte));
	return r;
}
