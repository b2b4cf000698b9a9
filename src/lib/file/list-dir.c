/* SPDX-License-Identifier: Apache-2.0 */
#include "file/list-dir.h"

#include <fcntl.h>
#include <string.h>

#include "base/path.h"
#include "base/str.h"

struct dir_names {
	struct dir_list *list;
	char **v;
	size_t n, cap, room;
};

static void dir_names_fini(const struct dir_names *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->v[i]);
	free(n->v);
}

static int on_dir_list_name(void *arg, int, const char *name)
{
	struct dir_names *names = arg;

	if (names->n == names->room) {
		names->list->truncated = true;
		return 1;
	}
	if (names->n == names->cap) {
		size_t cap = names->cap ? 2 * names->cap : 64;
		char **more = reallocarray(names->v, cap, sizeof(*more));

		if (!more)
			return -ENOMEM;
		names->v = more;
		names->cap = cap;
	}
	names->v[names->n] = strdup(name);
	if (!names->v[names->n])
		return -ENOMEM;
	names->n++;
	return 0;
}

static int dir_list_compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static const char *dir_list_join_path(struct arena *arena, const char *front, const char *name)
{
	struct slice dir = front ? slice_of(front) : SLICE("");
	size_t n = dir.n, m = strlen(name);
	char *path = arena_alloc(arena, 1, n + m + 2);

	if (!path)
		return NULL;
	if (n) {
		memcpy(path, dir.p, n);
		path[n++] = '/';
	}
	memcpy(path + n, name, m + 1);
	return path;
}

static int dir_list_read_link_target(struct dir_list *l, int dirfd, const char *name,
				     struct dir_list_entry *e)
{
	char target[FILE_PATH_MAX + 1];
	ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);

	if (n <= 0)
		return 0;
	e->target = arena_strndup(l->arena, target, (size_t)n);
	l->bytes += (size_t)n;
	return e->target ? 0 : -ENOMEM;
}

/* 1 when there is no room for it. */
static int dir_list_add_entry(struct dir_list *l, int dirfd, const char *front, const char *name,
			      struct dir_list_entry **ret)
{
	struct dir_list_entry *e = &l->v[l->n];
	size_t n = (front ? strlen(front) : 0) + strlen(name) + 1;

	*ret = NULL;
	if (l->n == l->max || l->bytes + n > LIST_BYTES_MAX || n > FILE_PATH_MAX) {
		l->truncated = true;
		return 1;
	}
	if (fstatat(dirfd, name, &e->st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	e->path = dir_list_join_path(l->arena, front, name);
	if (!e->path)
		return -ENOMEM;
	l->bytes += n;
	l->n++;
	*ret = e;
	return S_ISLNK(e->st.st_mode) ? dir_list_read_link_target(l, dirfd, name, e) : 0;
}

static int dir_list_read_fd(struct dir_list *l, int dir, const char *front, unsigned depth)
{
	CAY_CLEANUP(dir_names_fini) struct dir_names names = { .list = l, .room = l->max - l->n };
	int r = path_for_each_entry(dir, on_dir_list_name, &names);

	if (names.n)
		qsort(names.v, names.n, sizeof(*names.v), dir_list_compare_names);
	for (size_t i = 0; i < names.n && r >= 0; i++) {
		struct dir_list_entry *e;

		r = dir_list_add_entry(l, dir, front, names.v[i], &e);
		if (r == 1)
			return 0;
		if (r >= 0 && e && S_ISDIR(e->st.st_mode) && depth > 1) {
			auto_close int below =
				file_open(dir, names.v[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

			/* an unreadable directory is listed without its entries */
			if (below >= 0)
				r = dir_list_read_fd(l, below, e->path, depth - 1);
		}
	}
	return r < 0 ? r : 0;
}

int dir_list_read(const char *path, unsigned depth, size_t max, struct arena *arena,
		  struct dir_list *ret, struct cay_err *err)
{
	auto_close int dir = file_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
	int r;

	if (dir == -ENOTDIR)
		return cay_fail_field(err, CAY_E_INVALID, "path", "not a directory");
	if (dir < 0)
		return file_fail_lookup(err, -dir, path);
	*ret = (struct dir_list){ .v = arena_alloc(arena, max, sizeof(*ret->v)),
				  .max = max,
				  .arena = arena };
	if (!ret->v)
		return cay_no_memory(err);
	r = dir_list_read_fd(ret, dir, NULL, depth < LIST_DEPTH_MAX ? depth : LIST_DEPTH_MAX);
	return r < 0 ? file_fail(err, -r, "list", path) : 0;
}
