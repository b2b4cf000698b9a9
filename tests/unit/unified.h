/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_UNIFIED_H
#define CAY_TESTS_UNIFIED_H
/*
 * unified - applies a unified diff as strictly as it can be: every line of every hunk
 * must stand where its header says
 */
#include <string.h>

#include "base/buf.h"
#include "base/str.h"

static inline struct slice unified_line(struct slice *s)
{
	const char *lf = s->n ? memchr(s->p, '\n', s->n) : NULL;
	struct slice l = { s->p, lf ? (size_t)(lf - s->p) + 1 : s->n };

	s->p += l.n;
	s->n -= l.n;
	return l;
}

static inline bool unified_range(struct slice *s, char sign, uint64_t *from, uint64_t *n)
{
	size_t i = 1;

	if (s->n < 2 || s->p[0] != sign)
		return false;
	for (*from = 0, *n = 1; i < s->n && ascii_is_digit(s->p[i]); i++)
		*from = *from * 10 + (uint64_t)(s->p[i] - '0');
	if (i < s->n && s->p[i] == ',')
		for (*n = 0, i++; i < s->n && ascii_is_digit(s->p[i]); i++)
			*n = *n * 10 + (uint64_t)(s->p[i] - '0');
	s->p += i;
	s->n -= i;
	return true;
}

static inline bool unified_starts(struct slice s, const char *with)
{
	return s.n >= strlen(with) && memcmp(s.p, with, strlen(with)) == 0;
}

/* false when it is not a diff of this text. */
static inline bool unified_apply(struct slice before, struct slice diff, struct buf *ret)
{
	uint64_t at = 1, at_new = 1;

	if (!diff.n)
		return buf_append(ret, before.p, before.n) == 0;
	if (!unified_starts(unified_line(&diff), "--- a/") ||
	    !unified_starts(unified_line(&diff), "+++ b/"))
		return false;
	while (diff.n) {
		struct slice head = unified_line(&diff);
		uint64_t from, n, from_new, n_new;

		if (!unified_starts(head, "@@ "))
			return false;
		head.p += 3;
		head.n -= 3;
		if (!unified_range(&head, '-', &from, &n) || head.p[0] != ' ')
			return false;
		head.p++;
		head.n--;
		if (!unified_range(&head, '+', &from_new, &n_new) ||
		    !slice_eq(head, SLICE(" @@\n")))
			return false;
		from += n ? 0 : 1;
		from_new += n_new ? 0 : 1;
		for (; at < from; at++, at_new++) {
			struct slice l = unified_line(&before);

			if (!l.n || buf_append(ret, l.p, l.n) < 0)
				return false;
		}
		if (at != from || at_new != from_new)
			return false;
		while (n || n_new) {
			struct slice l = unified_line(&diff), had;
			char sign = l.n ? l.p[0] : '\0';

			if (l.n < 2 || !strchr(" -+", sign))
				return false;
			l.p++;
			l.n--;
			if (unified_starts(diff, "\\ No newline at end of file\n")) {
				(void)unified_line(&diff);
				l.n--;
			}
			if (sign != '+') {
				had = unified_line(&before);
				if (!n-- || !slice_eq(had, l))
					return false;
				at++;
			}
			if (sign != '-') {
				if (!n_new-- || buf_append(ret, l.p, l.n) < 0)
					return false;
				at_new++;
			}
		}
	}
	return buf_append(ret, before.p, before.n) == 0;
}
#endif
