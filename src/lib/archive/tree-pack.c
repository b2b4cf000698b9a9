/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/tree-pack.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/str.h"

struct tree_pack_level {
	DIR *dir;
	size_t name; /* how long its name is */
};

struct pack {
	struct tar_writer tar;
	struct tree_counts *counts;
	struct buf name;
	struct tree_pack_level levels[TREE_DEPTH_MAX];
	unsigned depth;
	char chunk[TAR_CHUNK];
};

static void pack_freep(struct pack **pp)
{
	struct pack *p = *pp;

	if (!p)
		return;
	while (p->depth)
		(void)closedir(p->levels[--p->depth].dir);
	buf_fini(&p->name);
	tar_writer_fini(&p->tar);
	free(p);
}

static int tree_pack_entry(struct pack *p, enum tar_type type, const struct stat *st,
			   const char *link, struct cay_err *err)
{
	struct tar_entry e = { .type = type,
			       .name = buf_str(&p->name),
			       .link = link,
			       .mode = st->st_mode & 07777,
			       .size = type == TAR_FILE ? (uint64_t)st->st_size : 0,
			       .mtime = st->st_mtime };

	return tar_write_entry(&p->tar, &e, err);
}

static int tree_pack_file(struct pack *p, int fd, const struct stat *st, struct cay_err *err)
{
	bool changed = false;
	int r = tree_pack_entry(p, TAR_FILE, st, NULL, err);

	if (r >= 0)
		r = tar_write_file(&p->tar, fd, p->chunk, &changed, err);
	p->counts->changed += changed;
	p->counts->files++;
	p->counts->bytes += (uint64_t)st->st_size;
	return r;
}

static int tree_pack_symlink(struct pack *p, int dirfd, const char *name, const struct stat *st,
			     struct cay_err *err)
{
	ssize_t n = readlinkat(dirfd, name, p->chunk, TAR_NAME_MAX + 1);

	if (n <= 0 || n > TAR_NAME_MAX) {
		p->counts->skipped++;
		return 0;
	}
	p->chunk[n] = 0;
	p->counts->links++;
	return tree_pack_entry(p, TAR_SYMLINK, st, p->chunk, err);
}

static int tree_pack_directory(struct pack *p, int *fd, const struct stat *st, struct cay_err *err)
{
	DIR *dir;
	int r;

	if (buf_putc(&p->name, '/') < 0 || p->depth == TREE_DEPTH_MAX) {
		p->counts->skipped++;
		return 0;
	}
	dir = fdopendir(*fd);
	if (!dir)
		return cay_fail_sys(err, CAY_E_NO_MEMORY, errno, "cannot read a directory");
	(void)cay_take_fd(fd);
	p->levels[p->depth++] = (struct tree_pack_level){ dir, p->name.len };
	p->counts->directories++;
	r = tree_pack_entry(p, TAR_DIRECTORY, st, NULL, err);
	return r;
}

/* The type is that of the opened file, not of an earlier stat. */
static int tree_pack_name(struct pack *p, int dirfd, const char *name, struct cay_err *err)
{
	auto_close int fd = -EBADF;
	struct stat st;

	if (dirfd < 0 || fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0; /* gone meanwhile */
	if (buf_puts(&p->name, name) < 0) {
		p->counts->skipped++;
		return 0;
	}
	if (S_ISLNK(st.st_mode))
		return tree_pack_symlink(p, dirfd, name, &st, err);
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		fd = path_open(dirfd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0);
	if (fd < 0 || fstat(fd, &st) < 0) {
		p->counts->skipped++;
		return 0;
	}
	if (S_ISDIR(st.st_mode))
		return tree_pack_directory(p, &fd, &st, err);
	if (S_ISREG(st.st_mode))
		return tree_pack_file(p, fd, &st, err);
	p->counts->skipped++;
	return 0;
}

static int tree_pack_walk(struct pack *p, struct cay_err *err)
{
	int r = 0;

	while (p->depth && r >= 0) {
		struct tree_pack_level *l = &p->levels[p->depth - 1];
		const struct dirent *e;

		errno = 0;
		e = readdir(l->dir); /* NOLINT(concurrency-mt-unsafe): it is ours */
		if (!e) {
			p->counts->skipped += errno != 0;
			(void)closedir(l->dir);
			p->depth--;
			continue;
		}
		buf_truncate(&p->name, l->name);
		if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
			r = tree_pack_name(p, dirfd(l->dir), e->d_name, err);
	}
	return r;
}

static int tree_pack_begin(struct pack *p, int fd, const char *name, struct cay_err *err)
{
	auto_close int top = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	const char *slash = strrchr(name, '/');
	struct stat st;

	if (top < 0 || fstat(top, &st) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot look at it");
	if (S_ISDIR(st.st_mode)) {
		if (buf_putc(&p->name, '.') < 0)
			return cay_no_memory(err);
		return tree_pack_directory(p, &top, &st, err);
	}
	if (!S_ISREG(st.st_mode))
		return cay_fail(err, CAY_E_INVALID, "it is neither a directory nor a file");
	if (buf_puts(&p->name, slash ? slash + 1 : name) < 0)
		return cay_fail(err, CAY_E_INVALID, "its name is too long");
	return tree_pack_file(p, top, &st, err);
}

int tree_note_format(const struct tree_counts *counts, char *ret, size_t max)
{
	int n = snprintf(ret, max, "skipped=%" PRIu64 " changed=%" PRIu64, counts->skipped,
			 counts->changed);

	return n < 0 || (size_t)n >= max ? -ENOBUFS : 0;
}

/* The directory once more, with the counts. */
static int tree_pack_write_counts(struct pack *p, int fd, struct cay_err *err)
{
	char note[64];
	struct tar_entry e = { .type = TAR_DIRECTORY, .name = "./", .note = note };
	struct stat st;

	if (!p->counts->skipped && !p->counts->changed)
		return 0;
	if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
		return cay_fail(err, CAY_E_CONFLICT, "the file changed while it was read");
	e.mode = st.st_mode & 07777;
	e.mtime = st.st_mtime;
	if (tree_note_format(p->counts, note, sizeof(note)) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "a count too large");
	return tar_write_entry(&p->tar, &e, err);
}

int tree_pack(int fd, const char *name, tar_write_fn *write, void *arg, struct tree_counts *ret,
	      struct cay_err *err)
{
	auto_ptr(pack) p = malloc(sizeof(*p));
	int r;

	*ret = (struct tree_counts){};
	if (!p)
		return cay_no_memory(err);
	p->counts = ret;
	p->depth = 0;
	p->name = BUF_INIT(TAR_NAME_MAX);
	tar_writer_init(&p->tar, write, arg);
	r = tree_pack_begin(p, fd, name, err);
	if (r >= 0)
		r = tree_pack_walk(p, err);
	if (r >= 0)
		r = tree_pack_write_counts(p, fd, err);
	return r < 0 ? r : tar_write_end(&p->tar, err);
}

bool tree_note_parse(const char *note, struct tree_counts *ret)
{
	struct slice rest = slice_of(note), first = slice_cut(&rest, ' ');
	struct slice skipped = first, changed = rest;

	if (!changed.p || !slice_eq(slice_cut(&skipped, '='), SLICE("skipped")) ||
	    !slice_eq(slice_cut(&changed, '='), SLICE("changed")) || !skipped.p || !changed.p)
		return false;
	return str_parse_u64(skipped, 0, UINT64_MAX, &ret->skipped) >= 0 &&
	       str_parse_u64(changed, 0, UINT64_MAX, &ret->changed) >= 0;
}
