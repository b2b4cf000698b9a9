/* SPDX-License-Identifier: Apache-2.0 */
#include "http/e2b-error.h"

void e2b_error_write(const struct cay_err *err, struct jw *w)
{
	const struct cay_error_row *row =
		cay_error_row(err->code == CAY_OK ? CAY_E_INTERNAL : err->code);
	bool ours = row == cay_error_row(CAY_E_INTERNAL);

	jw_object_begin(w, NULL);
	jw_u64(w, "code", (uint64_t)row->http);
	jw_str(w, "message", ours || !err->msg[0] ? row->name : err->msg);
	jw_end(w);
}
