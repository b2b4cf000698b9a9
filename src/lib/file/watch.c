/* SPDX-License-Identifier: Apache-2.0 */
#include "file/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>

#include "base/buf.h"
#include "file/path-at.h"
#include "file/walk.h"

#define MASK \
	(IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | \
	 IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

struct watched_dir {
	int wd;
	char *path; /* below the start, "" for itself */
};

struct watch {
	int fd;
	char *dir;
	bool recursive, limited;
	watch_fn *fn;
	void *arg;
	struct watched_dir *v;
	size_t n, cap;
	bool tell_found;  /* scanning a new directory reports its entries */
	struct buf below; /* its path */
};

void watch_free(struct watch *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i].path);
	free(w->v);
	free(w->dir);
	buf_fini(&w->below);
	cay_closep(&w->fd);
	free(w);
}

static int watch_notify(struct watch *w, enum watch_kind kind, struct slice path, bool dir,
			uint32_t move)
{
	struct watch_event e = { kind, path, dir, move };

	return w->fn(w->arg, &e);
}

static struct watched_dir *watch_find_wd(struct watch *w, int wd)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->v[i].wd == wd)
			return &w->v[i];
	return NULL;
}

static void watch_forget_dir(struct watch *w, struct watched_dir *one)
{
	free(one->path);
	*one = w->v[--w->n];
}

/* By a name under which nothing else can be: the directory that is open. */
static int watch_inotify_add_fd(struct watch *w, int fd)
{
	char self[32];
	int wd;

	if (snprintf(self, sizeof(self), "/proc/self/fd/%d", fd) >= (int)sizeof(self))
		return -ENAMETOOLONG;
	wd = inotify_add_watch(w->fd, self, MASK);
	return wd < 0 ? -errno : wd;
}

static int watch_inotify_add(struct watch *w, int dirfd, const char *name)
{
	auto_close int fd = file_open(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);

	return fd < 0 ? fd : watch_inotify_add_fd(w, fd);
}

/* Once for each time it matters, not for each directory. */
static int watch_notify_limit(struct watch *w)
{
	if (w->limited)
		return 0;
	w->limited = true;
	return watch_notify(w, WATCH_LIMIT, SLICE(""), false, 0);
}

static int watch_remember_dir(struct watch *w, int wd, struct slice path)
{
	struct watched_dir *one = watch_find_wd(w, wd);
	char *copy = strndup(path.p, path.n);

	if (!copy)
		return -ENOMEM;
	if (one) { /* it was moved, or this is a rescan */
		free(one->path);
		one->path = copy;
		return 0;
	}
	if (w->n == w->cap) {
		size_t cap = w->cap ? 2 * w->cap : 64;
		struct watched_dir *v = reallocarray(w->v, cap, sizeof(*v));

		if (!v) {
			free(copy);
			return -ENOMEM;
		}
		w->v = v;
		w->cap = cap;
	}
	w->v[w->n++] = (struct watched_dir){ wd, copy };
	return 0;
}

/* Watch a directory; it may be gone again, or closed to us. */
static int watch_add_dir(struct watch *w, int dirfd, const char *name, struct slice path)
{
	int wd;

	if (w->n >= WATCHES_MAX)
		return watch_notify_limit(w);
	wd = watch_inotify_add(w, dirfd, name);
	if (wd == -ENOSPC || wd == -ENOMEM)
		return watch_notify_limit(w);
	return wd < 0 ? 0 : watch_remember_dir(w, wd, path);
}

static int on_watch_walk_entry(void *arg, const struct walk_entry *e)
{
	struct watch *w = arg;
	size_t n = w->below.len;
	int r = 0;

	if (!w->tell_found && e->type != DT_DIR)
		return 0;
	if (n && buf_putc(&w->below, '/') < 0)
		return WALK_PRUNE;
	if (buf_append(&w->below, e->path.p, e->path.n) < 0) {
		buf_truncate(&w->below, n);
		return WALK_PRUNE;
	}
	/* watched before it is scanned: later changes are events */
	if (e->type == DT_DIR)
		r = watch_add_dir(w, e->dirfd, e->name,
				  (struct slice){ w->below.data, w->below.len });
	if (r >= 0 && w->tell_found)
		r = watch_notify(w, WATCH_CREATED, (struct slice){ w->below.data, w->below.len },
				 e->type == DT_DIR, 0);
	buf_truncate(&w->below, n);
	return r;
}

/* Everything below a path below the start. */
static int watch_scan_below(struct watch *w, struct slice path, bool tell_found)
{
	auto_buf at = BUF_INIT(PATH_MAX - 1);
	struct walk walk = { .fn = on_watch_walk_entry, .arg = w };
	int r;

	if (!w->recursive)
		return 0;
	buf_clear(&w->below);
	w->tell_found = tell_found;
	if (buf_printf(&at, "%s/%.*s", w->dir, (int)path.n, path.p) < 0 ||
	    buf_append(&w->below, path.p, path.n) < 0)
		return 0; /* too deep for any name */
	r = walk_tree(&walk, buf_str(&at), NULL);
	return r == -ENOENT || r == -EACCES || r == -ENOTDIR ? 0 : r;
}

