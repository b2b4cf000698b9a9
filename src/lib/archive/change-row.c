/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/change-row.h"

#include <string.h>

#include "archive/tree-diff.h"

struct change_head {
	uint8_t kind, more;
	uint16_t len;
	uint32_t mode;
	uint64_t size;
};
static_assert(sizeof(struct change_head) == CHANGE_HEAD);

struct change_writer {
	tar_write_fn *write;
	void *arg;
	uint64_t left; /* without the last row */
	bool full;
};

static bool change_mode_is_known(uint32_t mode)
{
	static const uint32_t types[] = { S_IFREG, S_IFDIR,  S_IFLNK, S_IFIFO,
					  S_IFCHR, S_IFSOCK, S_IFBLK };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if ((mode & ~UINT32_C(07777)) == types[i])
			return true;
	return false;
}

/* Relative, without empty parts, "." and "..". */
static bool change_name_is_clean(struct slice name)
{
	struct slice rest = name;

	if (memchr(name.p, 0, name.n))
		return false;
	while (rest.p) {
		struct slice part = slice_cut(&rest, '/');

		if (!part.n || slice_eq(part, SLICE(".")) || slice_eq(part, SLICE("..")))
			return false;
	}
	return true;
}

ssize_t change_row_parse(const void *p, size_t n, struct change_row *ret)
{
	struct change_head h;

	if (n < sizeof(h))
		return 0;
	memcpy(&h, p, sizeof(h));
	*ret = (struct change_row){ .kind = (enum change_kind)h.kind };
	if (h.kind == CHANGE_END) {
		if (h.more > 1 || h.len || h.mode)
			return -EINVAL;
		ret->more = h.more;
		ret->skipped = h.size;
		return sizeof(h);
	}
	if (h.kind >= CHANGE_NUM_KINDS || h.more || h.len > TAR_NAME_MAX || h.size > INT64_MAX ||
	    !change_mode_is_known(h.mode))
		return -EINVAL;
	if (n - sizeof(h) < h.len)
		return 0;
	ret->mode = h.mode;
	ret->size = h.size;
	ret->name = (struct slice){ (const char *)p + sizeof(h), h.len };
	if (h.len && !change_name_is_clean(ret->name))
		return -EINVAL;
	return (ssize_t)(sizeof(h) + h.len);
}

static int change_row_write(struct change_writer *w, enum change_kind kind, const struct stat *st,
			    const char *name, struct cay_err *err)
{
	size_t n = strlen(name);
	struct change_head h = { .kind = (uint8_t)kind,
				 .len = (uint16_t)n,
				 .mode = st->st_mode,
				 .size = S_ISREG(st->st_mode) && st->st_size > 0
						 ? (uint64_t)st->st_size
						 : 0 };
	int r;

	if (sizeof(h) + n > w->left) {
		w->full = true;
		return -EOVERFLOW; /* ends the walk */
	}
	w->left -= sizeof(h) + n;
	r = w->write(w->arg, &h, sizeof(h), err);
	return r < 0 ? r : w->write(w->arg, name, n, err);
}

static bool change_directory_differs(const struct stat *a, const struct stat *b)
{
	return a->st_mode != b->st_mode || a->st_uid != b->st_uid || a->st_gid != b->st_gid;
}

static int on_change_entry(void *arg, const struct layer_entry *e, struct cay_err *err)
{
	struct change_writer *w = arg;

	if (e->what == LAYER_WHITEOUT || e->what == LAYER_HIDDEN)
		return e->below ? change_row_write(w, CHANGE_DELETED, e->below, e->name, err) : 0;
	if (!e->below)
		return change_row_write(w, CHANGE_ADDED, e->st, e->name, err);
	if (e->what == LAYER_DIRECTORY && !change_directory_differs(e->st, e->below))
		return 0;
	return change_row_write(w, CHANGE_MODIFIED, e->st, e->name, err);
}

int change_rows_write(const struct layer_source *source, int since, tar_write_fn *write, void *arg,
		      uint64_t max, struct cay_err *err)
{
	struct change_writer w = { .write = write, .arg = arg };
	struct change_head end = { .kind = CHANGE_END };
	struct layer_source names = *source;
	int r;

	if (max < sizeof(end))
		return cay_fail(err, CAY_E_TOO_LARGE, "there is no room for rows");
	w.left = max - sizeof(end);
	names.opens = false;
	r = since < 0 ? layer_walk(&names, on_change_entry, &w, &end.size, err)
		      : tree_diff(&names, since, on_change_entry, &w, &end.size, err);
	if (r < 0 && !w.full)
		return r;
	end.more = w.full;
	return write(arg, &end, sizeof(end), err);
}
