/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/options.h"

#include <assert.h>

#include "text/distance.h"
#include "text/quantity.h"
#include "text/time.h"

struct opt_reader {
	const struct opt_group *groups;
	struct arena *arena;
	char *args;
	const struct opt *seen[64];
	size_t n_seen;
	const char **similar;
	struct cay_err *err;
};

const char *const *opt_list_choices(const struct opt *o)
{
	for (size_t i = 0; i < o->table->n; i++)
		if (str_eq(o->table->rows[i].name, o->member))
			return o->table->rows[i].choices;
	assert(false);
	return NULL;
}

static const char *opt_reader_find_similar(const struct opt_reader *r, struct slice name)
{
	const char *best = NULL;
	unsigned least = 3;

	for (const struct opt_group *g = r->groups; g->rows; g++) {
		for (size_t i = 0; i < g->n; i++) {
			unsigned d = str_edit_distance(name, slice_of(g->rows[i].name));

			/* a prefix counts as similar */
			if (name.n > 2 && !best && strncmp(g->rows[i].name, name.p, name.n) == 0)
				best = g->rows[i].name;
			if (d < least && d < name.n) {
				least = d;
				best = g->rows[i].name;
			}
		}
	}
	return best;
}

static const struct opt *opt_reader_find(const struct opt_reader *r, struct slice name, char letter,
					 size_t *ret_base)
{
	for (const struct opt_group *g = r->groups; g->rows; g++) {
		for (size_t i = 0; i < g->n; i++) {
			const struct opt *o = &g->rows[i];

			if (letter ? o->letter == letter : slice_eq(name, slice_of(o->name))) {
				*ret_base = g->base;
				return o;
			}
		}
	}
	return NULL;
}

static int opt_reader_add_pair(struct opt_reader *r, const struct opt *o, struct field_map *map,
			       const char *value)
{
	struct slice rest = slice_of(value), key = slice_cut(&rest, '=');

	if (!rest.p || !key.n)
		return cay_fail(r->err, CAY_E_INVALID, "--%s: expected %s", o->name, o->arg);
	if (map->n == OPT_PAIRS_MAX)
		return cay_fail(r->err, CAY_E_INVALID, "--%s can be given at most %d times",
				o->name, OPT_PAIRS_MAX);
	if (!map->keys) {
		map->keys = arena_alloc(r->arena, OPT_PAIRS_MAX, sizeof(*map->keys));
		map->values = arena_alloc(r->arena, OPT_PAIRS_MAX, sizeof(*map->values));
	}
	if (!map->keys || !map->values)
		return cay_no_memory(r->err);
	for (size_t i = 0; i < map->n; i++)
		if (slice_eq(slice_of(map->keys[i]), key))
			return cay_fail(r->err, CAY_E_INVALID, "--%s: '%s' is given twice", o->name,
					map->keys[i]);
	map->keys[map->n] = arena_strndup(r->arena, key.p, key.n);
	map->values[map->n] = rest.p;
	return map->keys[map->n++] ? 0 : cay_no_memory(r->err);
}

static int opt_reader_add_text(struct opt_reader *r, const struct opt *o, struct field_texts *list,
			       const char *value)
{
	if (list->n == OPT_PAIRS_MAX)
		return cay_fail(r->err, CAY_E_INVALID, "--%s can be given at most %d times",
				o->name, OPT_PAIRS_MAX);
	if (!list->v)
		list->v = arena_alloc(r->arena, OPT_PAIRS_MAX, sizeof(*list->v));
	if (!list->v)
		return cay_no_memory(r->err);
	list->v[list->n++] = value;
	return 0;
}

