/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b.h"
#include "text/base64.h"

#define KEEPALIVE_S 90
#define LEFT_BEHIND_MAX 1024 /* commands whose output is read for nobody */
#define LEFT_BEHIND_OF_TENANT_MAX 128
#define TIMEOUT_MAX_MS 86400000
#define PID_MAX 4194304

static json_t *e2b_base64(const void *p, size_t n)
{
	size_t len = BASE64_TEXT(n);
	char *text = malloc(len + 1);
	json_t *ret = NULL;

	if (!text)
		return NULL;
	base64_encode(p, n, text);
	ret = json_stringn_nocheck(text, len);
	free(text);
	return ret;
}

static bool e2b_send_data(struct e2b_request *v, const char *stream, const void *p, size_t n)
{
	return e2b_stream_send(
		v, json_pack("{s:{s:{s:o}}}", "event", "data", stream, e2b_base64(p, n)));
}

/* Go's words for signals, which the SDKs show. */
static const char *e2b_signal_word(const char *name)
{
	static const struct {
		const char *name, *word;
	} words[] = {
		{ "SIGHUP", "hangup" },
		{ "SIGINT", "interrupt" },
		{ "SIGQUIT", "quit" },
		{ "SIGABRT", "aborted" },
		{ "SIGTERM", "terminated" },
		{ "SIGPIPE", "broken pipe" },
		{ "SIGSEGV", "segmentation fault" },
	};

	for (size_t i = 0; name && i < ARRAY_SIZE(words); i++)
		if (str_eq(words[i].name, name))
			return words[i].word;
	return "killed";
}

/* end is that of an exec: {"reason", "exit_code", "signal"} */
static void e2b_send_end(struct e2b_request *v, const json_t *end)
{
	const char *reason = json_string_value(json_object_get(end, "reason"));
	json_int_t code = json_integer_value(json_object_get(end, "exit_code"));
	bool exited = reason && str_eq(reason, "exit");
	const char *word;
	char status[64];
	json_t *body;
	int n;

	if (reason && str_eq(reason, "timeout")) {
		e2b_stream_end(v, "deadline_exceeded", "the command reached its timeout");
		return;
	}
	word = e2b_signal_word(json_string_value(json_object_get(end, "signal")));
	n = exited ? snprintf(status, sizeof(status), "exit status %d", (int)code)
		   : snprintf(status, sizeof(status), "signal: %s", word);
	if (n < 0)
		status[0] = 0;
	body = json_pack("{s:b,s:s}", "exited", exited, "status", status);
	if (body && (!exited || code)) {
		(void)json_object_set_new(body, "exitCode", json_integer(exited ? code : -1));
		(void)json_object_set_new(body, "error", json_string(status));
	}
	(void)e2b_stream_send(v, json_pack("{s:{s:o}}", "event", "end", body));
	e2b_stream_end(v, NULL, NULL);
}

static void e2b_begin_stream(struct e2b_request *v, uint64_t pid)
{
	struct slice ping = http_header_find(v->rq->head, "keepalive-ping-interval");
	uint64_t s = KEEPALIVE_S;

	(void)str_parse_u64(ping, 1, 3600, &s);
	v->keepalive_ms = s * 1000;
	(void)e2b_stream_send(v,
			      json_pack("{s:{s:{s:I}}}", "event", "start", "pid", (json_int_t)pid));
	e2b_start_ticks(v->door);
}

/* Start */

static bool e2b_start_take_item(struct e2b_request *v, const struct frame_reader_item *item)
{
	const char *stream = item->stream == FRAME_STDERR ? "stderr" : v->flag ? "pty" : "stdout";
	char gap[FACE_GAP_MAX];
	size_t n;

	if (item->event == STREAM_DATA)
		return e2b_send_data(v, stream, item->p, item->n);
	if (item->event == STREAM_GAP) {
		n = face_format_gap(item, gap);
		return e2b_send_data(v, stream, gap, n);
	}
	if (item->event == STREAM_END && !v->kept)
		(void)json_parse((struct slice){ (const char *)item->p, item->n },
				 &json_control_limits, &v->kept, NULL);
	return false;
}

