/* SPDX-License-Identifier: Apache-2.0 */
#include "http/opensandbox-error.h"

#include "base/str.h"

/* Words of OpenSandbox's own server where it has one; else Cay's name of the error. */
static const char *opensandbox_error_word(const struct cay_error_row *row)
{
	static const struct {
		enum cay_code code;
		const char *word;
	} words[] = {
		{ CAY_E_INVALID, "SANDBOX::INVALID_PARAMETER" },
		{ CAY_E_UNAUTHENTICATED, "INVALID_API_KEY" },
		{ CAY_E_NOT_FOUND, "SANDBOX::NOT_FOUND" },
		{ CAY_E_CONFLICT, "SANDBOX::CONFLICT" },
		{ CAY_E_STATE, "SANDBOX::INVALID_STATE" },
		{ CAY_E_METHOD, "SANDBOX::API_NOT_SUPPORTED" },
		{ CAY_E_UNSUPPORTED, "SANDBOX::API_NOT_SUPPORTED" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (cay_error_row(words[i].code) == row)
			return words[i].word;
	return row->name;
}

void opensandbox_error_write(const struct cay_err *err, struct jw *w)
{
	const struct cay_error_row *row =
		cay_error_row(err->code == CAY_OK ? CAY_E_INTERNAL : err->code);
	bool ours = row == cay_error_row(CAY_E_INTERNAL);

	jw_object_begin(w, NULL);
	jw_str(w, "code", opensandbox_error_word(row));
	jw_str(w, "message", ours || !err->msg[0] ? row->name : err->msg);
	jw_end(w);
}
