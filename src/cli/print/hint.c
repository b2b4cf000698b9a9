/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/hint.h"

const struct hint hints[] = {
#define CAY_HINT(op_, sym, field_, words_) { op_, CAY_E_##sym, field_, words_ },
#include "cli/print/hints.def"
#undef CAY_HINT
	{ "", CAY_OK, NULL, NULL },
};

/* "image" is also the last part of "defaults.image". */
static bool hint_field_matches(const char *want, const char *field)
{
	const char *dot = strrchr(field, '.');

	return str_eq(want, dot ? dot + 1 : field);
}

const char *hint_find(const struct api *a, const struct cay_err *err)
{
	const char *general = cay_error_row(err->code)->hint;

	if (a->hint[0] && !str_eq(a->hint, general))
		return a->hint; /* a specific hint beats the table */
	for (const struct hint *h = hints; a->has_last_op && h->words; h++)
		if (h->code == err->code &&
		    (!h->field || hint_field_matches(h->field, err->field)) &&
		    strncmp(ops[a->last_op].name, h->op, strlen(h->op)) == 0)
			return h->words;
	/* the general hints of these two are for API clients */
	return !a->hint[0] && (err->code == CAY_E_INVALID || err->code == CAY_E_INTERNAL) ? ""
											  : general;
}
