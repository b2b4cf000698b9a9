/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/decompress.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/path.h"
#include "unpack/archive-internal.h"
#include "unpack/manifest.h"

#define CHUNK KIB(256)

struct decompress_source {
	int fd;
	uint64_t at;
	char *chunk;
};

unsigned decompress_detect_media(int fd, uint64_t at)
{
	uint8_t front[4] = {};
	ssize_t n = at > INT64_MAX ? -1 : pread(fd, front, sizeof(front), (off_t)at);

	if (n >= 2 && memcmp(front, "\x1f\x8b", 2) == 0)
		return MEDIA_TAR_GZIP;
	if (n == 4 && memcmp(front, "\x28\xb5\x2f\xfd", 4) == 0)
		return MEDIA_TAR_ZSTD;
	return MEDIA_TAR;
}

static la_ssize_t decompress_read_source(struct archive *a, void *data, const void **ret)
{
	struct decompress_source *s = data;
	ssize_t n = pread(s->fd, s->chunk, CHUNK, (off_t)s->at);

	if (n < 0) {
		archive_set_error(a, errno, "cannot read: %s", strerror(errno));
		return -1;
	}
	s->at += (uint64_t)n;
	*ret = s->chunk;
	return n;
}

static int decompress_copy(struct archive *a, int to, uint64_t left, struct cay_err *err)
{
	for (;;) {
		const void *p;
		la_int64_t at;
		size_t n;
		int r = archive_read_data_block(a, &p, &n, &at);

		if (r == ARCHIVE_EOF)
			return 0;
		if (r != ARCHIVE_OK)
			return cay_fail(err, CAY_E_INVALID, "cannot uncompress: %s",
					archive_error_string(a));
		if (n > left)
			return cay_fail(err, CAY_E_TOO_LARGE,
					"the uncompressed data is larger than allowed");
		left -= n;
		r = fd_write_all(to, p, n);
		if (r < 0)
			return cay_fail_sys(err,
					    r == -ENOSPC || r == -EDQUOT ? CAY_E_DISK_FULL
									 : CAY_E_INTERNAL,
					    r, "cannot write the uncompressed data");
	}
}

int decompress_open(int root, int fd, uint64_t max_bytes, int *ret_fd, struct cay_err *err)
{
	const bool gzip = decompress_detect_media(fd, 0) == MEDIA_TAR_GZIP;
	auto_buf chunk = BUF_INIT(CHUNK);
	struct decompress_source s = { .fd = fd };
	auto_archive a = NULL; /* freed before the source it reads */
	auto_close int to = -EBADF;
	struct archive_entry *e;
	int r;

	*ret_fd = -EBADF;
	if (decompress_detect_media(fd, 0) == MEDIA_TAR)
		return 0;
	a = archive_read_new();
	if (!a || buf_reserve(&chunk, CHUNK) < 0 ||
	    (gzip ? archive_read_support_filter_gzip(a) : archive_read_support_filter_zstd(a)) !=
		    ARCHIVE_OK ||
	    archive_read_support_format_raw(a) != ARCHIVE_OK)
		return cay_no_memory(err);
	s.chunk = chunk.data;
	to = openat(root, ".", O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	if (to < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "no file to uncompress into");
	if (archive_read_open(a, &s, NULL, decompress_read_source, NULL) != ARCHIVE_OK ||
	    archive_read_next_header(a, &e) != ARCHIVE_OK)
		return cay_fail(err, CAY_E_INVALID, "cannot uncompress: %s",
				archive_error_string(a));
	/* libarchive peels as many skins as it finds */
	if (archive_filter_count(a) != 2)
		return cay_fail(err, CAY_E_INVALID, "is compressed twice, or not as it begins");
	r = decompress_copy(a, to, max_bytes, err);
	if (r >= 0)
		*ret_fd = cay_take_fd(&to);
	return r;
}
