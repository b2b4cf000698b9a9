/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "ops/field-internal.h"

static size_t field_member_size(const struct field *f)
{
	static const size_t sizes[FIELD_NUM_TYPES] = {
		[FIELD_BOOL] = sizeof(bool),
		[FIELD_U64] = sizeof(uint64_t),
		[FIELD_BYTES] = sizeof(uint64_t),
		[FIELD_MILLI] = sizeof(uint64_t),
		[FIELD_TEXT] = sizeof(const char *),
		[FIELD_ENUM] = sizeof(unsigned),
		[FIELD_ID] = sizeof(struct id),
		[FIELD_TIME] = sizeof(uint64_t),
		[FIELD_TEXTS] = sizeof(struct field_texts),
		[FIELD_MAP] = sizeof(struct field_map),
		[FIELD_LIST] = sizeof(struct field_list),
	};

	return f->type == FIELD_OBJECT ? f->sub->size : sizes[f->type];
}

static void field_copy_from_base(const struct field *f, const void *base, void *over)
{
	memcpy((char *)over + f->offset, (const char *)base + f->offset, field_member_size(f));
	if (f->has)
		*((bool *)over + (f->has - 1)) = *((const bool *)base + (f->has - 1));
}

static bool field_map_has_key(const struct field_map *m, const char *key)
{
	for (size_t i = 0; i < m->n; i++)
		if (str_eq(m->keys[i], key))
			return true;
	return false;
}

static int field_map_merge(const struct field_map *base, struct field_map *over,
			   struct arena *arena)
{
	size_t max = base->n + over->n;
	struct field_map both = {};

	if (!base->n)
		return 0;
	both.keys = arena_alloc(arena, max, sizeof(*both.keys));
	both.values = arena_alloc(arena, max, sizeof(*both.values));
	if (!both.keys || !both.values)
		return -ENOMEM;
	for (size_t i = 0; i < max; i++) {
		const struct field_map *from = i < over->n ? over : base;
		size_t at = i < over->n ? i : i - over->n;

		if (from == base && field_map_has_key(over, base->keys[at]))
			continue;
		both.keys[both.n] = from->keys[at];
		both.values[both.n++] = from->values[at];
	}
	*over = both;
	return 0;
}

int field_merge(const struct field_table *t, const void *base, void *over, struct arena *arena)
{
	uint64_t had;

	assert(t->given);
	had = *field_given_bits(t, (void *)(uintptr_t)base);
	for (size_t i = 0; i < t->n; i++) {
		const struct field *f = &t->rows[i];
		void *to = (char *)over + f->offset;
		const void *from = (const char *)base + f->offset;
		int r = 0;

		if (!(had >> i & 1))
			continue;
		if (!(*field_given_bits(t, over) >> i & 1))
			field_copy_from_base(f, base, over);
		else if (f->type == FIELD_MAP)
			r = field_map_merge(from, to, arena);
		else if (f->type == FIELD_OBJECT && f->sub->given)
			r = field_merge(f->sub, from, to, arena);
		if (r < 0)
			return r;
		*field_given_bits(t, over) |= UINT64_C(1) << i;
	}
	return 0;
}
