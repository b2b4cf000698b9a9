/* SPDX-License-Identifier: Apache-2.0 */
#include "init/service/shlex.h"

ptrdiff_t shlex_next_word(struct slice *s, char *out, const char *stops, const char **ret_why)
{
	size_t n = 0, i = 0;
	char quote = 0;

	for (; i < s->n; i++) {
		char c = s->p[i];

		if (!quote && (shlex_is_space(c) || (c && strchr(stops, c))))
			break;
		if (quote && c == quote) {
			quote = 0;
		} else if (!quote && (c == '\'' || c == '"')) {
			quote = c;
		} else if (c == '\\' && quote != '\'') {
			if (++i == s->n) {
				*ret_why = "nothing follows a backslash";
				return -1;
			}
			/* inside quotes a backslash is literal unless it escapes one of these */
			if (quote && s->p[i] != '"' && s->p[i] != '\\')
				out[n++] = '\\';
			out[n++] = s->p[i];
		} else {
			out[n++] = c;
		}
	}
	if (quote) {
		*ret_why = "a quotation mark is not closed";
		return -1;
	}
	s->p += i;
	s->n -= i;
	return (ptrdiff_t)n;
}

void shlex_skip_space(struct slice *s, char also)
{
	while (s->n && (shlex_is_space(s->p[0]) || (also && s->p[0] == also))) {
		s->p++;
		s->n--;
	}
}

int shlex_split(struct arena *arena, struct slice command, const char **v, size_t max,
		const char **ret_why)
{
	auto_buf room = BUF_INIT(command.n + 2);
	char *word = buf_reserve(&room, command.n + 1) < 0 ? NULL : room.data;
	size_t n = 0;

	if (!word) {
		*ret_why = "too long";
		return -EINVAL;
	}
	for (shlex_skip_space(&command, 0); command.n; shlex_skip_space(&command, 0)) {
		ptrdiff_t len = shlex_next_word(&command, word, "", ret_why);

		if (len < 0)
			return -EINVAL;
		v[n] = n + 1 < max ? arena_strndup(arena, word, (size_t)len) : NULL;
		if (!v[n]) {
			*ret_why = "too many words";
			return -EINVAL;
		}
		n++;
	}
	v[n] = NULL;
	return (int)n;
}
