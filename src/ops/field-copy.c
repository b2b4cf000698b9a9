/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/field-internal.h"

static int copy_text(const char **text, struct pool *pool)
{
	if (!*text)
		return 0;
	*text = pool_strn(pool, *text, strlen(*text));
	return *text ? 0 : -ENOMEM;
}

static int copy_texts(const char ***v, size_t n, struct pool *pool)
{
	const char **to = n ? pool_take(pool, n, sizeof(*to)) : NULL;
	int r = n && !to ? -ENOMEM : 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		to[i] = (*v)[i];
		r = copy_text(&to[i], pool);
	}
	*v = to;
	return r;
}

static int copy_members(const struct field_table *t, void *row, struct pool *pool);

static int copy_member(const struct field *f, void *at, struct pool *pool)
{
	struct field_texts *texts = at;
	struct field_map *map = at;
	struct field_list *list = at, from;
	int r;

	if (f->type == FIELD_TEXT)
		return copy_text(at, pool);
	if (f->type == FIELD_TEXTS)
		return copy_texts(&texts->v, texts->n, pool);
	if (f->type == FIELD_MAP) {
		r = copy_texts(&map->keys, map->n, pool);
		return r < 0 ? r : copy_texts(&map->values, map->n, pool);
	}
	if (f->type == FIELD_OBJECT)
		return copy_members(f->sub, at, pool);
	if (f->type == FIELD_LIST) {
		from = *list;
		return field_copy_list(f->sub, &from, pool, list);
	}
	return 0; /* is its own copy */
}

static int copy_members(const struct field_table *t, void *row, struct pool *pool)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < t->n; i++)
		r = copy_member(&t->rows[i], (char *)row + t->rows[i].offset, pool);
	return r;
}

int field_copy_list(const struct field_table *t, const struct field_list *in, struct pool *pool,
		    struct field_list *ret)
{
	char *rows = in->n ? pool_take(pool, in->n, t->size) : NULL;
	int r = in->n && !rows ? -ENOMEM : 0;

	*ret = (struct field_list){};
	for (size_t i = 0; r >= 0 && i < in->n; i++) {
		memcpy(rows + i * t->size, (const char *)in->v + i * t->size, t->size);
		r = copy_members(t, rows + i * t->size, pool);
	}
	if (r >= 0)
		*ret = (struct field_list){ rows, in->n };
	return r;
}