static bool on_e2b_start_piece(void *arg, const struct http_head *head, struct slice bytes)
{
	struct e2b_request *v = arg;
	bool full = false;
	uint64_t pid = 0;

	if (!v->begun && v->rq) {
		(void)str_parse_u64(http_header_find(head, "cay-pid"), 1, PID_MAX, &pid);
		e2b_begin_stream(v, pid);
	}
	while (bytes.n) {
		struct frame_reader_item item;
		ssize_t n = frame_reader_feed(&v->frames, (const uint8_t *)bytes.p, bytes.n, &item);

		if (n < 0) {
			e2b_break_stream(v, "the stream of the command was interrupted");
			return false;
		}
		full |= e2b_start_take_item(v, &item);
		bytes = (struct slice){ bytes.p + n, bytes.n - (size_t)n };
	}
	/* nobody reads: the output is thrown away, and the command never waits */
	return full && v->rq;
}

static void on_e2b_start_done(void *arg, const struct http_head *head, struct slice body,
			      const struct cay_err *err)
{
	struct e2b_request *v = arg;

	if (!head || head->status >= 400) {
		e2b_take_answer(v, head, body, err);
		return;
	}
	v->call = NULL;
	if (v->kept)
		e2b_send_end(v, v->kept);
	else
		e2b_refuse(v, CAY_E_UNAVAILABLE, "the stream of the command was interrupted");
}

static bool e2b_may_leave_behind(const struct e2b_request *v)
{
	unsigned own = 0;

	for (const struct e2b_request *r = v->door->requests; r; r = r->next)
		own += r->counted && id_eq(&r->actor.tenant, &v->actor.tenant);
	return v->door->left_behind < LEFT_BEHIND_MAX && own < LEFT_BEHIND_OF_TENANT_MAX;
}

/* The command goes on, as with E2B: only its output is lost.  Of no other call is anything of use
 * without its client. */
static void on_e2b_start_gone(struct request *rq)
{
	struct e2b_request *v = rq->data;

	if (!v->call || v->op != OP_EXEC_RUN || !e2b_may_leave_behind(v)) {
		e2b_request_free(v);
		return;
	}
	json_decref(cay_take(v->json));
	json_decref(cay_take(v->answer));
	v->rq = NULL;
	v->counted = true;
	v->door->left_behind++;
	client_call_resume(v->call);
}

static void on_e2b_stream_drain(struct request *rq)
{
	struct e2b_request *v = rq->data;

	if (v->call)
		client_call_resume(v->call);
}

static json_t *e2b_start_members(struct e2b_request *v, const json_t *process)
{
	const json_t *pty = json_object_get(json_object_get(v->json, "pty"), "size");
	json_t *argv = json_array(), *env = json_object_get(process, "envs"), *arg, *m;
	const char *cwd = json_string_value(json_object_get(process, "cwd"));
	struct slice timeout = http_header_find(v->rq->head, "connect-timeout-ms");
	const json_t *in = json_object_get(v->json, "stdin");
	uint64_t ms = 0;
	size_t i;

	(void)str_parse_u64(timeout, 0, TIMEOUT_MAX_MS, &ms);
	(void)json_array_append(argv, json_object_get(process, "cmd"));
	json_array_foreach(json_object_get(process, "args"), i, arg)(void)
		json_array_append(argv, arg);
	v->flag = json_is_object(pty);
	m = json_pack("{s:o,s:s,s:I}", "argv", argv, "output", "block", "timeout_ms",
		      (json_int_t)ms);
	if (m && json_object_size(env))
		(void)json_object_set(m, "env", env);
	if (m && cwd && cwd[0])
		(void)json_object_set_new(m, "cwd", json_string(v->target));
	if (m && v->user)
		(void)json_object_set_new(m, "user", json_string(v->user));
	if (m && v->flag)
		(void)json_object_set_new(m, "tty",
					  json_pack("{s:O,s:O}", "cols",
						    json_object_get(pty, "cols"), "rows",
						    json_object_get(pty, "rows")));
	else if (m) /* an absent flag is an open input: older SDKs do not know it */
		(void)json_object_set_new(m, "stdin_open", json_boolean(!json_is_false(in)));
	return m;
}

