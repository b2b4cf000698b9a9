/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/layout.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/str.h"
#include "cli/ustar.h"

#define TAIL ((uint64_t)2 * USTAR_BLOCK) /* zero blocks behind the last file */

void layout_fini(struct layout *l)
{
	cay_closep(&l->fd);
	cay_closep(&l->current);
	pool_fini(&l->pool);
}

static int add_file(struct layout *l, const char *name, struct cay_err *err)
{
	auto_close int fd = path_open(l->fd, name, O_RDONLY | O_NONBLOCK, 0);
	struct stat st;

	if (fd == -ELOOP)
		return cay_fail(err, CAY_E_INVALID, "%s is a symbolic link", name);
	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -fd, "open %s", name);
	if (fstat(fd, &st) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "look at %s", name);
	if (!S_ISREG(st.st_mode))
		return cay_fail(err, CAY_E_INVALID, "%s is not a plain file", name);
	if (strlen(name) > USTAR_NAME_MAX)
		return cay_fail(err, CAY_E_INVALID, "%s: the name is too long", name);
	if (l->n_files == LAYOUT_FILES_MAX)
		return cay_fail(err, CAY_E_INVALID, "more than %d files", LAYOUT_FILES_MAX);
	l->files[l->n_files] = (struct layout_file){ pool_strn(&l->pool, name, strlen(name)),
						     (uint64_t)st.st_size };
	if (!l->files[l->n_files].name)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for the list of files");
	l->n_files++;
	return 0;
}

static void close_dir(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

typedef int visit(struct layout *l, const char *name, struct cay_err *err);

/* Every name in a directory, "dir/name". */
static int each_in(struct layout *l, const char *dir, visit *visit_one, struct cay_err *err)
{
	CAY_CLEANUP(close_dir) DIR *d = NULL;
	const struct dirent *e;
	int fd = path_open(l->fd, dir, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -fd, "open %s", dir);
	d = fdopendir(fd);
	if (!d) {
		cay_closep(&fd);
		return cay_fail_sys(err, CAY_E_INTERNAL, ENOMEM, "read %s", dir);
	}
	while ((e = readdir(d))) {
		auto_buf name = BUF_INIT(1024);
		int r;

		if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
			continue;
		if (buf_printf(&name, "%s/%s", dir, e->d_name) < 0)
			return cay_fail(err, CAY_E_INVALID, "%s: a name is too long", dir);
		r = visit_one(l, buf_str(&name), err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_algorithm(struct layout *l, const char *name, struct cay_err *err)
{
	return each_in(l, name, add_file, err);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct layout_file *)a)->name, ((const struct layout_file *)b)->name);
}

static int scan(struct layout *l, struct cay_err *err)
{
	int r;

	l->files = pool_take(&l->pool, LAYOUT_FILES_MAX, sizeof(*l->files));
	if (!l->files)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for the list of files");
	r = add_file(l, "oci-layout", err);
	if (r >= 0)
		r = add_file(l, "index.json", err);
	if (r >= 0)
		r = each_in(l, "blobs", add_algorithm, err);
	if (r < 0)
		return r;
	qsort(l->files, l->n_files, sizeof(*l->files), by_name);
	l->total = TAIL;
	for (size_t i = 0; i < l->n_files; i++)
		l->total += USTAR_BLOCK + l->files[i].size + ustar_padding(l->files[i].size);
	return 0;
}

int layout_open(struct layout *l, const char *path, struct cay_err *err)
{
	struct stat st;
	int r;

	l->fd = str_eq(path, "-") ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
				  : open(path, O_RDONLY | O_CLOEXEC);
	if (l->fd < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "open %s", path);
	if (fstat(l->fd, &st) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "look at %s", path);
	l->directory = S_ISDIR(st.st_mode);
	l->endless = !l->directory && !S_ISREG(st.st_mode);
	l->total = (uint64_t)st.st_size;
	if (S_ISREG(st.st_mode)) {
		/* standard input may have been read already */
		off_t at = lseek(l->fd, 0, SEEK_CUR);

		l->total -= at > 0 && at <= st.st_size ? (uint64_t)at : 0;
	}
	r = l->directory ? scan(l, err) : 0;
	if (r < 0)
		return cay_wrap(err, r, "%s is not an OCI image layout", path);
	if (!l->directory)
		l->left = l->endless ? UINT64_MAX : l->total;
	return 0;
}

static ssize_t read_zeroes(struct layout *l, void *to, size_t n)
{
	size_t take = n < l->zeroes ? n : (size_t)l->zeroes;

	memset(to, 0, take);
	l->zeroes -= take;
	return (ssize_t)take;
}

static ssize_t read_file(struct layout *l, int fd, void *to, size_t n, struct cay_err *err)
{
	ssize_t got = read(fd, to, n < l->left ? n : (size_t)l->left);

	if (got < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "read the image");
	if (got == 0 && !l->endless)
		return cay_fail(err, CAY_E_INVALID, "a file of the image shrank while it was read");
	l->left -= (uint64_t)got;
	return got;
}

static ssize_t next_head(struct layout *l, void *to, struct cay_err *err)
{
	const struct layout_file *f = &l->files[l->next++];

	if (ustar_head(f->name, f->size, to) < 0)
		return cay_fail(err, CAY_E_INVALID, "%s: the name is too long", f->name);
	cay_closep(&l->current);
	l->current = path_open(l->fd, f->name, O_RDONLY | O_NONBLOCK, 0);
	if (l->current < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -l->current, "open %s", f->name);
	l->left = f->size;
	l->zeroes = ustar_padding(f->size);
	return USTAR_BLOCK;
}

ssize_t layout_read(struct layout *l, void *to, size_t n, struct cay_err *err)
{
	if (n < USTAR_BLOCK)
		return -EINVAL;
	if (!l->directory)
		return l->left ? read_file(l, l->fd, to, n, err) : 0;
	if (l->left)
		return read_file(l, l->current, to, n, err);
	if (l->zeroes)
		return read_zeroes(l, to, n);
	if (l->next < l->n_files)
		return next_head(l, to, err);
	if (l->finished)
		return 0;
	l->finished = true;
	l->zeroes = TAIL;
	return read_zeroes(l, to, n);
}
