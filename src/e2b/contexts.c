/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts of the code interpreter are kernels, and shells for bash. */
#include "e2b/e2b.h"

bool e2b_context_is_bash(const char *context)
{
	struct id id;

	return id_parse(ID_SHELL, slice_of(context), &id) >= 0;
}

static json_t *context_describe(const json_t *session, const char *cwd)
{
	const char *language = json_string_value(json_object_get(session, "language"));
	const char *at = json_string_value(json_object_get(session, "cwd"));

	return json_pack("{s:O,s:s,s:s}", "id", json_object_get(session, "id"), "language",
			 !language                  ? "bash"
			 : str_eq(language, "node") ? "javascript"
						    : language,
			 "cwd", at ? at : cwd);
}

static void contexts_add(struct e2b_request *v, const char *member, json_t *rows)
{
	json_t *session;
	size_t i;

	/* a kernel that has ended starts again when it runs something, a shell does not */
	json_array_foreach(json_object_get(v->answer, member), i, session)
	{
		bool ended = json_text_eq(json_object_get(session, "state"), "ended");

		if (!ended || json_object_get(session, "language"))
			(void)json_array_append_new(rows, context_describe(session, v->workspace));
	}
}

static void on_context_shells(struct e2b_request *v)
{
	contexts_add(v, "shells", v->kept);
	e2b_reply(v, 200, json_incref(v->kept));
}

static void on_context_kernels(struct e2b_request *v)
{
	v->kept = json_array();
	contexts_add(v, "kernels", v->kept);
	e2b_call(v, OP_SHELL_LIST, on_context_shells, "{}");
}

static void contexts_resolved(struct e2b_request *v)
{
	e2b_call(v, OP_KERNEL_LIST, on_context_kernels, "{}");
}

void e2b_context_list(struct e2b_request *v)
{
	e2b_resolve_paths(v, "/", NULL, contexts_resolved);
}

static void on_context_created(struct e2b_request *v)
{
	e2b_reply(v, 200, context_describe(v->answer, v->target));
}

static void context_resolved(struct e2b_request *v)
{
	const char *language = e2b_code_language(v->json);

	if (str_eq(language, "bash"))
		e2b_call(v, OP_SHELL_CREATE, on_context_created, "{s:s}", "cwd", v->target);
	else
		e2b_call(v, OP_KERNEL_CREATE, on_context_created, "{s:s,s:s}", "language", language,
			 "cwd", v->target);
}

void e2b_context_create(struct e2b_request *v)
{
	const char *cwd = json_string_value(json_object_get(v->json, "cwd"));

	e2b_resolve_paths(v, cwd ? cwd : ".", NULL, context_resolved);
}

static void on_context_done(struct e2b_request *v)
{
	e2b_reply(v, 200, json_null());
}

void e2b_context_delete(struct e2b_request *v)
{
	if (e2b_context_is_bash(v->segment))
		e2b_call(v, OP_SHELL_DELETE, on_context_done, "{s:s}", "shell", v->segment);
	else
		e2b_call(v, OP_KERNEL_DELETE, on_context_done, "{s:s}", "kernel", v->segment);
}

void e2b_context_restart(struct e2b_request *v)
{
	if (e2b_context_is_bash(v->segment))
		e2b_refuse(v, CAY_E_INVALID,
			   "a context of bash cannot be restarted: remove it and create another");
	else
		e2b_call(v, OP_KERNEL_RESTART, on_context_done, "{s:s}", "kernel", v->segment);
}
