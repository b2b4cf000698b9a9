/* SPDX-License-Identifier: Apache-2.0 */
/* A selector and labels as NAME=VALUE lines: it agrees with one that is written down again term by
 * term, and what the check refuses matches nothing. */
#include "fuzz.h"
#include "text/label-selector.h"

#define LABELS 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size), *names[LABELS], *values[LABELS];
	struct slice rest = { in, size }, selector = slice_cut(&rest, '\n'), terms = selector;
	struct cay_err err = {};
	bool valid, want = true;
	size_t n = 0;

	while (rest.p && n < LABELS) {
		struct slice value = slice_cut(&rest, '\n'), name = slice_cut(&value, '=');

		names[n] = strndup(name.n ? name.p : "", name.n);
		values[n] = strndup(value.n ? value.p : "", value.n);
		CHECK(names[n] && values[n]);
		n++;
	}
	valid = label_selector_check(selector, &err) >= 0;
	CHECK(valid == (err.code == CAY_OK));
	while (valid && terms.p) {
		struct slice value = slice_cut(&terms, ','), name = slice_cut(&value, '=');
		bool found = false;

		for (size_t i = 0; !found && i < n; i++)
			if (slice_eq(slice_of(names[i]), name)) {
				want = want && (!value.p || slice_eq(slice_of(values[i]), value));
				found = true;
			}
		want = want && found;
	}
	CHECK(label_selector_matches(selector, (const char **)names, (const char **)values, n) ==
	      (valid && want));
	CHECK(!label_selector_matches(selector, NULL, NULL, 0));
	for (size_t i = 0; i < n; i++) {
		free(names[i]);
		free(values[i]);
	}
	free(in);
	return 0;
}
