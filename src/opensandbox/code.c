/* SPDX-License-Identifier: Apache-2.0 */
#include "opensandbox/opensandbox.h"

#define RESULTS_MAX MIB(3)
#define KERNELS_MAX 1024 /* of a list; a sandbox has fewer */

/* Contexts are kernels; a language that Cay has no kernel for is refused by the operation. */

static const char *osb_code_language(const char *language)
{
	return str_eq(language, "javascript") ? "node" : language;
}

static json_t *osb_context(const json_t *kernel)
{
	const char *language = osb_text(kernel, "language");

	return json_pack("{s:s,s:s,s:s}", "id", osb_text(kernel, "id"), "language",
			 str_eq(language, "node") ? "javascript" : language, "cwd",
			 osb_text(kernel, "cwd"));
}

static void on_osb_context_known(struct osb_request *v)
{
	osb_reply(v, 200, osb_context(v->answer));
}

static void osb_context_open(struct osb_request *v)
{
	const char *cwd = osb_absolute(v, osb_text(v->json, "cwd"));
	json_t *m =
		json_pack("{s:s}", "language", osb_code_language(osb_text(v->json, "language")));

	if (m && osb_text(v->json, "cwd")[0])
		(void)json_object_set_new(m, "cwd", json_string(cwd));
	osb_call_with(v, OP_KERNEL_CREATE, on_osb_context_known, m);
}

void osb_context_create(struct osb_request *v)
{
	if (!osb_text(v->json, "language")[0])
		osb_refuse(v, CAY_E_INVALID, "language is missing");
	else
		osb_with_info(v, osb_context_open);
}

/* Of the language in v->target, or all. */
static bool osb_context_is_wanted(const struct osb_request *v, const json_t *kernel)
{
	return !v->target || !v->target[0] ||
	       str_eq(osb_code_language(v->target), osb_text(kernel, "language"));
}

/* The kernels of the answer; NULL: the request has ended. */
static json_t *osb_kernels(struct osb_request *v)
{
	json_t *kernels = json_object_get(v->answer, "kernels");

	if (json_is_array(kernels) && json_array_size(kernels) <= KERNELS_MAX)
		return kernels;
	osb_refuse(v, CAY_E_MISBEHAVED, "the sandbox sent no list of kernels");
	return NULL;
}

static void on_osb_contexts_known(struct osb_request *v)
{
	json_t *kernels = osb_kernels(v), *kernel;
	size_t i;

	if (!kernels)
		return;
	v->rows = json_array();
	json_array_foreach(kernels, i, kernel)
	{
		if (osb_context_is_wanted(v, kernel) && osb_add_row(v, osb_context(kernel)) < 0)
			return;
	}
	osb_reply(v, 200, json_incref(v->rows));
}

void osb_context_list(struct osb_request *v)
{
	v->target = osb_query(v, "language");
	osb_call(v, OP_KERNEL_LIST, on_osb_contexts_known, "{}");
}

void osb_context_get(struct osb_request *v)
{
	osb_call(v, OP_KERNEL_GET, on_osb_context_known, "{s:s}", "kernel", v->segment);
}

static void on_osb_context_done(struct osb_request *v)
{
	osb_reply_status(v, 200);
}

void osb_context_delete(struct osb_request *v)
{
	osb_call(v, OP_KERNEL_DELETE, on_osb_context_done, "{s:s}", "kernel", v->segment);
}

/* One after the other; v->rows are those that were there. */
static void osb_context_delete_next(struct osb_request *v)
{
	const json_t *kernel;

	while ((kernel = json_array_get(v->rows, v->at))) {
		v->at++;
		if (!osb_context_is_wanted(v, kernel))
			continue;
		v->accepts_failure = true;
		osb_call(v, OP_KERNEL_DELETE, osb_context_delete_next, "{s:s}", "kernel",
			 osb_text(kernel, "id"));
		return;
	}
	osb_reply_status(v, 200);
}

static void on_osb_contexts_to_delete(struct osb_request *v)
{
	json_t *kernels = osb_kernels(v);

	if (!kernels)
		return;
	v->rows = json_incref(kernels);
	osb_context_delete_next(v);
}

void osb_context_delete_all(struct osb_request *v)
{
	v->target = osb_query(v, "language");
	if (!v->target || !v->target[0])
		osb_refuse(v, CAY_E_INVALID, "language is missing");
	else
		osb_call(v, OP_KERNEL_LIST, on_osb_contexts_to_delete, "{}");
}

/* Run code: in a context, in the context that a language has by default, or, without a language, as
 * a command. */

static void osb_code_start(struct osb_request *v)
{
	osb_stream_run(v, OP_KERNEL_RUN,
		       json_pack("{s:s,s:O,s:i}", "kernel", v->target, "code",
				 json_object_get(v->json, "code"), "max_results", RESULTS_MAX),
		       true);
}

static void on_osb_default_created(struct osb_request *v)
{
	const char *id = osb_answer_text(v, "id");

	v->target = arena_strndup(&v->arena, id, strlen(id));
	if (!v->target)
		osb_refuse(v, CAY_E_NO_MEMORY, "out of memory");
	else
		osb_code_start(v);
}

/* Kernels are named, so that two requests at once do not open two: the second is refused. */
static void on_osb_defaults_known(struct osb_request *v)
{
	const char *language = osb_code_language(osb_text(v->kept, "language"));
	json_t *kernels = osb_kernels(v), *kernel;
	size_t i;

	if (!kernels)
		return;
	json_array_foreach(kernels, i, kernel)
	{
		if (str_eq(osb_text(kernel, "name"), language)) {
			const char *id = osb_text(kernel, "id");

			v->target = arena_strndup(&v->arena, id, strlen(id));
			break;
		}
	}
	if (v->target) {
		json_decref(v->kept);
		v->kept = NULL;
		osb_code_start(v);
	} else {
		json_t *m = json_pack("{s:s,s:s}", "language", language, "name", language);

		json_decref(v->kept);
		v->kept = NULL;
		osb_call_with(v, OP_KERNEL_CREATE, on_osb_default_created, m);
	}
}

void osb_code_run(struct osb_request *v)
{
	json_t *context = json_object_get(v->json, "context");
	const char *id = osb_text(context, "id"), *code = osb_text(v->json, "code");

	if (!code[0]) {
		osb_refuse(v, CAY_E_INVALID, "code is missing");
	} else if (id[0]) {
		v->target = id;
		osb_code_start(v);
	} else if (!osb_text(context, "language")[0] ||
		   str_eq(osb_text(context, "language"), "command")) {
		(void)json_object_set_new(v->json, "command", json_string(code));
		osb_command_run(v);
	} else {
		v->kept = json_incref(context);
		osb_call(v, OP_KERNEL_LIST, on_osb_defaults_known, "{}");
	}
}

void osb_code_interrupt(struct osb_request *v)
{
	const char *id = osb_query(v, "id");

	if (!id || !id[0])
		osb_refuse(v, CAY_E_INVALID, "id is missing");
	else if (strncmp(id, "ex", 2) == 0)
		osb_command_interrupt(v);
	else
		osb_call(v, OP_KERNEL_INTERRUPT, on_osb_context_done, "{s:s}", "kernel", id);
}
