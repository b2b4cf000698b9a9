/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool-run.h"

#include <stdio.h>

#define GROUP_DEFAULT "default"

/* The argument that maps to this member; NULL: none. */
static const char *tool_arg_name_of_member(const struct tool_run *run, const char *member)
{
	for (const struct tool_arg *a = run->tool->args; a->name || a->as; a++)
		if (a->name && a->as && a->type != TOOL_ALIAS && str_eq(a->as, member))
			return a->name;
	return NULL;
}

/* The model's sandbox argument; profiles name it differently. */
static const char *tool_sandbox_find_arg(const struct tool_run *run)
{
	const char *arg = tool_arg_name_of_member(run, "sandbox");

	return arg ? tool_run_arg_text(run, arg) : NULL;
}

static const char *tool_sandbox_group(const struct tool_run *run)
{
	return run->group ? run->group : GROUP_DEFAULT;
}

#define OWN_NAME_MAX 64

static int tool_sandbox_own_name(const struct tool_run *run, char name[static OWN_NAME_MAX],
				 struct cay_err *err)
{
	int n = snprintf(name, OWN_NAME_MAX, "mcp-%s", tool_sandbox_group(run));

	if (n < 0 || n >= OWN_NAME_MAX)
		return cay_fail(err, CAY_E_INVALID, "the group's name is too long");
	return 0;
}

/* The newest of the name: the live one, or the one that ended last. */
static int tool_sandbox_request_own(struct tool_run *run, struct cay_err *err)
{
	char name[OWN_NAME_MAX];
	int r = tool_sandbox_own_name(run, name, err);

	run->find = FIND_OWN;
	return r < 0 ? r
		     : tool_run_call(run, OP_SANDBOX_LIST, err, "{s:s, s:i}", "name", name, "limit",
				     1);
}

