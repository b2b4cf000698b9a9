/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool-run.h"

#include <stdio.h>

#define GROUP_DEFAULT "default"

/* The argument that maps to this member; NULL: none. */
static const char *tool_arg_name_of_member(const struct tool_run *run, const char *member)
{
	for (const struct tool_arg *a = run->tool->args; a->name || a->as; a++)
		if (a->name && a->as && str_eq(a->as, member))
			return a->name;
	return NULL;
}

/* The model's sandbox argument; profiles name it differently. */
static const char *tool_sandbox_find_arg(const struct tool_run *run)
{
	const char *arg = tool_arg_name_of_member(run, "sandbox");

	return arg ? tool_run_arg_text(run, arg) : NULL;
}

/* Creating a name again returns the same sandbox. */
static int tool_sandbox_request_default(struct tool_run *run, struct cay_err *err)
{
	const char *group = run->group ? run->group : GROUP_DEFAULT;
	const struct settings *s = run->settings;
	char name[64];
	int n = snprintf(name, sizeof(name), "mcp-%s", group);

	if (n < 0 || n >= (int)sizeof(name))
		return cay_fail(err, CAY_E_INVALID, "the group's name is too long");
	return tool_run_call(run, OP_SANDBOX_CREATE, err, "{s:s, s:s, s:s, s:I}", "name", name,
			     "group", group, s->mcp_template[0] ? "template" : "image",
			     s->mcp_template[0] ? s->mcp_template : s->mcp_image, "idle_ms",
			     (json_int_t)s->mcp_idle_ms);
}

static int tool_sandbox_read_answer(struct tool_run *run, struct cay_err *err)
{
	const json_t *list = json_object_get(run->answer.json, "sandboxes");
	const json_t *sandbox =
		run->call.op == OP_SANDBOX_LIST ? json_array_get(list, 0) : run->answer.json;
	const char *text = json_string_value(json_object_get(sandbox, "id"));
	struct id id;

	if (!text || id_parse(ID_SANDBOX, slice_of(text), &id) < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, "no such sandbox: '%.64s'",
				tool_sandbox_find_arg(run) ? tool_sandbox_find_arg(run) : "");
	id_format(&id, run->sandbox);
	return TOOL_FINISHED;
}

int tool_run_find_sandbox(struct tool_run *run, struct cay_err *err)
{
	bool wanted = strstr(ops[run->tool->op].path, "{sandbox}") ||
		      run->tool->hints & TOOL_DEFAULT_SANDBOX;
	const char *name = wanted ? tool_sandbox_find_arg(run) : NULL;
	struct id id;

	if (!wanted || run->sandbox[0])
		return TOOL_FINISHED;
	if (run->step)
		return tool_sandbox_read_answer(run, err);
	if (name && id_parse(ID_SANDBOX, slice_of(name), &id) >= 0) {
		id_format(&id, run->sandbox);
		return TOOL_FINISHED;
	}
	if (name)
		return tool_run_call(run, OP_SANDBOX_LIST, err, "{s:s, s:s, s:i}", "name", name,
				     "state", "live", "limit", 1);
	if (run->actor.one_sandbox) {
		id_format(&run->actor.sandbox, run->sandbox);
		return TOOL_FINISHED;
	}
	if (!(run->tool->hints & TOOL_DEFAULT_SANDBOX))
		return cay_fail_field(err, CAY_E_INVALID, "sandbox", "is required");
	return tool_sandbox_request_default(run, err);
}

static void tool_answer_copy_text(const json_t *j, const char *key, char *to, size_t room)
{
	const char *text = json_string_value(json_object_get(j, key));

	if (text && snprintf(to, room, "%s", text) >= (int)room)
		memcpy(to + room - 4, "...", 4);
}

static enum cay_code tool_answer_error_code(const json_t *error)
{
	const char *name = json_string_value(json_object_get(error, "code"));

	for (unsigned c = CAY_OK + 1; name && c < CAY_NUM_CODES; c++)
		if (str_eq(cay_error_row((enum cay_code)c)->name, name))
			return (enum cay_code)c;
	return CAY_E_INTERNAL;
}

void tool_run_read_failure(const struct tool_run *run, struct cay_err *err)
{
	const json_t *error = json_object_get(run->answer.json, "error");
	char member[CAY_ERR_FIELD_MAX] = "";
	const char *arg;

	*err = (struct cay_err){ .code = tool_answer_error_code(error) };
	tool_answer_copy_text(error, "message", err->msg, sizeof(err->msg));
	tool_answer_copy_text(error, "field", member, sizeof(member));
	arg = tool_arg_name_of_member(run, member);
	if (snprintf(err->field, sizeof(err->field), "%s", arg ? arg : member) < 0)
		err->field[0] = 0;
	if (!err->msg[0] && snprintf(err->msg, sizeof(err->msg),
				     "the operation failed with status %u", run->answer.status) < 0)
		err->msg[0] = 0;
}
