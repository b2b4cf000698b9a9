/* SPDX-License-Identifier: Apache-2.0 */
#include "text/label-selector.h"

/* Cut the next term off; false: there is none left. */
static bool label_selector_next(struct slice *rest, struct slice *name, struct slice *value)
{
	if (!rest->p)
		return false;
	*value = slice_cut(rest, ',');
	*name = slice_cut(value, '=');
	return true;
}

int label_selector_check(struct slice selector, struct cay_err *err)
{
	struct slice rest = selector, name, value;

	if (!selector.p || !selector.n)
		return cay_fail_field(err, CAY_E_INVALID, "label", "expected NAME=VALUE or NAME");
	while (label_selector_next(&rest, &name, &value))
		if (!name.n)
			return cay_fail_field(
				err, CAY_E_INVALID, "label",
				"expected NAME=VALUE or NAME, several separated by commas");
	return 0;
}

static bool labels_have(const char *const *names, const char *const *values, size_t n,
			struct slice name, struct slice value)
{
	for (size_t i = 0; i < n; i++)
		if (slice_eq(slice_of(names[i]), name))
			return !value.p || slice_eq(slice_of(values[i]), value);
	return false;
}

bool label_selector_matches(struct slice selector, const char *const *names,
			    const char *const *values, size_t n)
{
	struct slice rest = selector, name, value;

	if (label_selector_check(selector, NULL) < 0)
		return false;
	while (label_selector_next(&rest, &name, &value))
		if (!labels_have(names, values, n, name, value))
			return false;
	return true;
}
