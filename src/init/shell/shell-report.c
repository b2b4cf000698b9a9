/* SPDX-License-Identifier: Apache-2.0 */
#include "init/shell/shell-report.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define HEAD "/dev/null/"
#define HEAD_LEN (sizeof(HEAD) - 1 + SCRIPT_NONCE + 1)

void shell_report_expect(struct shell_report *s, const char nonce[static SCRIPT_NONCE + 1])
{
	assert(strlen(nonce) == SCRIPT_NONCE);
	memcpy(s->nonce, nonce, sizeof(s->nonce));
	s->len = s->junk = 0;
}

static void shell_report_drop_bytes(struct shell_report *s, size_t n)
{
	memmove(s->data, s->data + n, s->len - n);
	s->len -= n;
	s->junk += n;
}

/* Data begins with a report, or with the first part of one. */
static enum shell_report_result shell_report_parse(struct shell_report *s)
{
	const char *p = s->data + HEAD_LEN, *end = s->data + s->len, *stop;
	char tail[SCRIPT_NONCE + 2];
	unsigned status = 0;
	size_t digits = 0;
	int n = snprintf(tail, sizeof(tail), ":%s", s->nonce);

	assert(n == (int)sizeof(tail) - 1);
	stop = memmem(p, (size_t)(end - p), tail, sizeof(tail) - 1);
	if (!stop)
		return s->len == sizeof(s->data) ? SHELL_REPORT_BROKEN : SHELL_REPORT_MORE;
	while (p < stop && digits < 4 && *p >= '0' && *p <= '9') {
		status = 10 * status + (unsigned)(*p++ - '0');
		digits++;
	}
	if (!digits || digits > 3 || status > 255 || p >= stop || *p != ':')
		return SHELL_REPORT_BROKEN;
	s->cwd = (struct slice){ p + 1, (size_t)(stop - p - 1) };
	/* no valid path of a directory: unknown */
	if (s->cwd.n >= SHELL_REPORT_CWD_MAX || (s->cwd.n && s->cwd.p[0] != '/') ||
	    memchr(s->cwd.p, 0, s->cwd.n))
		s->cwd.n = 0;
	s->status = status;
	s->nonce[0] = 0;
	return SHELL_REPORT_COMPLETE;
}

static enum shell_report_result shell_report_search(struct shell_report *s)
{
	char head[HEAD_LEN + 1];
	const char *at;
	int n = snprintf(head, sizeof(head), HEAD "%s:", s->nonce);

	assert(n == (int)HEAD_LEN);
	at = memmem(s->data, s->len, head, HEAD_LEN);
	if (at) {
		shell_report_drop_bytes(s, (size_t)(at - s->data));
		return shell_report_parse(s);
	}
	/* keep the end, which may be the beginning of a report */
	if (s->len >= HEAD_LEN)
		shell_report_drop_bytes(s, s->len - HEAD_LEN + 1);
	return s->junk > SHELL_REPORT_JUNK_MAX ? SHELL_REPORT_BROKEN : SHELL_REPORT_MORE;
}

enum shell_report_result shell_report_add_bytes(struct shell_report *s, const char *p, size_t n)
{
	enum shell_report_result said = SHELL_REPORT_MORE;

	while (n && said == SHELL_REPORT_MORE) {
		size_t room = sizeof(s->data) - s->len, part = n < room ? n : room;

		/* no report is expected: the bytes are junk, or the rest of a message */
		if (!s->nonce[0]) {
			s->junk += n;
			return s->junk > SHELL_REPORT_JUNK_MAX ? SHELL_REPORT_BROKEN
							       : SHELL_REPORT_MORE;
		}
		memcpy(s->data + s->len, p, part);
		s->len += part;
		p += part;
		n -= part;
		said = shell_report_search(s);
	}
	return said;
}
