/* SPDX-License-Identifier: Apache-2.0 */
#include "opensandbox/opensandbox.h"

/* Sessions are shells. */

static void on_osb_session_created(struct osb_request *v)
{
	osb_reply(v, 200, json_pack("{s:s}", "session_id", osb_answer_text(v, "id")));
}

static void osb_session_open(struct osb_request *v)
{
	const char *cwd = osb_text(v->json, "cwd");

	if (cwd[0])
		osb_call(v, OP_SHELL_CREATE, on_osb_session_created, "{s:s}", "cwd",
			 osb_absolute(v, cwd));
	else
		osb_call(v, OP_SHELL_CREATE, on_osb_session_created, "{}");
}

void osb_session_create(struct osb_request *v)
{
	osb_with_info(v, osb_session_open);
}

static void osb_session_start(struct osb_request *v)
{
	const json_t *timeout = json_object_get(v->json, "timeout");
	json_int_t ms = json_integer_value(timeout);

	v->target = v->segment;
	osb_stream_run(v, OP_SHELL_RUN,
		       json_pack("{s:s,s:O,s:I}", "shell", v->segment, "command",
				 json_object_get(v->json, "command"), "timeout_ms",
				 ms < 0          ? (json_int_t)0
				 : ms > 86400000 ? (json_int_t)86400000
						 : ms),
		       true);
}

static void on_osb_session_moved(struct osb_request *v)
{
	const json_t *end = json_object_get(v->answer, "end");

	if (json_integer_value(json_object_get(end, "exit_code")) ||
	    !str_eq(osb_text(end, "reason"), "exit"))
		osb_refuse(v, CAY_E_INVALID, "cwd is not a directory that the session can enter");
	else
		osb_session_start(v);
}

/* The shell goes there first, in a run of its own, and stays. */
static void osb_session_move(struct osb_request *v)
{
	auto_buf b = BUF_INIT(4 * OSB_PATH_MAX + 16);
	const char *cwd = osb_absolute(v, osb_text(v->json, "cwd"));
	int r = cwd ? buf_puts(&b, "cd -- '") : -EINVAL;

	for (; r >= 0 && *cwd; cwd++)
		r = *cwd == '\'' ? buf_puts(&b, "'\\''") : buf_putc(&b, *cwd);
	if (r >= 0)
		r = buf_putc(&b, '\'');
	if (r < 0)
		osb_refuse(v, CAY_E_INVALID, "cwd is too long");
	else
		osb_call(v, OP_SHELL_RUN, on_osb_session_moved, "{s:s,s:s}", "shell", v->segment,
			 "command", buf_str(&b));
}

void osb_session_run(struct osb_request *v)
{
	if (!osb_text(v->json, "command")[0])
		osb_refuse(v, CAY_E_INVALID, "command is missing");
	else if (osb_text(v->json, "cwd")[0])
		osb_with_info(v, osb_session_move);
	else
		osb_session_start(v);
}

static void on_osb_session_deleted(struct osb_request *v)
{
	osb_reply_status(v, 200);
}

void osb_session_delete(struct osb_request *v)
{
	osb_call(v, OP_SHELL_DELETE, on_osb_session_deleted, "{s:s}", "shell", v->segment);
}
