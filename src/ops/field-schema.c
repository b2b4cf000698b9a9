/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "ops/field-internal.h"

static void schema_text(const struct field *f, struct jw *w)
{
	jw_str(w, "type", "string");
	if (f->min)
		jw_u64(w, "minLength", f->min);
	jw_u64(w, "maxLength", f->max);
	if (field_check_row(f->check)->pattern)
		jw_str(w, "pattern", field_check_row(f->check)->pattern);
}

static void schema_number(const struct field *f, struct jw *w)
{
	jw_str(w, "type", "integer");
	jw_str(w, "format", "int64");
	jw_u64(w, "minimum", f->min);
	jw_u64(w, "maximum", f->max);
}

static void schema_quantity(const struct field *f, struct jw *w)
{
	jw_array(w, "oneOf");
	jw_object(w, NULL);
	schema_number(f, w);
	jw_end(w);
	jw_object(w, NULL);
	jw_str(w, "type", "string");
	jw_str(w, "pattern", "^[0-9]+(\\.[0-9]{1,9})?(m|k|[MGTPE]|[KMGTPE]i)?$");
	jw_end(w);
	jw_end(w);
}

static void schema_enum(const struct field *f, struct jw *w)
{
	jw_str(w, "type", "string");
	jw_array(w, "enum");
	for (unsigned i = 0; f->choices[i]; i++)
		jw_str(w, NULL, f->choices[i]);
	jw_end(w);
}

static void schema_id(const struct field *f, struct jw *w)
{
	auto_buf pattern = BUF_INIT(64);

	if (buf_printf(&pattern, "^%s[0-9a-hjkmnp-tv-z]{24}$", id_noun_text(f->noun)) < 0)
		w->err = -ENOMEM;
	jw_str(w, "type", "string");
	jw_str(w, "pattern", buf_str(&pattern));
}

static void schema_ref(const char *name, struct jw *w)
{
	auto_buf ref = BUF_INIT(128);

	if (buf_printf(&ref, "#/components/schemas/%s", name) < 0)
		w->err = -ENOMEM;
	jw_str(w, "$ref", buf_str(&ref));
}

static void schema_items(const struct field *f, struct jw *w)
{
	jw_str(w, "type", "array");
	jw_u64(w, "minItems", f->min);
	jw_u64(w, "maxItems", f->max);
	jw_object(w, "items");
	if (f->type == FIELD_LIST)
		schema_ref(f->sub->name, w);
	else
		jw_str(w, "type", "string");
	jw_end(w);
}

