/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/unpack-layer.h"

#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "unpack/archive-internal.h"
#include "unpack/rootfs.h"

#define WHITEOUT ".wh."
#define WHITEOUT_META ".wh..wh."
#define WHITEOUT_ALL ".wh..wh..opq"

/* The tar inside a blob, uncompressed. */
struct layer_stream {
	struct blob blob;
	struct archive *unzip; /* NULL: the blob is the tar */
	struct hash plain;     /* of the tar, when that is not the blob */
	uint64_t *left;        /* of the budget */
	int failed;            /* error of a callback of libarchive */
	struct cay_err *err;
};

#define auto_stream CAY_CLEANUP(layer_stream_fini) struct layer_stream

static void layer_stream_fini(struct layer_stream *s)
{
	if (s->unzip)
		(void)archive_read_free(s->unzip);
	hash_fini(&s->plain);
	blob_fini(&s->blob);
}

/* libarchive reports a failure; if a callback of ours caused it, its error is more precise. */
static int layer_stream_fail(const struct layer_stream *s, struct archive *a, const char *what)
{
	const char *why = archive_error_string(a);

	if (s->failed)
		return s->failed;
	return cay_fail(s->err, CAY_E_INVALID, "%s: %s", what, why ? why : "empty");
}

static la_ssize_t layer_stream_read_blob(struct archive *a, void *data, const void **ret)
{
	struct layer_stream *s = data;
	size_t n;

	s->failed = blob_read_next(&s->blob, ret, &n, s->err);
	if (s->failed)
		archive_set_error(a, EIO, "cannot read");
	return s->failed ? -1 : (la_ssize_t)n;
}

/* The next piece of the tar: 0 at the end. */
static int layer_stream_next(struct layer_stream *s, const void **ret, size_t *n)
{
	la_int64_t at;
	int r;

	if (s->unzip) {
		r = archive_read_data_block(s->unzip, ret, n, &at);
		if (r == ARCHIVE_EOF)
			*n = 0;
		else if (r != ARCHIVE_OK)
			return layer_stream_fail(s, s->unzip, "cannot uncompress");
		if (*n && hash_update(&s->plain, *ret, *n) < 0)
			return cay_fail(s->err, CAY_E_INTERNAL, "cannot hash");
	} else {
		r = blob_read_next(&s->blob, ret, n, s->err);
		if (r < 0)
			return r;
	}
	if (*n > *s->left)
		return cay_fail(s->err, CAY_E_TOO_LARGE, "the image is larger than allowed");
	*s->left -= *n;
	return 0;
}

static la_ssize_t layer_stream_read_tar(struct archive *a, void *data, const void **ret)
{
	struct layer_stream *s = data;
	size_t n;

	s->failed = layer_stream_next(s, ret, &n);
	if (s->failed)
		archive_set_error(a, EIO, "cannot read");
	return s->failed ? -1 : (la_ssize_t)n;
}

static int layer_stream_open_unzip(struct layer_stream *s, enum media media)
{
	bool gzip = media == MEDIA_TAR_GZIP;
	struct archive_entry *e;
	struct archive *a = archive_read_new();

	s->unzip = a;
	if (!a || hash_init(&s->plain) < 0 ||
	    (gzip ? archive_read_support_filter_gzip(a) : archive_read_support_filter_zstd(a)) !=
		    ARCHIVE_OK ||
	    archive_read_support_format_raw(a) != ARCHIVE_OK)
		return cay_no_memory(s->err);
	if (archive_read_open(a, s, NULL, layer_stream_read_blob, NULL) != ARCHIVE_OK ||
	    archive_read_next_header(a, &e) != ARCHIVE_OK)
		return layer_stream_fail(s, a, "cannot uncompress");
	/* libarchive peels as many skins as it finds; the media type names one */
	if (archive_filter_count(a) != 2 ||
	    archive_filter_code(a, 0) != (gzip ? ARCHIVE_FILTER_GZIP : ARCHIVE_FILTER_ZSTD))
		return cay_fail(s->err, CAY_E_INVALID, "is not compressed as its media type says");
	return 0;
}

static int layer_stream_open(struct layer_stream *s, const struct oci_layout *layout,
			     const struct descriptor *d, uint64_t *left, struct cay_err *err)
{
	int r = blob_open(layout, d, &s->blob, err);

	s->left = left;
	s->err = err;
	if (r >= 0 && d->media != MEDIA_TAR)
		r = layer_stream_open_unzip(s, d->media);
	return r;
}

