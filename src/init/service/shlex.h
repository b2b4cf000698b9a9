/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SERVICE_SHLEX_H
#define CAY_INIT_SERVICE_SHLEX_H
/*
 * shlex - words of a line, split like Python's shlex, which supervisord uses
 */
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

static inline bool shlex_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Cut one word off the front of *s, unquoted, into out (room for all of *s).  Returns its
 * length, or -1 and *ret_why when a quote or escape has no end. */
[[nodiscard]] ptrdiff_t shlex_next_word(struct slice *s, char *out, const char *stops,
					const char **ret_why);
/* Skip white space and the character `also`. */
void shlex_skip_space(struct slice *s, char also);
/* Split a command into v.  Returns the number of words, or -EINVAL and *ret_why. */
[[nodiscard]] int shlex_split(struct arena *arena, struct slice command, const char **v, size_t max,
			      const char **ret_why);
#endif
