/* SPDX-License-Identifier: Apache-2.0 */
#include "file/glob.h"

#include <string.h>

#define BIT(i) (UINT64_C(1) << (i))

/* Length of the unit at p: a class, an escaped byte or a byte; 0 for an unterminated class. */
static size_t glob_unit_len(struct slice s, size_t at)
{
	size_t i = at + 1;

	if (s.p[at] == '\\')
		return at + 1 < s.n ? 2 : 1;
	if (s.p[at] != '[')
		return 1;
	if (i < s.n && (s.p[i] == '!' || s.p[i] == '^'))
		i++;
	if (i < s.n && s.p[i] == ']') /* the first is a member */
		i++;
	while (i < s.n && s.p[i] != ']')
		i += s.p[i] == '\\' && i + 1 < s.n ? 2 : 1;
	return i < s.n ? i + 1 - at : 0;
}

static unsigned char glob_class_next_char(struct slice s, size_t *at)
{
	if (s.p[*at] == '\\' && *at + 1 < s.n)
		++*at;
	return (unsigned char)s.p[(*at)++];
}

/* s is the text between the brackets. */
static bool glob_class_has(struct slice s, unsigned char c)
{
	bool negated = s.n && (s.p[0] == '!' || s.p[0] == '^'), found = false;
	size_t i = negated ? 1 : 0;

	while (i < s.n) {
		unsigned char from = glob_class_next_char(s, &i), to = from;

		if (i + 1 < s.n && s.p[i] == '-') {
			i++;
			to = glob_class_next_char(s, &i);
		}
		found = found || (from <= c && c <= to);
	}
	return found != negated;
}

/* Whether the unit at p matches c; *ret is its length. */
static bool glob_unit_matches(struct slice p, size_t at, char c, size_t *ret)
{
	*ret = glob_unit_len(p, at);
	if (p.p[at] == '[')
		return glob_class_has((struct slice){ p.p + at + 1, *ret - 2 }, (unsigned char)c);
	if (p.p[at] == '\\')
		return p.p[at + *ret - 1] == c;
	return p.p[at] == '?' || p.p[at] == c;
}

/* Only the last star is ever retried: it can match whatever an earlier one could. */
bool glob_match_name(struct slice p, struct slice name)
{
	size_t i = 0, k = 0, star = SIZE_MAX, from = 0;

	while (k < name.n) {
		size_t n = 0;

		if (i < p.n && p.p[i] == '*') {
			star = ++i;
			from = k;
		} else if (i < p.n && glob_unit_matches(p, i, name.p[k], &n)) {
			i += n;
			k++;
		} else if (star != SIZE_MAX) {
			i = star;
			k = ++from;
		} else {
			return false;
		}
	}
	while (i < p.n && p.p[i] == '*')
		i++;
	return i == p.n;
}

static bool glob_name_is_any_dirs(struct slice name)
{
	return slice_eq(name, SLICE("**"));
}

/* Braces, once: the first group of s, as indices.  1, 0 when there is none, or an error. */
struct brace_group {
	size_t open, close; /* of the braces */
};

static int glob_brace_find(struct slice s, struct brace_group *ret, struct cay_err *err)
{
	unsigned depth = 0;

	for (size_t i = 0, n; i < s.n; i += n) {
		n = glob_unit_len(s, i);
		if (!n)
			return cay_fail(err, CAY_E_INVALID, "'[' without ']'");
		if (s.p[i] == '\\' && n == 1)
			return cay_fail(err, CAY_E_INVALID, "ends in '\\'");
		if (n > 1)
			continue;
		if (s.p[i] == '{' && depth++ == 0)
			ret->open = i;
		if (s.p[i] != '}' || depth == 0)
			continue;
		ret->close = i;
		if (--depth == 0)
			return 1;
	}
	return depth ? cay_fail(err, CAY_E_INVALID, "'{' without '}'") : 0;
}

struct brace_queue {
	struct slice texts[GLOB_ALTS_MAX];
	unsigned n;
};

static int glob_brace_add_text(struct glob *g, struct brace_queue *t, struct slice s,
			       const struct brace_group *at, struct slice middle,
			       struct cay_err *err)
{
	size_t tail = s.n - at->close - 1, n = at->open + middle.n + tail;
	char *p;

	if (t->n + g->n >= GLOB_ALTS_MAX)
		return cay_fail(err, CAY_E_INVALID, "means more than %d patterns", GLOB_ALTS_MAX);
	p = arena_alloc(&g->arena, 1, n + 1);
	if (!p)
		return cay_no_memory(err);
	memcpy(p, s.p, at->open);
	memcpy(p + at->open, middle.p, middle.n);
	memcpy(p + at->open + middle.n, s.p + at->close + 1, tail);
	t->texts[t->n++] = (struct slice){ p, n };
	return 0;
}

/* Every alternative of the group becomes a text of its own, to be expanded further. */
static int glob_brace_expand(struct glob *g, struct brace_queue *t, struct slice s,
			     const struct brace_group *at, struct cay_err *err)
{
	size_t from = at->open + 1;
	unsigned depth = 0;

	for (size_t i = from, n; i <= at->close; i += n) {
		int r;

		n = glob_unit_len(s, i);
		if (n > 1)
			continue;
		if (s.p[i] == '{')
			depth++;
		if (i < at->close && s.p[i] == '}')
			depth--;
		if (depth || (i < at->close && s.p[i] != ','))
			continue;
		r = glob_brace_add_text(g, t, s, at, (struct slice){ s.p + from, i - from }, err);
		if (r < 0)
			return r;
		from = i + 1;
	}
	return 0;
}

