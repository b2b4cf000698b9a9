/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/layer-tar.h"

#include <string.h>

#include "base/str.h"

#define SLOTS ((size_t)2 * LAYER_LINKS_MAX)

/* A file that was written and has other names. */
struct layer_link {
	uint64_t inode; /* 0: free */
	uint32_t name;  /* where it is in the names */
};

struct layer_tar {
	struct tar_writer tar;
	struct tree_counts *counts;
	struct buf name;       /* as it is in the archive */
	struct buf link_names; /* each ends with 0 */
	struct stat top;
	uint64_t left; /* bytes that files may still have */
	unsigned n_links;
	struct layer_link links[SLOTS];
	char chunk[TAR_CHUNK];
};

static void layer_tar_freep(struct layer_tar **pp)
{
	struct layer_tar *t = *pp;

	if (!t)
		return;
	tar_writer_fini(&t->tar);
	buf_fini(&t->name);
	buf_fini(&t->link_names);
	free(t);
}

/* The slot of the inode, or the free one where it would be: there always is one. */
static struct layer_link *layer_tar_find_link(struct layer_tar *t, uint64_t inode)
{
	uint64_t at = inode * UINT64_C(0x9e3779b97f4a7c15) >> 40;

	while (t->links[at % SLOTS].inode && t->links[at % SLOTS].inode != inode)
		at++;
	return &t->links[at % SLOTS];
}

/* An earlier name of the file, or NULL; then this one is kept for the next. */
static const char *layer_tar_link_of(struct layer_tar *t, const struct stat *st, const char *name)
{
	struct layer_link *l;

	if (st->st_nlink < 2)
		return NULL;
	l = layer_tar_find_link(t, st->st_ino);
	if (l->inode)
		return t->link_names.data + l->name;
	if (t->n_links < LAYER_LINKS_MAX) {
		size_t at = t->link_names.len;

		if (buf_append(&t->link_names, name, strlen(name) + 1) >= 0) {
			*l = (struct layer_link){ st->st_ino, (uint32_t)at };
			t->n_links++;
		}
	}
	return NULL;
}

static int layer_tar_entry(struct layer_tar *t, enum tar_type type, const struct stat *st,
			   const char *link, struct cay_err *err)
{
	struct tar_entry e = { .type = type,
			       .name = buf_str(&t->name),
			       .link = link,
			       .mode = st->st_mode & 07777,
			       .uid = st->st_uid,
			       .gid = st->st_gid,
			       .size = type == TAR_FILE ? (uint64_t)st->st_size : 0,
			       .mtime = st->st_mtime };

	return tar_write_entry(&t->tar, &e, err);
}

/* An empty file whose name is a command where the layer is applied. */
static int layer_tar_mark(struct layer_tar *t, struct slice dir, const char *prefix,
			  const char *base, struct cay_err *err)
{
	buf_clear(&t->name);
	if (buf_append(&t->name, dir.p, dir.n) < 0 || buf_puts(&t->name, prefix) < 0 ||
	    buf_puts(&t->name, base) < 0) {
		t->counts->skipped++;
		return 0;
	}
	return layer_tar_entry(t, TAR_FILE, &(struct stat){}, NULL, err);
}

static int layer_tar_directory(struct layer_tar *t, const struct layer_entry *e,
			       struct cay_err *err)
{
	int r;

	if (!*e->name)
		t->top = *e->st;
	buf_clear(&t->name);
	if (buf_puts(&t->name, *e->name ? e->name : ".") < 0 || buf_putc(&t->name, '/') < 0) {
		t->counts->skipped++;
		return LAYER_LEAVE_OUT;
	}
	t->counts->directories++;
	r = layer_tar_entry(t, TAR_DIRECTORY, e->st, NULL, err);
	if (r < 0 || !e->opaque)
		return r;
	return layer_tar_mark(t, slice_of(e->name), *e->name ? "/" : "", LAYER_OPAQUE_NAME, err);
}

