/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_PRINT_HINT_H
#define CAY_CLI_PRINT_HINT_H
/*
 * hint - the next command to type after a failure
 *
 * The hints of errors.def are for API clients; these name commands of cay.
 */
#include "cli/client/api.h"

struct hint {
	const char *op; /* prefix of the operation's name */
	enum cay_code code;
	const char *field; /* or NULL: any */
	const char *words;
};

extern const struct hint hints[]; /* ended by a row without words */

/* The hint for a failure of the last operation of a; "" if there is none. */
const char *hint_find(const struct api *a, const struct cay_err *err);
#endif
