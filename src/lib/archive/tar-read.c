/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "archive/tar-internal.h"
#include "base/str.h"

/* Headers about the next header; a long run of them costs time and yields nothing. */
#define PRELUDES_MAX 16

void tar_reader_init(struct tar_reader *t, tar_read_fn *read, void *arg)
{
	*t = (struct tar_reader){ .read = read,
				  .arg = arg,
				  .name = BUF_INIT(TAR_NAME_MAX),
				  .link = BUF_INIT(TAR_NAME_MAX),
				  .pax = BUF_INIT(TAR_PAX_MAX) };
}

void tar_reader_fini(struct tar_reader *t)
{
	buf_fini(&t->name);
	buf_fini(&t->link);
	buf_fini(&t->pax);
}

/* All n bytes; for some callers 0 bytes are allowed at the very end, and reported. */
static int tar_read_exact(struct tar_reader *t, void *p, size_t n, bool may_end,
			  struct cay_err *err)
{
	size_t have = 0;

	while (have < n) {
		ssize_t r = t->read(t->arg, (char *)p + have, n - have, err);

		if (r < 0)
			return (int)r;
		if (r == 0 && may_end && !have)
			return 0;
		if (r == 0)
			return cay_fail(err, CAY_E_INVALID, "the archive ends in the middle");
		have += (size_t)r;
	}
	return 1;
}

static int tar_skip_bytes(struct tar_reader *t, uint64_t n, struct cay_err *err)
{
	char sink[4096];
	int r = 1;

	for (size_t some; n && r > 0; n -= some) {
		some = n < sizeof(sink) ? (size_t)n : sizeof(sink);
		r = tar_read_exact(t, sink, some, false, err);
	}
	return r;
}

ssize_t tar_read_data(struct tar_reader *t, void *p, size_t n, struct cay_err *err)
{
	ssize_t r;

	if (!t->left)
		return 0;
	r = t->read(t->arg, p, n < t->left ? n : (size_t)t->left, err);
	if (r == 0)
		return cay_fail(err, CAY_E_INVALID, "the archive ends in the middle");
	if (r > 0)
		t->left -= (uint64_t)r;
	return r;
}

/* Octal digits between spaces, ended by a space, a 0 or the field; or GNU's base 256.
 * An empty field is 0, as tar writes it. */
static int tar_parse_number(const uint8_t *p, unsigned n, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;
	unsigned i = 0;

	if (p[0] & 0x80) {
		if (p[0] != 0x80)
			return -ERANGE; /* negative, or larger than anything */
		for (i = 1; i < n; i++) {
			if (v >> 55)
				return -ERANGE;
			v = v << 8 | p[i];
		}
		*ret = v;
		return v > max ? -ERANGE : 0;
	}
	while (i < n && p[i] == ' ')
		i++;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (p[i] & 7U); /* 12 digits are 36 bits */
	for (; i < n; i++)
		if (p[i] && p[i] != ' ')
			return -EINVAL;
	*ret = v;
	return v > max ? -ERANGE : 0;
}

/* Relative, no "..", no "." and no empty component. "./" becomes "". */
static int tar_clean_name(struct buf *b, const char *what, struct cay_err *err)
{
	char quoted[TAR_QUOTED_MAX + 1];
	const char *all = buf_str(b);
	struct slice rest = slice_of(all);
	size_t to = 0;

	if (rest.n != b->len)
		return cay_fail(err, CAY_E_INVALID, "%s has a zero byte in it", what);
	if (!rest.n)
		return cay_fail(err, CAY_E_INVALID, "%s is empty", what);
	if (all[0] == '/')
		return cay_fail(err, CAY_E_INVALID, "%s '%s' is absolute", what,
				tar_quote_name(all, quoted));
	/* check all of it before it is overwritten: a message needs the whole name */
	for (struct slice at = rest; at.p;) {
		if (slice_eq(slice_cut(&at, '/'), SLICE("..")))
			return cay_fail(err, CAY_E_INVALID, "%s '%s' leads out of the archive",
					what, tar_quote_name(all, quoted));
	}
	while (rest.p) {
		struct slice part = slice_cut(&rest, '/');

		if (!part.n || slice_eq(part, SLICE(".")))
			continue;
		if (to)
			b->data[to++] = '/';
		memmove(b->data + to, part.p, part.n);
		to += part.n;
	}
	buf_truncate(b, to);
	return 0;
}

