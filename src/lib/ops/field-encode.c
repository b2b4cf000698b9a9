/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/clock.h"
#include "ops/field-internal.h"

static uint64_t field_load_u64(const void *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

static void field_encode_id(const char *key, const struct id *id, struct jw *w)
{
	char text[ID_TEXT_LEN + 1];

	id_format(id, text);
	jw_str(w, key, text);
}

static void field_encode_time(const char *key, uint64_t ns, struct jw *w)
{
	char text[CLK_TEXT_LEN + 1];

	clk_format_rfc3339(ns, text);
	jw_str(w, key, text);
}

static void field_encode_enum(const struct field *f, unsigned value, struct jw *w)
{
	jw_str(w, f->name, value < f->n_choices ? f->choices[value] : "");
	if (value >= f->n_choices)
		w->err = -EINVAL;
}

static void field_encode_list(const struct field *f, const struct field_list *list, struct jw *w)
{
	jw_array_begin(w, f->name);
	for (size_t i = 0; i < list->n; i++)
		field_encode(f->sub, NULL, (const char *)list->v + i * f->sub->size, w);
	jw_end(w);
}

static void field_encode_texts(const struct field *f, const struct field_texts *texts, struct jw *w)
{
	uint64_t port;

	jw_array_begin(w, f->name);
	for (size_t i = 0; i < texts->n; i++)
		if (f->check == CHECK_PORTS &&
		    str_parse_u64(slice_of(texts->v[i]), 0, UINT64_MAX, &port) == 0)
			jw_u64(w, NULL, port);
		else
			jw_str(w, NULL, texts->v[i]);
	jw_end(w);
}

static void field_encode_map(const char *key, const struct field_map *map, struct jw *w)
{
	jw_object_begin(w, key);
	for (size_t i = 0; i < map->n; i++)
		jw_str(w, map->keys[i], map->values[i]);
	jw_end(w);
}

/* Absent members are left out, so that the output decodes to the same struct. */
static bool field_is_absent(const struct field *f, const void *in)
{
	const char *at = (const char *)in + f->offset;

	if (f->has)
		return !*((const bool *)in + (f->has - 1));
	if (f->type == FIELD_TEXT)
		return !*(const char *const *)(const void *)at;
	if (f->type == FIELD_ID)
		return ((const struct id *)(const void *)at)->noun == ID_NONE;
	if (f->type == FIELD_TIME)
		return !f->required && field_load_u64(at) == 0;
	return false;
}

static void field_encode_member(const struct field *f, const void *in, struct jw *w)
{
	const void *at = (const char *)in + f->offset;

	switch (f->type) {
	case FIELD_BOOL:
		jw_bool(w, f->name, *(const bool *)at);
		return;
	case FIELD_U64:
	case FIELD_BYTES:
	case FIELD_MILLI:
		jw_u64(w, f->name, field_load_u64(at));
		return;
	case FIELD_TEXT:
		jw_str(w, f->name, *(const char *const *)at);
		return;
	case FIELD_ENUM:
		field_encode_enum(f, *(const unsigned *)at, w);
		return;
	case FIELD_ID:
		field_encode_id(f->name, at, w);
		return;
	case FIELD_TIME:
		field_encode_time(f->name, field_load_u64(at), w);
		return;
	case FIELD_TEXTS:
		field_encode_texts(f, at, w);
		return;
	case FIELD_MAP:
		field_encode_map(f->name, at, w);
		return;
	case FIELD_OBJECT:
		field_encode(f->sub, f->name, at, w);
		return;
	case FIELD_LIST:
		field_encode_list(f, at, w);
		return;
	case FIELD_NUM_TYPES:
		break;
	}
	assert(false);
}

static uint64_t field_given_mask(const struct field_table *t, const void *in)
{
	uint64_t bits = t->given ? field_load_u64((const char *)in + (t->given - 1)) : 0;

	return bits ? bits : UINT64_MAX;
}

void field_encode(const struct field_table *t, const char *key, const void *in, struct jw *w)
{
	uint64_t bits = field_given_mask(t, in);

	jw_object_begin(w, key);
	for (size_t i = 0; i < t->n; i++)
		if ((!t->given || bits >> i & 1) && !field_is_absent(&t->rows[i], in))
			field_encode_member(&t->rows[i], in, w);
		else if (t->rows[i].required)
			w->err = -EINVAL;
	jw_end(w);
}