static int glob_alt_add_name(struct glob_alt *a, struct slice name, struct cay_err *err)
{
	if (!name.n || slice_eq(name, SLICE(".")))
		return 0;
	if (slice_eq(name, SLICE("..")))
		return cay_fail(err, CAY_E_INVALID, "'..' is not for patterns; begin elsewhere");
	if (glob_name_is_any_dirs(name) && a->n && glob_name_is_any_dirs(a->names[a->n - 1]))
		return 0;
	if (a->n == GLOB_NAMES_MAX)
		return cay_fail(err, CAY_E_INVALID, "has more than %d names", GLOB_NAMES_MAX);
	a->names[a->n++] = name;
	return 0;
}

/* A text without groups, to its names.  '/' is one even in a class: names have none. */
static int glob_alt_add(struct glob *g, struct slice s, struct cay_err *err)
{
	struct glob_alt *a = &g->alts[g->n];
	bool absolute = s.n && s.p[0] == '/';

	if (g->n && absolute != g->absolute)
		return cay_fail(err, CAY_E_INVALID, "is absolute in part only");
	g->absolute = absolute;
	a->dirs = s.n && s.p[s.n - 1] == '/';
	while (s.p) {
		struct slice name = slice_cut(&s, '/');
		int r;

		for (size_t i = 0, n; i < name.n; i += n) {
			n = glob_unit_len(name, i);
			if (!n || (name.p[i] == '\\' && n == 1))
				return cay_fail(err, CAY_E_INVALID, "'/' in brackets");
		}
		r = glob_alt_add_name(a, name, err);
		if (r < 0)
			return r;
	}
	if (!a->n)
		return cay_fail(err, CAY_E_INVALID, "means nothing");
	g->n++;
	return 0;
}

int glob_init(struct glob *ret, struct slice pattern, bool hidden, struct cay_err *err)
{
	struct brace_queue t = { .texts = { pattern }, .n = 1 };

	*ret = (struct glob){ .hidden = hidden, .arena = ARENA_INIT(KIB(512)) };
	if (!pattern.n || pattern.n > GLOB_PATTERN_MAX)
		return cay_fail(err, CAY_E_INVALID, "has 1 to %d bytes", GLOB_PATTERN_MAX);
	if (memchr(pattern.p, '\0', pattern.n))
		return cay_fail(err, CAY_E_INVALID, "has a NUL");
	ret->alts = arena_alloc(&ret->arena, GLOB_ALTS_MAX, sizeof(*ret->alts));
	if (!ret->alts)
		return cay_no_memory(err);
	while (t.n) {
		struct slice s = t.texts[--t.n];
		struct brace_group at = {};
		int r = glob_brace_find(s, &at, err);

		if (r > 0)
			r = glob_brace_expand(ret, &t, s, &at, err);
		else if (r == 0)
			r = glob_alt_add(ret, s, err);
		if (r < 0)
			return r;
	}
	return 0;
}

void glob_fini(struct glob *g)
{
	arena_fini(&g->arena);
}

/* "**" may be no directory at all. */
static uint64_t glob_alt_skip_any_dirs(const struct glob_alt *a, uint64_t set)
{
	for (unsigned i = 0; i < a->n; i++)
		if (set & BIT(i) && glob_name_is_any_dirs(a->names[i]))
			set |= BIT(i + 1);
	return set;
}

void glob_start(const struct glob *g, struct glob_position *ret)
{
	for (unsigned i = 0; i < g->n; i++)
		ret->set[i] = glob_alt_skip_any_dirs(&g->alts[i], BIT(0));
}

static bool glob_name_fits(const struct glob *g, struct slice pattern, struct slice name)
{
	if (name.n && name.p[0] == '.' && !g->hidden && pattern.p[0] != '.')
		return false;
	return glob_name_is_any_dirs(pattern) || glob_match_name(pattern, name);
}

void glob_step(const struct glob *g, const struct glob_position *at, struct slice name,
	       struct glob_position *ret)
{
	for (unsigned i = 0; i < g->n; i++) {
		const struct glob_alt *a = &g->alts[i];
		uint64_t next = 0;

		for (unsigned k = 0; k < a->n; k++)
			if (at->set[i] & BIT(k) && glob_name_fits(g, a->names[k], name))
				next |= BIT(glob_name_is_any_dirs(a->names[k]) ? k : k + 1);
		ret->set[i] = glob_alt_skip_any_dirs(a, next);
	}
}

bool glob_is_match(const struct glob *g, const struct glob_position *at, bool dir)
{
	for (unsigned i = 0; i < g->n; i++)
		if (at->set[i] & BIT(g->alts[i].n) && (dir || !g->alts[i].dirs))
			return true;
	return false;
}

bool glob_can_match_below(const struct glob *g, const struct glob_position *at)
{
	for (unsigned i = 0; i < g->n; i++)
		if (at->set[i] & (BIT(g->alts[i].n) - 1))
			return true;
	return false;
}

bool glob_match_path(const struct glob *g, struct slice path, bool dir)
{
	struct glob_position at;

	glob_start(g, &at);
	while (path.p) {
		struct slice name = slice_cut(&path, '/');

		if (name.n)
			glob_step(g, &at, name, &at);
	}
	return glob_is_match(g, &at, dir);
}