static int watch_start(struct watch *w, const char *dir, struct cay_err *err)
{
	auto_close int fd = file_open(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0);
	int r;

	if (fd < 0)
		return file_fail_lookup(err, -fd, dir);
	w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->fd < 0)
		return cay_fail_sys(err, CAY_E_LIMIT, errno, "one more watcher");
	w->dir = strdup(dir);
	if (!w->dir)
		return cay_no_memory(err);
	r = watch_inotify_add_fd(w, fd);
	if (r == -ENOSPC)
		return cay_fail_sys(err, CAY_E_LIMIT, -r, "one more watch");
	if (r < 0)
		return file_fail_lookup(err, -r, dir);
	r = watch_remember_dir(w, r, SLICE(""));
	if (r >= 0)
		r = watch_scan_below(w, SLICE(""), false);
	if (r >= 0)
		r = watch_notify(w, WATCH_READY, SLICE(""), true, 0);
	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "cannot watch '%s'", dir) : 0;
}

int watch_open(const char *dir, bool recursive, watch_fn *fn, void *arg, struct watch **ret,
	       struct cay_err *err)
{
	struct watch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return cay_no_memory(err);
	*w = (struct watch){ .fd = -EBADF,
			     .recursive = recursive,
			     .fn = fn,
			     .arg = arg,
			     .below = BUF_INIT(PATH_MAX - 1) };
	r = watch_start(w, dir, err);
	if (r < 0) {
		watch_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

static const struct {
	uint32_t bit;
	enum watch_kind kind;
} watch_event_kinds[] = {
	{ IN_CREATE, WATCH_CREATED },        { IN_MODIFY, WATCH_MODIFIED },
	{ IN_CLOSE_WRITE, WATCH_CLOSED },    { IN_DELETE, WATCH_DELETED },
	{ IN_MOVED_FROM, WATCH_MOVED_FROM }, { IN_MOVED_TO, WATCH_MOVED_TO },
	{ IN_ATTRIB, WATCH_ATTRIB },
};

/* A directory that went elsewhere takes its watches with it: they have other names now, or
 * none that is below the start. */
static void watch_forget_below(struct watch *w, struct slice path)
{
	for (size_t i = w->n; i-- > 0;) {
		const char *p = w->v[i].path;

		if (strncmp(p, path.p, path.n) == 0 && (p[path.n] == '/' || !p[path.n])) {
			(void)inotify_rm_watch(w->fd, w->v[i].wd);
			watch_forget_dir(w, &w->v[i]);
		}
	}
}

static int on_watch_dir_event(struct watch *w, uint32_t mask, struct slice path)
{
	auto_buf full = BUF_INIT(PATH_MAX - 1);
	int r;

	if (mask & IN_MOVED_FROM)
		watch_forget_below(w, path);
	if (!w->recursive || !(mask & (IN_CREATE | IN_MOVED_TO)))
		return 0;
	if (buf_printf(&full, "%s/%.*s", w->dir, (int)path.n, path.p) < 0)
		return 0;
	r = watch_add_dir(w, AT_FDCWD, buf_str(&full), path);
	return r < 0 ? r : watch_scan_below(w, path, true);
}

static int on_watch_inotify_event(struct watch *w, const struct inotify_event *e)
{
	const struct watched_dir *in = watch_find_wd(w, e->wd);
	auto_buf path = BUF_INIT(PATH_MAX - 1);
	struct slice told;
	bool dir = e->mask & IN_ISDIR;
	int r = 0;

	if (e->mask & IN_Q_OVERFLOW) {
		r = watch_notify(w, WATCH_OVERFLOW, SLICE(""), false, 0);
		return r < 0 ? r : watch_scan_below(w, SLICE(""), false);
	}
	if (!in)
		return 0; /* of one that was forgotten */
	if (e->mask & (IN_DELETE_SELF | IN_MOVE_SELF) && !in->path[0]) {
		r = watch_notify(w, WATCH_GONE, SLICE(""), true, 0);
		return r < 0 ? r : -ENOENT;
	}
	if (e->mask & IN_IGNORED) {
		watch_forget_dir(w, watch_find_wd(w, e->wd));
		w->limited = false;
		return 0;
	}
	if (!e->len || buf_printf(&path, "%s%s%s", in->path, in->path[0] ? "/" : "", e->name) < 0)
		return 0; /* of the directory itself: reported by its parent */
	told = (struct slice){ path.data, path.len };
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(watch_event_kinds); i++)
		if (e->mask & watch_event_kinds[i].bit)
			r = watch_notify(w, watch_event_kinds[i].kind, told, dir, e->cookie);
	return r >= 0 && dir ? on_watch_dir_event(w, e->mask, told) : r;
}

int watch_read(struct watch *w, int timeout_ms)
{
	alignas(struct inotify_event) char block[KIB(16)];
	struct pollfd p = { .fd = w->fd, .events = POLLIN };
	ssize_t n;

	if (poll(&p, 1, timeout_ms) == 0)
		return 0;
	n = read(w->fd, block, sizeof(block));
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	for (const char *at = block; at < block + n;) {
		const struct inotify_event *e = (const void *)at;
		int r = on_watch_inotify_event(w, e);

		if (r < 0)
			return r;
		at += sizeof(*e) + e->len;
	}
	return 1;
}