/* Creating a name again returns the same sandbox. */
static int tool_sandbox_request_default(struct tool_run *run, struct cay_err *err)
{
	const struct settings *s = run->settings;
	char name[OWN_NAME_MAX];
	int r = tool_sandbox_own_name(run, name, err);

	if (r < 0)
		return r;
	run->find = FIND_CREATED;
	return tool_run_call(run, OP_SANDBOX_CREATE, err, "{s:s, s:s, s:s, s:I}", "name", name,
			     "group", tool_sandbox_group(run),
			     s->mcp_template[0] ? "template" : "image",
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

static const char *const end_words[END_NUM_REASONS] = {
#define CAY_REASON(sym, name, process, pid1, sandbox, words, advice) [END_##sym] = words,
#include "ops/reasons.def"
#undef CAY_REASON
};

static enum end_reason tool_sandbox_end_reason(const json_t *end)
{
	const char *name = json_string_value(json_object_get(end, "reason"));
	unsigned i = 0;

	while (name && i < END_NUM_REASONS && !str_eq(end_reasons[i], name))
		i++;
	return name ? (enum end_reason)i : END_NUM_REASONS;
}

/* A failed start was reported by the call that wanted the sandbox. */
static bool tool_sandbox_end_is_news(const struct tool_run *run, const json_t *sandbox,
				     const struct id *id)
{
	if (tool_sandbox_end_reason(json_object_get(sandbox, "end")) == END_START_FAILED)
		return false;
	return !run->told || !told_ends_has(run->told, id);
}

static int tool_sandbox_report_end(struct tool_run *run, const json_t *sandbox, const struct id *id,
				   struct cay_err *err)
{
	const json_t *end = json_object_get(sandbox, "end");
	const char *detail = json_string_value(json_object_get(end, "detail"));
	enum end_reason reason = tool_sandbox_end_reason(end);
	char text[ID_TEXT_LEN + 1];

	if (run->told)
		told_ends_add(run->told, id);
	id_format(id, text);
	return cay_fail(err, CAY_E_STATE,
			"the sandbox of this conversation, %s, has ended: %s%s%.60s; its files, "
			"processes and shells are lost, and this call did nothing",
			text,
			reason < END_NUM_REASONS ? end_words[reason] : "for an unknown reason",
			detail && detail[0] ? ", " : "", detail ? detail : "");
}

/* Use the group's sandbox, report its end, or create it. */
static int tool_sandbox_read_own(struct tool_run *run, struct cay_err *err)
{
	const json_t *list = json_object_get(run->answer.json, "sandboxes");
	const json_t *sandbox = json_array_get(list, 0);
	const char *text = json_string_value(json_object_get(sandbox, "id"));
	const char *state = json_string_value(json_object_get(sandbox, "state"));
	bool creates = run->tool->hints & TOOL_DEFAULT_SANDBOX;
	struct id id;

	if (text && state && id_parse(ID_SANDBOX, slice_of(text), &id) >= 0) {
		bool ended = json_object_get(sandbox, "end");
		/* a create waits until it runs */
		bool usable = !ended && !(creates && str_eq(state, "pending"));

		if (usable) {
			id_format(&id, run->sandbox);
			return TOOL_FINISHED;
		}
		if (ended && creates && tool_sandbox_end_is_news(run, sandbox, &id))
			return tool_sandbox_report_end(run, sandbox, &id, err);
	}
	return creates ? tool_sandbox_request_default(run, err) : TOOL_FINISHED;
}

/* By the model's argument, the credential, or the group. */
static int tool_sandbox_begin(struct tool_run *run, struct cay_err *err)
{
	const char *name = tool_sandbox_find_arg(run);
	struct id id;

	if (name && id_parse(ID_SANDBOX, slice_of(name), &id) >= 0) {
		id_format(&id, run->sandbox);
		return TOOL_FINISHED;
	}
	run->find = FIND_BY_NAME;
	if (name)
		return tool_run_call(run, OP_SANDBOX_LIST, err, "{s:s, s:s, s:i}", "name", name,
				     "state", "live", "limit", 1);
	if (run->actor.one_sandbox) {
		id_format(&run->actor.sandbox, run->sandbox);
		return TOOL_FINISHED;
	}
	if (!(run->tool->hints & (TOOL_DEFAULT_SANDBOX | TOOL_OWN_SANDBOX)))
		return cay_fail_field(err, CAY_E_INVALID, "sandbox", "is required");
	return tool_sandbox_request_own(run, err);
}

int tool_run_find_sandbox(struct tool_run *run, struct cay_err *err)
{
	bool wanted = strstr(ops[run->tool->op].path, "{sandbox}") ||
		      run->tool->hints & TOOL_DEFAULT_SANDBOX;

	if (!wanted || run->sandbox[0] ||
	    (run->tool->hints & TOOL_OWN_SANDBOX &&
	     (tool_run_arg_text(run, "label") || tool_run_arg_text(run, "snapshot"))))
		return TOOL_FINISHED;
	switch (run->find) {
	case FIND_BEGIN:
		return tool_sandbox_begin(run, err);
	case FIND_OWN:
		return tool_sandbox_read_own(run, err);
	case FIND_BY_NAME:
	case FIND_CREATED:
		break;
	}
	return tool_sandbox_read_answer(run, err);
}

void tool_run_note_end(struct tool_run *run)
{
	struct id id;

	if (run->told && run->call.op == OP_SANDBOX_DELETE && run->answer.status < 400 &&
	    id_parse(ID_SANDBOX, slice_of(run->sandbox), &id) >= 0)
		told_ends_add(run->told, &id);
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

/* Of an error or an end; an unknown blame is replaced by that of the code. */
static void tool_answer_copy_blame(const json_t *judged, struct cay_err *err)
{
	const char *name = json_string_value(json_object_get(judged, "blame"));

	for (unsigned b = 0; name && b < BLAME_NUM; b++)
		if (str_eq(blame_names[b], name))
			cay_err_set_blame(err, (enum blame)b);
}

void tool_run_read_failure(const struct tool_run *run, struct cay_err *err)
{
	const json_t *error = json_object_get(run->answer.json, "error");
	char member[CAY_ERR_FIELD_MAX] = "";
	const char *arg;

	*err = (struct cay_err){ .code = tool_answer_error_code(error) };
	tool_answer_copy_blame(error, err);
	tool_answer_copy_text(error, "message", err->msg, sizeof(err->msg));
	tool_answer_copy_text(error, "field", member, sizeof(member));
	arg = tool_arg_name_of_member(run, member);
	if (snprintf(err->field, sizeof(err->field), "%s", arg ? arg : member) < 0)
		err->field[0] = 0;
	if (!err->msg[0] && snprintf(err->msg, sizeof(err->msg),
				     "the operation failed with status %u", run->answer.status) < 0)
		err->msg[0] = 0;
}
