/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/out-file.h"

#include <string.h>

#include "base/path.h"

static bool bytes_are_zero(const char *p, size_t n)
{
	return !n || (!p[0] && memcmp(p, p + 1, n - 1) == 0);
}

static int out_file_flush(struct out_file *o, bool last, struct cay_err *err)
{
	int r = 0;

	if (!last && bytes_are_zero(o->buffer, o->n)) {
		o->hole += o->n;
		o->n = 0;
		return 0;
	}
	if (o->hole && !o->n) { /* a file does not end with a hole */
		o->hole--;
		o->buffer[o->n++] = 0;
	}
	if (o->hole && lseek(o->fd, (off_t)o->hole, SEEK_CUR) < 0)
		r = -errno;
	o->hole = 0;
	r = r < 0 ? r : fd_write_all(o->fd, o->buffer, o->n);
	o->n = 0;
	return r < 0 ? cay_fail_sys(err, cay_code_from_disk_errno(r), r, "cannot write the result")
		     : 0;
}

int out_file_finish(struct out_file *o, struct cay_err *err)
{
	return out_file_flush(o, true, err);
}

int on_out_file_write(void *arg, const void *p, size_t n, struct cay_err *err)
{
	struct out_file *o = arg;
	const char *from = p;

	if (n > o->left)
		return cay_fail(err, CAY_E_TOO_LARGE, "the result would be too large");
	o->left -= n;
	while (n) {
		size_t some = sizeof(o->buffer) - o->n < n ? sizeof(o->buffer) - o->n : n;

		memcpy(o->buffer + o->n, from, some);
		o->n += some;
		from += some;
		n -= some;
		if (o->n == sizeof(o->buffer) && out_file_flush(o, false, err) < 0)
			return -EIO;
	}
	return 0;
}
