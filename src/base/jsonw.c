/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonw.h"

#include <assert.h>
#include <inttypes.h>

static void add(struct jw *w, const char *p, size_t n)
{
	if (w->err >= 0)
		w->err = buf_add(w->out, p, n);
}

/* The escapes JSON has a letter for; the rest below U+0020 is \u00XX. */
static char short_escape(unsigned char c)
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

static void add_escaped(struct jw *w, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	char s = short_escape(c);

	if (s)
		add(w, (const char[]){ '\\', s }, 2);
	else
		add(w, (const char[]){ '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] }, 6);
}

static void add_quoted(struct jw *w, struct slice s)
{
	size_t plain = 0, i = 0;

	add(w, "\"", 1);
	while (i < s.n) {
		unsigned char c = (unsigned char)s.p[i];
		size_t len = utf8_len(s.p + i, s.n - i);

		if (len && c >= 0x20 && c != '"' && c != '\\' && c != 0x7F) {
			i += len;
			continue;
		}
		add(w, s.p + plain, i - plain);
		if (len)
			add_escaped(w, c);
		else
			add(w, "\xEF\xBF\xBD", 3);
		plain = ++i;
	}
	if (i > plain)
		add(w, s.p + plain, i - plain);
	add(w, "\"", 1);
}

/* What comes before any value: the comma and the key. */
static void begin(struct jw *w, const char *key)
{
	char level = w->depth ? w->open[w->depth - 1] : 0;

	assert((level == '{') == (key != NULL));
	assert(level || !w->complete);
	if (!level) {
		w->complete = true;
		return;
	}
	if (w->filled[w->depth - 1])
		add(w, ",", 1);
	w->filled[w->depth - 1] = true;
	if (key) {
		add_quoted(w, slice_of(key));
		add(w, ":", 1);
	}
}

static void push(struct jw *w, const char *key, char bracket)
{
	begin(w, key);
	assert(w->depth < JW_DEPTH_MAX);
	w->open[w->depth] = bracket;
	w->filled[w->depth++] = false;
	add(w, &bracket, 1);
}

void jw_object(struct jw *w, const char *key)
{
	push(w, key, '{');
}

void jw_array(struct jw *w, const char *key)
{
	push(w, key, '[');
}

void jw_end(struct jw *w)
{
	assert(w->depth > 0);
	w->depth--;
	add(w, w->open[w->depth] == '{' ? "}" : "]", 1);
}

void jw_strn(struct jw *w, const char *key, struct slice s)
{
	begin(w, key);
	add_quoted(w, s);
}

void jw_str(struct jw *w, const char *key, const char *s)
{
	if (s)
		jw_strn(w, key, slice_of(s));
	else
		jw_null(w, key);
}

void jw_u64(struct jw *w, const char *key, uint64_t v)
{
	begin(w, key);
	if (w->err >= 0)
		w->err = buf_printf(w->out, "%" PRIu64, v);
}

void jw_i64(struct jw *w, const char *key, int64_t v)
{
	begin(w, key);
	if (w->err >= 0)
		w->err = buf_printf(w->out, "%" PRId64, v);
}

void jw_bool(struct jw *w, const char *key, bool v)
{
	begin(w, key);
	add(w, v ? "true" : "false", v ? 4 : 5);
}

void jw_null(struct jw *w, const char *key)
{
	begin(w, key);
	add(w, "null", 4);
}

int jw_done(struct jw *w)
{
	assert(w->depth == 0 && w->complete);
	return w->err;
}
