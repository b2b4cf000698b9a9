/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static int tool_arg_check_value(const struct tool_arg *a, json_t *v, struct cay_err *err);

#define tool_arg_refuse(err, a, ...) cay_fail_field(err, CAY_E_INVALID, (a)->name, __VA_ARGS__)

static const char *json_type_description(const json_t *v)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
		[JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "a boolean",
		[JSON_FALSE] = "a boolean",  [JSON_NULL] = "null",
	};

	return names[json_typeof(v)];
}

static int tool_arg_refuse_type(struct cay_err *err, const struct tool_arg *a, const char *want,
				const json_t *v)
{
	return tool_arg_refuse(err, a, "must be %s, not %s", want, json_type_description(v));
}

static int tool_arg_check_size(const struct tool_arg *a, size_t n, const char *unit,
			       struct cay_err *err)
{
	if (n < a->min || (a->max && n > a->max))
		return tool_arg_refuse(err, a,
				       "must have %" PRIu64 " to %" PRIu64 " %s; it has %zu",
				       a->min, a->max, unit, n);
	return 0;
}

static int tool_arg_check_text(const struct tool_arg *a, json_t *v, struct cay_err *err)
{
	if (!json_is_string(v))
		return tool_arg_refuse_type(err, a, "a string", v);
	return tool_arg_check_size(a, json_string_length(v), "bytes", err);
}

static int tool_arg_check_number(const struct tool_arg *a, json_t *v, struct cay_err *err)
{
	double d = json_number_value(v);

	if (a->type == TOOL_INT ? !json_is_integer(v) : !json_is_number(v))
		return tool_arg_refuse_type(err, a,
					    a->type == TOOL_INT ? "a whole number" : "a number", v);
	if (a->either_sign && isfinite(d) && fabs(d) <= (double)a->max)
		return 0;
	if (a->either_sign)
		return tool_arg_refuse(err, a, "must be at most %" PRIu64 " either way", a->max);
	if (!isfinite(d) || d < (double)a->min || d > (double)a->max)
		return tool_arg_refuse(err, a, "must be %" PRIu64 " to %" PRIu64, a->min, a->max);
	return 0;
}

/* Append to "command, cwd"; a name that does not fit is omitted. */
static void name_list_add(char *list, size_t room, const char *name)
{
	size_t at = strlen(list);
	int n = snprintf(list + at, room - at, "%s%s", at ? ", " : "", name);

	if (n < 0 || (size_t)n >= room - at)
		list[at] = 0;
}

static int tool_arg_check_choice(const struct tool_arg *a, json_t *v, struct cay_err *err)
{
	char all[CAY_ERR_MSG_MAX / 2] = "";

	for (size_t i = 0; a->choices[i]; i++) {
		if (json_is_string(v) && strcmp(a->choices[i], json_string_value(v)) == 0)
			return 0;
		name_list_add(all, sizeof(all), a->choices[i]);
	}
	return tool_arg_refuse(err, a, "must be one of: %s", all);
}

static int tool_arg_check_array(const struct tool_arg *a, json_t *v, struct cay_err *err)
{
	bool texts = a->type == TOOL_TEXTS;
	json_t *item;
	size_t i;

	if (!json_is_array(v))
		return tool_arg_refuse_type(err, a, "an array", v);
	json_array_foreach(v, i, item)
	{
		if (texts ? !json_is_string(item) : !json_is_integer(item))
			return tool_arg_refuse(err, a, "entry %zu must be %s, not %s", i,
					       texts ? "a string" : "a whole number",
					       json_type_description(item));
	}
	return tool_arg_check_size(a, json_array_size(v), "entries", err);
}

static int tool_arg_check_map(const struct tool_arg *a, json_t *v, struct cay_err *err)
{
	const char *key;
	json_t *item;

	if (!json_is_object(v))
		return tool_arg_refuse_type(err, a, "an object", v);
	json_object_foreach (v, key, item)
		if (!json_is_string(item) && !(a->nulls && json_is_null(item)))
			return tool_arg_refuse(err, a,
					       "the value of '%.64s' must be a string, not %s", key,
					       json_type_description(item));
	return tool_arg_check_size(a, json_object_size(v), "entries", err);
}

static const struct tool_arg *tool_arg_find(const struct tool_arg *args, const char *name)
{
	for (const struct tool_arg *a = args; a->name || a->as; a++)
		if (a->name && strcmp(a->name, name) == 0)
			return a;
	return NULL;
}

/* Lists the valid arguments: "command, cwd, env". */
static int tool_arg_refuse_unknown(const struct tool_arg *args, const char *name,
				   struct cay_err *err)
{
	char all[CAY_ERR_MSG_MAX / 2] = "";

	for (const struct tool_arg *a = args; a->name || a->as; a++)
		if (a->name && a->type != TOOL_ALIAS)
			name_list_add(all, sizeof(all), a->name);
	return cay_fail_field(err, CAY_E_INVALID, name, "unknown argument; expected: %s",
			      all[0] ? all : "none");
}

static int tool_arg_check_members(const struct tool_arg *args, json_t *v, struct cay_err *err)
{
	const struct tool_arg *a;
	json_t *item;
	const char *key;
	int r = 0;

	json_object_foreach (v, key, item) {
		a = tool_arg_find(args, key);
		if (!a)
			return tool_arg_refuse_unknown(args, key, err);
		/* null counts as absent */
		if (!json_is_null(item))
			r = tool_arg_check_value(a, item, err);
		if (r < 0)
			return r;
	}
	for (a = args; a->name || a->as; a++)
		if (a->required && (!(item = json_object_get(v, a->name)) || json_is_null(item)))
			return tool_arg_refuse(err, a, "is missing: %s", a->help);
	return 0;
}

