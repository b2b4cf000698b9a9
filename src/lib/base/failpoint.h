/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_FAILPOINT_H
#define CAY_BASE_FAILPOINT_H
/* failpoint - named places where a test can make the program die or fail
 *
 * They are compiled into every build, so that tests run the code that ships; an unarmed one costs a
 * load and a branch.  The list is failpoints.def.
 *
 *	CAY_FAULT=write:filled=kill         die at the first hit
 *	CAY_FAULT=write:filled=error@3      fail with EIO at the third
 *	CAY_FAULT=write:filled=always@3     and at every hit after it
 *	CAY_FAULT=a=error,b=kill            several
 */
#include "base/err.h"
#include "base/mem.h"

enum failpoint {
#define CAY_FAULT_POINT(sym, name) FAULT_##sym,
#include "base/failpoints.def"
#undef CAY_FAULT_POINT
	FAULT_NUM
};

/* Arm from CAY_FAULT's text, NULL or "" arms nothing; unknown names are errors
 * so that a sweep cannot pass by a spelling mistake. */
[[nodiscard]] int failpoint_arm(const char *spec, struct cay_err *err);
/* 0, or -EIO when armed with error or always; does not return when armed with kill. */
[[nodiscard]] int failpoint_hit(enum failpoint point);
const char *failpoint_name(enum failpoint point);
#endif
