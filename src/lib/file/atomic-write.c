/* SPDX-License-Identifier: Apache-2.0 */
#include "file/atomic-write.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "base/path.h"

#define LINKS_MAX 40
#define LOCKS_MAX 100 /* times the file may be another one once it is locked */

static int atomic_write_follow_links(struct atomic_write *p, struct cay_err *err)
{
	char target[FILE_PATH_MAX + 1];

	for (unsigned i = 0; i < LINKS_MAX; i++) {
		struct path_at next = PATH_AT_INIT;
		ssize_t n = readlinkat(p->at.dir, p->at.name, target, sizeof(target) - 1);
		int r;

		if (n < 0)
			return errno == EINVAL || errno == ENOENT
				       ? 0
				       : file_fail(err, errno, "look at", p->conf.path);
		target[n] = 0;
		r = path_at_open_from(p->at.dir, target, p->conf.parents, &next, err);
		if (r < 0)
			return r;
		path_at_fini(&p->at);
		p->at = next;
	}
	return file_fail_lookup(err, ELOOP, p->conf.path);
}

static int atomic_write_stat_old(struct atomic_write *p, struct stat *ret, struct cay_err *err)
{
	const char *path = p->conf.path;

	p->created = fstatat(p->at.dir, p->at.name, ret, AT_SYMLINK_NOFOLLOW) < 0;
	if (p->created && errno != ENOENT)
		return file_fail(err, errno, "look at", path);
	if (p->created)
		return p->conf.old_hash ? cay_fail_field(err, CAY_E_CONFLICT, "if_sha256",
							 "there is no such file")
					: 0;
	if (p->conf.create_only)
		return file_fail(err, EEXIST, "create", path);
	if (S_ISDIR(ret->st_mode))
		return file_fail(err, EISDIR, "write", path);
	if (!S_ISREG(ret->st_mode))
		return cay_fail_field(err, CAY_E_INVALID, "path", "not a regular file");
	/* rename() would not check this */
	if (faccessat(p->at.dir, p->at.name, W_OK, AT_EACCESS) < 0)
		return file_fail(err, errno, "write", path);
	return 0;
}

static int atomic_write_check_old_hash(const struct atomic_write *p, struct cay_err *err)
{
	unsigned char now[FILE_HASH_LEN];
	auto_close int fd = -EBADF;
	int r;

	if (!p->conf.old_hash)
		return 0;
	fd = file_open(p->at.dir, p->at.name, O_RDONLY | O_NOFOLLOW, 0);
	r = fd < 0 ? fd : file_hash_fd(fd, now);
	if (r < 0)
		return file_fail(err, -r, "read", p->conf.path);
	if (memcmp(now, p->conf.old_hash, sizeof(now)) != 0)
		return cay_fail_field(err, CAY_E_CONFLICT, "if_sha256",
				      "the content of the file has changed");
	return 0;
}

