/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "opensandbox/opensandbox.h"

#define TIMEOUT_MAX_MS 86400000
#define TERM_MS 3000 /* from SIGTERM to SIGKILL */
#define LOOK_MS 200
#define CURSOR_HEADER "EXECD-COMMANDS-TAIL-CURSOR"

/* execd uses bash where there is one. */
static const char osb_shell[] = "s=$(command -v bash) || s=/bin/sh; exec \"$s\" -c \"$0\"";
/* Both outputs of a command in the background are one text, in its order. */
static const char osb_shell_joined[] =
	"s=$(command -v bash) || s=/bin/sh; exec \"$s\" -c \"$0\" 2>&1";
static const char osb_argv_joined[] = "exec \"$@\" 2>&1";

/* How the SDK of the code interpreter asks whether Jupyter listens in the sandbox.  Cay's kernels
 * need no Jupyter, and are ready when the sandbox runs. */
static const char osb_jupyter_probe[] =
	"bash -c 'exec 3<>/dev/tcp/127.0.0.1/${JUPYTER_PORT:-44771}' "
	"&& exit 0 || exit 1";

static json_t *osb_command_argv(const json_t *body, bool background)
{
	json_t *argv = json_object_get(body, "argv"), *list;
	const char *command = osb_text(body, "command");

	if (str_eq(command, osb_jupyter_probe))
		command = "exit 0";
	if (!json_array_size(argv))
		return json_pack("[s,s,s,s]", "/bin/sh", "-c",
				 background ? osb_shell_joined : osb_shell, command);
	if (!background)
		return json_incref(argv);
	list = json_pack("[s,s,s,s]", "/bin/sh", "-c", osb_argv_joined, "sh");
	if (list)
		(void)json_array_extend(list, argv);
	return list;
}

static int osb_command_members(struct osb_request *v, json_t *m, struct cay_err *err)
{
	const json_t *timeout = json_object_get(v->json, "timeout");
	const json_t *uid = json_object_get(v->json, "uid"), *gid = json_object_get(v->json, "gid");
	json_t *env = json_object_get(v->json, "envs");
	const char *cwd = osb_absolute(v, osb_text(v->json, "cwd"));
	char user[24];

	if (gid && !json_is_null(gid) && !json_equal(uid, gid))
		return cay_fail(err, CAY_E_INVALID,
				"Cay runs a command with the groups of its user: leave gid out");
	if (timeout && !json_is_null(timeout)) {
		if (!json_is_integer(timeout) || json_integer_value(timeout) < 0)
			return cay_fail(err, CAY_E_INVALID,
					"timeout is not a number of milliseconds");
		(void)json_object_set_new(m, "timeout_ms",
					  json_integer(json_integer_value(timeout) > TIMEOUT_MAX_MS
							       ? TIMEOUT_MAX_MS
							       : json_integer_value(timeout)));
	}
	if (uid && !json_is_null(uid)) {
		int n = snprintf(user, sizeof(user), "%lld", (long long)json_integer_value(uid));

		if (n < 0 || !json_is_integer(uid) || json_integer_value(uid) < 0)
			return cay_fail(err, CAY_E_INVALID, "uid is not a number");
		(void)json_object_set_new(m, "user", json_string(user));
	}
	if (json_object_size(env))
		(void)json_object_set(m, "env", env);
	if (osb_text(v->json, "cwd")[0])
		(void)json_object_set_new(m, "cwd", json_string(cwd));
	return 0;
}

static void on_osb_command_detached(struct osb_request *v)
{
	v->number = uv_now(&v->door->face.loop);
	(void)osb_stream_init(v, osb_answer_text(v, "id"));
	osb_stream_complete(v);
}

static void osb_command_start(struct osb_request *v)
{
	bool background = json_is_true(json_object_get(v->json, "background"));
	json_t *m = json_pack("{s:o,s:s,s:b}", "argv", osb_command_argv(v->json, background),
			      "output", background ? "spool" : "block", "detach", background);
	struct cay_err err = {};

	if (!m) {
		osb_refuse(v, CAY_E_NO_MEMORY, "out of memory");
	} else if (osb_command_members(v, m, &err) < 0) {
		json_decref(m);
		osb_fail(v, &err);
	} else if (background) {
		osb_call_with(v, OP_EXEC_RUN, on_osb_command_detached, m);
	} else {
		osb_stream_run(v, OP_EXEC_RUN, m, false);
	}
}

void osb_command_run(struct osb_request *v)
{
	const char *cwd = osb_text(v->json, "cwd");

	if (!osb_text(v->json, "command")[0] && !json_array_size(json_object_get(v->json, "argv")))
		osb_refuse(v, CAY_E_INVALID, "command is missing");
	else if (cwd[0] && cwd[0] != '/')
		osb_with_info(v, osb_command_start);
	else
		osb_command_start(v);
}

/* Interrupt: SIGTERM, and SIGKILL for what is still there. */

static void on_osb_interrupted(struct osb_request *v)
{
	osb_reply_status(v, 200);
}

static void osb_interrupt_look(struct osb_request *v);