static void on_e2b_start_resolved(struct e2b_request *v)
{
	static const struct request_events events = { .drain = on_e2b_stream_drain,
						      .gone = on_e2b_start_gone };
	static const struct e2b_transfer how = { .accept = FRAME_MEDIA_TYPE,
						 .piece = on_e2b_start_piece,
						 .done = on_e2b_start_done };
	json_t *m = e2b_start_members(v, json_object_get(v->json, "process"));
	struct cay_err err = {};

	v->frames = frame_reader_create(STREAM_BIT(FRAME_STDOUT) | STREAM_BIT(FRAME_STDERR));
	v->rq->events = &events;
	if (e2b_transfer(v, OP_EXEC_RUN, m, &how, &err) < 0)
		e2b_fail(v, &err);
}

void e2b_process_start(struct e2b_request *v)
{
	const json_t *process = json_object_get(v->json, "process");
	const char *cwd = json_string_value(json_object_get(process, "cwd"));

	if (!json_is_string(json_object_get(process, "cmd")))
		e2b_refuse(v, CAY_E_INVALID, "process.cmd is missing");
	else
		e2b_resolve_paths(v, cwd && cwd[0] ? cwd : "/", NULL, on_e2b_start_resolved);
}

/* Find a process by its pid among the execs: v->later continues with v->kept. */

static const char *e2b_exec_id(const struct e2b_request *v)
{
	const char *id = json_string_value(json_object_get(v->kept, "id"));

	return id ? id : "";
}

static void on_e2b_execs_listed(struct e2b_request *v)
{
	json_t *row, *found = NULL;
	size_t i;

	json_array_foreach(json_object_get(v->answer, "execs"), i, row)
	{
		const char *state = json_string_value(json_object_get(row, "state"));
		json_int_t pid = json_integer_value(json_object_get(row, "pid"));

		/* the newest; one that has ended only where that is of use */
		if ((uint64_t)pid == v->number && state &&
		    (str_eq(state, "running") || v->route->body == E2B_STREAM))
			found = row;
	}
	if (!found) {
		struct cay_err err = {};

		(void)cay_fail(&err, CAY_E_NOT_FOUND, "process with pid %llu not found",
			       (unsigned long long)v->number);
		e2b_fail(v, &err);
		return;
	}
	v->kept = json_incref(found);
	v->later(v);
}

static void e2b_find_process(struct e2b_request *v, e2b_step *later)
{
	const json_t *pid = json_object_get(json_object_get(v->json, "process"), "pid");

	if (!json_is_integer(pid) || json_integer_value(pid) <= 0) {
		e2b_refuse(v, CAY_E_UNSUPPORTED, "a process is found by its pid only");
		return;
	}
	v->number = (uint64_t)json_integer_value(pid);
	v->later = later;
	e2b_call(v, OP_EXEC_LIST, on_e2b_execs_listed, "{}");
}

static void on_e2b_process_done(struct e2b_request *v)
{
	e2b_reply(v, 200, json_object());
}

/* Connect: what a process writes from now on. */

struct e2b_follow {
	struct e2b_request *v;
	struct client_call *call;
	const char *stream;
};

static bool on_e2b_follow_piece(void *arg, const struct http_head *, struct slice bytes)
{
	struct e2b_follow *f = arg;
	bool tty = json_object_get(f->v->kept, "tty") != NULL;

	return bytes.n && e2b_send_data(f->v, tty ? "pty" : f->stream, bytes.p, bytes.n);
}

static void on_e2b_connect_ended(struct e2b_request *v)
{
	e2b_send_end(v, json_object_get(v->answer, "end"));
}

static void e2b_cancel_follows(struct e2b_request *v)
{
	for (unsigned i = 0; i < 2; i++)
		if (v->follows[i].call)
			client_call_cancel(v->follows[i].call);
	v->n_follows = 0;
}

