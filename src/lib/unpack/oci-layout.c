/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/oci-layout.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "unpack/archive-internal.h"
#include "unpack/decompress.h"
#include "unpack/manifest.h"

#define CHUNK KIB(256)
#define BLOBS_DIR "blobs/sha256/"

/* The outer tar, as libarchive reads it. */
struct oci_layout_scan {
	int fd;
	uint64_t at;
	char *chunk;
};

static ssize_t oci_layout_pread(int fd, void *p, size_t n, uint64_t at)
{
	ssize_t got;

	if (at > INT64_MAX)
		return -EINVAL;
	do
		got = pread(fd, p, n, (off_t)at);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

static la_ssize_t oci_layout_scan_read(struct archive *a, void *data, const void **ret)
{
	struct oci_layout_scan *s = data;
	ssize_t n = oci_layout_pread(s->fd, s->chunk, CHUNK, s->at);

	if (n < 0) {
		archive_set_error(a, (int)-n, "cannot read: %s", strerror((int)-n));
		return -1;
	}
	s->at += (uint64_t)n;
	*ret = s->chunk;
	return n;
}

/* Blobs are stepped over, not read; past the end the next read finds nothing. */
static la_int64_t oci_layout_scan_skip(struct archive *, void *data, la_int64_t n)
{
	struct oci_layout_scan *s = data;

	if (n <= 0 || (uint64_t)n > INT64_MAX - s->at)
		return 0;
	s->at += (uint64_t)n;
	return n;
}

static bool oci_layout_name_ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && str_eq(s + n - m, end);
}

/* A tree has thousands of names; those beyond the last slot are not found. */
static int oci_layout_add_name(struct oci_layout *l, const char *name, const char *link,
			       const struct oci_layout_file *f, struct cay_err *err)
{
	struct oci_layout_name *n = &l->names[l->n_names];

	if (l->n_names == LAYOUT_NAMES_MAX || strlen(name) > LAYOUT_NAME_MAX ||
	    (!oci_layout_name_ends_with(name, ".json") &&
	     !oci_layout_name_ends_with(name, ".tar")) ||
	    (link && strlen(link) > LAYOUT_NAME_MAX))
		return 0;
	*n = (struct oci_layout_name){ .name = strdup(name), .link = link ? strdup(link) : NULL };
	if (!n->name || (link && !n->link)) {
		free(n->name);
		free(n->link);
		return cay_no_memory(err);
	}
	n->file = *f;
	l->n_names++;
	return 0;
}

static int oci_layout_append_blob(struct oci_layout *l, const struct oci_layout_file *f,
				  struct cay_err *err)
{
	if (l->n_blobs == LAYOUT_BLOBS_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, "the image layout has more than %d blobs",
				LAYOUT_BLOBS_MAX);
	l->blobs[l->n_blobs++] = *f;
	return 0;
}

static int oci_layout_add_entry(struct oci_layout *l, struct archive *a, struct archive_entry *e,
				struct cay_err *err)
{
	const char *name = archive_entry_pathname(e);
	int64_t size = archive_entry_size(e), at = archive_filter_bytes(a, 0);
	struct oci_layout_file f = {};

	if (!name || archive_entry_hardlink(e))
		return 0;
	if (strncmp(name, "./", 2) == 0)
		name += 2;
	l->has_blobs |= strncmp(name, "blobs/", 6) == 0;
	if (archive_entry_filetype(e) == AE_IFLNK && archive_entry_symlink(e))
		return oci_layout_add_name(l, name, archive_entry_symlink(e), &f, err);
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
		return oci_layout_add_name(l, name, NULL, &f, err);
	name += strlen(BLOBS_DIR);
	if (digest_parse_hex(name, strlen(name), &f.digest) < 0)
		return 0;
	return oci_layout_append_blob(l, &f, err);
}

static int oci_layout_scan_entries(struct oci_layout *l, struct archive *a, struct cay_err *err)
{
	for (unsigned n = 0; n < LAYOUT_ENTRIES_MAX; n++) {
		struct archive_entry *e;
		int r = archive_read_next_header(a, &e);

		if (r == ARCHIVE_EOF)
			return 0;
		/* a warning concerns names we do not need */
		if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
			return cay_fail(err, CAY_E_INVALID, "not a tar of an image layout: %s",
					archive_error_string(a));
		r = oci_layout_add_entry(l, a, e, err);
		if (r < 0)
			return r;
	}
	if (oci_layout_detect_kind(l) == LAYOUT_TREE) /* has as many as a layer may have */
		return 0;
	return cay_fail(err, CAY_E_TOO_LARGE, "the image layout has more than %d files",
			LAYOUT_ENTRIES_MAX);
}

