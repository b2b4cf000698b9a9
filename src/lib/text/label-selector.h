/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TEXT_LABEL_SELECTOR_H
#define CAY_TEXT_LABEL_SELECTOR_H
/* label-selector - "team=blue,run": labels that a sandbox must have, all of them
 *
 * A term is NAME=VALUE, or NAME for any value.  An empty term is invalid: a selector that somebody
 * put together from nothing must not match everything. */
#include "base/err.h"
#include "base/str.h"

/* -EINVAL unless every term has a name. */
[[nodiscard]] int label_selector_check(struct slice selector, struct cay_err *err);
/* For a selector that passed the check; any other matches nothing. */
bool label_selector_matches(struct slice selector, const char *const *names,
			    const char *const *values, size_t n);
#endif