/* Anything may follow the end of the tar; it still has to match the digests. */
static int layer_stream_finish(struct layer_stream *s, const struct descriptor *d,
			       const struct digest *diff_id)
{
	struct digest is = d->digest;
	size_t n;
	int r;

	do {
		const void *p;

		r = layer_stream_next(s, &p, &n);
	} while (r >= 0 && n);
	if (r >= 0)
		r = blob_verify(&s->blob, s->err);
	if (r < 0)
		return r;
	if (s->unzip && hash_finish(&s->plain, &is) < 0)
		return cay_fail(s->err, CAY_E_INTERNAL, "cannot hash");
	if (!digest_eq(&is, diff_id))
		return cay_fail(s->err, CAY_E_INVALID,
				"its tar is not the one of the config's diff_id");
	return 0;
}

struct layer_reader {
	struct rootfs root;
	struct archive *tar;
	struct archive_entry *entry;
	struct layer_stream *stream;
	struct layer_budget *budget;
	struct cay_err *err;
};

static int layer_entry_read_meta(struct layer_reader *l, const struct rootfs_name *n,
				 struct rootfs_meta *ret)
{
	struct archive_entry *e = l->entry;
	int64_t uid = archive_entry_uid(e), gid = archive_entry_gid(e);
	long ns = archive_entry_mtime_nsec(e);

	if (uid < 0 || uid >= ROOTFS_IDS || gid < 0 || gid >= ROOTFS_IDS)
		return cay_fail(l->err, CAY_E_INVALID,
				"'%.200s': its owner is not one of %d users and groups", n->base,
				ROOTFS_IDS);
	*ret = (struct rootfs_meta){
		.uid = (uint32_t)uid,
		.gid = (uint32_t)gid,
		.mode = archive_entry_perm(e) & 07777,
		.mtime = { archive_entry_mtime(e), ns >= 0 && ns < 1000000000 ? ns : 0 },
	};
	return 0;
}

/* Holes stay holes. */
static int layer_entry_write_content(struct layer_reader *l, int fd, const char *name,
				     uint64_t size)
{
	for (;;) {
		const char *p;
		const void *block;
		int64_t at;
		size_t n;
		int r = archive_read_data_block(l->tar, &block, &n, &at);

		if (r == ARCHIVE_EOF)
			break;
		if (r != ARCHIVE_OK)
			return layer_stream_fail(l->stream, l->tar, "not a whole tar");
		if (at < 0 || (uint64_t)at > size || n > size - (uint64_t)at)
			return cay_fail(l->err, CAY_E_INVALID, "'%.200s': has bytes after its end",
					name);
		for (p = block; n;) {
			ssize_t done = pwrite(fd, p, n, at);

			if (done <= 0)
				return cay_fail_sys(l->err, cay_code_from_disk_errno(errno), errno,
						    "'%.200s': cannot write", name);
			p += done;
			at += done;
			n -= (size_t)done;
		}
	}
	if (ftruncate(fd, (off_t)size) < 0) /* a hole at the end */
		return cay_fail_sys(l->err, CAY_E_INTERNAL, errno, "'%.200s': cannot write", name);
	return 0;
}

static int layer_entry_add_file(struct layer_reader *l, const struct rootfs_name *n,
				const struct rootfs_meta *meta)
{
	int64_t size = archive_entry_size(l->entry);
	auto_close int fd = -EBADF;
	int r;

	if (size < 0)
		return cay_fail(l->err, CAY_E_INVALID, "'%.200s': has no size", n->base);
	if ((uint64_t)size > l->budget->file_bytes)
		return cay_fail(l->err, CAY_E_TOO_LARGE, "the image is larger than allowed");
	l->budget->file_bytes -= (uint64_t)size;
	r = rootfs_create_file(&l->root, n, &fd, l->err);
	if (r >= 0)
		r = layer_entry_write_content(l, fd, n->base, (uint64_t)size);
	return r < 0 ? r : rootfs_set_meta(fd, n, meta, l->err);
}

