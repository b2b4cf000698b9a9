/* SPDX-License-Identifier: Apache-2.0 */
/* openapi - the operation table as an OpenAPI 3.1 document.  Paths in the order of the table, the
 * methods of one path together.  Every failure has the one shape of ErrorBody. */
#include <stdio.h>

#include "ops/idempotency-key.h"
#include "ops/op.h"

static void openapi_write_ref(struct jw *w, const char *key, const char *kind, const char *name)
{
	auto_buf ref = BUF_INIT(128);

	if (buf_printf(&ref, "#/components/%s/%s", kind, name) < 0)
		w->err = -ENOMEM;
	jw_object_begin(w, key);
	jw_str(w, "$ref", buf_str(&ref));
	jw_end(w);
}

static void openapi_write_media(struct jw *w, const char *type, const struct field_table *t)
{
	jw_object_begin(w, type);
	if (t) {
		openapi_write_ref(w, "schema", "schemas", t->name);
		field_example_write_reply(t, "example", w);
	} else {
		jw_object_begin(w, "schema");
		jw_end(w);
	}
	jw_end(w);
}

/* Server-sent events with a struct each, as JSON. */
static void openapi_write_stream(struct jw *w, const struct field_table *t)
{
	jw_object_begin(w, "text/event-stream");
	jw_object_begin(w, "schema");
	jw_str(w, "type", "string");
	jw_str(w, "contentMediaType", "application/json");
	openapi_write_ref(w, "contentSchema", "schemas", t->name);
	jw_end(w);
	jw_end(w);
}

static void openapi_write_path_params(struct jw *w, const char *path)
{
	for (size_t i = 0; i < op_n_params; i++) {
		const struct op_param *p = &op_params[i];
		bool named = p->noun == ID_SANDBOX; /* by its id or its name */
		const struct field as_field = { .type = p->noun && !named ? FIELD_ID : FIELD_TEXT,
						.noun = p->noun,
						.check = named ? CHECK_ANY : CHECK_WORD,
						.min = 1,
						.max = named ? SANDBOX_NAME_MAX : OP_NAME_MAX,
						.help = p->help };
		auto_buf brace = BUF_INIT(64);

		if (buf_printf(&brace, "{%s}", p->name) < 0)
			w->err = -ENOMEM;
		if (!strstr(path, buf_str(&brace)))
			continue;
		jw_object_begin(w, NULL);
		jw_str(w, "name", p->name);
		jw_str(w, "in", "path");
		jw_bool(w, "required", true);
		field_schema_write_row(&as_field, "schema", w);
		jw_end(w);
	}
}

/* One of `path` and `path_b64` is required. */
static bool openapi_field_has_b64_twin(const struct field_table *t, const char *name)
{
	auto_buf other = BUF_INIT(64);

	if (buf_printf(&other, "%s_b64", name) < 0)
		return false;
	for (size_t i = 0; i < t->n; i++)
		if (str_eq(t->rows[i].name, buf_str(&other)))
			return true;
	return false;
}

static bool openapi_field_is_in_example(const struct op *op, const struct field *f)
{
	const char *names = op_examples[op - ops];

	return names ? field_names_contain(names, NULL, f->name)
		     : f->required || openapi_field_has_b64_twin(op->query, f->name);
}

static void openapi_write_key_param(struct jw *w)
{
	jw_object_begin(w, NULL);
	jw_str(w, "name", "Idempotency-Key");
	jw_str(w, "in", "header");
	jw_str(w, "description",
	       "A word of the client's choice. A request that repeats it with the same body gets "
	       "the reply of the first and has no second effect");
	jw_bool(w, "required", false);
	jw_object_begin(w, "schema");
	jw_str(w, "type", "string");
	jw_u64(w, "minLength", 1);
	jw_u64(w, "maxLength", IDEMPOTENCY_KEY_MAX);
	jw_str(w, "pattern", "^[!-~]+$");
	jw_end(w);
	jw_end(w);
}

