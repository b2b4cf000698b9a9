/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/host-dir.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/mount.h"
#include "base/path.h"
#include "daemon/host-dirs.h"
#include "keeper/overlay.h"

#define ANCESTORS_MAX 2048 /* a path has fewer parts */

struct keeper_host_dirs {
	struct host_dirs all;
	struct {
		int fd; /* O_PATH; < 0: it cannot be used, and why */
		uid_t uid;
		gid_t gid;
		struct cay_err why;
	} opened[HOST_DIRS_MAX];
};

/* Go up from fd; 1 if fn says so of one of them, fd included. */
typedef bool host_dir_fn(const struct stat *st, const struct stat *arg);

static int host_dir_any_above(int fd, bool itself, host_dir_fn *fn, const struct stat *arg)
{
	auto_close int at = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	struct stat last = {}, st;

	for (int i = 0; i < ANCESTORS_MAX; i++) {
		int up;

		if (at < 0 || fstat(at, &st) < 0)
			return -errno;
		if (i && st.st_ino == last.st_ino && st.st_dev == last.st_dev)
			return 0; /* the root is above itself */
		if ((i || itself) && fn(&st, arg))
			return 1;
		last = st;
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		cay_closep(&at);
		at = up;
	}
	return -ELOOP;
}

static bool host_dir_is_same(const struct stat *st, const struct stat *other)
{
	return st->st_ino == other->st_ino && st->st_dev == other->st_dev;
}

static bool host_dir_lets_only_its_owner_in(const struct stat *st, const struct stat *)
{
	return !(st->st_mode & (S_IXGRP | S_IXOTH));
}

/* Neither one of Cay's own directories, nor in one, nor above one. */
static int host_dir_check_not_ours(const struct keeper *k, int fd, const struct stat *st,
				   struct cay_err *err)
{
	const char *const ours[] = { k->settings.state_dir, k->settings.run_dir,
				     k->settings.host_dir };

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
		auto_close int own = open(ours[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
		struct stat there;
		int r = own < 0 || fstat(own, &there) < 0 ? -errno : 0;

		if (r >= 0)
			r = host_dir_any_above(own, true, host_dir_is_same, st);
		if (r == 0)
			r = host_dir_any_above(fd, true, host_dir_is_same, &there);
		if (r < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, -r, "compare it with %s", ours[i]);
		if (r)
			return cay_fail(err, CAY_E_INVALID, "it has, or is in, %s, which is Cay's",
					ours[i]);
	}
	return 0;
}

/* A program that sets its user id and is written there could be run by users of the host. */
static int host_dir_check_writable(int fd, const struct stat *st, struct cay_err *err)
{
	struct statvfs fs;
	int r = fstatvfs(fd, &fs) < 0 ? -errno : 0;

	if (!st->st_uid || !st->st_gid)
		return cay_fail(err, CAY_E_INVALID,
				"with mode = rw it must belong to a user and a group other than "
				"root's");
	if (r >= 0 && (fs.f_flag & ST_NOSUID))
		return 0;
	if (r >= 0)
		r = host_dir_any_above(fd, false, host_dir_lets_only_its_owner_in, NULL);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "look at the directories above it");
	return r ? 0
		 : cay_fail(err, CAY_E_INVALID,
			    "sandboxes could leave programs there that set the user id: mount its "
			    "file system nosuid, or put it below a directory of mode 0700");
}

static int host_dir_clone(int fd, uint64_t attrs, const struct id_map *map, struct cay_err *err)
{
	auto_close int userns = userns_create(map);
	int tree;

	if (userns < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -userns, "create a user namespace");
	tree = mount_clone(fd, "", attrs, userns);
	if (tree == -EINVAL)
		return cay_fail_sys(err, CAY_E_UNSUPPORTED, -tree,
				    "its file system cannot be mounted with other ids");
	return tree < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -tree, "clone its mount") : tree;
}

/* By its path for the only time. */
static int host_dir_open(const struct keeper *k, const struct host_dir *d, struct stat *st,
			 struct cay_err *err)
{
	auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_close int fd =
		root < 0 ? -errno : path_open(root, d->path + 1, O_PATH | O_DIRECTORY, 0);
	const struct id_map probe = { 0, 0, VERB_RANGE_BASE, 1 };
	int r;

	if (fd == -ELOOP || fd == -ENOTDIR)
		return cay_fail_sys(err, CAY_E_INVALID, -fd,
				    "it is no directory, or leads over a link");
	if (fd < 0 || fstat(fd, st) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, fd < 0 ? -fd : errno, "open it");
	r = host_dir_check_not_ours(k, fd, st, err);
	if (r >= 0 && d->mode == HOST_DIR_RW)
		r = host_dir_check_writable(fd, st, err);
	if (r >= 0) {
		auto_close int tree = host_dir_clone(fd, MOUNT_ATTR_RDONLY, &probe, err);

		r = tree;
	}
	return r < 0 ? r : cay_take_fd(&fd);
}

int host_dirs_open(struct keeper *k, struct cay_err *err)
{
	struct keeper_host_dirs *h = k->host_dirs = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return cay_no_memory(err);
	r = host_dirs_read(k->settings.host_dir, &h->all, err);
	for (size_t i = 0; r >= 0 && i < h->all.n; i++) {
		struct stat st = {};

		h->opened[i].fd = host_dir_open(k, &h->all.rows[i], &st, &h->opened[i].why);
		h->opened[i].uid = st.st_uid;
		h->opened[i].gid = st.st_gid;
		if (h->opened[i].fd < 0)
			log_error(&k->log, "the host directory '%s' cannot be mounted: %s",
				  h->all.rows[i].name, h->opened[i].why.msg);
	}
	return r;
}

int host_dir_mount(const struct keeper *k, const struct sandbox *sb, const struct verb_mount *row,
		   struct cay_err *err)
{
	const struct keeper_host_dirs *h = k->host_dirs;
	const struct host_dir *d = host_dirs_find(&h->all, row->host, &sb->record.tenant);
	uint64_t attrs = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
	size_t i = d ? (size_t)(d - h->all.rows) : 0;
	struct id_map map;

	if (!d)
		return cay_fail(err, CAY_E_NOT_FOUND,
				"cay-keeper knew no host directory '%s' of this tenant when it "
				"started",
				row->host);
	if (h->opened[i].fd < 0)
		return cay_fail(err, CAY_E_UNSUPPORTED,
				"the host directory '%s' cannot be mounted: %s", d->name,
				h->opened[i].why.msg);
	if (d->mode != HOST_DIR_RW && !row->read_only)
		return cay_fail(err, CAY_E_FORBIDDEN, "the host directory '%s' is read-only",
				d->name);
	if (row->read_only)
		attrs |= MOUNT_ATTR_RDONLY;
	map = (struct id_map){ h->opened[i].uid, h->opened[i].gid,
			       keeper_sandbox_host_root_id(sb) + d->as, 1 };
	return host_dir_clone(h->opened[i].fd, attrs, &map, err);
}
