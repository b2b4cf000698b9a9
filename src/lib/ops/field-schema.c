/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "ops/field-internal.h"

static void field_schema_write_text(const struct field *f, struct jw *w)
{
	jw_str(w, "type", "string");
	if (f->min)
		jw_u64(w, "minLength", f->min);
	jw_u64(w, "maxLength", f->max);
	if (field_check_row(f->check)->pattern)
		jw_str(w, "pattern", field_check_row(f->check)->pattern);
}

static void field_schema_write_number(const struct field *f, struct jw *w)
{
	jw_str(w, "type", "integer");
	jw_str(w, "format", "int64");
	jw_u64(w, "minimum", f->min);
	jw_u64(w, "maximum", f->max);
}

static void field_schema_write_quantity(const struct field *f, struct jw *w)
{
	jw_array_begin(w, "oneOf");
	jw_object_begin(w, NULL);
	field_schema_write_number(f, w);
	jw_end(w);
	jw_object_begin(w, NULL);
	jw_str(w, "type", "string");
	jw_str(w, "pattern", "^[0-9]+(\\.[0-9]{1,9})?(m|k|[MGTPE]|[KMGTPE]i)?$");
	jw_end(w);
	jw_end(w);
}

static void field_schema_write_enum(const struct field *f, struct jw *w)
{
	jw_str(w, "type", "string");
	jw_array_begin(w, "enum");
	for (unsigned i = 0; f->choices[i]; i++)
		jw_str(w, NULL, f->choices[i]);
	jw_end(w);
}

static void field_schema_write_id(const struct field *f, struct jw *w)
{
	auto_buf pattern = BUF_INIT(64);

	if (buf_printf(&pattern, "^%s[0-9a-hjkmnp-tv-z]{24}$", id_noun_prefix(f->noun)) < 0)
		w->err = -ENOMEM;
	jw_str(w, "type", "string");
	jw_str(w, "pattern", buf_str(&pattern));
}

static void field_schema_write_ref(const char *name, struct jw *w)
{
	auto_buf ref = BUF_INIT(128);

	if (buf_printf(&ref, "#/components/schemas/%s", name) < 0)
		w->err = -ENOMEM;
	jw_str(w, "$ref", buf_str(&ref));
}

static void field_schema_write_port(const struct field *f, struct jw *w)
{
	jw_array_begin(w, "oneOf");
	jw_object_begin(w, NULL);
	jw_str(w, "type", "integer");
	jw_u64(w, "minimum", 1);
	jw_u64(w, "maximum", UINT16_MAX);
	jw_end(w);
	jw_object_begin(w, NULL);
	jw_str(w, "type", "string");
	jw_str(w, "pattern", field_check_row(f->check)->pattern);
	jw_end(w);
	jw_end(w);
}

static void field_schema_write_items(const struct field *f, struct jw *w)
{
	jw_str(w, "type", "array");
	jw_u64(w, "minItems", f->min);
	jw_u64(w, "maxItems", f->max);
	jw_object_begin(w, "items");
	if (f->type == FIELD_LIST)
		field_schema_write_ref(f->sub->name, w);
	else if (f->check == CHECK_PORTS)
		field_schema_write_port(f, w);
	else
		jw_str(w, "type", "string");
	jw_end(w);
}

void field_schema_write_values(bool nulls, const char *pattern, struct jw *w)
{
	jw_object_begin(w, "additionalProperties");
	if (nulls) {
		jw_array_begin(w, "type");
		jw_str(w, NULL, "string");
		jw_str(w, NULL, "null");
		jw_end(w);
	} else {
		jw_str(w, "type", "string");
	}
	if (pattern)
		jw_str(w, "pattern", pattern);
	jw_end(w);
}

static void field_schema_write_map(const struct field *f, struct jw *w)
{
	jw_str(w, "type", "object");
	jw_u64(w, "maxProperties", f->max);
	field_schema_write_values(f->patch, field_check_row(f->check)->pattern, w);
}

static void field_schema_write_type(const struct field *f, struct jw *w)
{
	switch (f->type) {
	case FIELD_BOOL:
		jw_str(w, "type", "boolean");
		return;
	case FIELD_U64:
		field_schema_write_number(f, w);
		return;
	case FIELD_BYTES:
	case FIELD_MILLI:
		field_schema_write_quantity(f, w);
		return;
	case FIELD_TEXT:
		field_schema_write_text(f, w);
		return;
	case FIELD_ENUM:
		field_schema_write_enum(f, w);
		return;
	case FIELD_ID:
		field_schema_write_id(f, w);
		return;
	case FIELD_TIME:
		jw_str(w, "type", "string");
		jw_str(w, "format", "date-time");
		return;
	case FIELD_TEXTS:
	case FIELD_LIST:
		field_schema_write_items(f, w);
		return;
	case FIELD_MAP:
		field_schema_write_map(f, w);
		return;
	case FIELD_OBJECT:
		field_schema_write_ref(f->sub->name, w);
		return;
	case FIELD_NUM_TYPES:
		break;
	}
	assert(false);
}

static void field_schema_write_default(const struct field *f, struct jw *w)
{
	if (f->required || f->has)
		return;
	if (f->type == FIELD_U64 || f->type == FIELD_BYTES || f->type == FIELD_MILLI)
		jw_u64(w, "default", f->preset);
	else if (f->type == FIELD_BOOL)
		jw_bool(w, "default", f->preset != 0);
	else if (f->type == FIELD_ENUM)
		jw_str(w, "default", f->choices[f->preset]);
}