/* One whole member of headers only: a long name, or pax. */
static int tar_read_text(struct tar_reader *t, struct buf *b, uint64_t size, const char *what,
			 struct cay_err *err)
{
	int r;

	buf_clear(b);
	if (!size || size > b->max)
		return cay_fail(err, CAY_E_INVALID, "%s of the archive is empty or too long", what);
	if (buf_reserve(b, (size_t)size) < 0)
		return cay_no_memory(err);
	r = tar_read_exact(t, b->data, (size_t)size, false, err);
	if (r < 0)
		return r;
	b->len = (size_t)size;
	b->data[b->len] = 0;
	r = tar_skip_bytes(t, tar_padding_len(size), err);
	return r < 0 ? r : 0;
}

/* GNU ends it with a 0 that is counted. */
static int tar_read_long_name(struct tar_reader *t, struct buf *b, uint64_t size,
			      struct cay_err *err)
{
	int r = tar_read_text(t, b, size, "a name", err);

	if (r >= 0 && b->data[b->len - 1] == 0)
		buf_truncate(b, b->len - 1);
	return r;
}

static int pax_parse_time(struct slice v, int64_t *ret)
{
	struct slice whole = slice_cut(&v, '.');
	uint64_t n = 0;

	*ret = 0;
	if (whole.n && whole.p[0] == '-') /* before 1970: treated as 0 */
		return 0;
	if (str_parse_u64(whole, 0, INT64_MAX, &n) < 0)
		return -EINVAL;
	*ret = (int64_t)n;
	return 0;
}

static int pax_copy_text(struct buf *b, struct slice v, bool *has)
{
	buf_clear(b);
	*has = true;
	return v.n ? buf_append(b, v.p, v.n) : -EINVAL;
}

static void tar_copy_note(struct tar_reader *t, struct slice v)
{
	size_t n = v.n < TAR_NOTE_MAX ? v.n : TAR_NOTE_MAX;

	for (size_t i = 0; i < n; i++)
		t->note[i] = v.p[i] >= ' ' && v.p[i] < 0x7f ? v.p[i] : '?';
	t->note[n] = 0;
}

static bool tar_slice_starts_with(struct slice s, struct slice with)
{
	return s.n >= with.n && memcmp(s.p, with.p, with.n) == 0;
}

static int pax_apply_record(struct tar_reader *t, struct slice key, struct slice v, bool global,
			    struct cay_err *err)
{
	bool path = slice_eq(key, SLICE("path")), link = slice_eq(key, SLICE("linkpath"));
	bool size = slice_eq(key, SLICE("size")), mtime = slice_eq(key, SLICE("mtime"));
	int r = 0;

	if (tar_slice_starts_with(key, SLICE("GNU.sparse.")))
		return cay_fail(err, CAY_E_INVALID, "sparse files are not taken");
	if (global && (path || link || size))
		return cay_fail(err, CAY_E_INVALID, "a name or size for all of the archive");
	if (path)
		r = pax_copy_text(&t->name, v, &t->has_name);
	else if (link)
		r = pax_copy_text(&t->link, v, &t->has_link);
	else if (size)
		r = str_parse_u64(v, 0, INT64_MAX, &t->size);
	else if (mtime && !global)
		r = pax_parse_time(v, &t->mtime);
	else if (slice_eq(key, SLICE("comment")))
		tar_copy_note(t, v);
	if (r < 0)
		return cay_fail(err, CAY_E_INVALID, "a pax header of the archive is wrong");
	t->has_size |= size;
	t->has_mtime |= mtime && !global;
	return 0;
}

