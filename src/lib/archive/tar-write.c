/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "archive/tar-internal.h"

static const char magic[8] = { 'u', 's', 't', 'a', 'r', 0, '0', '0' };
static const char zeros[TAR_BLOCK * 2];
static const char types[] = {
	[TAR_FILE] = '0',     [TAR_DIRECTORY] = '5', [TAR_SYMLINK] = '2',
	[TAR_HARDLINK] = '1', [TAR_OTHER] = '0',     [TAR_FIFO] = '6',
};

void tar_writer_init(struct tar_writer *t, tar_write_fn *write, void *arg)
{
	*t = (struct tar_writer){ .write = write, .arg = arg, .pax = BUF_INIT(TAR_PAX_MAX) };
}

void tar_writer_fini(struct tar_writer *t)
{
	buf_fini(&t->pax);
}

/* A value that does not fit is left 0: a pax header has it. */
static void tar_write_octal(uint8_t *to, unsigned digits, uint64_t v)
{
	if (v >> (3 * digits))
		v = 0;
	for (unsigned i = digits; i; i--, v >>= 3)
		to[i - 1] = (uint8_t)('0' + (v & 7));
}

static int tar_write_header(struct tar_writer *t, const struct tar_entry *e, char type,
			    struct cay_err *err)
{
	uint8_t block[TAR_BLOCK] = {};
	size_t n = strnlen(e->name, LEN_NAME), l = e->link ? strnlen(e->link, LEN_NAME) : 0;

	memcpy(block + AT_NAME, e->name, n);
	if (l)
		memcpy(block + AT_LINK, e->link, l);
	tar_write_octal(block + AT_MODE, 7, e->mode & 07777);
	tar_write_octal(block + AT_UID, 7, e->uid);
	tar_write_octal(block + AT_GID, 7, e->gid);
	tar_write_octal(block + AT_SIZE, 11, e->size);
	tar_write_octal(block + AT_MTIME, 11, e->mtime > 0 ? (uint64_t)e->mtime : 0);
	block[AT_TYPE] = (uint8_t)type;
	memcpy(block + AT_MAGIC, magic, sizeof(magic));
	tar_write_octal(block + AT_SUM, 6, tar_checksum(block));
	block[AT_SUM + 7] = ' ';
	return t->write(t->arg, block, sizeof(block), err);
}

/* "LEN key=value\n", where LEN counts itself. */
static int pax_append_record(struct buf *b, const char *key, const char *value, struct cay_err *err)
{
	size_t bare = strlen(key) + strlen(value) + 3, n = bare + 1;

	for (size_t digits = 1, ten = 10; n >= ten; ten *= 10)
		n = bare + ++digits;
	if (buf_printf(b, "%zu %s=%s\n", n, key, value) < 0)
		return cay_fail(err, CAY_E_INVALID, "a name is too long for an archive");
	return 0;
}

static int pax_append_number(struct buf *b, const char *key, uint64_t v, struct cay_err *err)
{
	char text[24];

	if (snprintf(text, sizeof(text), "%" PRIu64, v) >= (int)sizeof(text))
		return cay_fail(err, CAY_E_INTERNAL, "a number of too many digits");
	return pax_append_record(b, key, text, err);
}

static int tar_write_padding(struct tar_writer *t, struct cay_err *err)
{
	unsigned pad = t->pad;

	assert(!t->left);
	t->pad = 0;
	return pad ? t->write(t->arg, zeros, pad, err) : 0;
}

static int tar_write_pax(struct tar_writer *t, struct cay_err *err)
{
	struct tar_entry e = { .name = "pax", .mode = 0644, .size = t->pax.len };
	int r = tar_write_header(t, &e, 'x', err);

	if (r >= 0)
		r = t->write(t->arg, t->pax.data, t->pax.len, err);
	t->pad = tar_padding_len(t->pax.len);
	return r < 0 ? r : tar_write_padding(t, err);
}

int tar_write_entry(struct tar_writer *t, const struct tar_entry *e, struct cay_err *err)
{
	uint64_t mtime = e->mtime > 0 ? (uint64_t)e->mtime : 0;
	int r = tar_write_padding(t, err);

	buf_clear(&t->pax);
	if (r >= 0 && strlen(e->name) > LEN_NAME)
		r = pax_append_record(&t->pax, "path", e->name, err);
	if (r >= 0 && e->link && strlen(e->link) > LEN_NAME)
		r = pax_append_record(&t->pax, "linkpath", e->link, err);
	if (r >= 0 && e->size >> 33)
		r = pax_append_number(&t->pax, "size", e->size, err);
	if (r >= 0 && mtime >> 33)
		r = pax_append_number(&t->pax, "mtime", mtime, err);
	if (r >= 0 && e->note)
		r = pax_append_record(&t->pax, "comment", e->note, err);
	if (r >= 0 && t->pax.len)
		r = tar_write_pax(t, err);
	if (r >= 0)
		r = tar_write_header(t, e, types[e->type], err);
	if (r < 0)
		return r;
	t->left = e->size;
	t->pad = tar_padding_len(e->size);
	return 0;
}

int tar_write_data(struct tar_writer *t, const void *p, size_t n, struct cay_err *err)
{
	assert(n <= t->left);
	t->left -= n;
	return n ? t->write(t->arg, p, n, err) : 0;
}

int tar_write_file(struct tar_writer *t, int fd, char chunk[static TAR_CHUNK], bool *ret_changed,
		   struct cay_err *err)
{
	*ret_changed = false;
	while (t->left) {
		size_t want = t->left < TAR_CHUNK ? (size_t)t->left : TAR_CHUNK;
		ssize_t n = *ret_changed ? 0 : read(fd, chunk, want);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			*ret_changed = true;
			memset(chunk, 0, want);
			n = (ssize_t)want;
		}
		r = tar_write_data(t, chunk, (size_t)n, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int tar_write_end(struct tar_writer *t, struct cay_err *err)
{
	int r = tar_write_padding(t, err);

	return r < 0 ? r : t->write(t->arg, zeros, sizeof(zeros), err);
}

const char *tar_quote_name(const char *name, char ret[static TAR_QUOTED_MAX + 1])
{
	static const char hex[] = "0123456789abcdef";
	size_t n = 0;

	for (; *name && n + 4 <= TAR_QUOTED_MAX; name++) {
		unsigned char c = (unsigned char)*name;

		if (c > ' ' && c < 0x7f && c != '\\') {
			ret[n++] = (char)c;
		} else {
			ret[n++] = '\\';
			ret[n++] = 'x';
			ret[n++] = hex[c >> 4];
			ret[n++] = hex[c & 15];
		}
	}
	ret[n] = 0;
	return ret;
}
