/* SPDX-License-Identifier: Apache-2.0 */
#include "text/json.h"

#include <errno.h>

const struct json_limits json_control_limits = { .bytes = KIB(64), .depth = 16, .values = 4096 };

void json_freep(json_t **j)
{
	json_decref(*j);
}

#define VALUE_BYTES 160 /* of a member with a name of 16 bytes; an empty object has two of them */

struct json_measure {
	unsigned depth;
	size_t values;
};

/* One pass without memory: how deep, how many.  Malformed text is counted as if
 * it were not; jansson will refuse it. */
static struct json_measure json_measure(struct slice text)
{
	struct json_measure m = { .values = 1 };
	bool quoted = false;
	unsigned depth = 0;

	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];

		if (quoted) {
			if (c == '\\')
				i++;
			else if (c == '"')
				quoted = false;
		} else if (c == '"') {
			quoted = true;
		} else if (c == '{' || c == '[') {
			m.values++;
			if (++depth > m.depth)
				m.depth = depth;
		} else if (c == ',') {
			m.values++;
		} else if ((c == '}' || c == ']') && depth) {
			depth--;
		}
	}
	return m;
}

size_t json_estimate_bytes(struct slice text)
{
	return text.n + json_measure(text).values * VALUE_BYTES;
}

static int json_check_limits(struct slice text, const struct json_limits *limits,
			     struct cay_err *err)
{
	struct json_measure m = json_measure(text);

	if (m.depth > limits->depth)
		return cay_fail(err, CAY_E_TOO_LARGE, "JSON is nested deeper than %u levels",
				limits->depth);
	if (m.values > limits->values)
		return cay_fail(err, CAY_E_TOO_LARGE, "JSON has more than %zu values",
				limits->values);
	return 0;
}

int json_parse(struct slice text, const struct json_limits *limits, json_t **ret,
	       struct cay_err *err)
{
	json_error_t bad;
	json_t *j;
	int r;

	if (text.n > limits->bytes)
		return cay_fail(err, CAY_E_TOO_LARGE, "JSON is longer than %zu bytes",
				limits->bytes);
	r = json_check_limits(text, limits, err);
	if (r < 0)
		return r;
	j = json_loadb(text.p ? text.p : "", text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY,
		       &bad);
	/* jansson leaves the error empty if it could not allocate its buffer */
	if (!j && (!bad.text[0] || json_error_code(&bad) == json_error_out_of_memory))
		return cay_no_memory(err);
	if (!j)
		return cay_fail(err, CAY_E_INVALID, "not JSON: %s, line %d column %d", bad.text,
				bad.line, bad.column);
	*ret = j;
	return 0;
}

static void json_write_members(json_t *j, struct jw *w)
{
	const char *name;
	const json_t *v;

	json_object_foreach (j, name, v) {
		json_write(v, name, w);
	}
}

static void json_write_items(json_t *j, struct jw *w)
{
	const json_t *v;
	size_t i;

	json_array_foreach(j, i, v)
	{
		json_write(v, NULL, w);
	}
}

void json_write(const json_t *j, const char *key, struct jw *w)
{
	json_t *loose = (json_t *)(uintptr_t)j; /* jansson walks no const ones */

	switch (json_typeof(j)) {
	case JSON_OBJECT:
		jw_object_begin(w, key);
		json_write_members(loose, w);
		jw_end(w);
		break;
	case JSON_ARRAY:
		jw_array_begin(w, key);
		json_write_items(loose, w);
		jw_end(w);
		break;
	case JSON_STRING:
		jw_slice(w, key, (struct slice){ json_string_value(j), json_string_length(j) });
		break;
	case JSON_INTEGER:
		jw_i64(w, key, json_integer_value(j));
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		jw_bool(w, key, json_is_true(j));
		break;
	case JSON_NULL:
		jw_null(w, key);
		break;
	case JSON_REAL:
		jw_real(w, key, json_real_value(j));
		break;
	}
}