static int tool_arg_check_list(const struct tool_arg *a, json_t *v, struct cay_err *err)
{
	json_t *item;
	size_t i;
	int r = json_is_array(v) ? tool_arg_check_size(a, json_array_size(v), "entries", err)
				 : tool_arg_refuse_type(err, a, "an array", v);

	json_array_foreach(v, i, item)
	{
		if (r >= 0 && !json_is_object(item))
			r = tool_arg_refuse(err, a, "entry %zu must be an object, not %s", i,
					    json_type_description(item));
		if (r >= 0)
			r = tool_arg_check_members(a->sub, item, err);
		if (r < 0)
			break;
	}
	return r;
}

static int tool_arg_check_value(const struct tool_arg *a, json_t *v, struct cay_err *err)
{
	int r = 0;

	switch (a->type) {
	case TOOL_TEXT:
		return tool_arg_check_text(a, v, err);
	case TOOL_INT:
	case TOOL_REAL:
		return tool_arg_check_number(a, v, err);
	case TOOL_BOOL:
		return json_is_boolean(v) ? 0 : tool_arg_refuse_type(err, a, "true or false", v);
	case TOOL_CHOICE:
		return tool_arg_check_choice(a, v, err);
	case TOOL_TEXTS:
	case TOOL_INTS:
		return tool_arg_check_array(a, v, err);
	case TOOL_MAP:
		return tool_arg_check_map(a, v, err);
	case TOOL_OBJECT:
		r = json_is_object(v) ? tool_arg_check_members(a->sub, v, err)
				      : tool_arg_refuse_type(err, a, "an object", v);
		if (r < 0)
			cay_err_prefix_field(err, a->name);
		return r;
	case TOOL_LIST:
		return tool_arg_check_list(a, v, err);
	case TOOL_ANY:
		return json_is_object(v) ? 0 : tool_arg_refuse_type(err, a, "an object", v);
	case TOOL_FIXED:
	case TOOL_ALIAS:
	case TOOL_NUM_TYPES:
		break;
	}
	return tool_arg_refuse(err, a, "cannot be set");
}

static int tool_arg_rename_alias(const struct tool_arg *a, json_t *v, struct cay_err *err)
{
	json_t *item = json_object_get(v, a->name), *other = json_object_get(v, a->as);

	if (!item)
		return 0;
	if (!json_is_null(item) && other && !json_is_null(other))
		return tool_arg_refuse(err, a, "is another name of '%s': give one of them", a->as);
	if (!json_is_null(item) && json_object_set(v, a->as, item) < 0)
		return cay_no_memory(err);
	(void)json_object_del(v, a->name);
	return 0;
}

/* Give every argument its own name, nested ones as well. */
static int tool_arg_rename_aliases(const struct tool_arg *args, json_t *v, struct cay_err *err)
{
	int r = 0;

	for (const struct tool_arg *a = args; r >= 0 && (a->name || a->as); a++) {
		json_t *item = a->name ? json_object_get(v, a->name) : NULL;

		if (a->type == TOOL_ALIAS)
			r = tool_arg_rename_alias(a, v, err);
		else if (a->type == TOOL_OBJECT)
			r = tool_arg_rename_aliases(a->sub, item, err);
		for (size_t i = 0; a->type == TOOL_LIST && r >= 0 && i < json_array_size(item); i++)
			r = tool_arg_rename_aliases(a->sub, json_array_get(item, i), err);
	}
	return r;
}

/* Null counts as absent in nested values as well. */
static void json_remove_nulls(json_t *v)
{
	const char *key;
	json_t *member;
	void *tmp;
	size_t i;

	json_object_foreach_safe(v, tmp, key, member)
	{
		if (json_is_null(member))
			(void)json_object_del(v, key);
		else
			json_remove_nulls(member);
	}
	json_array_foreach(v, i, member)
	{
		json_remove_nulls(member);
	}
}

static int json_map_nulls_to_empty(json_t *map)
{
	const char *key;
	json_t *v;
	int r = 0;

	json_object_foreach (map, key, v)
		if (json_is_null(v) && json_object_set_new(map, key, json_string("")) < 0)
			r = -ENOMEM;
	return r;
}

static int tool_arg_fill_defaults(const struct tool_arg *args, json_t *to)
{
	for (const struct tool_arg *a = args; a->name || a->as; a++) {
		const json_t *v = a->name ? json_object_get(to, a->name) : NULL;
		auto_json preset = NULL;

		if (a->name && (a->type == TOOL_OBJECT || a->type == TOOL_LIST))
			json_remove_nulls(json_object_get(to, a->name));
		if (a->nulls && json_map_nulls_to_empty(json_object_get(to, a->name)) < 0)
			return -ENOMEM;
		if (json_is_null(v)) {
			(void)json_object_del(to, a->name);
			v = NULL;
		}
		if (v || !a->name || !a->preset)
			continue;
		if (json_parse(slice_of(a->preset), &json_control_limits, &preset, NULL) < 0 ||
		    json_object_set(to, a->name, preset) < 0)
			return -ENOMEM;
	}
	return 0;
}

int tool_args_check(const struct mcp_tool *t, json_t *args, json_t **ret, struct cay_err *err)
{
	auto_json copy = args ? json_deep_copy(args) : json_object();
	int r;

	if (args && !json_is_object(args))
		return cay_fail(err, CAY_E_INVALID, "arguments must be an object, not %s",
				json_type_description(args));
	if (!copy)
		return cay_no_memory(err);
	r = tool_arg_rename_aliases(t->args, copy, err);
	if (r >= 0)
		r = tool_arg_check_members(t->args, copy, err);
	if (r < 0)
		return r;
	if (tool_arg_fill_defaults(t->args, copy) < 0)
		return cay_no_memory(err);
	*ret = cay_take(copy);
	return 0;
}