static bool atomic_write_is_in_place(const struct atomic_write *p, int fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(p->at.dir, p->at.name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* For conditional writes: no other writer comes between check and rename.  The lock on the
 * old file is the one edits take; after waiting for it the file may be gone. */
static int atomic_write_lock_old(struct atomic_write *p, struct cay_err *err)
{
	int r = 0;

	if (!p->conf.old_hash)
		return 0;
	for (unsigned i = 0; i < LOCKS_MAX && r >= 0; i++) {
		p->lock = file_open(p->at.dir, p->at.name, O_RDONLY | O_NOFOLLOW, 0);
		r = p->lock;
		if (r >= 0 && flock(p->lock, LOCK_EX) < 0)
			r = -errno;
		if (r >= 0 && atomic_write_is_in_place(p, p->lock))
			return 0;
		if (p->lock >= 0)
			(void)close(cay_take_fd(&p->lock));
	}
	return r < 0 ? file_fail(err, -r, "lock", p->conf.path)
		     : cay_fail_field(err, CAY_E_CONFLICT, "path",
				      "it is being replaced by another process again and again");
}

/* Owner first: changing it clears setuid bits.  New content is not trusted like the old, so
 * those bits must be requested explicitly, as with any write. */
static int atomic_write_set_attrs(const struct atomic_write *p, const struct stat *old,
				  struct cay_err *err)
{
	const struct atomic_write_conf *c = &p->conf;
	mode_t mode = c->has_mode ? c->mode : p->created ? 0644 : old->st_mode & 01777;

	/* keep the owner as far as permissions allow */
	if (!p->created && fchown(p->fd, old->st_uid, old->st_gid) < 0 && errno != EPERM)
		return file_fail(err, errno, "give away", c->path);
	if ((c->uid != (uid_t)-1 || c->gid != (gid_t)-1) && fchown(p->fd, c->uid, c->gid) < 0)
		return file_fail(err, errno, "give away", c->path);
	if (fchmod(p->fd, mode) < 0)
		return file_fail(err, errno, "set the mode of", c->path);
	return 0;
}

static int atomic_write_check_in_place(const struct atomic_write *p, struct cay_err *err)
{
	return atomic_write_is_in_place(p, p->fd)
		       ? 0
		       : cay_fail_field(err, CAY_E_CONFLICT, "path",
					"the file was replaced meanwhile");
}

static int atomic_write_begin_append(struct atomic_write *p, struct stat *st, struct cay_err *err)
{
	tmpfile_defer_sigterm(); /* an incomplete append is cut off again */
	p->fd = file_open(p->at.dir, p->at.name,
			  O_RDWR | O_APPEND | O_NOFOLLOW | (p->created ? O_CREAT | O_EXCL : 0),
			  0644);
	if (p->fd < 0)
		return file_fail(err, -p->fd, "write", p->conf.path);
	if (flock(p->fd, LOCK_EX) < 0 || fstat(p->fd, st) < 0)
		return file_fail(err, errno, "lock", p->conf.path);
	if (!S_ISREG(st->st_mode))
		return cay_fail_field(err, CAY_E_INVALID, "path", "not a regular file");
	p->old_size = (uint64_t)st->st_size;
	return atomic_write_check_in_place(p, err);
}

int atomic_write_begin(struct atomic_write *p, const struct atomic_write_conf *conf,
		       struct cay_err *err)
{
	struct stat old = {};
	int r;

	p->conf = *conf;
	file_hash_begin(&p->hash);
	r = path_at_open(conf->path, conf->parents, &p->at, err);
	if (r >= 0 && !conf->create_only)
		r = atomic_write_follow_links(p, err);
	if (r >= 0)
		r = atomic_write_stat_old(p, &old, err);
	if (r >= 0)
		r = atomic_write_check_old_hash(p, err);
	if (r < 0)
		return r;
	if (conf->append) {
		r = atomic_write_begin_append(p, &old, err);
		if (r >= 0)
			r = atomic_write_check_old_hash(p, err);
	} else {
		p->fd = tmpfile_open(&p->tmpfile, p->at.dir);
		if (p->fd < 0)
			return file_fail(err, -p->fd, "write", conf->path);
	}
	if (r >= 0 && (!conf->append || p->created || conf->has_mode))
		r = atomic_write_set_attrs(p, &old, err);
	return r;
}

int atomic_write_add(struct atomic_write *p, const void *bytes, size_t n, struct cay_err *err)
{
	int r;

	p->size += n;
	if (p->conf.has_size && p->size > p->conf.size)
		return cay_fail_field(err, CAY_E_INVALID, "size", "more came than that");
	file_hash_add(&p->hash, bytes, n);
	r = fd_write_all(p->fd, bytes, n);
	return r < 0 ? file_fail(err, -r, "write", p->conf.path) : 0;
}

static int atomic_write_check_new(struct atomic_write *p, struct cay_err *err)
{
	file_hash_end(&p->hash, p->written_hash);
	if (p->conf.has_size && p->size != p->conf.size)
		return cay_fail_field(err, CAY_E_INVALID, "size", "%llu bytes came",
				      (unsigned long long)p->size);
	if (p->conf.new_hash &&
	    memcmp(p->written_hash, p->conf.new_hash, sizeof(p->written_hash)) != 0)
		return cay_fail_field(
			err, CAY_E_INVALID, "sha256",
			"the received bytes have another one: they were damaged in transit");
	return 0;
}

int atomic_write_commit(struct atomic_write *p, struct cay_err *err)
{
	int r = atomic_write_check_new(p, err);

	if (r < 0)
		return r;
	if (p->conf.append) {
		r = atomic_write_check_in_place(p, err);
		p->committed = r >= 0;
		return r;
	}
	r = atomic_write_lock_old(p, err);
	if (r >= 0)
		r = atomic_write_check_old_hash(p, err);
	if (r < 0)
		return r;
	r = tmpfile_commit(&p->tmpfile, p->at.name,
			   p->conf.create_only ? TMPFILE_CREATE
			   : p->created        ? TMPFILE_CREATE_OR_REPLACE
					       : TMPFILE_REPLACE);
	p->committed = r >= 0;
	return r < 0 ? file_fail(err, -r, "put in place", p->conf.path) : 0;
}

/* Cut off what was appended, unless another process has written since. */
static void atomic_write_undo_append(const struct atomic_write *p)
{
	struct stat st;

	if (fstat(p->fd, &st) < 0 || (uint64_t)st.st_size > p->old_size + p->size ||
	    ftruncate(p->fd, (off_t)p->old_size) < 0)
		return;
	/* a file that replaced ours meanwhile stays */
	if (p->created && atomic_write_is_in_place(p, p->fd))
		(void)unlinkat(p->at.dir, p->at.name, 0);
}

void atomic_write_fini(struct atomic_write *p)
{
	if (!p->committed && p->conf.append && p->fd >= 0)
		atomic_write_undo_append(p);
	if (p->conf.append && p->fd >= 0)
		(void)close(p->fd);
	tmpfile_fini(&p->tmpfile); /* otherwise fd is its */
	if (p->lock >= 0)
		(void)close(p->lock);
	path_at_fini(&p->at);
}
