/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonw.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

static void jw_append(struct jw *w, const char *p, size_t n)
{
	if (w->err >= 0)
		w->err = buf_append(w->out, p, n);
}

/* The escapes JSON has a letter for; the rest below U+0020 is \u00XX. */
static char jw_short_escape(unsigned char c)
{
	switch (c) {
	case '"':
	case '\\':
		return (char)c;
	case '\b':
		return 'b';
	case '\f':
		return 'f';
	case '\n':
		return 'n';
	case '\r':
		return 'r';
	case '\t':
		return 't';
	default:
		return 0;
	}
}

static void jw_append_escaped(struct jw *w, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	char s = jw_short_escape(c);

	if (s)
		jw_append(w, (const char[]){ '\\', s }, 2);
	else
		jw_append(w, (const char[]){ '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] }, 6);
}

/* Most characters, and each costs no call. */
static bool jw_is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

static void jw_append_quoted(struct jw *w, struct slice s)
{
	size_t plain = 0, i = 0;

	jw_append(w, "\"", 1);
	while (i < s.n && w->err >= 0) {
		unsigned char c = (unsigned char)s.p[i];
		size_t len = jw_is_plain(c) ? 1 : utf8_len(s.p + i, s.n - i);

		if (jw_is_plain(c) || len > 1) {
			i += len;
			continue;
		}
		jw_append(w, s.p + plain, i - plain);
		if (len)
			jw_append_escaped(w, c);
		else
			jw_append(w, "\xEF\xBF\xBD", 3);
		plain = ++i;
	}
	if (i > plain)
		jw_append(w, s.p + plain, i - plain);
	jw_append(w, "\"", 1);
}

/* Before any value: the comma and the key. */
static void jw_value_begin(struct jw *w, const char *key)
{
	char level = w->depth ? w->open[w->depth - 1] : 0;

	assert((level == '{') == (key != NULL));
	assert(level || !w->complete);
	if (!level) {
		w->complete = true;
		return;
	}
	if (w->filled[w->depth - 1])
		jw_append(w, ",", 1);
	w->filled[w->depth - 1] = true;
	if (key) {
		jw_append_quoted(w, slice_of(key));
		jw_append(w, ":", 1);
	}
}

static void jw_container_begin(struct jw *w, const char *key, char bracket)
{
	jw_value_begin(w, key);
	assert(w->depth < JW_DEPTH_MAX);
	w->open[w->depth] = bracket;
	w->filled[w->depth++] = false;
	jw_append(w, &bracket, 1);
}

void jw_object_begin(struct jw *w, const char *key)
{
	jw_container_begin(w, key, '{');
}

void jw_array_begin(struct jw *w, const char *key)
{
	jw_container_begin(w, key, '[');
}

void jw_end(struct jw *w)
{
	assert(w->depth > 0);
	w->depth--;
	jw_append(w, w->open[w->depth] == '{' ? "}" : "]", 1);
}

void jw_slice(struct jw *w, const char *key, struct slice s)
{
	jw_value_begin(w, key);
	jw_append_quoted(w, s);
}

void jw_str(struct jw *w, const char *key, const char *s)
{
	if (s)
		jw_slice(w, key, slice_of(s));
	else
		jw_null(w, key);
}

void jw_json(struct jw *w, const char *key, struct slice json)
{
	jw_value_begin(w, key);
	jw_append(w, json.p, json.n);
}

void jw_u64(struct jw *w, const char *key, uint64_t v)
{
	jw_value_begin(w, key);
	if (w->err >= 0)
		w->err = buf_printf(w->out, "%" PRIu64, v);
}

void jw_i64(struct jw *w, const char *key, int64_t v)
{
	jw_value_begin(w, key);
	if (w->err >= 0)
		w->err = buf_printf(w->out, "%" PRId64, v);
}

void jw_real(struct jw *w, const char *key, double v)
{
	jw_value_begin(w, key);
	if (w->err >= 0)
		w->err = isfinite(v) ? buf_printf(w->out, "%.15g", v) : -EDOM;
}

void jw_bool(struct jw *w, const char *key, bool v)
{
	jw_value_begin(w, key);
	jw_append(w, v ? "true" : "false", v ? 4 : 5);
}

void jw_null(struct jw *w, const char *key)
{
	jw_value_begin(w, key);
	jw_append(w, "null", 4);
}

int jw_finish(struct jw *w)
{
	assert(w->depth == 0 && w->complete);
	return w->err;
}
