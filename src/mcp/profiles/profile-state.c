/* SPDX-License-Identifier: Apache-2.0 */
/* profile-state - native tools that keep the files of sandboxes and start others with them */
#include "mcp/profiles/profile-state.h"

#include <string.h>

static const char event_data[] = "data: ";

static int fork_begin_call(struct tool_run *run, const struct id *source, struct cay_err *err)
{
	static const char *const of_source[] = { "image",    "template",   "timezone",
						 "packages", "memory_mib", "cpus" };
	const char *name = tool_run_arg_text(run, "name");
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(of_source); i++)
		if (json_object_get(run->args, of_source[i]))
			return cay_fail_field(err, CAY_E_INVALID, of_source[i],
					      "is that of the sandbox in `from`: leave it out");
	id_format(source, run->sandbox);
	tool_run_begin_call(run, OP_SANDBOX_FORK);
	r = tool_run_map_args(run, err);
	return r >= 0 && name ? tool_run_set(run, err, "{s:[s]}", "names", name) : r;
}

/* The first line of data in a stream of events; NULL: it has none. */
static json_t *event_stream_first(struct slice stream)
{
	static const struct json_limits limits = { TOOL_RUN_ANSWER_MAX, 24, 32768 };
	const size_t n = sizeof(event_data) - 1;
	json_t *ret = NULL;

	while (stream.p && !ret) {
		struct slice line = slice_cut(&stream, '\n');

		if (line.n <= n || memcmp(line.p, event_data, n) != 0)
			continue;
		if (json_parse((struct slice){ line.p + n, line.n - n }, &limits, &ret, NULL) < 0)
			return NULL;
	}
	return ret;
}

/* The outcome of the one sandbox that was asked for becomes the reply. */
static int fork_read_outcome(struct tool_run *run, struct cay_err *err)
{
	auto_json outcome = event_stream_first(run->answer.body);
	json_t *sandbox = json_object_get(outcome, "sandbox");
	bool failed = json_object_get(outcome, "error");

	json_decref(run->answer.json);
	run->answer.json = json_incref(failed ? outcome : sandbox);
	if (failed) {
		tool_run_read_failure(run, err);
		return -EREMOTEIO;
	}
	return sandbox ? TOOL_FINISHED
		       : cay_fail(err, CAY_E_UNAVAILABLE,
				  "the server stopped before the sandbox was created");
}

int create_from_next_call(struct tool_run *run, const char *from, struct cay_err *err)
{
	struct id id = {};

	if (run->step)
		return run->call.op == OP_SANDBOX_FORK ? fork_read_outcome(run, err)
						       : TOOL_FINISHED;
	if (id_parse(ID_NONE, slice_of(from), &id) >= 0 && id.noun == ID_SANDBOX)
		return fork_begin_call(run, &id, err);
	if (id.noun != ID_SNAPSHOT)
		return cay_fail_field(err, CAY_E_INVALID, "from",
				      "'%.40s' is not the id of a snapshot or a sandbox, as "
				      "sandbox_list shows them",
				      from);
	return tool_run_default_call(run, err);
}

/* The id of a snapshot in an argument. */
static int snapshot_check_arg(const char *arg, const char *text, struct cay_err *err)
{
	struct id id;

	if (id_parse(ID_SNAPSHOT, slice_of(text), &id) < 0)
		return cay_fail_field(
			err, CAY_E_INVALID, arg,
			"'%.40s' is not the id of a snapshot, as sandbox_list shows it", text);
	return 0;
}

int native_snapshot_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *back = tool_run_arg_text(run, "rollback");

	if (!back || run->step)
		return tool_run_default_call(run, err);
	if (tool_run_arg_text(run, "name"))
		return cay_fail_field(err, CAY_E_INVALID, "name", "give one of name and rollback");
	if (snapshot_check_arg("rollback", back, err) < 0)
		return -EINVAL;
	return tool_run_call(run, OP_SANDBOX_ROLLBACK, err, "{s:s}", "snapshot", back);
}

int native_snapshot_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const char *back = tool_run_arg_text(run, "rollback");
	const json_t *j = run->answer.json;

	out->data = j;
	if (back)
		return tool_result_printf(out, "%s has the files of %s again, and is %s",
					  json_member_str(j, "id"), back,
					  json_member_str(j, "state"));
	tool_result_printf(out, "%s: the files of %s as they were", json_member_str(j, "id"),
			   json_member_str(j, "sandbox"));
	return 0;
}

int snapshots_begin_call(struct tool_run *run, struct cay_err *err)
{
	return tool_run_call(run, OP_SNAPSHOT_LIST, err, "{s:I}", "limit",
			     (json_int_t)tool_run_arg_number(run, "limit"));
}

void snapshots_add_lines(const json_t *answer, struct result_lines *lines)
{
	const json_t *s;
	size_t i;

	json_array_foreach(json_object_get(answer, "snapshots"), i, s)
	{
		const char *name = json_member_str(s, "name");

		result_lines_printf(lines, "%s  %-20s snapshot of %s, %s", json_member_str(s, "id"),
				    name[0] ? name : "-", json_member_str(s, "sandbox"),
				    json_member_str(s, "created_at"));
	}
}

int snapshot_delete_next_call(struct tool_run *run, const char *text, struct cay_err *err)
{
	if (run->step)
		return TOOL_FINISHED;
	if (snapshot_check_arg("snapshot", text, err) < 0)
		return -EINVAL;
	return tool_run_call(run, OP_SNAPSHOT_DELETE, err, "{s:s}", "snapshot", text);
}
