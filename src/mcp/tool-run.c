/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool-run.h"

#include <math.h>

#include "text/percent.h"

void tool_run_begin_call(struct tool_run *run, enum op_id op)
{
	json_decref(run->call.members);
	run->call = (struct tool_op_call){ .op = op, .members = json_object() };
}

static int tool_run_vset(struct tool_run *run, struct cay_err *err, const char *fmt, va_list ap)
{
	auto_json members = json_vpack_ex(NULL, 0, fmt, ap);

	return json_object_update(run->call.members, members) < 0 ? cay_no_memory(err) : 0;
}

int tool_run_set(struct tool_run *run, struct cay_err *err, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = tool_run_vset(run, err, fmt, ap);
	va_end(ap);
	return r;
}

int tool_run_call(struct tool_run *run, enum op_id op, struct cay_err *err, const char *fmt, ...)
{
	va_list ap;
	int r;

	tool_run_begin_call(run, op);
	va_start(ap, fmt);
	r = tool_run_vset(run, err, fmt, ap);
	va_end(ap);
	return r;
}

static json_t *tool_arg_scale_value(const struct tool_arg *a, json_t *v)
{
	uint64_t by = a->scale ? a->scale : 1;

	if (a->type == TOOL_REAL)
		return json_integer((json_int_t)llround(json_number_value(v) * (double)by));
	if (a->type == TOOL_INT && by != 1)
		return json_integer(json_integer_value(v) * (json_int_t)by);
	return json_incref(v);
}

static int tool_run_set_fixed(struct tool_run *run, const struct tool_arg *a, struct cay_err *err)
{
	json_t *v = NULL;
	int r = json_parse(slice_of(a->preset), &json_control_limits, &v, err);

	return r < 0 ? r : tool_run_set(run, err, "{s:o}", a->as, v);
}

int tool_run_map_args(struct tool_run *run, struct cay_err *err)
{
	int r = 0;

	for (const struct tool_arg *a = run->tool->args; r >= 0 && (a->name || a->as); a++) {
		json_t *v = a->name ? json_object_get(run->args, a->name) : NULL;

		if (a->type == TOOL_FIXED)
			r = tool_run_set_fixed(run, a, err);
		else if (v && a->as && str_eq(a->as, TOOL_BODY))
			run->call.body =
				(struct slice){ json_string_value(v), json_string_length(v) };
		else if (v && a->as)
			r = tool_run_set(run, err, "{s:o}", a->as, tool_arg_scale_value(a, v));
	}
	return r;
}

int tool_run_default_call(struct tool_run *run, struct cay_err *err)
{
	if (run->step)
		return TOOL_FINISHED;
	tool_run_begin_call(run, run->tool->op);
	return tool_run_map_args(run, err);
}

const char *tool_run_arg_text(const struct tool_run *run, const char *name)
{
	return json_string_value(json_object_get(run->args, name));
}

uint64_t tool_run_arg_number(const struct tool_run *run, const char *name)
{
	double d = json_number_value(json_object_get(run->args, name));

	return d > 0 ? (uint64_t)llround(d) : 0;
}

bool tool_run_arg_bool(const struct tool_run *run, const char *name)
{
	return json_is_true(json_object_get(run->args, name));
}

uint64_t tool_run_timeout_ms(const struct tool_run *run, uint64_t asked_ms)
{
	const struct profile_limits *limits = &profile_limits[run->tool->profile];
	uint64_t ms = asked_ms ? asked_ms : limits->timeout_ms;

	if (!ms)
		ms = run->settings->mcp_timeout_ms;
	return ms < limits->ceiling_ms ? ms : limits->ceiling_ms;
}

static int url_append_encoded(struct buf *b, struct slice text)
{
	int r = buf_reserve(b, 3 * text.n + 1);

	if (r < 0)
		return r;
	b->len += percent_encode(text.p, text.n, b->data + b->len);
	b->data[b->len] = 0;
	return 0;
}