static int oci_layout_scan_tar(struct oci_layout *l, struct cay_err *err)
{
	auto_archive a = archive_read_new();
	auto_buf chunk = BUF_INIT(CHUNK);
	struct oci_layout_scan s = { .fd = l->fd };

	l->blobs = calloc(LAYOUT_BLOBS_MAX, sizeof(*l->blobs));
	l->names = calloc(LAYOUT_NAMES_MAX, sizeof(*l->names));
	if (!a || !l->blobs || !l->names || buf_reserve(&chunk, CHUNK) < 0 ||
	    archive_read_support_format_tar(a) != ARCHIVE_OK ||
	    archive_read_support_format_empty(a) != ARCHIVE_OK ||
	    archive_read_set_read_callback(a, oci_layout_scan_read) != ARCHIVE_OK ||
	    archive_read_set_skip_callback(a, oci_layout_scan_skip) != ARCHIVE_OK ||
	    archive_read_set_callback_data(a, &s) != ARCHIVE_OK)
		return cay_no_memory(err);
	s.chunk = chunk.data;
	if (archive_read_open1(a) != ARCHIVE_OK)
		return cay_fail(err, CAY_E_INVALID, "not a plain tar: %s", archive_error_string(a));
	return oci_layout_scan_entries(l, a, err);
}

int oci_layout_open(int tar_fd, struct oci_layout *ret, struct cay_err *err)
{
	struct oci_layout l = { .fd = tar_fd };
	int r = oci_layout_scan_tar(&l, err);

	if (r < 0) {
		oci_layout_fini(&l);
		return r;
	}
	*ret = l;
	return 0;
}

void oci_layout_fini(struct oci_layout *l)
{
	for (size_t i = 0; i < l->n_names; i++) {
		free(l->names[i].name);
		free(l->names[i].link);
	}
	free(l->names);
	free(l->blobs);
	*l = (struct oci_layout){ .fd = -EBADF };
}

/* The last of a name wins, as it would on disk. */
static const struct oci_layout_file *oci_layout_find_blob(const struct oci_layout *l,
							  const struct digest *d)
{
	for (size_t i = l->n_blobs; i-- > 0;)
		if (digest_eq(&l->blobs[i].digest, d))
			return &l->blobs[i];
	return NULL;
}

enum oci_layout_kind oci_layout_detect_kind(const struct oci_layout *l)
{
	if (l->index.size)
		return LAYOUT_OCI;
	if (oci_layout_find_file(l, "manifest.json"))
		return LAYOUT_DOCKER;
	return l->has_programs && !l->has_blobs ? LAYOUT_TREE : LAYOUT_NONE;
}

static const struct oci_layout_name *oci_layout_find_name(const struct oci_layout *l,
							  struct slice name)
{
	for (size_t i = l->n_names; i-- > 0;)
		if (slice_eq(slice_of(l->names[i].name), name))
			return &l->names[i];
	return NULL;
}

/* Layers that are the same are links, as in "1a2b/layer.tar" -> "../3c4d/layer.tar". */
static const struct oci_layout_file *oci_layout_follow_link(const struct oci_layout *l,
							    const struct oci_layout_name *n)
{
	const char *to = n->link, *slash = strrchr(n->name, '/');

	if (strncmp(to, "../", 3) == 0 && slash && memchr(n->name, '/', (size_t)(slash - n->name)))
		return NULL; /* deeper than docker goes */
	if (strncmp(to, "../", 3) == 0 && slash)
		to += 3;
	else if (slash)
		return NULL;
	n = oci_layout_find_name(l, slice_of(to));
	return n && !n->link ? &n->file : NULL;
}

const struct oci_layout_file *oci_layout_find_file(const struct oci_layout *l, const char *name)
{
	const struct oci_layout_name *n = oci_layout_find_name(l, slice_of(name));
	const size_t front = strlen(BLOBS_DIR);
	struct digest d;

	if (n)
		return n->link ? oci_layout_follow_link(l, n) : &n->file;
	if (strncmp(name, BLOBS_DIR, front) == 0 &&
	    digest_parse_hex(name + front, strlen(name + front), &d) == 0)
		return oci_layout_find_blob(l, &d);
	return NULL;
}

int oci_layout_read_file(const struct oci_layout *l, const struct oci_layout_file *f,
			 struct buf *ret, struct cay_err *err)
{
	uint64_t at = f->at, left = f->size;

	if (left > ret->max)
		return cay_fail(err, CAY_E_TOO_LARGE, "is larger than %zu bytes", ret->max);
	if (buf_reserve(ret, (size_t)left) < 0)
		return cay_no_memory(err);
	while (left) {
		ssize_t n = oci_layout_pread(l->fd, ret->data + ret->len, (size_t)left, at);

		if (n <= 0)
			return cay_fail(err, CAY_E_INVALID, "is cut off");
		ret->len += (size_t)n;
		at += (uint64_t)n;
		left -= (uint64_t)n;
	}
	ret->data[ret->len] = 0;
	return 0;
}