static int opt_reader_set_number(const struct opt_reader *r, const struct opt *o, uint64_t *at,
				 const char *value)
{
	static const struct {
		const char *name, *examples;
	} forms[OPT_NUM_TYPES] = {
		[OPT_U64] = { "number", "" },
		[OPT_BYTES] = { "size", " (use 512Mi, 2Gi)" },
		[OPT_MILLI] = { "number of cores", " (use 500m, 2)" },
		[OPT_DURATION] = { "duration", " (use 30s, 10m, 1h)" },
	};
	struct slice s = slice_of(value);
	uint64_t max = o->max ? o->max : UINT64_MAX, v = 0;
	int err = -EINVAL;

	if (o->type == OPT_U64)
		err = str_parse_u64(s, 0, UINT64_MAX, &v);
	else if (o->type == OPT_BYTES)
		err = quantity_parse_bytes(s, &v);
	else if (o->type == OPT_MILLI)
		err = quantity_parse_milli(s, &v);
	else if (o->type == OPT_DURATION)
		err = duration_parse(s, &v);
	if (err == -EINVAL)
		return cay_fail(r->err, CAY_E_INVALID, "--%s: invalid %s '%s'%s", o->name,
				forms[o->type].name, value, forms[o->type].examples);
	if (err < 0 || v < o->min || v > max)
		return cay_fail(r->err, CAY_E_INVALID, "--%s: %s is out of range", o->name, value);
	*at = v;
	return 0;
}

static int opt_reader_set_choice(const struct opt_reader *r, const struct opt *o, unsigned *at,
				 const char *value)
{
	auto_buf list = BUF_INIT(256);
	int err = 0;

	if (str_find_choice(slice_of(value), opt_list_choices(o), at) == 0)
		return 0;
	for (const char *const *c = opt_list_choices(o); err >= 0 && *c; c++)
		err = buf_printf(&list, "%s%s", list.len ? "|" : "", *c);
	return cay_fail(r->err, CAY_E_INVALID, "--%s: invalid value '%s' (use %s)", o->name, value,
			err < 0 ? o->arg : buf_str(&list));
}

static int opt_reader_set_value(struct opt_reader *r, const struct opt *o, size_t base,
				const char *value)
{
	void *at = r->args + base + o->offset;

	switch (o->type) {
	case OPT_FLAG:
		*(bool *)at = true;
		return 0;
	case OPT_TEXT:
		*(const char **)at = value;
		return 0;
	case OPT_U64:
	case OPT_BYTES:
	case OPT_MILLI:
	case OPT_DURATION:
		return opt_reader_set_number(r, o, at, value);
	case OPT_CHOICE:
		return opt_reader_set_choice(r, o, at, value);
	case OPT_PAIRS:
		return opt_reader_add_pair(r, o, at, value);
	case OPT_TEXTS:
		return opt_reader_add_text(r, o, at, value);
	case OPT_NUM_TYPES:
		break;
	}
	assert(false);
	return -EINVAL;
}

static int opt_reader_check_once(struct opt_reader *r, const struct opt *o)
{
	if (o->type == OPT_PAIRS || o->type == OPT_TEXTS)
		return 0;
	for (size_t i = 0; i < r->n_seen; i++)
		if (r->seen[i] == o)
			return cay_fail(r->err, CAY_E_INVALID, "--%s is given twice", o->name);
	assert(r->n_seen < ARRAY_SIZE(r->seen));
	r->seen[r->n_seen++] = o;
	return 0;
}

/* The value is in the same word or the next; returns 1 if it was the next. */
static int opt_reader_take_value(struct opt_reader *r, const struct opt *o, size_t base,
				 const char *value, const char *next)
{
	int err;

	if (o->type == OPT_FLAG || value)
		return opt_reader_set_value(r, o, base, value);
	if (!next)
		return cay_fail(r->err, CAY_E_INVALID, "--%s: missing %s", o->name, o->arg);
	err = opt_reader_set_value(r, o, base, next);
	return err < 0 ? err : 1;
}

