/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/mount.h"
#include "base/path.h"
#include "base/rmtree.h"
#include "keeper/host-dir.h"
#include "keeper/overlay.h"
#include "keeper/volume.h"

/* The mounts of a sandbox that has ended are gone a moment later. */
#define BUSY_NS NS_PER_S
#define BUSY_WAIT_MS 10
/* Of an upper: which lower it was mounted over first. */
#define ORIGIN "trusted.overlay.origin"

void volume_mounts_fini(struct volume_mounts *m)
{
	for (; m->n; m->n--) {
		cay_closep(&m->v[m->n - 1].tree);
		cay_closep(&m->v[m->n - 1].disk);
		cay_closep(&m->v[m->n - 1].dir);
	}
}

static int volume_mounts_open_one(const struct keeper *k, const struct verb_mount *row, int userns,
				  int *ret_dir, int *ret_disk, struct cay_err *err)
{
	struct volume v = VOLUME_INIT;
	int r = volume_open(k, &row->volume, row->read_only ? LOCK_SH : LOCK_EX, &v, err);

	*ret_dir = v.dir;
	if (r < 0)
		return r;
	if (volume_is_frozen(&v) && !row->read_only)
		return cay_fail(err, CAY_E_FORBIDDEN, "the volume %s is read-only", v.name);
	*ret_disk = mount_clone(v.dir, VOLUME_DISK, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, userns);
	if (*ret_disk < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -*ret_disk, "idmap the files of %s",
				    v.name);
	return 0;
}

int volume_mounts_open(const struct keeper *k, const struct sandbox *sb,
		       const struct verb_mount *rows, int userns, struct volume_mounts *ret,
		       struct cay_err *err)
{
	ret->rows = rows;
	for (unsigned i = 0; i < VERB_MOUNTS_MAX && rows[i].path[0]; i++) {
		int r;

		ret->v[i].dir = ret->v[i].disk = ret->v[i].tree = -EBADF;
		ret->n = i + 1;
		if (rows[i].host[0])
			r = ret->v[i].tree = host_dir_mount(k, sb, &rows[i], err);
		else
			r = volume_mounts_open_one(k, &rows[i], userns, &ret->v[i].dir,
						   &ret->v[i].disk, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int volume_mounts_attach_disks(const struct volume_mounts *m, struct cay_err *err)
{
	for (unsigned i = 0; i < m->n; i++) {
		char at[] = STAGE_VOLUME "/0";

		at[sizeof(at) - 2] = (char)('0' + i);
		if (m->rows[i].host[0])
			continue;
		if (move_mount(m->v[i].disk, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "attach a volume");
	}
	return 0;
}

/* An upper knows the lower it was mounted over by a handle of its inode.  Copied to another file
 * system, it knows one that does not exist.  Nothing of this lower is ever seen, so what the kernel
 * keeps about it may go: only this worker has the volume. */
int volume_forget_origin(int dir)
{
	auto_close int upper = path_open(dir, VOLUME_UPPER, O_RDONLY | O_DIRECTORY, 0);
	auto_close int work = path_open(dir, VOLUME_WORK, O_RDONLY | O_DIRECTORY, 0);

	if (upper < 0 || work < 0)
		return upper < 0 ? upper : work;
	if (fremovexattr(upper, ORIGIN) < 0 && errno != ENODATA)
		return -errno;
	return rmtree_contents(work);
}

static int volume_mount_retry(const char *at, bool read_only)
{
	uint64_t until = clk_boot_ns(&clk_system) + BUSY_NS;
	int r = volume_overlay_create(at, read_only);

	while (r == -EBUSY && clk_boot_ns(&clk_system) < until) {
		(void)poll(NULL, 0, BUSY_WAIT_MS);
		r = volume_overlay_create(at, read_only);
	}
	return r;
}

static int volume_mounts_create_one(struct volume_mounts *m, unsigned i, struct cay_err *err)
{
	char at[] = STAGE_VOLUME "/0", id[ID_TEXT_LEN + 1];
	bool read_only = m->rows[i].read_only;
	int r;

	at[sizeof(at) - 2] = (char)('0' + i);
	id_format(&m->rows[i].volume, id);
	r = volume_mount_retry(at, read_only);
	if (r == -ESTALE && volume_forget_origin(m->v[i].dir) >= 0)
		r = volume_mount_retry(at, read_only);
	m->v[i].tree = r;
	if (r == -EBUSY)
		return cay_fail_sys(err, CAY_E_CONFLICT, -r,
				    "another sandbox has the volume %s mounted", id);
	return r < 0 ? cay_fail_sys(err, cay_code_from_disk_errno(r), -r, "mount the volume %s", id)
		     : 0;
}

static int volume_path_refuse(const char *path, int r, struct cay_err *err)
{
	if (r == -ENOTDIR || r == -ELOOP)
		return cay_fail_sys(err, CAY_E_INVALID, -r,
				    "%s, where a volume is to be mounted, is a file or leads over "
				    "a link in the image",
				    path);
	return cay_fail_sys(err, cay_code_from_disk_errno(r), -r, "create %s for a volume", path);
}

int volume_mounts_create(struct volume_mounts *m, int root, struct cay_err *err)
{
	for (unsigned i = 0; i < m->n; i++) {
		const char *path = m->rows[i].path;
		auto_close int at = overlay_make_path(root, path + 1);
		int r = at < 0 ? volume_path_refuse(path, at, err) : 0;

		if (r >= 0 && !m->rows[i].host[0])
			r = volume_mounts_create_one(m, i, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The path is resolved again: a writable path of a read-only root may cover it by now. */
int volume_mounts_attach(const struct volume_mounts *m, int root, struct cay_err *err)
{
	for (unsigned i = 0; i < m->n; i++) {
		const char *path = m->rows[i].path;
		auto_close int at = path_open(root, path + 1, O_PATH | O_DIRECTORY, 0);

		if (at < 0)
			return volume_path_refuse(path, at, err);
		if (move_mount(m->v[i].tree, "", at, "",
			       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "mount a volume on %s",
					    path);
	}
	return failpoint_hit(FAULT_START_MOUNTED);
}