int oci_layout_read_index(const struct oci_layout *l, struct buf *ret, struct cay_err *err)
{
	int r = oci_layout_read_file(l, &l->index, ret, err);

	return r < 0 ? cay_err_wrap(err, r, "index.json") : 0;
}

static int oci_layout_hash_file(const struct oci_layout *l, const struct oci_layout_file *f,
				struct digest *ret, struct cay_err *err)
{
	CAY_CLEANUP(hash_fini) struct hash h = {};
	auto_buf chunk = BUF_INIT(CHUNK);
	uint64_t at = f->at, left = f->size;

	if (hash_init(&h) < 0 || buf_reserve(&chunk, CHUNK) < 0)
		return cay_no_memory(err);
	while (left) {
		ssize_t n = oci_layout_pread(l->fd, chunk.data, left < CHUNK ? (size_t)left : CHUNK,
					     at);

		if (n <= 0)
			return cay_fail(err, CAY_E_INVALID, "is cut off");
		if (hash_update(&h, chunk.data, (size_t)n) < 0)
			return cay_fail(err, CAY_E_INTERNAL, "cannot hash a blob");
		at += (uint64_t)n;
		left -= (uint64_t)n;
	}
	return hash_finish(&h, ret) < 0 ? cay_fail(err, CAY_E_INTERNAL, "cannot hash a blob") : 0;
}

int oci_layout_add_blob(struct oci_layout *l, const struct oci_layout_file *f,
			struct descriptor *ret, struct cay_err *err)
{
	struct oci_layout_file blob = *f;
	int r = oci_layout_hash_file(l, f, &blob.digest, err);

	if (r >= 0)
		r = oci_layout_append_blob(l, &blob, err);
	if (r < 0)
		return r;
	*ret = (struct descriptor){ .digest = blob.digest, .size = blob.size };
	ret->media = decompress_detect_media(l->fd, blob.at);
	return 0;
}

int blob_open(const struct oci_layout *l, const struct descriptor *d, struct blob *ret,
	      struct cay_err *err)
{
	const struct oci_layout_file *f = oci_layout_find_blob(l, &d->digest);

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
		return cay_no_memory(err);
	}
	return 0;
}

int blob_read_next(struct blob *b, const void **ret, size_t *n, struct cay_err *err)
{
	size_t want = b->left < CHUNK ? (size_t)b->left : CHUNK;
	ssize_t got;

	*ret = b->chunk;
	*n = 0;
	if (!want)
		return 0;
	got = oci_layout_pread(b->fd, b->chunk, want, b->at);
	if (got < 0)
		return cay_fail_sys(err, CAY_E_INVALID, (int)got, "cannot read the image");
	if (got == 0)
		return cay_fail(err, CAY_E_INVALID, "is cut off");
	if (hash_update(&b->hash, b->chunk, (size_t)got) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot hash a blob");
	b->at += (uint64_t)got;
	b->left -= (uint64_t)got;
	*n = (size_t)got;
	return 0;
}

int blob_verify(struct blob *b, struct cay_err *err)
{
	struct digest is;

	while (b->left) {
		const void *p;
		size_t n;
		int r = blob_read_next(b, &p, &n, err);

		if (r < 0)
			return r;
	}
	if (hash_finish(&b->hash, &is) < 0)
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

static int oci_layout_read_blob_bytes(const struct oci_layout *l, const struct descriptor *d,
				      struct buf *ret, struct cay_err *err)
{
	auto_blob b = {};
	const void *p;
	size_t n;
	int r;

	if (d->size > ret->max)
		return cay_fail(err, CAY_E_TOO_LARGE, "is larger than %zu bytes", ret->max);
	r = blob_open(l, d, &b, err);
	while (r >= 0) {
		r = blob_read_next(&b, &p, &n, err);
		if (r < 0 || !n)
			break;
		if (buf_append(ret, p, n) < 0)
			return cay_no_memory(err);
	}
	return r < 0 ? r : blob_verify(&b, err);
}

int oci_layout_read_blob(const struct oci_layout *l, const struct descriptor *d, struct buf *ret,
			 struct cay_err *err)
{
	char hex[DIGEST_HEX_LEN + 1];
	int r = oci_layout_read_blob_bytes(l, d, ret, err);

	if (r >= 0)
		return 0;
	digest_format_hex(&d->digest, hex);
	return cay_err_wrap(err, r, "blob " DIGEST_PREFIX "%.*s...", DIGEST_SHORT, hex);
}
