/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_GLOB_H
#define CAY_FILE_GLOB_H
/* glob - match paths against a pattern, without backtracking
 *
 *	*  ?  [a-z]  [!a-z]   within one name
 *	**                    any number of directories, including none
 *	{a,b}                 either; may hold '/', and others of its kind
 *	\x                    x itself
 *
 * Braces are written out first, so a pattern is a list of plain ones, and each of those a list of
 * names.  A path is matched name by name: the set of places in the pattern one can be at is a word
 * of bits, so a walk knows at every directory whether anything below can match, and no pattern
 * takes exponential time.
 *
 * A name that begins with '.' is matched only by a pattern whose name does, unless hidden ones are
 * requested. */
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define GLOB_PATTERN_MAX 1024
#define GLOB_ALTS_MAX 64
#define GLOB_NAMES_MAX 62 /* of one alternative: places are bits */

struct glob_alt {
	struct slice names[GLOB_NAMES_MAX];
	unsigned n;
	bool dirs; /* ended in '/' */
};

struct glob {
	struct glob_alt *alts;
	unsigned n;
	bool absolute;
	bool hidden;
	struct arena arena;
};

#define auto_glob CAY_CLEANUP(glob_fini) struct glob

/* Where one can be in every alternative. */
struct glob_position {
	uint64_t set[GLOB_ALTS_MAX];
};

/* ret is zeroed, and to be ended in every case. */
[[nodiscard]] int glob_init(struct glob *ret, struct slice pattern, bool hidden,
			    struct cay_err *err);
void glob_fini(struct glob *g);

void glob_start(const struct glob *g, struct glob_position *ret);
/* Into a directory, or to a file, of this name.  at and ret may be the same. */
void glob_step(const struct glob *g, const struct glob_position *at, struct slice name,
	       struct glob_position *ret);
/* Whether the path so far is meant, and whether one below it can be. */
bool glob_is_match(const struct glob *g, const struct glob_position *at, bool dir);
bool glob_can_match_below(const struct glob *g, const struct glob_position *at);
/* A whole relative path. */
bool glob_match_path(const struct glob *g, struct slice path, bool dir);
/* One name against a pattern without '/', '{' and '**'. */
bool glob_match_name(struct slice pattern, struct slice name);
#endif
