/* SPDX-License-Identifier: Apache-2.0 */
#include "file/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/buf.h"
#include "file/path-at.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

struct walk_dir {
	DIR *dir;
	int fd;          /* dir's */
	size_t path_len; /* of the path before its entries */
};

struct walk_state {
	struct walk *w;
	struct walk_dir steps[WALK_DEPTH_MAX];
	unsigned n;
	struct buf path;
	bool in_kernel; /* the start is in /proc or the like */
};

static void walk_state_fini(struct walk_state *p)
{
	while (p->n)
		(void)closedir(p->steps[--p->n].dir);
	buf_fini(&p->path);
}

static bool walk_fd_is_kernel_fs(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC);
}

/* Takes fd.  The current path is the prefix of its entries. */
static int walk_push_dir(struct walk_state *p, int fd)
{
	DIR *d;

	if (fd < 0)
		return -errno;
	d = fdopendir(fd);
	if (!d) {
		cay_closep(&fd);
		return -errno;
	}
	p->steps[p->n++] = (struct walk_dir){ d, fd, p->path.len };
	return 0;
}

static void walk_descend(struct walk_state *p, const struct walk_entry *e)
{
	int fd;

	if (p->n == WALK_DEPTH_MAX) {
		p->w->skipped++;
		return;
	}
	fd = openat(e->dirfd, e->name, DIR_FLAGS | O_NOFOLLOW);
	if (fd >= 0 && !p->in_kernel && walk_fd_is_kernel_fs(fd)) {
		cay_closep(&fd);
		p->w->skipped++;
		return;
	}
	if (buf_putc(&p->path, '/') < 0 || walk_push_dir(p, fd) < 0)
		p->w->skipped++;
}

static unsigned char walk_entry_type(int fd, const struct dirent *d)
{
	struct stat st;

	if (d->d_type != DT_UNKNOWN)
		return d->d_type;
	if (fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return DT_UNKNOWN;
	return (unsigned char)IFTODT(st.st_mode);
}

static int walk_visit_entry(struct walk_state *p, const struct walk_dir *s, const struct dirent *d)
{
	struct walk_entry e = {
		.dirfd = s->fd,
		.name = d->d_name,
		.depth = p->n - 1,
		.type = walk_entry_type(s->fd, d),
	};
	int r;

	buf_truncate(&p->path, s->path_len);
	if (buf_puts(&p->path, d->d_name) < 0) { /* no system call would take the path */
		p->w->skipped++;
		return 0;
	}
	e.path = (struct slice){ p->path.data, p->path.len };
	r = p->w->fn(p->w->arg, &e);
	if (r == 0 && e.type == DT_DIR)
		walk_descend(p, &e);
	return r < 0 ? r : 0;
}

int walk_tree(struct walk *w, const char *dir, struct cay_err *err)
{
	CAY_CLEANUP(walk_state_fini)
	struct walk_state p = { .w = w, .path = BUF_INIT(PATH_MAX - 1) };
	int fd = file_open(AT_FDCWD, dir, DIR_FLAGS, 0), r;

	if (fd < 0)
		return file_fail_lookup(err, -fd, dir);
	p.in_kernel = walk_fd_is_kernel_fs(fd);
	r = walk_push_dir(&p, fd);
	if (r < 0)
		return file_fail(err, -r, "open", dir);
	while (p.n) {
		const struct walk_dir *s = &p.steps[p.n - 1];
		const struct dirent *d = readdir(s->dir); /* NOLINT(concurrency-mt-unsafe): ours */

		if (!d) {
			(void)closedir(p.steps[--p.n].dir);
			continue;
		}
		if (str_eq(d->d_name, ".") || str_eq(d->d_name, ".."))
			continue;
		r = walk_visit_entry(&p, s, d);
		if (r < 0)
			return r;
	}
	return 0;
}