void field_schema_values(bool nulls, const char *pattern, struct jw *w)
{
	jw_object(w, "additionalProperties");
	if (nulls) {
		jw_array(w, "type");
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

static void schema_map(const struct field *f, struct jw *w)
{
	jw_str(w, "type", "object");
	jw_u64(w, "maxProperties", f->max);
	field_schema_values(f->patch, field_check_row(f->check)->pattern, w);
}

static void schema_body(const struct field *f, struct jw *w)
{
	switch (f->type) {
	case FIELD_BOOL:
		jw_str(w, "type", "boolean");
		return;
	case FIELD_U64:
		schema_number(f, w);
		return;
	case FIELD_BYTES:
	case FIELD_MILLI:
		schema_quantity(f, w);
		return;
	case FIELD_TEXT:
		schema_text(f, w);
		return;
	case FIELD_ENUM:
		schema_enum(f, w);
		return;
	case FIELD_ID:
		schema_id(f, w);
		return;
	case FIELD_TIME:
		jw_str(w, "type", "string");
		jw_str(w, "format", "date-time");
		return;
	case FIELD_TEXTS:
	case FIELD_LIST:
		schema_items(f, w);
		return;
	case FIELD_MAP:
		schema_map(f, w);
		return;
	case FIELD_OBJECT:
		schema_ref(f->sub->name, w);
		return;
	case FIELD_NUM_TYPES:
		break;
	}
	assert(false);
}

static void schema_default(const struct field *f, struct jw *w)
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

void field_schema_row(const struct field *f, const char *key, struct jw *w)
{
	jw_object(w, key);
	jw_str(w, "description", f->help);
	schema_body(f, w);
	schema_default(f, w);
	jw_end(w);
}

void field_schema(const struct field_table *t, const char *key, struct jw *w)
{
	jw_object(w, key);
	jw_str(w, "type", "object");
	jw_str(w, "description", t->help);
	jw_object(w, "properties");
	for (size_t i = 0; i < t->n; i++)
		field_schema_row(&t->rows[i], t->rows[i].name, w);
	jw_end(w);
	jw_array(w, "required");
	for (size_t i = 0; i < t->n; i++)
		if (t->rows[i].required)
			jw_str(w, NULL, t->rows[i].name);
	jw_end(w);
	jw_bool(w, "additionalProperties", false);
	jw_end(w);
}

static void example_map(const struct field *f, struct slice pair, struct jw *w)
{
	struct slice key = slice_cut(&pair, '=');
	char name[64];

	assert(key.n < sizeof(name));
	memcpy(name, key.p, key.n);
	name[key.n] = 0;
	jw_object(w, f->name);
	jw_strn(w, name, pair);
	jw_end(w);
}

static void example_scalar(const struct field *f, struct slice text, struct jw *w)
{
	uint64_t v;

	if (f->type == FIELD_BOOL)
		jw_bool(w, f->name, slice_eq(text, SLICE("true")));
	else if (f->type != FIELD_TEXT && str_u64(text, 0, UINT64_MAX, &v) == 0)
		jw_u64(w, f->name, v);
	else
		jw_strn(w, f->name, text);
}

static void example_one(const struct field *f, struct jw *w)
{
	struct slice text = slice_of(f->example ? f->example : "");

	if (f->type == FIELD_OBJECT) {
		field_example(f->sub, f->name, w);
	} else if (f->type == FIELD_LIST) {
		jw_array(w, f->name);
		field_example(f->sub, NULL, w);
		jw_end(w);
	} else if (f->type == FIELD_TEXTS) {
		jw_array(w, f->name);
		while (text.n)
			jw_strn(w, NULL, slice_cut(&text, '|'));
		jw_end(w);
	} else if (f->type == FIELD_MAP) {
		example_map(f, text, w);
	} else {
		example_scalar(f, text, w);
	}
}

/* Objects that may be absent, and text that stands in the place of other text. */
static bool left_out(const struct field *f)
{
	return (f->type == FIELD_OBJECT && f->has) || (f->type == FIELD_TEXT && !f->example);
}

void field_example(const struct field_table *t, const char *key, struct jw *w)
{
	jw_object(w, key);
	for (size_t i = 0; i < t->n; i++)
		if (!left_out(&t->rows[i]))
			example_one(&t->rows[i], w);
	jw_end(w);
}

void field_example_row(const struct field *f, const char *key, struct jw *w)
{
	struct field as = *f;

	as.name = key;
	example_one(&as, w);
}

bool field_is_named(const char *names, const char *top, const char *name)
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

static void example_parts(const struct field *f, const char *names, struct jw *w)
{
	bool any = false;

	for (size_t i = 0; f->sub && i < f->sub->n; i++) {
		if (!field_is_named(names, f->name, f->sub->rows[i].name))
			continue;
		if (!any && f->type == FIELD_LIST)
			jw_array(w, f->name);
		if (!any)
			jw_object(w, f->type == FIELD_LIST ? NULL : f->name);
		any = true;
		example_one(&f->sub->rows[i], w);
	}
	if (any)
		jw_end(w);
	if (any && f->type == FIELD_LIST)
		jw_end(w);
}

void field_example_some(const struct field_table *t, const char *names, const char *key,
			struct jw *w)
{
	jw_object(w, key);
	for (size_t i = 0; i < t->n; i++) {
		if (field_is_named(names, NULL, t->rows[i].name))
			example_one(&t->rows[i], w);
		else
			example_parts(&t->rows[i], names, w);
	}
	jw_end(w);
}

void field_example_reply(const struct field_table *t, const char *key, struct jw *w)
{
	auto_buf text = BUF_INIT(KIB(64));
	auto_pool pool = POOL_INIT(KIB(64));
	struct jw example = jw_to(&text);
	void *value = pool_take(&pool, 1, t->size);
	int r;

	field_example(t, NULL, &example);
	r = value ? jw_done(&example) : -ENOMEM;
	if (r >= 0)
		r = field_read(t, (struct slice){ text.data, text.len }, &json_control_limits,
			       &pool, value, NULL);
	if (r >= 0)
		field_encode(t, key, value, w);
	else
		w->err = r;
}
