/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/layout.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "unpack/archive-internal.h"
#include "unpack/manifest.h"
#include "unpack/outer.h"

#define CHUNK KIB(256)
#define BLOBS_DIR "blobs/sha256/"

/* The outer tar, as libarchive reads it. */
struct scan {
	int fd;
	uint64_t at;
	char *chunk;
};

static ssize_t read_at(int fd, void *p, size_t n, uint64_t at)
{
	ssize_t got;

	if (at > INT64_MAX)
		return -EINVAL;
	do
		got = pread(fd, p, n, (off_t)at);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

static la_ssize_t scan_read(struct archive *a, void *data, const void **ret)
{
	struct scan *s = data;
	ssize_t n = read_at(s->fd, s->chunk, CHUNK, s->at);

	if (n < 0) {
		archive_set_error(a, (int)-n, "cannot read: %s", strerror((int)-n));
		return -1;
	}
	s->at += (uint64_t)n;
	*ret = s->chunk;
	return n;
}

/* Blobs are stepped over, not read; past the end the next read finds nothing. */
static la_int64_t scan_skip(struct archive *, void *data, la_int64_t n)
{
	struct scan *s = data;

	if (n <= 0 || (uint64_t)n > INT64_MAX - s->at)
		return 0;
	s->at += (uint64_t)n;
	return n;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && str_eq(s + n - m, end);
}

/* A tree has thousands of these, too; those behind the last place are not found. */
static int note_name(struct layout *l, const char *name, const char *link,
		     const struct layout_file *f, struct cay_err *err)
{
	struct layout_name *n = &l->names[l->n_names];

	if (l->n_names == LAYOUT_NAMES_MAX || strlen(name) > LAYOUT_NAME_MAX ||
	    (!ends_with(name, ".json") && !ends_with(name, ".tar")) ||
	    (link && strlen(link) > LAYOUT_NAME_MAX))
		return 0;
	*n = (struct layout_name){ .name = strdup(name), .link = link ? strdup(link) : NULL };
	if (!n->name || (link && !n->link)) {
		free(n->name);
		free(n->link);
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory to read the image layout");
	}
	n->file = *f;
	l->n_names++;
	return 0;
}

static int note_entry(struct layout *l, struct archive *a, struct archive_entry *e,
		      struct cay_err *err)
{
	const char *name = archive_entry_pathname(e);
	int64_t size = archive_entry_size(e), at = archive_filter_bytes(a, 0);
	struct layout_file f = {};

	if (!name || archive_entry_hardlink(e))
		return 0;
	if (strncmp(name, "./", 2) == 0)
		name += 2;
	l->has_blobs |= strncmp(name, "blobs/", 6) == 0;
	if (archive_entry_filetype(e) == AE_IFLNK && archive_entry_symlink(e))
		return note_name(l, name, archive_entry_symlink(e), &f, err);
	if (archive_entry_filetype(e) != AE_IFREG)
		return 0;
	l->has_programs |= archive_entry_perm(e) & 0111;
	/* sparse: its bytes do not lie in a row */
	if (size < 0 || at < 0 || archive_entry_sparse_count(e))
		return 0;
	f.at = (uint64_t)at;
	f.size = (uint64_t)size;
	if (str_eq(name, "index.json")) {
		l->index = f;
		return 0;
	}
	if (strncmp(name, BLOBS_DIR, strlen(BLOBS_DIR)) != 0)
		return note_name(l, name, NULL, &f, err);
	name += strlen(BLOBS_DIR);
	if (digest_parse_hex(name, strlen(name), &f.digest) < 0)
		return 0;
	if (l->n_blobs == LAYOUT_BLOBS_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, "the image layout has more than %d blobs",
				LAYOUT_BLOBS_MAX);
	l->blobs[l->n_blobs++] = f;
	return 0;
}

static int scan_entries(struct layout *l, struct archive *a, struct cay_err *err)
{
	for (unsigned n = 0; n < LAYOUT_ENTRIES_MAX; n++) {
		struct archive_entry *e;
		int r = archive_read_next_header(a, &e);

		if (r == ARCHIVE_EOF)
			return 0;
		/* a warning is about names we would not look for anyway */
		if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
			return cay_fail(err, CAY_E_INVALID, "not a tar of an image layout: %s",
					archive_error_string(a));
		r = note_entry(l, a, e, err);
		if (r < 0)
			return r;
	}
	if (layout_form(l) == LAYOUT_TREE) /* has as many as a layer may have */
		return 0;
	return cay_fail(err, CAY_E_TOO_LARGE, "the image layout has more than %d files",
			LAYOUT_ENTRIES_MAX);
}

static int scan(struct layout *l, struct cay_err *err)
{
	auto_archive a = archive_read_new();
	auto_buf chunk = BUF_INIT(CHUNK);
	struct scan s = { .fd = l->fd };

	l->blobs = calloc(LAYOUT_BLOBS_MAX, sizeof(*l->blobs));
	l->names = calloc(LAYOUT_NAMES_MAX, sizeof(*l->names));
	if (!a || !l->blobs || !l->names || buf_reserve(&chunk, CHUNK) < 0 ||
	    archive_read_support_format_tar(a) != ARCHIVE_OK ||
	    archive_read_support_format_empty(a) != ARCHIVE_OK ||
	    archive_read_set_read_callback(a, scan_read) != ARCHIVE_OK ||
	    archive_read_set_skip_callback(a, scan_skip) != ARCHIVE_OK ||
	    archive_read_set_callback_data(a, &s) != ARCHIVE_OK)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory to read the image layout");
	s.chunk = chunk.data;
	if (archive_read_open1(a) != ARCHIVE_OK)
		return cay_fail(err, CAY_E_INVALID, "not a plain tar: %s", archive_error_string(a));
	return scan_entries(l, a, err);
}

int layout_scan(int tar_fd, struct layout *ret, struct cay_err *err)
{
	struct layout l = { .fd = tar_fd };
	int r = scan(&l, err);

	if (r < 0) {
		layout_fini(&l);
		return r;
	}
	*ret = l;
	return 0;
}

void layout_fini(struct layout *l)
{
	for (size_t i = 0; i < l->n_names; i++) {
		free(l->names[i].name);
		free(l->names[i].link);
	}
	free(l->names);
	free(l->blobs);
	*l = (struct layout){ .fd = -EBADF };
}

/* The last of a name wins, as it would on disk. */
static const struct layout_file *find(const struct layout *l, const struct digest *d)
{
	for (size_t i = l->n_blobs; i-- > 0;)
		if (digest_eq(&l->blobs[i].digest, d))
			return &l->blobs[i];
	return NULL;
}

enum layout_form layout_form(const struct layout *l)
{
	if (l->index.size)
		return LAYOUT_OCI;
	if (layout_named(l, "manifest.json"))
		return LAYOUT_DOCKER;
	return l->has_programs && !l->has_blobs ? LAYOUT_TREE : LAYOUT_NONE;
}

static const struct layout_name *find_name(const struct layout *l, struct slice name)
{
	for (size_t i = l->n_names; i-- > 0;)
		if (slice_eq(slice_of(l->names[i].name), name))
			return &l->names[i];
	return NULL;
}

/* Layers that are the same are links, as in "1a2b/layer.tar" -> "../3c4d/layer.tar". */
static const struct layout_file *follow(const struct layout *l, const struct layout_name *n)
{
	const char *to = n->link, *slash = strrchr(n->name, '/');

	if (strncmp(to, "../", 3) == 0 && slash && memchr(n->name, '/', (size_t)(slash - n->name)))
		return NULL; /* deeper than docker goes */
	if (strncmp(to, "../", 3) == 0 && slash)
		to += 3;
	else if (slash)
		return NULL;
	n = find_name(l, slice_of(to));
	return n && !n->link ? &n->file : NULL;
}

const struct layout_file *layout_named(const struct layout *l, const char *name)
{
	const struct layout_name *n = find_name(l, slice_of(name));
	const size_t front = strlen(BLOBS_DIR);
	struct digest d;

	if (n)
		return n->link ? follow(l, n) : &n->file;
	if (strncmp(name, BLOBS_DIR, front) == 0 &&
	    digest_parse_hex(name + front, strlen(name + front), &d) == 0)
		return find(l, &d);
	return NULL;
}

int layout_read_file(const struct layout *l, const struct layout_file *f, struct buf *ret,
		     struct cay_err *err)
{
	uint64_t at = f->at, left = f->size;

	if (left > ret->max)
		return cay_fail(err, CAY_E_TOO_LARGE, "is larger than %zu bytes", ret->max);
	if (buf_reserve(ret, (size_t)left) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for it");
	while (left) {
		ssize_t n = read_at(l->fd, ret->data + ret->len, (size_t)left, at);

		if (n <= 0)
			return cay_fail(err, CAY_E_INVALID, "is cut off");
		ret->len += (size_t)n;
		at += (uint64_t)n;
		left -= (uint64_t)n;
	}
	ret->data[ret->len] = 0;
	return 0;
}

int layout_read_index(const struct layout *l, struct buf *ret, struct cay_err *err)
{
	int r = layout_read_file(l, &l->index, ret, err);

	return r < 0 ? cay_wrap(err, r, "index.json") : 0;
}

static int hash_file(const struct layout *l, const struct layout_file *f, struct digest *ret,
		     struct cay_err *err)
{
	CAY_CLEANUP(hash_fini) struct hash h = {};
	auto_buf chunk = BUF_INIT(CHUNK);
	uint64_t at = f->at, left = f->size;

	if (hash_init(&h) < 0 || buf_reserve(&chunk, CHUNK) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory to read a blob");
	while (left) {
		ssize_t n = read_at(l->fd, chunk.data, left < CHUNK ? (size_t)left : CHUNK, at);

		if (n <= 0)
			return cay_fail(err, CAY_E_INVALID, "is cut off");
		if (hash_add(&h, chunk.data, (size_t)n) < 0)
			return cay_fail(err, CAY_E_INTERNAL, "cannot hash a blob");
		at += (uint64_t)n;
		left -= (uint64_t)n;
	}
	return hash_end(&h, ret) < 0 ? cay_fail(err, CAY_E_INTERNAL, "cannot hash a blob") : 0;
}

int layout_adopt(struct layout *l, const struct layout_file *f, struct descriptor *ret,
		 struct cay_err *err)
{
	struct layout_file blob = *f;
	int r = hash_file(l, f, &blob.digest, err);

	if (r < 0)
		return r;
	if (l->n_blobs == LAYOUT_BLOBS_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, "the image layout has more than %d blobs",
				LAYOUT_BLOBS_MAX);
	l->blobs[l->n_blobs++] = blob;
	*ret = (struct descriptor){ .digest = blob.digest, .size = blob.size };
	ret->media = outer_media(l->fd, blob.at);
	return 0;
}

int blob_open(const struct layout *l, const struct descriptor *d, struct blob *ret,
	      struct cay_err *err)
{
	const struct layout_file *f = find(l, &d->digest);

	if (!f)
		return cay_fail(err, CAY_E_INVALID, "is not in the image layout");
	if (f->size > d->size)
		return cay_fail(err, CAY_E_INVALID,
				"is %" PRIu64 " bytes longer than its descriptor says",
				f->size - d->size);
	if (f->size < d->size)
		return cay_fail(err, CAY_E_INVALID,
				"is %" PRIu64 " bytes shorter than its descriptor says",
				d->size - f->size);
	*ret = (struct blob){ .fd = l->fd, .at = f->at, .left = f->size, .want = d->digest };
	ret->chunk = malloc(CHUNK);
	if (!ret->chunk || hash_init(&ret->hash) < 0) {
		blob_fini(ret);
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory to read a blob");
	}
	return 0;
}

int blob_next(struct blob *b, const void **ret, size_t *n, struct cay_err *err)
{
	size_t want = b->left < CHUNK ? (size_t)b->left : CHUNK;
	ssize_t got;

	*ret = b->chunk;
	*n = 0;
	if (!want)
		return 0;
	got = read_at(b->fd, b->chunk, want, b->at);
	if (got < 0)
		return cay_fail_sys(err, CAY_E_INVALID, (int)got, "cannot read the image");
	if (got == 0)
		return cay_fail(err, CAY_E_INVALID, "is cut off");
	if (hash_add(&b->hash, b->chunk, (size_t)got) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot hash a blob");
	b->at += (uint64_t)got;
	b->left -= (uint64_t)got;
	*n = (size_t)got;
	return 0;
}

int blob_end(struct blob *b, struct cay_err *err)
{
	struct digest is;

	while (b->left) {
		const void *p;
		size_t n;
		int r = blob_next(b, &p, &n, err);

		if (r < 0)
			return r;
	}
	if (hash_end(&b->hash, &is) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot hash a blob");
	if (!digest_eq(&is, &b->want))
		return cay_fail(err, CAY_E_INVALID, "its bytes have another digest");
	return 0;
}

void blob_fini(struct blob *b)
{
	free(b->chunk);
	hash_fini(&b->hash);
	b->chunk = NULL;
}

static int read_blob(const struct layout *l, const struct descriptor *d, struct buf *ret,
		     struct cay_err *err)
{
	auto_blob b = {};
	const void *p;
	size_t n;
	int r;

	if (d->size > ret->max)
		return cay_fail(err, CAY_E_TOO_LARGE, "is larger than %zu bytes", ret->max);
	r = blob_open(l, d, &b, err);
	while (r >= 0) {
		r = blob_next(&b, &p, &n, err);
		if (r < 0 || !n)
			break;
		if (buf_add(ret, p, n) < 0)
			return cay_fail(err, CAY_E_NO_MEMORY, "no memory for it");
	}
	return r < 0 ? r : blob_end(&b, err);
}

int layout_read(const struct layout *l, const struct descriptor *d, struct buf *ret,
		struct cay_err *err)
{
	char hex[DIGEST_HEX_LEN + 1];
	int r = read_blob(l, d, ret, err);

	if (r >= 0)
		return 0;
	digest_hex(&d->digest, hex);
	return cay_wrap(err, r, "blob " DIGEST_PREFIX "%.*s...", DIGEST_SHORT, hex);
}
