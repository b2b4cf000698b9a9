/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer/image-tar.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/str.h"

#define PIECE KIB(64)

void image_tar_fini(struct image_tar *l)
{
	cay_closep(&l->fd);
	cay_closep(&l->current);
	tar_writer_fini(&l->writer);
	buf_fini(&l->pending);
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
		return cay_fail_sys(err, CAY_E_INVALID, errno, "stat %s", name);
	if (!S_ISREG(st.st_mode))
		return cay_fail(err, CAY_E_INVALID, "%s is not a regular file", name);
	if (l->n_files == IMAGE_TAR_FILES_MAX)
		return cay_fail(err, CAY_E_INVALID, "more than %d files", IMAGE_TAR_FILES_MAX);
	name = arena_strndup(&l->arena, name, strlen(name));
	if (!name)
		return cay_no_memory(err);
	l->files[l->n_files++] = (struct image_tar_file){ name, (uint64_t)st.st_size };
	return 0;
}

static void image_tar_close_dir(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

typedef int visit(struct image_tar *l, const char *name, struct cay_err *err);

/* Call visit_one with "dir/name" for each name in the directory. */
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

static int image_tar_write_entry(struct tar_writer *t, const struct image_tar_file *f,
				 struct cay_err *err)
{
	struct tar_entry e = { .type = TAR_FILE, .name = f->name, .mode = 0644, .size = f->size };

	return tar_write_entry(t, &e, err);
}

static int on_image_tar_count(void *arg, const void *, size_t n, struct cay_err *)
{
	uint64_t *total = arg;

	*total += n;
	return 0;
}

static int image_tar_count_bytes(struct image_tar *l, struct cay_err *err)
{
	CAY_CLEANUP(tar_writer_fini) struct tar_writer t;
	int r = 0;

	l->total = 0;
	tar_writer_init(&t, on_image_tar_count, &l->total);
	for (size_t i = 0; r >= 0 && i < l->n_files; i++) {
		r = image_tar_write_entry(&t, &l->files[i], err);
		if (r >= 0)
			r = tar_write_data(&t, NULL, l->files[i].size, err);
	}
	return r < 0 ? r : tar_write_end(&t, err);
}

static int on_image_tar_write(void *arg, const void *p, size_t n, struct cay_err *err)
{
	return buf_append(arg, p, n) < 0 ? cay_no_memory(err) : 0;
}

static int image_tar_scan_dir(struct image_tar *l, struct cay_err *err)
{
	int r;

	l->files = arena_alloc(&l->arena, IMAGE_TAR_FILES_MAX, sizeof(*l->files));
	if (!l->files)
		return cay_no_memory(err);
	r = image_tar_add_file(l, "oci-layout", err);
	if (r >= 0)
		r = image_tar_add_file(l, "index.json", err);
	if (r >= 0)
		r = image_tar_visit_dir(l, "blobs", image_tar_add_algorithm, err);
	if (r < 0)
		return r;
	qsort(l->files, l->n_files, sizeof(*l->files), image_tar_compare_names);
	tar_writer_init(&l->writer, on_image_tar_write, &l->pending);
	return image_tar_count_bytes(l, err);
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
		return cay_fail_sys(err, CAY_E_INVALID, errno, "stat %s", path);
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

static int image_tar_begin_file(struct image_tar *l, struct cay_err *err)
{
	const struct image_tar_file *f = &l->files[l->next++];

	cay_closep(&l->current);
	l->current = path_open(l->fd, f->name, O_RDONLY | O_NONBLOCK, 0);
	if (l->current < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -l->current, "open %s", f->name);
	l->left = f->size;
	return image_tar_write_entry(&l->writer, f, err);
}

static int image_tar_fill_pending(struct image_tar *l, struct cay_err *err)
{
	char piece[PIECE];
	ssize_t got;

	if (l->left) {
		got = image_tar_read_file(l, l->current, piece, sizeof(piece), err);
		return got < 0 ? (int)got : tar_write_data(&l->writer, piece, (size_t)got, err);
	}
	if (l->next < l->n_files)
		return image_tar_begin_file(l, err);
	l->finished = true;
	return tar_write_end(&l->writer, err);
}

ssize_t image_tar_read(struct image_tar *l, void *to, size_t n, struct cay_err *err)
{
	int r = 0;

	if (!l->directory)
		return l->left ? image_tar_read_file(l, l->fd, to, n, err) : 0;
	if (!l->pending.len && !l->finished)
		r = image_tar_fill_pending(l, err);
	if (r < 0)
		return r;
	n = n < l->pending.len ? n : l->pending.len;
	if (n)
		memcpy(to, l->pending.data, n);
	buf_consume(&l->pending, n);
	return (ssize_t)n;
}
