/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TEXT_JSON_H
#define CAY_TEXT_JSON_H
/* json - parse untrusted JSON
 *
 * jansson builds the tree; before that the text is measured: a megabyte of "{}" would cost 130 ms
 * and 79 MB.  Refused: more bytes, deeper nesting or more values than the limits, duplicate keys,
 * invalid UTF-8, NUL in a string, numbers that do not fit, anything after the value.  Unknown keys
 * are refused one layer up, by the field tables. */
#include <jansson.h>

#include "base/err.h"
#include "base/jsonw.h"
#include "base/str.h"

struct json_limits {
	size_t bytes;
	unsigned depth;
	size_t values; /* upper bound: brackets and commas are counted, not values */
};

/* Bodies of control operations; content travels as raw bodies. */
extern const struct json_limits json_control_limits;

#define auto_json CAY_CLEANUP(json_freep) json_t *

/* The caller owns *ret.  CAY_E_TOO_LARGE past a limit, CAY_E_INVALID else. */
[[nodiscard]] int json_parse(struct slice text, const struct json_limits *limits, json_t **ret,
			     struct cay_err *err);
/* About as much memory as the tree of this text takes, and rather more: small texts can have large
 * trees. */
size_t json_estimate_bytes(struct slice text);
void json_freep(json_t **j);
static inline bool json_text_eq(const json_t *j, const char *want)
{
	return json_is_string(j) && str_eq(json_string_value(j), want);
}
/* Write a parsed value. */
void json_write(const json_t *j, const char *key, struct jw *w);
#endif