static int layer_entry_add(struct layer_reader *l, const struct rootfs_name *n)
{
	const char *hard = archive_entry_hardlink(l->entry), *to;
	struct rootfs_name target;
	struct rootfs_meta meta;
	int r;

	if (strncmp(n->base, WHITEOUT, strlen(WHITEOUT)) == 0)
		return 0;
	if (hard) {
		r = rootfs_name_parse(hard, &target, l->err);
		return r < 0 ? r : rootfs_create_hardlink(&l->root, n, &target, l->err);
	}
	r = layer_entry_read_meta(l, n, &meta);
	if (r < 0)
		return r;
	switch (archive_entry_filetype(l->entry)) {
	case AE_IFREG:
		return layer_entry_add_file(l, n, &meta);
	case AE_IFDIR:
		return rootfs_create_dir(&l->root, n, &meta, l->err);
	case AE_IFLNK:
		to = archive_entry_symlink(l->entry);
		return rootfs_create_symlink(&l->root, n, to ? to : "", &meta, l->err);
	default:
		l->budget->skipped++;
		return 0;
	}
}

static int layer_entry_apply_whiteout(struct layer_reader *l, const struct rootfs_name *n)
{
	const char *name = n->base + strlen(WHITEOUT);

	if (strncmp(n->base, WHITEOUT, strlen(WHITEOUT)) != 0)
		return 0;
	if (str_eq(n->base, WHITEOUT_ALL))
		return rootfs_apply_opaque_whiteout(&l->root, n, l->err);
	if (strncmp(n->base, WHITEOUT_META, strlen(WHITEOUT_META)) == 0)
		return 0; /* aufs kept books there */
	if (!name[0] || str_eq(name, ".") || str_eq(name, ".."))
		return cay_fail(l->err, CAY_E_INVALID, "'%.200s': a whiteout of nothing", n->base);
	return rootfs_apply_whiteout(&l->root, n, name, l->err);
}

static int layer_for_each_entry(struct layer_reader *l,
				int (*apply)(struct layer_reader *, const struct rootfs_name *))
{
	for (;;) {
		int r = archive_read_next_header(l->tar, &l->entry);
		struct rootfs_name n;
		const char *name;

		if (r == ARCHIVE_EOF)
			return 0;
		if (r != ARCHIVE_OK)
			return layer_stream_fail(l->stream, l->tar, "not a sound tar");
		if (!l->budget->entries)
			return cay_fail(l->err, CAY_E_TOO_LARGE, "the image has more than %d files",
					LAYER_ENTRIES_MAX);
		l->budget->entries--;
		name = archive_entry_pathname(l->entry);
		if (!name)
			return cay_fail(l->err, CAY_E_INVALID, "an entry has no name");
		r = rootfs_name_parse(name, &n, l->err);
		if (r >= 0)
			r = apply(l, &n);
		if (r < 0)
			return r;
	}
}

static int layer_run_pass(int root, const struct oci_layout *layout, const struct descriptor *d,
			  const struct digest *diff_id, struct layer_budget *budget,
			  int (*apply)(struct layer_reader *, const struct rootfs_name *),
			  struct cay_err *err)
{
	auto_stream s = {};
	auto_archive tar = NULL; /* gone before the stream it reads */
	struct layer_reader l = {
		.root = { root, &budget->entries }, .stream = &s, .budget = budget, .err = err
	};
	int r = layer_stream_open(&s, layout, d, &budget->tar_bytes, err);

	if (r < 0)
		return r;
	l.tar = tar = archive_read_new();
	if (!tar || archive_read_support_format_tar(tar) != ARCHIVE_OK)
		return cay_no_memory(err);
	if (archive_read_open(tar, &s, NULL, layer_stream_read_tar, NULL) != ARCHIVE_OK)
		return layer_stream_fail(&s, tar, "not a tar");
	r = layer_for_each_entry(&l, apply);
	return r < 0 ? r : layer_stream_finish(&s, d, diff_id);
}

int layer_apply(int root, const struct oci_layout *layout, const struct descriptor *d,
		const struct digest *diff_id, bool lowest, struct layer_budget *budget,
		struct cay_err *err)
{
	struct layer_budget spare = *budget; /* reading twice is no bigger image */
	char hex[DIGEST_HEX_LEN + 1];
	int r = 0;

	if (!lowest)
		r = layer_run_pass(root, layout, d, diff_id, &spare, layer_entry_apply_whiteout,
				   err);
	if (r >= 0)
		r = layer_run_pass(root, layout, d, diff_id, budget, layer_entry_add, err);
	if (r >= 0)
		return 0;
	digest_format_hex(&d->digest, hex);
	return cay_err_wrap(err, r, "layer " DIGEST_PREFIX "%.*s...", DIGEST_SHORT, hex);
}
