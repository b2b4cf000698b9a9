/* SPDX-License-Identifier: Apache-2.0 */
/* Limits hold for whatever is accepted: values are counted again in the tree. */
#include "fuzz.h"
#include "text/json.h"

static void walk(const json_t *j, unsigned depth, size_t *values)
{
	const json_t *e;
	const char *key;
	size_t i;

	++*values;
	CHECK(depth <= json_control_limits.depth + 1);
	if (json_is_array(j)) {
		json_array_foreach((json_t *)(uintptr_t)j, i, e) walk(e, depth + 1, values);
	} else if (json_is_object(j)) {
		json_object_foreach ((json_t *)(uintptr_t)j, key, e)
			walk(e, depth + 1, values);
	} else if (json_is_string(j)) {
		CHECK(!memchr(json_string_value(j), 0, json_string_length(j)));
		CHECK(utf8_is_valid(json_string_value(j), json_string_length(j)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct cay_err err = {};
	json_t *j = NULL;
	size_t values = 0;
	int r = json_parse((struct slice){ in, size }, &json_control_limits, &j, &err);

	if (r == 0) {
		walk(j, 1, &values);
		CHECK(values <= json_control_limits.values && size <= json_control_limits.bytes);
	} else {
		CHECK(err.code != CAY_OK && err.msg[0] && !j);
	}
	json_decref(j);
	free(in);
	return 0;
}
