/* SPDX-License-Identifier: Apache-2.0 */
/* Messages for people are not what is proved here: the error functions return
 * what the real ones do and write nothing. */
#include "base/err.h"

#include <errno.h>

static const int errnos[] = {
	[CAY_OK] = 0,
#define CAY_ERROR(sym, name, http, exit, errnum, ...) [CAY_E_##sym] = errnum,
#include "base/errors.def"
#undef CAY_ERROR
};

int cay_fail(struct cay_err *err, enum cay_code code, const char *fmt, ...)
{
	(void)fmt;
	if (err)
		err->code = code;
	return -errnos[code];
}

int cay_fail_field(struct cay_err *err, enum cay_code code, const char *field, const char *fmt, ...)
{
	(void)field;
	(void)fmt;
	if (err)
		err->code = code;
	return -errnos[code];
}

int cay_fail_sys(struct cay_err *err, enum cay_code code, int errnum, const char *fmt, ...)
{
	(void)fmt;
	if (err)
		err->code = code;
	return -errnum;
}