static int pax_parse(struct tar_reader *t, bool global, struct cay_err *err)
{
	struct slice all = { t->pax.data, t->pax.len };

	while (all.n) {
		struct slice at = all, key, v;
		uint64_t n;
		struct slice digits = slice_cut(&at, ' ');
		int r = str_parse_u64(digits, 1, all.n, &n);

		/* the record is n bytes, digits and line feed among them */
		if (r < 0 || n < digits.n + 3 || all.p[n - 1] != '\n')
			return cay_fail(err, CAY_E_INVALID, "a pax header of the archive is wrong");
		v = (struct slice){ all.p + digits.n + 1, (size_t)n - digits.n - 2 };
		key = slice_cut(&v, '=');
		if (!v.p || !key.n)
			return cay_fail(err, CAY_E_INVALID, "a pax header of the archive is wrong");
		r = pax_apply_record(t, key, v, global, err);
		if (r < 0)
			return r;
		all = (struct slice){ all.p + n, all.n - (size_t)n };
	}
	return 0;
}

static bool tar_block_is_zero(const uint8_t *p)
{
	for (unsigned i = 0; i < TAR_BLOCK; i++)
		if (p[i])
			return false;
	return true;
}

/* Up to TAR_TAIL_MAX of padding may follow the end.  It is read so that the sender can
 * finish and the decompressor can check its sum. */
static int tar_skip_tail(struct tar_reader *t, struct cay_err *err)
{
	char sink[4096];
	size_t seen = 0;

	t->ended = true;
	for (;;) {
		ssize_t r = t->read(t->arg, sink, sizeof(sink), err);

		if (r <= 0)
			return (int)r;
		seen += (size_t)r;
		if (seen > TAR_TAIL_MAX)
			return cay_fail(err, CAY_E_INVALID, "too much follows the archive's end");
	}
}

/* A field of text that may fill its place without a 0. */
static int tar_append_field(struct buf *b, const uint8_t *p, unsigned n)
{
	return buf_append(b, p, strnlen((const char *)p, n));
}

static int tar_read_header_names(struct tar_reader *t, const uint8_t *block, struct cay_err *err)
{
	int r = 0;

	if (!t->has_name) {
		buf_clear(&t->name);
		/* GNU's own magic has a space here, and no prefix */
		if (memcmp(block + AT_MAGIC, "ustar", 6) == 0 && block[AT_PREFIX]) {
			r = tar_append_field(&t->name, block + AT_PREFIX, LEN_PREFIX);
			if (r >= 0)
				r = buf_putc(&t->name, '/');
		}
		if (r >= 0)
			r = tar_append_field(&t->name, block + AT_NAME, LEN_NAME);
	}
	if (r >= 0 && !t->has_link) {
		buf_clear(&t->link);
		r = tar_append_field(&t->link, block + AT_LINK, LEN_NAME);
	}
	return r < 0 ? cay_no_memory(err) : 0;
}

static enum tar_type tar_parse_type(uint8_t type, const struct buf *name)
{
	switch (type) {
	case 0:
	case '0':
	case '7':
		/* in v7 a trailing slash means a directory */
		return name->len && name->data[name->len - 1] == '/' ? TAR_DIRECTORY : TAR_FILE;
	case '1':
		return TAR_HARDLINK;
	case '2':
		return TAR_SYMLINK;
	case '5':
		return TAR_DIRECTORY;
	default:
		return TAR_OTHER;
	}
}

static int tar_finish_entry(struct tar_reader *t, const uint8_t *block, uint64_t size,
			    struct tar_entry *e, struct cay_err *err)
{
	uint64_t mode, mtime;
	int r = tar_read_header_names(t, block, err);