void field_schema_write_row(const struct field *f, const char *key, struct jw *w)
{
	jw_object_begin(w, key);
	jw_str(w, "description", f->help);
	field_schema_write_type(f, w);
	field_schema_write_default(f, w);
	jw_end(w);
}

void field_schema_write(const struct field_table *t, const char *key, struct jw *w)
{
	jw_object_begin(w, key);
	jw_str(w, "type", "object");
	jw_str(w, "description", t->help);
	jw_object_begin(w, "properties");
	for (size_t i = 0; i < t->n; i++)
		field_schema_write_row(&t->rows[i], t->rows[i].name, w);
	jw_end(w);
	jw_array_begin(w, "required");
	for (size_t i = 0; i < t->n; i++)
		if (t->rows[i].required)
			jw_str(w, NULL, t->rows[i].name);
	jw_end(w);
	jw_bool(w, "additionalProperties", false);
	jw_end(w);
}

static void field_example_write_map(const struct field *f, struct slice pair, struct jw *w)
{
	struct slice key = slice_cut(&pair, '=');
	char name[64];

	assert(key.n < sizeof(name));
	memcpy(name, key.p, key.n);
	name[key.n] = 0;
	jw_object_begin(w, f->name);
	jw_slice(w, name, pair);
	jw_end(w);
}

static void field_example_write_scalar(const struct field *f, struct slice text, struct jw *w)
{
	uint64_t v;

	if (f->type == FIELD_BOOL)
		jw_bool(w, f->name, slice_eq(text, SLICE("true")));
	else if (f->type != FIELD_TEXT && str_parse_u64(text, 0, UINT64_MAX, &v) == 0)
		jw_u64(w, f->name, v);
	else
		jw_slice(w, f->name, text);
}

static void field_example_write_texts(const struct field *f, struct slice texts, struct jw *w)
{
	uint64_t port;

	jw_array_begin(w, f->name);
	while (texts.n) {
		struct slice text = slice_cut(&texts, '|');

		if (f->check == CHECK_PORTS && str_parse_u64(text, 0, UINT64_MAX, &port) == 0)
			jw_u64(w, NULL, port);
		else
			jw_slice(w, NULL, text);
	}
	jw_end(w);
}

static void field_example_write_member(const struct field *f, struct jw *w)
{
	struct slice text = slice_of(f->example ? f->example : "");

	if (f->type == FIELD_OBJECT) {
		field_example_write(f->sub, f->name, w);
	} else if (f->type == FIELD_LIST) {
		jw_array_begin(w, f->name);
		field_example_write(f->sub, NULL, w);
		jw_end(w);
	} else if (f->type == FIELD_TEXTS) {
		field_example_write_texts(f, text, w);
	} else if (f->type == FIELD_MAP) {
		field_example_write_map(f, text, w);
	} else {
		field_example_write_scalar(f, text, w);
	}
}

/* Optional objects, and texts that replace another member. */
static bool field_example_is_left_out(const struct field *f)
{
	return (f->type == FIELD_OBJECT && f->has) || (f->type == FIELD_TEXT && !f->example);
}

void field_example_write(const struct field_table *t, const char *key, struct jw *w)
{
	jw_object_begin(w, key);
	for (size_t i = 0; i < t->n; i++)
		if (!field_example_is_left_out(&t->rows[i]))
			field_example_write_member(&t->rows[i], w);
	jw_end(w);
}

void field_example_write_row(const struct field *f, const char *key, struct jw *w)
{
	struct field as = *f;

	as.name = key;
	field_example_write_member(&as, w);
}

bool field_names_contain(const char *names, const char *top, const char *name)
{
	struct slice rest = slice_of(names);

	while (rest.n) {
		struct slice word = slice_cut(&rest, ' ');

		if (top && !slice_eq(slice_cut(&word, '.'), slice_of(top)))
			continue;
		if (slice_eq(word, slice_of(name)))
			return true;
	}
	return false;
}

static void field_example_write_parts(const struct field *f, const char *names, struct jw *w)
{
	bool any = false;

	for (size_t i = 0; f->sub && i < f->sub->n; i++) {
		if (!field_names_contain(names, f->name, f->sub->rows[i].name))
			continue;
		if (!any && f->type == FIELD_LIST)
			jw_array_begin(w, f->name);
		if (!any)
			jw_object_begin(w, f->type == FIELD_LIST ? NULL : f->name);
		any = true;
		field_example_write_member(&f->sub->rows[i], w);
	}
	if (any)
		jw_end(w);
	if (any && f->type == FIELD_LIST)
		jw_end(w);
}

void field_example_write_some(const struct field_table *t, const char *names, const char *key,
			      struct jw *w)
{
	jw_object_begin(w, key);
	for (size_t i = 0; i < t->n; i++) {
		if (field_names_contain(names, NULL, t->rows[i].name))
			field_example_write_member(&t->rows[i], w);
		else
			field_example_write_parts(&t->rows[i], names, w);
	}
	jw_end(w);
}

void field_example_write_reply(const struct field_table *t, const char *key, struct jw *w)
{
	auto_buf text = BUF_INIT(KIB(64));
	auto_arena arena = ARENA_INIT(KIB(64));
	struct jw example = jw_to(&text);
	void *value = arena_alloc(&arena, 1, t->size);
	int r;

	field_example_write(t, NULL, &example);
	r = value ? jw_finish(&example) : -ENOMEM;
	if (r >= 0)
		r = field_decode_text(t, (struct slice){ text.data, text.len },
				      &json_control_limits, &arena, value, NULL);
	if (r >= 0)
		field_encode(t, key, value, w);
	else
		w->err = r;
}
