/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kernel/code-block.h"

struct code_scan {
	bool python, node;
	int depth;     /* of brackets */
	char quote;    /* of the string that is open, or '*' in a comment of Node; 0: none */
	bool triple;   /* of Python: the string has three of them */
	bool block;    /* of Python: a line outside of brackets ended with ':' */
	char last;     /* character of the line that is neither space nor comment; 0: none */
	bool escaped;  /* the line ended with a backslash */
	bool has_text; /* the last line is not empty */
};

static bool code_scan_has(struct slice s, size_t i, const char *text)
{
	size_t n = strlen(text);

	return s.n - i >= n && memcmp(s.p + i, text, n) == 0;
}

/* Inside of a string or comment; returns how many characters to skip. */
static size_t code_scan_quoted(struct code_scan *c, struct slice s, size_t i)
{
	const char three[] = { c->quote, c->quote, c->quote, 0 };

	if (c->quote == '*') {
		if (!code_scan_has(s, i, "*/"))
			return 1;
		c->quote = 0;
		return 2;
	}
	if (s.p[i] == '\\')
		return 2;
	if (c->triple ? code_scan_has(s, i, three) : s.p[i] == c->quote) {
		size_t n = c->triple ? 3 : 1;

		c->quote = 0;
		c->triple = false;
		return n;
	}
	return 1;
}

static size_t code_scan_open_quote(struct code_scan *c, struct slice s, size_t i)
{
	const char three[] = { s.p[i], s.p[i], s.p[i], 0 };

	c->quote = s.p[i];
	c->triple = c->python && code_scan_has(s, i, three);
	return c->triple ? 3 : 1;
}

/* Outside of strings; returns how many characters to skip. */
static size_t code_scan_plain(struct code_scan *c, struct slice s, size_t i)
{
	char ch = s.p[i];

	if (c->node ? code_scan_has(s, i, "//") : ch == '#') {
		const char *end = memchr(s.p + i, '\n', s.n - i);

		return end ? (size_t)(end - (s.p + i)) : s.n - i;
	}
	if (ch != ' ' && ch != '\t')
		c->last = ch;
	if (c->node && code_scan_has(s, i, "/*")) {
		c->quote = '*';
		return 2;
	}
	if (ch == '"' || ch == '\'' || (ch == '`' && !c->python))
		return code_scan_open_quote(c, s, i);
	c->depth += ch == '(' || ch == '[' || ch == '{';
	c->depth -= ch == ')' || ch == ']' || ch == '}';
	return 1;
}

/* Strings in one quote of Python and Node end with their line. */
static void code_scan_end_line(struct code_scan *c)
{
	bool spans = c->triple || c->quote == '*' || c->quote == '`' || !(c->python || c->node);

	c->escaped = c->last == '\\';
	if (!spans)
		c->quote = 0;
	if (!c->quote && c->depth <= 0 && c->last == ':')
		c->block = true;
	c->has_text = c->last != 0;
	c->last = 0;
}

static void code_scan_text(struct code_scan *c, struct slice s)
{
	for (size_t i = 0; i < s.n;) {
		if (s.p[i] == '\n') {
			code_scan_end_line(c);
			i++;
		} else if (c->quote) {
			c->last = s.p[i];
			i += code_scan_quoted(c, s, i);
		} else {
			i += code_scan_plain(c, s, i);
		}
	}
}

bool code_block_is_open(const char *language, struct slice text)
{
	struct code_scan c = { .python = str_eq(language, "python"),
			       .node = str_eq(language, "node") };

	/* a line for IPython is no Python */
	if (c.python && text.n && strchr("!%", text.p[0]) && !code_scan_has(text, 0, "%%"))
		return false;
	code_scan_text(&c, text);
	if (c.python && text.n && (text.p[0] == '@' || code_scan_has(text, 0, "%%")))
		c.block = true;
	if (c.depth > 0 || c.quote || (c.python && c.escaped))
		return true;
	return c.python && c.block && c.has_text;
}
