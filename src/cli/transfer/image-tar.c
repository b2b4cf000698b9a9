/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer/image-tar.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/str.h"
#include "cli/transfer/ustar.h"

#define TAIL ((uint64_t)2 * USTAR_BLOCK) /* zero blocks behind the last file */

void image_tar_fini(struct image_tar *l)
{
	cay_closep(&l->fd);
	cay_closep(&l->current);
	arena_fini(&l->arena);
}

static int image_tar_add_file(struct image_tar *l, const char *name, struct cay_err *err)
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
	if (l->n_files == IMAGE_TAR_FILES_MAX)
		return cay_fail(err, CAY_E_INVALID, "more than %d files", IMAGE_TAR_FILES_MAX);
	l->files[l->n_files] =
		(struct image_tar_file){ arena_strndup(&l->arena, name, strlen(name)),
					 (uint64_t)st.st_size };
	if (!l->files[l->n_files].name)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for the list of files");
	l->n_files++;
	return 0;
}

static void image_tar_close_dir(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

typedef int visit(struct image_tar *l, const char *name, struct cay_err *err);

/* Every name in a directory, "dir/name". */
static int image_tar_visit_dir(struct image_tar *l, const char *dir, visit *visit_one,
			       struct cay_err *err)
{
	CAY_CLEANUP(image_tar_close_dir) DIR *d = NULL;
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

static int image_tar_add_algorithm(struct image_tar *l, const char *name, struct cay_err *err)
{
	return image_tar_visit_dir(l, name, image_tar_add_file, err);
}

static int image_tar_compare_names(const void *a, const void *b)
{
	return strcmp(((const struct image_tar_file *)a)->name,
		      ((const struct image_tar_file *)b)->name);
}

static int image_tar_scan_dir(struct image_tar *l, struct cay_err *err)
{
	int r;

	l->files = arena_alloc(&l->arena, IMAGE_TAR_FILES_MAX, sizeof(*l->files));
	if (!l->files)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for the list of files");
	r = image_tar_add_file(l, "oci-layout", err);
	if (r >= 0)
		r = image_tar_add_file(l, "index.json", err);
	if (r >= 0)
		r = image_tar_visit_dir(l, "blobs", image_tar_add_algorithm, err);
	if (r < 0)
		return r;
	qsort(l->files, l->n_files, sizeof(*l->files), image_tar_compare_names);
	l->total = TAIL;
	for (size_t i = 0; i < l->n_files; i++)
		l->total += USTAR_BLOCK + l->files[i].size + ustar_padding(l->files[i].size);
	return 0;
}

int image_tar_open(struct image_tar *l, const char *path, struct cay_err *err)
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
	r = l->directory ? image_tar_scan_dir(l, err) : 0;
	if (r < 0)
		return cay_err_wrap(err, r, "%s is not an OCI image layout", path);
	if (!l->directory)
		l->left = l->endless ? UINT64_MAX : l->total;
	return 0;
}

static ssize_t image_tar_read_zeroes(struct image_tar *l, void *to, size_t n)
{
	size_t take = n < l->zeroes ? n : (size_t)l->zeroes;

	memset(to, 0, take);
	l->zeroes -= take;
	return (ssize_t)take;
}

static ssize_t image_tar_read_file(struct image_tar *l, int fd, void *to, size_t n,
				   struct cay_err *err)
{
	ssize_t got = read(fd, to, n < l->left ? n : (size_t)l->left);

	if (got < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "read the image");
	if (got == 0 && !l->endless)
		return cay_fail(err, CAY_E_INVALID, "a file of the image shrank while it was read");
	l->left -= (uint64_t)got;
	return got;
}

static ssize_t image_tar_read_header(struct image_tar *l, void *to, struct cay_err *err)
{
	const struct image_tar_file *f = &l->files[l->next++];

	if (ustar_write_header(f->name, f->size, to) < 0)
		return cay_fail(err, CAY_E_INVALID, "%s: the name is too long", f->name);
	cay_closep(&l->current);
	l->current = path_open(l->fd, f->name, O_RDONLY | O_NONBLOCK, 0);
	if (l->current < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -l->current, "open %s", f->name);
	l->left = f->size;
	l->zeroes = ustar_padding(f->size);
	return USTAR_BLOCK;
}

ssize_t image_tar_read(struct image_tar *l, void *to, size_t n, struct cay_err *err)
{
	if (n < USTAR_BLOCK)
		return -EINVAL;
	if (!l->directory)
		return l->left ? image_tar_read_file(l, l->fd, to, n, err) : 0;
	if (l->left)
		return image_tar_read_file(l, l->current, to, n, err);
	if (l->zeroes)
		return image_tar_read_zeroes(l, to, n);
	if (l->next < l->n_files)
		return image_tar_read_header(l, to, err);
	if (l->finished)
		return 0;
	l->finished = true;
	l->zeroes = TAIL;
	return image_tar_read_zeroes(l, to, n);
}