/* A scalar, encoded for a query or a path. */
static int url_append_json_scalar(struct buf *b, const json_t *v)
{
	if (json_is_string(v))
		return url_append_encoded(
			b, (struct slice){ json_string_value(v), json_string_length(v) });
	if (json_is_integer(v))
		return buf_printf(b, "%lld", (long long)json_integer_value(v));
	if (json_is_boolean(v))
		return buf_puts(b, json_is_true(v) ? "true" : "false");
	return -EINVAL;
}

static bool field_table_has_name(const struct field_table *t, const char *name)
{
	for (size_t i = 0; t && i < t->n; i++)
		if (str_eq(t->rows[i].name, name))
			return true;
	return false;
}

/* For {name} in the path. */
static const json_t *op_call_find_member(const struct tool_op_call *c, struct slice name)
{
	const char *key;
	const json_t *v;

	json_object_foreach (c->members, key, v)
		if (slice_eq(slice_of(key), name))
			return v;
	return NULL;
}

static int tool_run_write_path(const struct tool_run *run, struct buf *b, struct cay_err *err)
{
	struct slice left = slice_of(ops[run->call.op].path);
	int r = 0;

	while (left.n && r >= 0) {
		struct slice text = slice_cut(&left, '{'), name;
		const json_t *v;

		r = buf_append(b, text.p, text.n);
		if (r < 0 || !left.p)
			break;
		name = slice_cut(&left, '}');
		v = op_call_find_member(&run->call, name);
		/* a name was resolved to its id before */
		if (slice_eq(name, SLICE("sandbox")) && run->sandbox[0])
			r = buf_puts(b, run->sandbox);
		else if (!v || url_append_json_scalar(b, v) < 0)
			return cay_fail(err, CAY_E_INVALID, "%.*s is missing", (int)name.n, name.p);
	}
	return r < 0 ? cay_fail(err, CAY_E_TOO_LARGE, "the request is too long") : 0;
}

static int tool_run_write_query(const struct tool_run *run, struct buf *b, struct cay_err *err)
{
	const struct op *op = &ops[run->call.op];
	char mark = '?';
	const char *key;
	const json_t *v;

	json_object_foreach (run->call.members, key, v) {
		if (!field_table_has_name(op->query, key))
			continue;
		if (buf_printf(b, "%c%s=", mark, key) < 0 || url_append_json_scalar(b, v) < 0)
			return cay_fail(err, CAY_E_TOO_LARGE, "the request is too long");
		mark = '&';
	}
	return 0;
}

/* "limits.memory_bytes" goes into an object of the body. */
static void tool_run_write_inner_object(const struct tool_run *run, const char *outer, struct jw *w)
{
	size_t n = strlen(outer);
	bool begun = false;
	const char *key;
	const json_t *v;

	json_object_foreach (run->call.members, key, v) {
		if (strncmp(key, outer, n) != 0 || key[n] != '.')
			continue;
		if (!begun)
			jw_object_begin(w, outer);
		begun = true;
		json_write(v, key + n + 1, w);
	}
	if (begun)
		jw_end(w);
}

static int tool_run_write_body(const struct tool_run *run, struct buf *b, struct cay_err *err)
{
	const struct field_table *t = ops[run->call.op].request;
	struct jw w = jw_to(b);

	if (!t)
		return 0;
	jw_object_begin(&w, NULL);
	for (size_t i = 0; i < t->n; i++) {
		const char *name = t->rows[i].name;
		const json_t *v = json_object_get(run->call.members, name);

		if (v)
			json_write(v, name, &w);
		else
			tool_run_write_inner_object(run, name, &w);
	}
	jw_end(&w);
	return jw_finish(&w) < 0 ? cay_fail(err, CAY_E_TOO_LARGE, "the request is too long") : 0;
}

int tool_run_write_request(const struct tool_run *run, struct buf *target, struct buf *body,
			   struct cay_err *err)
{
	int r = tool_run_write_path(run, target, err);

	if (r >= 0)
		r = tool_run_write_query(run, target, err);
	if (r >= 0 && run->call.body.p)
		r = buf_append(body, run->call.body.p, run->call.body.n) < 0
			    ? cay_fail(err, CAY_E_TOO_LARGE, "the request is too long")
			    : 0;
	else if (r >= 0)
		r = tool_run_write_body(run, body, err);
	return r;
}
