/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_ERR_H
#define CAY_BASE_ERR_H
/* err - how failures travel
 *
 * A function that can fail returns 0 or more on success and -errno on failure.  If a user may see
 * the failure it also takes a struct cay_err, last, on the caller's stack:
 *
 *	struct cay_err err = {};
 *	if (thing_open(name, &thing, &err) < 0)
 *		... reply from err ...
 *
 * The code says what kind of failure it is (errors.def), the message what happened, in lower case
 * and without a full stop.  The first failure wins; callers add context in front with
 * cay_err_wrap().  Libraries do not log. */
#include <stdarg.h>
#include <stddef.h>

enum cay_code {
	CAY_OK,
#define CAY_ERROR(sym, ...) CAY_E_##sym,
#include "base/errors.def"
#undef CAY_ERROR
	CAY_NUM_CODES
};

/* Who can prevent a failure, and who ended what ended.  Ends without a rule are INFRA. */
enum blame {
	BLAME_INFRA,  /* Cay, the machine or its operator */
	BLAME_CALLER, /* the client: its request, its image, its delete */
	BLAME_LIMIT,  /* a limit, a deadline or a quota that the client or the operator set */
	BLAME_TASK,   /* the program that ran in the sandbox */
	BLAME_NUM
};

struct cay_error_row {
	const char *symbol;
	const char *name; /* on the wire */
	int http;
	int exit;
	int errnum;
	enum blame blame;
	bool retryable;
	const char *hint;
};

#define CAY_ERR_MSG_MAX 256
#define CAY_ERR_FIELD_MAX 64
#define CAY_ERR_HINT_MAX 256

struct cay_err {
	enum cay_code code;
	int errnum;                    /* of the system call that failed, or 0 */
	char field[CAY_ERR_FIELD_MAX]; /* of the request, "" when none is to blame */
	char msg[CAY_ERR_MSG_MAX];
	char hint[CAY_ERR_HINT_MAX]; /* what to do about this cause; "": the hint of its row */
	unsigned char blame;         /* enum blame plus 1; 0: of its row */
};

/* What a failed write below the state directory is called: full, read-only, or broken. */
enum cay_code cay_code_from_disk_errno(int errnum);

/* The row of a code; a number outside the table gets the row of "internal". */
const struct cay_error_row *cay_error_row(enum cay_code code);

/* Record and return -errno, so that callers write `return cay_fail(err, ...)`.
 * err may be NULL; a message that does not fit ends in "...". */
__attribute__((format(printf, 3, 4))) int cay_fail(struct cay_err *err, enum cay_code code,
						   const char *fmt, ...);
__attribute__((format(printf, 3, 0))) int cay_vfail(struct cay_err *err, enum cay_code code,
						    const char *fmt, va_list ap);
/* CAY_E_NO_MEMORY with its one message; returns -ENOMEM. */
int cay_no_memory(struct cay_err *err);

/* The same for a failed system call: records errnum, appends its text and returns -errnum. */
__attribute__((format(printf, 4, 5))) int cay_fail_sys(struct cay_err *err, enum cay_code code,
						       int errnum, const char *fmt, ...);

/* The same for one field of a request; the outermost caller may prefix it with
 * cay_err_prefix_field(). */
__attribute__((format(printf, 4, 5))) int cay_fail_field(struct cay_err *err, enum cay_code code,
							 const char *field, const char *fmt, ...);

/* Say what to do about this cause, where the hint of the code would mislead: a file that is not
 * the user's is permission_denied, and no key helps.  The words suit HTTP, the command line and
 * MCP.  The first hint wins. */
__attribute__((format(printf, 2, 3))) void cay_err_hint(struct cay_err *err, const char *fmt, ...);

/* Blame another one than the row of the code does: who ended the sandbox that a request is for. */
void cay_err_set_blame(struct cay_err *err, enum blame blame);
enum blame cay_err_blame(const struct cay_err *err);

/* "memory" becomes "limits.memory". */
void cay_err_prefix_field(struct cay_err *err, const char *outer);

/* Put context in front of the message ("start sandbox 'x': ..."); returns ret. */
__attribute__((format(printf, 3, 4))) int cay_err_wrap(struct cay_err *err, int ret,
						       const char *fmt, ...);
#endif
