/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct cay_error_row rows[] = {
	[CAY_OK] = { "OK", "ok", 200, 0, 0, BLAME_TASK, false, "" },
#define CAY_ERROR(sym, name, http, exit, errnum, blame, retryable, hint) \
	[CAY_E_##sym] = { #sym, name, http, exit, errnum, BLAME_##blame, retryable, hint },
#include "base/errors.def"
#undef CAY_ERROR
};
static_assert(sizeof(rows) / sizeof(rows[0]) == CAY_NUM_CODES, "errors.def");

const struct cay_error_row *cay_error_row(enum cay_code code)
{
	unsigned i = (unsigned)code;

	return &rows[i < CAY_NUM_CODES ? i : CAY_E_INTERNAL];
}

enum cay_code cay_code_from_disk_errno(int errnum)
{
	if (errnum < 0)
		errnum = -errnum;
	return errnum == ENOSPC || errnum == EDQUOT ? CAY_E_DISK_FULL
	       : errnum == EROFS                    ? CAY_E_CAPACITY
						    : CAY_E_INTERNAL;
}

static void err_text_mark_cut(char *buf, size_t size)
{
	memcpy(buf + size - 4, "...", 4);
}

__attribute__((format(printf, 4, 0))) static void err_format_message(struct cay_err *err,
								     enum cay_code code, int errnum,
								     const char *fmt, va_list ap)
{
	int n;

	err->code = code;
	err->errnum = errnum;
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	if (n >= 0 && errnum && (size_t)n < sizeof(err->msg)) {
		size_t room = sizeof(err->msg) - (size_t)n;
		int m = snprintf(err->msg + n, room, ": %s", strerror(errnum));

		n = m < 0 ? m : n + m;
	}
	if (n < 0)
		(void)strncpy(err->msg, "(message could not be formatted)", sizeof(err->msg) - 1);
	else if ((size_t)n >= sizeof(err->msg))
		err_text_mark_cut(err->msg, sizeof(err->msg));
}

static bool err_is_set(const struct cay_err *err)
{
	return !err || err->code != CAY_OK;
}

int cay_vfail(struct cay_err *err, enum cay_code code, const char *fmt, va_list ap)
{
	if (!err_is_set(err))
		err_format_message(err, code, 0, fmt, ap);
	return -cay_error_row(code)->errnum;
}

int cay_fail(struct cay_err *err, enum cay_code code, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = cay_vfail(err, code, fmt, ap);
	va_end(ap);
	return r;
}

int cay_no_memory(struct cay_err *err)
{
	return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
}

int cay_fail_sys(struct cay_err *err, enum cay_code code, int errnum, const char *fmt, ...)
{
	va_list ap;

	if (errnum < 0)
		errnum = -errnum;
	if (!err_is_set(err)) {
		va_start(ap, fmt);
		err_format_message(err, code, errnum, fmt, ap);
		va_end(ap);
	}
	return errnum ? -errnum : -cay_error_row(code)->errnum;
}

int cay_fail_field(struct cay_err *err, enum cay_code code, const char *field, const char *fmt, ...)
{
	va_list ap;

	if (!err_is_set(err)) {
		va_start(ap, fmt);
		err_format_message(err, code, 0, fmt, ap);
		va_end(ap);
		if (snprintf(err->field, sizeof(err->field), "%s", field) >=
		    (int)sizeof(err->field))
			err_text_mark_cut(err->field, sizeof(err->field));
	}
	return -cay_error_row(code)->errnum;
}

void cay_err_hint(struct cay_err *err, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (!err || err->code == CAY_OK || err->hint[0])
		return;
	va_start(ap, fmt);
	n = vsnprintf(err->hint, sizeof(err->hint), fmt, ap);
	va_end(ap);
	if (n < 0)
		err->hint[0] = 0;
	else if ((size_t)n >= sizeof(err->hint))
		err_text_mark_cut(err->hint, sizeof(err->hint));
}

void cay_err_set_blame(struct cay_err *err, enum blame blame)
{
	if (err && err->code != CAY_OK)
		err->blame = (unsigned char)(blame + 1);
}

enum blame cay_err_blame(const struct cay_err *err)
{
	return err->blame ? (enum blame)(err->blame - 1) : cay_error_row(err->code)->blame;
}

static void err_text_prepend(char *buf, size_t size, const char *front, size_t n)
{
	size_t len = strlen(buf), keep;
	bool cut = false;

	if (n > size - 1) {
		n = size - 1;
		cut = true;
	}
	keep = len;
	if (n + keep > size - 1) {
		keep = size - 1 - n;
		cut = true;
	}
	memmove(buf + n, buf, keep);
	memcpy(buf, front, n);
	buf[n + keep] = 0;
	if (cut)
		err_text_mark_cut(buf, size);
}

void cay_err_prefix_field(struct cay_err *err, const char *outer)
{
	if (!err || err->code == CAY_OK)
		return;
	if (err->field[0] && err->field[0] != '[')
		err_text_prepend(err->field, sizeof(err->field), ".", 1);
	err_text_prepend(err->field, sizeof(err->field), outer, strlen(outer));
}

int cay_err_wrap(struct cay_err *err, int ret, const char *fmt, ...)
{
	char front[CAY_ERR_MSG_MAX];
	va_list ap;
	int n;

	if (!err || err->code == CAY_OK)
		return ret;
	va_start(ap, fmt);
	n = vsnprintf(front, sizeof(front), fmt, ap);
	va_end(ap);
	if (n < 0)
		return ret;
	if ((size_t)n >= sizeof(front))
		n = (int)sizeof(front) - 1;
	err_text_prepend(err->msg, sizeof(err->msg), ": ", 2);
	err_text_prepend(err->msg, sizeof(err->msg), front, (size_t)n);
	return ret;
}