static void on_e2b_follow_done(void *arg, const struct http_head *head, struct slice,
			       const struct cay_err *err)
{
	struct e2b_follow *f = arg;
	struct e2b_request *v = f->v;

	f->call = NULL;
	if (!head || head->status >= 400) {
		e2b_cancel_follows(v);
		if (head)
			e2b_refuse(v, CAY_E_UNAVAILABLE, "the output cannot be read");
		else
			e2b_fail(v, err);
	} else if (!--v->n_follows) {
		e2b_call(v, OP_EXEC_GET, on_e2b_connect_ended, "{s:s}", "exec", e2b_exec_id(v));
	}
}

static void on_e2b_connect_drain(struct request *rq)
{
	struct e2b_request *v = rq->data;

	for (unsigned i = 0; i < 2 && v->n_follows; i++)
		if (v->follows[i].call)
			client_call_resume(v->follows[i].call);
}

static void on_e2b_connect_gone(struct request *rq)
{
	struct e2b_request *v = rq->data;

	e2b_cancel_follows(v);
	e2b_request_free(v);
}

static void on_e2b_connect_found(struct e2b_request *v)
{
	static const struct request_events events = { .drain = on_e2b_connect_drain,
						      .gone = on_e2b_connect_gone };
	static const struct {
		const char *stream, *written;
	} streams[] = { { "stdout", "stdout_bytes" }, { "stderr", "stderr_bytes" } };
	struct cay_err err = {};
	int r = 0;

	v->follows = arena_alloc(&v->arena, 2, sizeof(*v->follows));
	if (!v->follows) {
		e2b_refuse(v, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	v->rq->events = &events;
	for (unsigned i = 0; i < 2 && r >= 0; i++) {
		struct e2b_follow *f = &v->follows[i];
		json_int_t from = json_integer_value(json_object_get(v->kept, streams[i].written));
		struct e2b_transfer how = { .accept = "application/octet-stream",
					    .piece = on_e2b_follow_piece,
					    .done = on_e2b_follow_done,
					    .arg = f,
					    .call = &f->call };

		*f = (struct e2b_follow){ .v = v, .stream = streams[i].stream };
		r = e2b_transfer(v, OP_EXEC_OUTPUT,
				 json_pack("{s:s,s:s,s:I,s:b}", "exec", e2b_exec_id(v), "stream",
					   f->stream, "offset", from, "follow", true),
				 &how, &err);
		v->n_follows += r >= 0;
	}
	if (r < 0) {
		e2b_cancel_follows(v);
		e2b_fail(v, &err);
		return;
	}
	e2b_begin_stream(v, v->number);
}

void e2b_process_connect(struct e2b_request *v)
{
	e2b_find_process(v, on_e2b_connect_found);
}

/* Input, signals, size */

static void on_e2b_input_found(struct e2b_request *v)
{
	const json_t *input = json_object_get(v->json, "input");
	const json_t *text = json_object_get(input, "stdin");
	uint8_t *bytes = NULL;
	size_t n = 0, len;
	struct cay_err err = {};

	if (!text)
		text = json_object_get(input, "pty");
	len = json_string_length(text);
	bytes = malloc(BASE64_BYTES(len) + 1);
	if (!bytes || !json_is_string(text) ||
	    base64_decode(json_string_value(text), len, bytes, &n) < 0) {
		free(bytes);
		e2b_refuse(v, CAY_E_INVALID, "input is not base64");
		return;
	}
	v->then = on_e2b_process_done;
	if (e2b_transfer(v, OP_EXEC_STDIN, json_pack("{s:s}", "exec", e2b_exec_id(v)),
			 &(struct e2b_transfer){ .body = { (const char *)bytes, n } }, &err) < 0)
		e2b_fail(v, &err);
	free(bytes);
}

void e2b_process_input(struct e2b_request *v)
{
	e2b_find_process(v, on_e2b_input_found);
}

static void on_e2b_close_found(struct e2b_request *v)
{
	e2b_call(v, OP_EXEC_STDIN, on_e2b_process_done, "{s:s,s:b}", "exec", e2b_exec_id(v),
		 "close", true);
}

void e2b_process_close(struct e2b_request *v)
{
	e2b_find_process(v, on_e2b_close_found);
}

static void on_e2b_signal_found(struct e2b_request *v)
{
	const json_t *s = json_object_get(v->json, "signal");
	bool term = json_text_eq(s, "SIGNAL_SIGTERM") || json_integer_value(s) == 15;

	if (!term && !json_text_eq(s, "SIGNAL_SIGKILL") && json_integer_value(s) != 9)
		e2b_refuse(v, CAY_E_INVALID, "the signal is neither SIGKILL nor SIGTERM");
	else
		e2b_call(v, OP_EXEC_SIGNAL, on_e2b_process_done, "{s:s,s:s}", "exec",
			 e2b_exec_id(v), "signal", term ? "SIGTERM" : "SIGKILL");
}

void e2b_process_signal(struct e2b_request *v)
{
	e2b_find_process(v, on_e2b_signal_found);
}

static void on_e2b_update_found(struct e2b_request *v)
{
	const json_t *size = json_object_get(json_object_get(v->json, "pty"), "size");

	if (!json_object_get(size, "cols") || !json_object_get(size, "rows"))
		e2b_refuse(v, CAY_E_INVALID, "pty.size is missing");
	else
		e2b_call(v, OP_EXEC_RESIZE, on_e2b_process_done, "{s:s,s:O,s:O}", "exec",
			 e2b_exec_id(v), "cols", json_object_get(size, "cols"), "rows",
			 json_object_get(size, "rows"));
}

void e2b_process_update(struct e2b_request *v)
{
	e2b_find_process(v, on_e2b_update_found);
}

/* List: the execs that run, with their command lines. */

static json_t *e2b_describe_process(const json_t *row)
{
	static const char shell[] = "/bin/bash -l -c ";
	const char *line = json_string_value(json_object_get(row, "command"));
	json_int_t pid = json_integer_value(json_object_get(row, "pid"));
	size_t n = sizeof(shell) - 1;

	if (line && strncmp(line, shell, n) == 0)
		return json_pack("{s:{s:s,s:[s,s,s],s:{}},s:I}", "config", "cmd", "/bin/bash",
				 "args", "-l", "-c", line + n, "envs", "pid", pid);
	return json_pack("{s:{s:s,s:[],s:{}},s:I}", "config", "cmd", line ? line : "", "args",
			 "envs", "pid", pid);
}

/* The text of a pid, as the key of an index: how many there are is the sandbox's to say. */
static const char *e2b_pid_key(const json_t *row, char ret[static 24])
{
	return snprintf(ret, 24, "%lld",
			(long long)json_integer_value(json_object_get(row, "pid"))) < 0
		       ? ""
		       : ret;
}

static void on_e2b_processes_listed(struct e2b_request *v)
{
	json_t *rows = json_array(), *running = json_object(), *row;
	char key[24];
	size_t i;

	json_array_foreach(v->kept, i, row)
	{
		if (json_text_eq(json_object_get(row, "state"), "running"))
			(void)json_object_set_new(running, e2b_pid_key(row, key), json_true());
	}
	json_array_foreach(json_object_get(v->answer, "processes"), i, row)
	{
		if (json_object_get(running, e2b_pid_key(row, key)))
			(void)json_array_append_new(rows, e2b_describe_process(row));
	}
	json_decref(running);
	e2b_reply(v, 200, json_pack("{s:o}", "processes", rows));
}

static void on_e2b_list_execs(struct e2b_request *v)
{
	v->kept = json_incref(json_object_get(v->answer, "execs"));
	e2b_call(v, OP_PROCESS_LIST, on_e2b_processes_listed, "{}");
}

void e2b_process_list(struct e2b_request *v)
{
	e2b_call(v, OP_EXEC_LIST, on_e2b_list_execs, "{}");
}