/* "--name", "--name=value" */
static int opt_reader_read_long(struct opt_reader *r, const char *word, const char *next)
{
	struct slice value = slice_of(word + 2), name = slice_cut(&value, '=');
	size_t base;
	const struct opt *o = opt_reader_find(r, name, 0, &base);
	int err;

	if (!o) {
		*r->similar = opt_reader_find_similar(r, name);
		return cay_fail(r->err, CAY_E_INVALID, "there is no option '--%.*s'",
				(int)(name.n > 64 ? 64 : name.n), name.p);
	}
	err = opt_reader_check_once(r, o);
	if (err >= 0 && o->type == OPT_FLAG && value.p)
		err = cay_fail(r->err, CAY_E_INVALID, "--%s takes no value", o->name);
	return err < 0 ? err : opt_reader_take_value(r, o, base, value.p, next);
}

/* "-d", "-di", "-uUSER", "-u USER" */
static int opt_reader_read_short(struct opt_reader *r, const char *word, const char *next)
{
	for (const char *c = word + 1; *c; c++) {
		size_t base;
		const struct opt *o = opt_reader_find(r, SLICE(""), *c, &base);
		int err;

		if (!o)
			return cay_fail(r->err, CAY_E_INVALID, "there is no option '-%c'", *c);
		err = opt_reader_check_once(r, o);
		if (err >= 0)
			err = opt_reader_take_value(r, o, base, c[1] ? c + 1 : NULL, next);
		if (err < 0 || o->type != OPT_FLAG)
			return err;
	}
	return 0;
}

int opt_parse_words(const struct opt_group *groups, const char *const *words, size_t n,
		    struct arena *arena, void *args, struct opt_words *ret, const char **ret_near,
		    struct cay_err *err)
{
	struct opt_reader r = {
		.groups = groups, .arena = arena, .args = args, .similar = ret_near, .err = err
	};
	struct opt_words got = { .operands = arena_alloc(arena, n + 1, sizeof(*got.operands)) };

	*ret_near = NULL;
	if (!got.operands)
		return cay_no_memory(err);
	for (size_t i = 0; i < n; i++) {
		const char *w = words[i];
		const char *next = i + 1 < n && !str_eq(words[i + 1], "--") ? words[i + 1] : NULL;
		int took = 0;

		if (str_eq(w, "--")) {
			got.rest = words + i + 1;
			got.n_rest = n - i - 1;
			break;
		}
		if (w[0] == '-' && w[1] == '-')
			took = opt_reader_read_long(&r, w, next);
		else if (w[0] == '-' && w[1])
			took = opt_reader_read_short(&r, w, next);
		else
			got.operands[got.n_operands++] = w;
		if (took < 0)
			return took;
		i += (size_t)took;
	}
	*ret = got;
	return 0;
}

/* Whether the next word is the value of the last option in this one. */
static bool opt_reader_wants_next(const struct opt_reader *r, const char *word)
{
	const struct opt *o = NULL;
	size_t base;

	if (word[1] == '-') {
		struct slice value = slice_of(word + 2), name = slice_cut(&value, '=');

		o = opt_reader_find(r, name, 0, &base);
		return o && o->type != OPT_FLAG && !value.p;
	}
	for (const char *c = word + 1; *c; c++) {
		o = opt_reader_find(r, SLICE(""), *c, &base);
		if (!o || o->type != OPT_FLAG)
			return o && !c[1];
	}
	return false;
}

size_t opt_count_own_words(const struct opt_group *groups, const char *const *words, size_t n,
			   size_t operands)
{
	const struct opt_reader r = { .groups = groups };
	size_t seen = 0, i = 0;

	for (; i < n && !str_eq(words[i], "--"); i++) {
		if (words[i][0] == '-' && words[i][1]) {
			if (i + 1 < n && !str_eq(words[i + 1], "--"))
				i += opt_reader_wants_next(&r, words[i]);
		} else if (seen++ == operands) {
			break;
		}
	}
	return i;
}

int opt_format_spelling(const struct opt *o, struct buf *ret)
{
	int r = o->letter ? buf_printf(ret, "-%c, --%s", o->letter, o->name)
			  : buf_printf(ret, "    --%s", o->name);

	return r < 0 || o->type == OPT_FLAG ? r : buf_printf(ret, " %s", o->arg);
}