static int layer_tar_file(struct layer_tar *t, const struct layer_entry *e, struct cay_err *err)
{
	const char *first = layer_tar_link_of(t, e->st, e->name);
	uint64_t size = (uint64_t)e->st->st_size;
	bool changed = false;
	int r;

	if (first)
		return layer_tar_entry(t, TAR_HARDLINK, e->st, first, err);
	if (size > t->left)
		return cay_fail(err, CAY_E_TOO_LARGE, "the files are too large together");
	t->left -= size;
	r = layer_tar_entry(t, TAR_FILE, e->st, NULL, err);
	if (r >= 0)
		r = tar_write_file(&t->tar, e->fd, t->chunk, &changed, err);
	t->counts->changed += changed;
	t->counts->files++;
	t->counts->bytes += size;
	return r;
}

static int on_layer_tar_entry(void *arg, const struct layer_entry *e, struct cay_err *err)
{
	struct layer_tar *t = arg;
	const char *slash = strrchr(e->name, '/'), *base = slash ? slash + 1 : e->name;

	if (strncmp(base, LAYER_WHITEOUT_PREFIX, strlen(LAYER_WHITEOUT_PREFIX)) == 0) {
		t->counts->skipped++;
		return LAYER_LEAVE_OUT;
	}
	if (e->what == LAYER_DIRECTORY)
		return layer_tar_directory(t, e, err);
	if (e->what == LAYER_WHITEOUT)
		return layer_tar_mark(t, (struct slice){ e->name, (size_t)(base - e->name) },
				      LAYER_WHITEOUT_PREFIX, base, err);
	buf_clear(&t->name);
	if (buf_puts(&t->name, e->name) < 0)
		return cay_no_memory(err);
	if (e->what == LAYER_FILE)
		return layer_tar_file(t, e, err);
	if (e->what == LAYER_SYMLINK) {
		t->counts->links++;
		return layer_tar_entry(t, TAR_SYMLINK, e->st, e->target, err);
	}
	if (e->what == LAYER_OTHER && S_ISFIFO(e->st->st_mode))
		return layer_tar_entry(t, TAR_FIFO, e->st, NULL, err);
	t->counts->skipped++;
	return 0;
}

/* The top once more, with the counts. */
static int layer_tar_write_counts(struct layer_tar *t, struct cay_err *err)
{
	char note[64];
	struct tar_entry e = { .type = TAR_DIRECTORY,
			       .name = "./",
			       .note = note,
			       .mode = t->top.st_mode & 07777,
			       .uid = t->top.st_uid,
			       .gid = t->top.st_gid,
			       .mtime = t->top.st_mtime };

	if (!t->counts->skipped && !t->counts->changed)
		return 0;
	if (tree_note_format(t->counts, note, sizeof(note)) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "a count too large");
	return tar_write_entry(&t->tar, &e, err);
}

int layer_write_tar(const struct layer_source *source, tar_write_fn *write, void *arg, uint64_t max,
		    struct tree_counts *ret, struct cay_err *err)
{
	auto_ptr(layer_tar) t = calloc(1, sizeof(*t));
	struct layer_source whole = *source;
	uint64_t skipped = 0;
	int r;

	*ret = (struct tree_counts){};
	if (!t)
		return cay_no_memory(err);
	t->counts = ret;
	t->left = max;
	t->name = BUF_INIT(TAR_NAME_MAX);
	t->link_names = BUF_INIT(LAYER_LINK_NAMES_MAX);
	tar_writer_init(&t->tar, write, arg);
	whole.below = -EBADF;
	whole.opens = true;
	r = layer_walk(&whole, on_layer_tar_entry, t, &skipped, err);
	ret->skipped += skipped;
	if (r >= 0)
		r = layer_tar_write_counts(t, err);
	return r < 0 ? r : tar_write_end(&t->tar, err);
}
