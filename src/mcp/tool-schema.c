/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool.h"

static const char *const type_names[TOOL_NUM_TYPES] = {
	[TOOL_TEXT] = "string",  [TOOL_INT] = "integer",   [TOOL_REAL] = "number",
	[TOOL_BOOL] = "boolean", [TOOL_CHOICE] = "string", [TOOL_TEXTS] = "array",
	[TOOL_INTS] = "array",   [TOOL_MAP] = "object",    [TOOL_OBJECT] = "object",
	[TOOL_LIST] = "array",   [TOOL_ANY] = "object",    [TOOL_FIXED] = NULL,
};

static void members(const struct tool_arg *args, struct jw *w);

static void items(const char *type, struct jw *w)
{
	jw_object(w, "items");
	jw_str(w, "type", type);
	jw_end(w);
}

static void bounds(const struct tool_arg *a, const char *least, const char *most, struct jw *w)
{
	if (a->min)
		jw_u64(w, least, a->min);
	if (a->max)
		jw_u64(w, most, a->max);
}

static void choices(const struct tool_arg *a, struct jw *w)
{
	jw_array(w, "enum");
	for (size_t i = 0; a->choices[i]; i++)
		jw_str(w, NULL, a->choices[i]);
	jw_end(w);
}

/* What only this type has. */
static void details(const struct tool_arg *a, struct jw *w)
{
	switch (a->type) {
	case TOOL_TEXT:
		bounds(a, "minLength", "maxLength", w);
		break;
	case TOOL_INT:
	case TOOL_REAL:
		jw_u64(w, "minimum", a->min);
		jw_u64(w, "maximum", a->max);
		break;
	case TOOL_CHOICE:
		choices(a, w);
		break;
	case TOOL_TEXTS:
	case TOOL_INTS:
		items(a->type == TOOL_TEXTS ? "string" : "integer", w);
		bounds(a, "minItems", "maxItems", w);
		break;
	case TOOL_MAP:
		field_schema_values(a->nulls, NULL, w);
		break;
	case TOOL_OBJECT:
		members(a->sub, w);
		break;
	case TOOL_LIST:
		jw_object(w, "items");
		jw_str(w, "type", "object");
		members(a->sub, w);
		jw_end(w);
		bounds(a, "minItems", "maxItems", w);
		break;
	case TOOL_BOOL:
	case TOOL_ANY:
	case TOOL_FIXED:
	case TOOL_NUM_TYPES:
		break;
	}
}

static void preset(const struct tool_arg *a, struct jw *w)
{
	auto_json j = NULL;

	if (a->preset && jr_read(slice_of(a->preset), &json_control_limits, &j, NULL) >= 0)
		jr_write(j, "default", w);
}

static void members(const struct tool_arg *args, struct jw *w)
{
	size_t needed = 0;

	jw_object(w, "properties");
	for (const struct tool_arg *a = args; a->name || a->as; a++) {
		if (a->type == TOOL_FIXED)
			continue;
		needed += a->required;
		jw_object(w, a->name);
		if (type_names[a->type])
			jw_str(w, "type", type_names[a->type]);
		details(a, w);
		preset(a, w);
		jw_str(w, "description", a->help);
		jw_end(w);
	}
	jw_end(w);
	if (needed) {
		jw_array(w, "required");
		for (const struct tool_arg *a = args; a->name || a->as; a++)
			if (a->required)
				jw_str(w, NULL, a->name);
		jw_end(w);
	}
	jw_bool(w, "additionalProperties", false);
}

void tool_schema(const struct mcp_tool *t, const char *key, struct jw *w)
{
	jw_object(w, key);
	jw_str(w, "type", "object");
	members(t->args, w);
	jw_end(w);
}

void tool_describe(const struct mcp_tool *t, struct jw *w)
{
	jw_object(w, NULL);
	jw_str(w, "name", t->name);
	jw_str(w, "title", t->title);
	jw_str(w, "description", t->help);
	tool_schema(t, "inputSchema", w);
	jw_object(w, "annotations");
	jw_str(w, "title", t->title);
	jw_bool(w, "readOnlyHint", t->hints & TOOL_READS);
	jw_bool(w, "destructiveHint", t->hints & TOOL_DESTROYS);
	jw_bool(w, "idempotentHint", t->hints & TOOL_AGAIN);
	jw_bool(w, "openWorldHint", t->hints & TOOL_WORLD);
	jw_end(w);
	jw_end(w);
}
