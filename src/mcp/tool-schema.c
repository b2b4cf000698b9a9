/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool.h"

static const char *const type_names[TOOL_NUM_TYPES] = {
	[TOOL_TEXT] = "string",  [TOOL_INT] = "integer",   [TOOL_REAL] = "number",
	[TOOL_BOOL] = "boolean", [TOOL_CHOICE] = "string", [TOOL_TEXTS] = "array",
	[TOOL_INTS] = "array",   [TOOL_MAP] = "object",    [TOOL_OBJECT] = "object",
	[TOOL_LIST] = "array",   [TOOL_ANY] = "object",    [TOOL_FIXED] = NULL,
	[TOOL_ALIAS] = NULL,
};

static void tool_schema_write_members(const struct tool_arg *args, struct jw *w);

static void tool_schema_write_items(const char *type, struct jw *w)
{
	jw_object_begin(w, "items");
	jw_str(w, "type", type);
	jw_end(w);
}

static void tool_schema_write_bounds(const struct tool_arg *a, const char *least, const char *most,
				     struct jw *w)
{
	if (a->min)
		jw_u64(w, least, a->min);
	if (a->max)
		jw_u64(w, most, a->max);
}

static void tool_schema_write_choices(const struct tool_arg *a, struct jw *w)
{
	jw_array_begin(w, "enum");
	for (size_t i = 0; a->choices[i]; i++)
		jw_str(w, NULL, a->choices[i]);
	jw_end(w);
}

/* Keywords of this type only. */
static void tool_schema_write_details(const struct tool_arg *a, struct jw *w)
{
	switch (a->type) {
	case TOOL_TEXT:
		tool_schema_write_bounds(a, "minLength", "maxLength", w);
		break;
	case TOOL_INT:
	case TOOL_REAL:
		jw_i64(w, "minimum", a->either_sign ? -(int64_t)a->max : (int64_t)a->min);
		jw_u64(w, "maximum", a->max);
		break;
	case TOOL_CHOICE:
		tool_schema_write_choices(a, w);
		break;
	case TOOL_TEXTS:
	case TOOL_INTS:
		tool_schema_write_items(a->type == TOOL_TEXTS ? "string" : "integer", w);
		tool_schema_write_bounds(a, "minItems", "maxItems", w);
		break;
	case TOOL_MAP:
		field_schema_write_values(a->nulls, NULL, w);
		break;
	case TOOL_OBJECT:
		tool_schema_write_members(a->sub, w);
		break;
	case TOOL_LIST:
		jw_object_begin(w, "items");
		jw_str(w, "type", "object");
		tool_schema_write_members(a->sub, w);
		jw_end(w);
		tool_schema_write_bounds(a, "minItems", "maxItems", w);
		break;
	case TOOL_BOOL:
	case TOOL_ANY:
	case TOOL_FIXED:
	case TOOL_ALIAS:
	case TOOL_NUM_TYPES:
		break;
	}
}

static void tool_schema_write_default(const struct tool_arg *a, struct jw *w)
{
	auto_json j = NULL;

	if (a->preset && json_parse(slice_of(a->preset), &json_control_limits, &j, NULL) >= 0)
		json_write(j, "default", w);
}

static void tool_schema_write_members(const struct tool_arg *args, struct jw *w)
{
	size_t needed = 0;

	jw_object_begin(w, "properties");
	for (const struct tool_arg *a = args; a->name || a->as; a++) {
		if (a->type == TOOL_FIXED || a->type == TOOL_ALIAS)
			continue;
		needed += a->required;
		jw_object_begin(w, a->name);
		if (type_names[a->type])
			jw_str(w, "type", type_names[a->type]);
		tool_schema_write_details(a, w);
		tool_schema_write_default(a, w);
		jw_str(w, "description", a->help);
		jw_end(w);
	}
	jw_end(w);
	if (needed) {
		jw_array_begin(w, "required");
		for (const struct tool_arg *a = args; a->name || a->as; a++)
			if (a->required)
				jw_str(w, NULL, a->name);
		jw_end(w);
	}
	jw_bool(w, "additionalProperties", false);
}

void tool_schema_write(const struct mcp_tool *t, const char *key, struct jw *w)
{
	jw_object_begin(w, key);
	jw_str(w, "type", "object");
	tool_schema_write_members(t->args, w);
	jw_end(w);
}

void tool_describe(const struct mcp_tool *t, struct jw *w)
{
	jw_object_begin(w, NULL);
	jw_str(w, "name", t->name);
	jw_str(w, "title", t->title);
	jw_str(w, "description", t->help);
	tool_schema_write(t, "inputSchema", w);
	jw_object_begin(w, "annotations");
	jw_str(w, "title", t->title);
	jw_bool(w, "readOnlyHint", t->hints & TOOL_READ_ONLY);
	jw_bool(w, "destructiveHint", t->hints & TOOL_DESTRUCTIVE);
	jw_bool(w, "idempotentHint", t->hints & TOOL_IDEMPOTENT);
	jw_bool(w, "openWorldHint", t->hints & TOOL_OPEN_WORLD);
	jw_end(w);
	jw_end(w);
}
