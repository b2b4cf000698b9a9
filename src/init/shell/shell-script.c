/* SPDX-License-Identifier: Apache-2.0 */
#include "init/shell/shell-script.h"

#include <string.h>

#define NOTHING "for _ in; do :; done"
/* Restore $? without a command that a trap would see; forks when it is not 0 */
#define SAME_STATUS \
	" { " NOTHING " </dev/null${_cay_s#0} || (exit $_cay_s); } 2>/dev/null && " NOTHING "\n"

/* Words that begin a construct which may not end with the text. */
static const char *const script_reserved_words[] = {
	"if",   "then",  "else",   "elif",   "fi",       "do",   "done",   "case",
	"esac", "while", "until",  "for",    "in",       "time", "select", "!",
	"{",    "}",     "coproc", "repeat", "function", "[[",   "]]",
};

static bool script_word_is_reserved(struct slice word)
{
	for (size_t i = 0; i < ARRAY_SIZE(script_reserved_words); i++)
		if (slice_eq(word, slice_of(script_reserved_words[i])))
			return true;
	return false;
}

static bool script_char_is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

/* The length of the next part of a word; 0: unknown syntax. */
static size_t script_word_part_length(struct slice s)
{
	static const char marks[] = { '.', '/', ':', ',', '+', '@', '%',
				      '^', '~', '*', '?', '-', '=' };
	const char *end;

	if (script_char_is_word(s.p[0]) || memchr(marks, s.p[0], sizeof(marks)))
		return 1;
	if (s.p[0] == '$')
		return s.n > 1 && (script_char_is_word(s.p[1]) || s.p[1] == '?') ? 2 : 0;
	if (s.p[0] != '\'' && s.p[0] != '"')
		return 0;
	end = memchr(s.p + 1, s.p[0], s.n - 1);
	if (!end || memchr(s.p, '\n', (size_t)(end - s.p)))
		return 0;
	for (const char *p = s.p; s.p[0] == '"' && p < end; p++)
		if (*p == '$' || *p == '`' || *p == '\\' || *p == '!')
			return 0;
	return (size_t)(end + 1 - s.p);
}

/* Words and quoted text, joined by && || ; and |, on one line. */
bool script_text_is_plain(struct slice text)
{
	bool first = true, open = true; /* first: of a command; open: something must follow */

	if (text.n && text.p[text.n - 1] == '\n')
		text.n--;
	while (text.n) {
		struct slice word = { text.p, 0 };
		size_t n;

		while (word.n < text.n && (n = script_word_part_length((struct slice){
						   text.p + word.n, text.n - word.n })))
			word.n += n;
		if (word.n) {
			if (first && script_word_is_reserved(word))
				return false;
			first = open = false;
			n = word.n;
		} else if (text.p[0] == ' ' || text.p[0] == '\t') {
			n = 1;
		} else if (!first && (text.p[0] == ';' || text.p[0] == '|')) {
			open = text.p[0] == '|';
			first = true;
			n = open && text.n > 1 && text.p[1] == '|' ? 2 : 1;
		} else if (!first && text.n > 1 && text.p[0] == '&' && text.p[1] == '&') {
			first = open = true;
			n = 2;
		} else {
			return false;
		}
		text.p += n;
		text.n -= n;
	}
	return !open;
}

/* As one word on one line, so that bash counts the text's lines from 1. */
static int script_append_quoted(struct buf *b, struct slice text)
{
	int r = buf_puts(b, "$'");

	for (size_t i = 0; r >= 0 && i < text.n; i++) {
		char c = text.p[i];

		if (c == '\n') {
			r = buf_puts(b, "\\n");
			continue;
		}
		if (c == '\'' || c == '\\')
			r = buf_putc(b, '\\');
		if (r >= 0)
			r = buf_putc(b, c);
	}
	return r < 0 ? r : buf_putc(b, '\'');
}

static int script_append_report(struct buf *b, const char *nonce, const char *status)
{
	return buf_printf(b,
			  " { " NOTHING " <\"/dev/null/%s:$((_cay_s=%s)):${PWD-}:%s"
			  "$((LINENO=-1,_cay_i=0))\"; } 2>&%d ||" SAME_STATUS "\n",
			  nonce, status, nonce, SCRIPT_REPORT_FD);
}

/* SIGINT is trapped because bash sends it to itself when a process of $() dies of it.  After
 * the stop signal every command is skipped, loops are left and functions return, until the
 * report line ends this. */
int script_append_start(struct buf *b, const char *nonce, const char *cwd)
{
	int r = buf_printf(b, "exec %d>&- %d<&-\ncd -- ", SCRIPT_GUARD_FD, SCRIPT_FD);

	if (r >= 0)
		r = script_append_quoted(b, slice_of(cwd));
	if (r >= 0)
		r = buf_printf(b,
			       " || exit 126\nunset OLDPWD\ntrap : INT\n"
			       "trap '((${_cay_t-0}))||_cay_d=$(trap -p DEBUG);_cay_t=1;_cay_i=1;"
			       "shopt -s extdebug;"
			       "trap \"((!_cay_i))||{ break 9999 2>/dev/null;"
			       "return 2 2>/dev/null; }\" DEBUG;"
			       "break 9999 2>/dev/null;return 130 2>/dev/null' %d\n",
			       SCRIPT_STOP_SIGNAL);
	return r < 0 ? r : script_append_report(b, nonce, "$?");
}

int script_append_check(struct buf *b, const char *nonce, struct slice text)
{
	auto_buf whole = BUF_INIT(SCRIPT_MAX);
	int r = buf_puts(&whole, "set -n\n{ :\n");

	/* an unterminated here-document takes the brace as well */
	if (r >= 0)
		r = buf_append(&whole, text.p, text.n);
	if (r >= 0)
		r = buf_puts(&whole, "\n}");
	if (r >= 0)
		r = buf_puts(b, " { (eval ");
	if (r >= 0)
		r = script_append_quoted(b, (struct slice){ whole.data, whole.len });
	return r < 0 ? r
		     : buf_printf(b,
				  ") 2>/dev/null && " NOTHING " <\"/dev/null/%s:0::%s\" || " NOTHING
				  " <\"/dev/null/%s:1::%s$((LINENO=-1))\"; } 2>&%d ||" SAME_STATUS
				  "\n",
				  nonce, nonce, nonce, nonce, SCRIPT_REPORT_FD);
}

int script_append_run(struct buf *b, const char *nonce, struct slice text, bool eval)
{
	bool ended = text.n && text.p[text.n - 1] == '\n';
	int r;

	/* on one line: after text that ended too early bash parses the next line wrongly */
	if (eval) {
		r = buf_puts(b, " eval ");
		if (r >= 0)
			r = script_append_quoted(b, text);
		if (r >= 0)
			r = buf_putc(b, ';');
	} else {
		r = buf_append(b, text.p, text.n);
		if (r >= 0 && !ended)
			r = buf_putc(b, '\n');
	}
	return r < 0 ? r : script_append_report(b, nonce, "$?");
}

int script_append_restore(struct buf *b, const char *nonce)
{
	int r = buf_puts(b, " { " NOTHING " </dev/null/$((_cay_i=0)); } 2>/dev/null || " NOTHING
			    "\n { shopt -u extdebug; trap - DEBUG; eval \"$_cay_d\"; _cay_t=0; } "
			    "2>/dev/null\n");

	return r < 0 ? r : script_append_report(b, nonce, "130");
}