static void openapi_write_params(struct jw *w, const struct op *op)
{
	jw_array_begin(w, "parameters");
	openapi_write_path_params(w, op->path);
	if (op->flags & OP_KEYED)
		openapi_write_key_param(w);
	for (size_t i = 0; op->query && i < op->query->n; i++) {
		const struct field *f = &op->query->rows[i];

		jw_object_begin(w, NULL);
		jw_str(w, "name", f->name);
		jw_str(w, "in", "query");
		jw_str(w, "description", f->help);
		jw_bool(w, "required", f->required);
		field_schema_write_row(f, "schema", w);
		if (openapi_field_is_in_example(op, f))
			field_example_write_row(f, "example", w);
		jw_end(w);
	}
	jw_end(w);
}

static void openapi_write_json_request(struct jw *w, const struct op *op)
{
	const char *names = op_examples[op - ops];

	jw_object_begin(w, "application/json");
	openapi_write_ref(w, "schema", "schemas", op->request->name);
	if (names)
		field_example_write_some(op->request, names, "example", w);
	else
		field_example_write(op->request, "example", w);
	jw_end(w);
}

static void openapi_write_request(struct jw *w, const struct op *op)
{
	if (op->body == BODY_NONE)
		return;
	jw_object_begin(w, "requestBody");
	jw_bool(w, "required", op->body == BODY_JSON); /* an empty body is valid */
	jw_object_begin(w, "content");
	if (op->body == BODY_JSON)
		openapi_write_json_request(w, op);
	else
		openapi_write_media(w, "application/octet-stream", NULL);
	jw_end(w);
	jw_end(w);
}

static void openapi_write_success(struct jw *w, const struct op *op, int status, const char *what)
{
	char key[8];

	if (snprintf(key, sizeof(key), "%d", status) >= (int)sizeof(key))
		w->err = -EINVAL;
	jw_object_begin(w, key);
	jw_str(w, "description", what);
	if (op->reply == REPLY_SOCKET) { /* the rest is not HTTP */
		jw_end(w);
		return;
	}
	jw_object_begin(w, "content");
	if (op->reply == REPLY_RAW || op->reply == REPLY_BYTES)
		openapi_write_media(w, "application/octet-stream", NULL);
	else if (op->reply == REPLY_TREE || op->reply == REPLY_TAR)
		openapi_write_media(w, "application/x-tar", NULL);
	else if (op->reply == REPLY_TEXT)
		openapi_write_media(w, "text/plain", NULL);
	else if (op->reply == REPLY_STREAM)
		openapi_write_stream(w, op->response);
	else if (op->reply == REPLY_PAGE)
		openapi_write_media(w, "text/html", NULL);
	else
		openapi_write_media(w, "application/json", op->response);
	if (op->reply == REPLY_TREE)
		openapi_write_media(w, "application/gzip", NULL);
	if (op->reply == REPLY_FRAMES || op->reply == REPLY_RAW)
		openapi_write_media(w, "application/vnd.cay.frames", NULL);
	if (op->reply == REPLY_FRAMES || op->reply == REPLY_RAW || op->reply == REPLY_EVENTS)
		openapi_write_media(w, "text/event-stream", NULL);
	jw_end(w);
	jw_end(w);
}

static void openapi_write_responses(struct jw *w, const struct op *op)
{
	jw_object_begin(w, "responses");
	openapi_write_success(w, op, op->status, op->summary);
	if (op->reply == REPLY_SOON)
		openapi_write_success(w, op, 202, "Accepted; the operation continues");
	if (op->reply == REPLY_BYTES)
		openapi_write_success(w, op, 206,
				      "The bytes of the requested Range; Content-Range says which");
	openapi_write_ref(w, "4XX", "responses", "Error");
	/* tools expect a 2XX response or a default */
	openapi_write_ref(w, op->reply == REPLY_SOCKET ? "default" : "5XX", "responses", "Error");
	jw_end(w);
}

