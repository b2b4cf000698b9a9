/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/field-internal.h"

static int field_copy_text(const char **text, struct arena *arena)
{
	if (!*text)
		return 0;
	*text = arena_strndup(arena, *text, strlen(*text));
	return *text ? 0 : -ENOMEM;
}

static int field_copy_texts(const char ***v, size_t n, struct arena *arena)
{
	const char **to = n ? arena_alloc(arena, n, sizeof(*to)) : NULL;
	int r = n && !to ? -ENOMEM : 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		to[i] = (*v)[i];
		r = field_copy_text(&to[i], arena);
	}
	*v = to;
	return r;
}

static int field_copy_members(const struct field_table *t, void *row, struct arena *arena);

static int field_copy_member(const struct field *f, void *at, struct arena *arena)
{
	struct field_texts *texts = at;
	struct field_map *map = at;
	struct field_list *list = at, from;
	int r;

	if (f->type == FIELD_TEXT)
		return field_copy_text(at, arena);
	if (f->type == FIELD_TEXTS)
		return field_copy_texts(&texts->v, texts->n, arena);
	if (f->type == FIELD_MAP) {
		r = field_copy_texts(&map->keys, map->n, arena);
		return r < 0 ? r : field_copy_texts(&map->values, map->n, arena);
	}
	if (f->type == FIELD_OBJECT)
		return field_copy_members(f->sub, at, arena);
	if (f->type == FIELD_LIST) {
		from = *list;
		return field_list_copy(f->sub, &from, arena, list);
	}
	return 0; /* is its own copy */
}

static int field_copy_members(const struct field_table *t, void *row, struct arena *arena)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < t->n; i++)
		r = field_copy_member(&t->rows[i], (char *)row + t->rows[i].offset, arena);
	return r;
}

int field_list_copy(const struct field_table *t, const struct field_list *in, struct arena *arena,
		    struct field_list *ret)
{
	char *rows = in->n ? arena_alloc(arena, in->n, t->size) : NULL;
	int r = in->n && !rows ? -ENOMEM : 0;

	*ret = (struct field_list){};
	for (size_t i = 0; r >= 0 && i < in->n; i++) {
		memcpy(rows + i * t->size, (const char *)in->v + i * t->size, t->size);
		r = field_copy_members(t, rows + i * t->size, arena);
	}
	if (r >= 0)
		*ret = (struct field_list){ rows, in->n };
	return r;
}