	if (r < 0)
		return r;
	if (tar_parse_number(block + AT_MODE, LEN_ID, UINT64_MAX, &mode) < 0)
		return cay_fail(err, CAY_E_INVALID, "a mode in the archive is no number");
	/* an unrepresentable time is no reason to refuse a file */
	if (t->has_mtime)
		mtime = (uint64_t)t->mtime;
	else if (tar_parse_number(block + AT_MTIME, LEN_NUMBER, INT64_MAX, &mtime) < 0)
		mtime = 0;
	*e = (struct tar_entry){ .type = tar_parse_type(block[AT_TYPE], &t->name),
				 .mode = (unsigned)(mode & 07777),
				 .mtime = (int64_t)mtime };
	r = tar_clean_name(&t->name, "a name", err);
	if (r >= 0 && e->type == TAR_HARDLINK)
		r = tar_clean_name(&t->link, "a link", err);
	if (r < 0)
		return r;
	if (e->type == TAR_SYMLINK && (!t->link.len || strlen(t->link.data) != t->link.len))
		return cay_fail(err, CAY_E_INVALID, "a symbolic link to nothing");
	if (!t->name.len && e->type != TAR_DIRECTORY && e->type != TAR_OTHER)
		return cay_fail(err, CAY_E_INVALID, "an entry of the archive has no name");
	/* links and directories have no data, whatever their size field says (POSIX) */
	if (e->type != TAR_FILE && e->type != TAR_OTHER)
		size = 0;
	e->name = buf_str(&t->name);
	e->link = buf_str(&t->link);
	e->size = t->left = size;
	t->pad = tar_padding_len(size);
	return 1;
}

/* 1: a header that describes the next one; 0: an entry. */
static int tar_read_extension_header(struct tar_reader *t, uint8_t type, uint64_t size,
				     struct cay_err *err)
{
	int r;

	switch (type) {
	case 'x':
	case 'g':
		r = tar_read_text(t, &t->pax, size, "a pax header", err);
		if (r >= 0)
			r = pax_parse(t, type == 'g', err);
		return r < 0 ? r : 1;
	case 'L':
		t->has_name = true;
		r = tar_read_long_name(t, &t->name, size, err);
		return r < 0 ? r : 1;
	case 'K':
		t->has_link = true;
		r = tar_read_long_name(t, &t->link, size, err);
		return r < 0 ? r : 1;
	case 'S':
		return cay_fail(err, CAY_E_INVALID, "sparse files are not taken");
	case 'M':
		return cay_fail(err, CAY_E_INVALID, "archives of several volumes are not taken");
	default:
		return 0;
	}
}

static int tar_read_header(struct tar_reader *t, uint8_t *block, struct cay_err *err)
{
	uint64_t sum;
	int r = tar_read_exact(t, block, TAR_BLOCK, true, err);

	if (r < 0)
		return r;
	if (r == 0)
		return cay_fail(err, CAY_E_INVALID, "the archive ends without its end mark");
	if (tar_block_is_zero(block))
		return 0;
	if (tar_parse_number(block + AT_SUM, LEN_SUM, UINT32_MAX, &sum) < 0 ||
	    sum != tar_checksum(block))
		return cay_fail(err, CAY_E_INVALID, "this is no tar archive, or a broken one");
	return 1;
}

int tar_read_entry(struct tar_reader *t, struct tar_entry *ret, struct cay_err *err)
{
	uint8_t block[TAR_BLOCK];
	int r = tar_skip_bytes(t, t->left + t->pad, err);

	if (t->ended || r < 0)
		return t->ended ? 0 : r;
	t->left = t->pad = 0;
	t->has_name = t->has_link = t->has_size = t->has_mtime = false;
	for (unsigned preludes = 0;; preludes++) {
		uint64_t size;

		if (preludes > PRELUDES_MAX)
			return cay_fail(err, CAY_E_INVALID, "the archive is headers only");
		r = tar_read_header(t, block, err);
		if (r < 0)
			return r;
		if (r == 0)
			return tar_skip_tail(t, err);
		if (tar_parse_number(block + AT_SIZE, LEN_NUMBER, INT64_MAX, &size) < 0)
			return cay_fail(err, CAY_E_INVALID, "a size in the archive is no number");
		r = tar_read_extension_header(t, block[AT_TYPE], size, err);
		if (r < 0)
			return r;
		if (r == 0)
			return tar_finish_entry(t, block, t->has_size ? t->size : size, ret, err);
	}
}
