/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_HTTP_E2B_ERROR_H
#define CAY_HTTP_E2B_ERROR_H
/* e2b-error - an error as the SDKs of E2B read it: {"code": status, "message": text} */
#include "base/err.h"
#include "base/jsonw.h"

void e2b_error_write(const struct cay_err *err, struct jw *w);
#endif
