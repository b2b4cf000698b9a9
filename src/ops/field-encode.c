/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/clock.h"
#include "ops/field-internal.h"

static uint64_t u64_at(const void *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

static void encode_id(const char *key, const struct id *id, struct jw *w)
{
	char text[ID_TEXT_LEN + 1];

	id_format(id, text);
	jw_str(w, key, text);
}

static void encode_time(const char *key, uint64_t ns, struct jw *w)
{
	char text[CLK_TEXT_LEN + 1];

	clk_text(ns, text);
	jw_str(w, key, text);
}

static void encode_enum(const struct field *f, unsigned value, struct jw *w)
{
	jw_str(w, f->name, value < f->n_choices ? f->choices[value] : "");
	if (value >= f->n_choices)
		w->err = -EINVAL;
}

static void encode_list(const struct field *f, const struct field_list *list, struct jw *w)
{
	jw_array(w, f->name);
	for (size_t i = 0; i < list->n; i++)
		field_encode(f->sub, NULL, (const char *)list->v + i * f->sub->size, w);
	jw_end(w);
}

static void encode_texts(const char *key, const struct field_texts *texts, struct jw *w)
{
	jw_array(w, key);
	for (size_t i = 0; i < texts->n; i++)
		jw_str(w, NULL, texts->v[i]);
	jw_end(w);
}

static void encode_map(const char *key, const struct field_map *map, struct jw *w)
{
	jw_object(w, key);
	for (size_t i = 0; i < map->n; i++)
		jw_str(w, map->keys[i], map->values[i]);
	jw_end(w);
}

/* Absent members are left out, so that what is written decodes to the same. */
static bool absent(const struct field *f, const void *in)
{
	const char *at = (const char *)in + f->offset;

	if (f->has)
		return !*((const bool *)in + (f->has - 1));
	if (f->type == FIELD_TEXT)
		return !*(const char *const *)(const void *)at;
	if (f->type == FIELD_ID)
		return ((const struct id *)(const void *)at)->noun == ID_NONE;
	if (f->type == FIELD_TIME)
		return !f->required && u64_at(at) == 0;
	return false;
}

static void encode_one(const struct field *f, const void *in, struct jw *w)
{
	const void *at = (const char *)in + f->offset;

	switch (f->type) {
	case FIELD_BOOL:
		jw_bool(w, f->name, *(const bool *)at);
		return;
	case FIELD_U64:
	case FIELD_BYTES:
	case FIELD_MILLI:
		jw_u64(w, f->name, u64_at(at));
		return;
	case FIELD_TEXT:
		jw_str(w, f->name, *(const char *const *)at);
		return;
	case FIELD_ENUM:
		encode_enum(f, *(const unsigned *)at, w);
		return;
	case FIELD_ID:
		encode_id(f->name, at, w);
		return;
	case FIELD_TIME:
		encode_time(f->name, u64_at(at), w);
		return;
	case FIELD_TEXTS:
		encode_texts(f->name, at, w);
		return;
	case FIELD_MAP:
		encode_map(f->name, at, w);
		return;
	case FIELD_OBJECT:
		field_encode(f->sub, f->name, at, w);
		return;
	case FIELD_LIST:
		encode_list(f, at, w);
		return;
	case FIELD_NUM_TYPES:
		break;
	}
	assert(false);
}

static uint64_t given(const struct field_table *t, const void *in)
{
	uint64_t bits = t->given ? u64_at((const char *)in + (t->given - 1)) : 0;

	return bits ? bits : UINT64_MAX;
}

void field_encode(const struct field_table *t, const char *key, const void *in, struct jw *w)
{
	uint64_t bits = given(t, in);

	jw_object(w, key);
	for (size_t i = 0; i < t->n; i++)
		if ((!t->given || bits >> i & 1) && !absent(&t->rows[i], in))
			encode_one(&t->rows[i], in, w);
		else if (t->rows[i].required)
			w->err = -EINVAL;
	jw_end(w);
}
