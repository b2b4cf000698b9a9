/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_HTTP_OPENSANDBOX_ERROR_H
#define CAY_HTTP_OPENSANDBOX_ERROR_H
/* opensandbox-error - an error as the SDKs of OpenSandbox read it: {"code": WORD, "message": text}
 */
#include "base/err.h"
#include "base/jsonw.h"

void opensandbox_error_write(const struct cay_err *err, struct jw *w);
#endif