static void openapi_write_method(struct jw *w, const struct op *op)
{
	static const char *const keys[] = {
		[METHOD_GET] = "get",
		[METHOD_POST] = "post",
		[METHOD_PUT] = "put",
		[METHOD_DELETE] = "delete",
	};
	static_assert(ARRAY_SIZE(keys) == METHOD_NUM);
	struct slice tag = slice_of(op->name);
	auto_buf text = BUF_INIT(100);

	jw_object_begin(w, keys[op->method]);
	jw_str(w, "operationId", op->name);
	jw_str(w, "summary", op->summary);
	if (op->alias && buf_printf(&text, "Also served at %s", op->alias) >= 0)
		jw_str(w, "description", buf_str(&text));
	jw_array_begin(w, "tags");
	jw_slice(w, NULL, slice_cut(&tag, '.'));
	jw_end(w);
	jw_array_begin(w, "security");
	if (op->scope != SCOPE_PUBLIC) {
		jw_object_begin(w, NULL);
		jw_array_begin(w, "key");
		jw_str(w, NULL, op_scope_name(op->scope));
		jw_end(w);
		jw_end(w);
	}
	jw_end(w);
	openapi_write_params(w, op);
	openapi_write_request(w, op);
	openapi_write_responses(w, op);
	jw_end(w);
}

static bool openapi_op_is_first_of_path(unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if (str_eq(ops[k].path, ops[i].path))
			return false;
	return true;
}

static void openapi_write_paths(struct jw *w)
{
	jw_object_begin(w, "paths");
	for (unsigned i = 0; i < OP_NUM; i++) {
		if (!openapi_op_is_first_of_path(i))
			continue;
		jw_object_begin(w, ops[i].path);
		for (unsigned k = i; k < OP_NUM; k++)
			if (str_eq(ops[k].path, ops[i].path))
				openapi_write_method(w, &ops[k]);
		jw_end(w);
	}
	jw_end(w);
}

static bool openapi_table_uses(const struct field_table *t, const struct field_table *wanted)
{
	bool found = t == wanted;

	for (size_t i = 0; t && !found && i < t->n; i++)
		found = t->rows[i].sub && openapi_table_uses(t->rows[i].sub, wanted);
	return found;
}

/* Some tables are between our own programs, and queries are parameters. */
static bool openapi_table_is_body(const struct field_table *t)
{
	for (unsigned i = 0; i < OP_NUM; i++)
		if (openapi_table_uses(ops[i].request, t) || openapi_table_uses(ops[i].response, t))
			return true;
	return openapi_table_uses(&error_body_table, t);
}

static void openapi_write_components(struct jw *w)
{
	jw_object_begin(w, "components");
	jw_object_begin(w, "securitySchemes");
	jw_object_begin(w, "key");
	jw_str(w, "type", "http");
	jw_str(w, "scheme", "bearer");
	jw_str(w, "description", "An API key; an operation lists the scope the key must have");
	jw_end(w);
	jw_end(w);
	jw_object_begin(w, "responses");
	jw_object_begin(w, "Error");
	jw_str(w, "description", "What failed, why, and what to do");
	jw_object_begin(w, "content");
	openapi_write_media(w, "application/json", &error_body_table);
	jw_end(w);
	jw_end(w);
	jw_end(w);
	jw_object_begin(w, "schemas");
	for (size_t i = 0; field_tables[i]; i++)
		if (openapi_table_is_body(field_tables[i]))
			field_schema_write(field_tables[i], field_tables[i]->name, w);
	jw_end(w);
	jw_end(w);
}

static void openapi_write_tags(struct jw *w)
{
	jw_array_begin(w, "tags");
	for (size_t i = 0; i < op_n_tags; i++) {
		jw_object_begin(w, NULL);
		jw_str(w, "name", op_tags[i].name);
		jw_str(w, "description", op_tags[i].help);
		jw_end(w);
	}
	jw_end(w);
}

void openapi_write(struct jw *w)
{
	jw_object_begin(w, NULL);
	jw_str(w, "openapi", "3.1.0");
	jw_object_begin(w, "info");
	jw_str(w, "title", "Cay");
	jw_str(w, "version", CAY_VERSION);
	jw_str(w, "description", "A Linux computer for every agent, on machines you own");
	jw_object_begin(w, "license");
	jw_str(w, "name", "Apache-2.0");
	jw_str(w, "identifier", "Apache-2.0");
	jw_end(w);
	jw_end(w);
	jw_array_begin(w, "servers");
	jw_object_begin(w, NULL);
	jw_str(w, "url", "/");
	jw_end(w);
	jw_end(w);
	openapi_write_tags(w);
	openapi_write_paths(w);
	openapi_write_components(w);
	jw_end(w);
}