static void on_osb_interrupt_seen(struct osb_request *v)
{
	if (!str_eq(osb_answer_text(v, "state"), "running"))
		osb_reply_status(v, 200);
	else if (uv_now(&v->door->face.loop) >= v->number)
		osb_call(v, OP_EXEC_SIGNAL, on_osb_interrupted, "{s:s,s:s}", "exec", v->target,
			 "signal", "SIGKILL");
	else
		osb_wait(v, LOOK_MS, osb_interrupt_look);
}

static void osb_interrupt_look(struct osb_request *v)
{
	osb_call(v, OP_EXEC_GET, on_osb_interrupt_seen, "{s:s}", "exec", v->target);
}

void osb_command_interrupt(struct osb_request *v)
{
	v->target = osb_query(v, "id");
	v->number = uv_now(&v->door->face.loop) + TERM_MS;
	if (!v->target || !v->target[0])
		osb_refuse(v, CAY_E_INVALID, "id is missing");
	else
		osb_call(v, OP_EXEC_SIGNAL, osb_interrupt_look, "{s:s,s:s}", "exec", v->target,
			 "signal", "SIGTERM");
}

/* Status */

static void on_osb_status_known(struct osb_request *v)
{
	const json_t *end = json_object_get(v->answer, "end");
	const char *reason = osb_text(end, "reason"), *ended = osb_answer_text(v, "ended_at");
	json_t *status = json_pack("{s:s,s:b,s:s}", "id", osb_answer_text(v, "id"), "running",
				   str_eq(osb_answer_text(v, "state"), "running"), "started_at",
				   osb_answer_text(v, "started_at"));

	if (status && end) {
		json_int_t code = str_eq(reason, "exit")
					  ? json_integer_value(json_object_get(end, "exit_code"))
					  : -1;

		(void)json_object_set_new(status, "exit_code", json_integer(code));
		if (code)
			(void)json_object_set_new(status, "error", json_string(reason));
		if (ended[0])
			(void)json_object_set_new(status, "finished_at", json_string(ended));
	}
	osb_reply(v, 200, status);
}

void osb_command_status(struct osb_request *v)
{
	osb_call(v, OP_EXEC_GET, on_osb_status_known, "{s:s}", "exec", v->segment);
}

/* Logs: what there is of the output from the cursor on, a number of bytes. */

static bool on_osb_logs_piece(void *arg, const struct http_head *head, struct slice bytes)
{
	struct osb_request *v = arg;
	char text[24];

	if (!v->begun) {
		v->begun = true;
		if (snprintf(text, sizeof(text), "%llu", (unsigned long long)v->number) > 0)
			(void)request_add_reply_header(v->rq, CURSOR_HEADER, text);
		request_start_stream(v->rq, 200, "text/plain; charset=utf-8",
				     head->framing == HTTP_LENGTH ? head->length
								  : REQUEST_LENGTH_UNKNOWN);
	}
	return bytes.n && request_write_stream(v->rq, bytes.p, bytes.n);
}

static void on_osb_logs_done(void *arg, const struct http_head *head, struct slice body,
			     const struct cay_err *err)
{
	struct osb_request *v = arg;
	struct request *rq = v->rq;

	if (!head || head->status >= 400) {
		osb_take_answer(v, head, body, err);
		return;
	}
	v->call = NULL;
	osb_request_free(v);
	request_end_stream(rq);
}

static void osb_logs_reply_nothing(struct osb_request *v)
{
	auto_buf empty = BUF_INIT(1);
	struct request *rq = v->rq;
	char text[24];

	if (snprintf(text, sizeof(text), "%llu", (unsigned long long)v->number) > 0)
		(void)request_add_reply_header(rq, CURSOR_HEADER, text);
	osb_request_free(v);
	request_reply(rq, 200, "text/plain; charset=utf-8", &empty);
}

static void on_osb_logs_known(struct osb_request *v)
{
	struct cay_err err = {};

	v->number = (uint64_t)json_integer_value(json_object_get(v->answer, "stdout_bytes"));
	if (v->first >= v->number) {
		osb_logs_reply_nothing(v);
		return;
	}
	v->then = NULL;
	if (osb_transfer(v, OP_EXEC_OUTPUT,
			 json_pack("{s:s,s:I,s:I}", "exec", v->segment, "offset",
				   (json_int_t)v->first, "limit",
				   (json_int_t)(v->number - v->first)),
			 (struct face_operation){ .accept = "application/octet-stream",
						  .piece = on_osb_logs_piece,
						  .done = on_osb_logs_done },
			 &err) < 0)
		osb_fail(v, &err);
}

void osb_command_logs(struct osb_request *v)
{
	const char *cursor = osb_query(v, "cursor");

	if (cursor && str_parse_u64(slice_of(cursor), 0, INT64_MAX, &v->first) < 0)
		osb_refuse(v, CAY_E_INVALID, "cursor is not a number of bytes");
	else
		osb_call(v, OP_EXEC_GET, on_osb_logs_known, "{s:s}", "exec", v->segment);
}
