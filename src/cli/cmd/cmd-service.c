/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>

#include "base/path.h"
#include "cli/print/list.h"

static int cmd_service_fill_call(struct cli *c, const struct opt_words *w, struct api_call *call,
				 struct cay_err *err)
{
	int r = service_name_check(w->operands[1], err);

	call->path_name = w->operands[1];
	return r < 0 ? r : api_find_sandbox(&c->api, w->operands[0], &call->ids[0], err);
}

/* The state; one in which the service does not run is a failure. */
static int cmd_service_print(const void *reply, struct cay_err *err)
{
	const struct service_info *s = reply;
	const char *state = field_choice_name(&service_info_table, "state", s->state);

	if (s->state == SERVICE_BACKOFF || s->state == SERVICE_FATAL)
		return cay_fail(err, CAY_E_STATE, "service %s is %s%s%s", s->name, state,
				s->error ? ": " : "", s->error ? s->error : "");
	return print_line(err, "%s", state);
}

const struct cmd cmd_service_ls = {
	CMD_USAGE("service ls", "[--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.help = "List services of a sandbox in start order",
	.op = OP_SERVICE_LIST,
	CMD_COLUMNS({ "NAME", "name" }, { "STATE", "state" },
		    { "FOR", "last_transition_at", AS_AGE }, { "PID", "pid" },
		    { "STARTS", "starts" }, { "PRIORITY", "priority" }, { "ERROR", "error" }),
};

struct service_add_args {
	struct service_put put;
	bool manual;
};

#define AT(m) offsetof(struct service_add_args, put.m)

static const struct opt add_rows[] = {
	{ "user", 'u', OPT_TEXT, AT(user), .arg = "USER",
	  .help = "User to run as: a name of the image, or a uid" },
	{ "workdir", 'w', OPT_TEXT, AT(cwd), .arg = "DIR", .help = "Working directory" },
	{ "setenv", 'e', OPT_PAIRS, AT(env), .arg = "KEY=VALUE",
	  .help = "Environment variable; may be repeated" },
	{ "restart", 0, OPT_CHOICE, AT(autorestart), .arg = "WHEN", .table = &service_put_table,
	  .member = "autorestart", .help = "When to restart it" },
	{ "priority", 0, OPT_U64, AT(priority), .max = 1000000, .arg = "N",
	  .help = "Services with lower numbers start first" },
	{ "start-time", 0, OPT_DURATION, AT(start_ms), .arg = "TIME",
	  .help = "Time it must run to count as started, e.g. 1s" },
	{ "retries", 0, OPT_U64, AT(start_retries), .max = 1000000, .arg = "N",
	  .help = "How often to retry a failed start" },
	{ "stop-signal", 0, OPT_TEXT, AT(stop_signal), .arg = "SIGNAL",
	  .help = "Signal that stops it" },
	{ "stop-time", 0, OPT_DURATION, AT(stop_ms), .arg = "TIME",
	  .help = "Time to wait for it to stop before it is killed" },
	{ "no-start", 0, OPT_FLAG, offsetof(struct service_add_args, manual),
	  .help = "Do not start it now" },
};

/* The defaults of service_put_table. */
void service_put_set_defaults(void *put)
{
	*(struct service_put *)put = (struct service_put){ .autostart = true,
							   .autorestart = SERVICE_UNEXPECTED,
							   .priority = 999,
							   .start_retries = 3,
							   .stop_ms = 10000 };
}

static int cmd_service_add_prepare(struct cli *, void *args, const struct opt_words *w,
				   struct api_call *call, struct cay_err *err)
{
	struct service_add_args *a = args;

	a->put.autostart = !a->manual;
	a->put.has_argv = true;
	a->put.argv = (struct field_texts){ (const char **)(uintptr_t)w->rest, w->n_rest };
	call->path_name = w->operands[1];
	return service_name_check(w->operands[1], err);
}

const struct cmd cmd_service_add = {
	CMD_USAGE("service add", "[OPTION...] SANDBOX NAME [--] COMMAND..."),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX),
	.rest = REST_COMMAND,
	CMD_OPTIONS(service_add_args, OPTS(add_rows, 0)),
	.init_args = service_put_set_defaults,
	.help = "Add a service: a program to keep running in a sandbox",
	.more = "An existing service of that name is replaced and, if it was running, restarted.",
	.prepare = cmd_service_add_prepare,
	.op = OP_SERVICE_PUT,
	.print = cmd_service_print,
};

static int cmd_service_rm_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	struct api_call call = { .op = OP_SERVICE_STOP };
	int r = cmd_service_fill_call(c, w, &call, err);

	if (r >= 0)
		r = api_call(&c->api, &call, &(struct service_info){}, err);
	call.op = OP_SERVICE_DELETE;
	return r < 0 ? r : api_call_print(c, &call, NULL, err);
}

#define ACT(sym, op_, verb, help_) \
	const struct cmd cmd_service_##sym = { \
		CMD_USAGE("service " verb, "[--json] SANDBOX NAME"), \
		CMD_OPERANDS(2, 2, OPERAND_SANDBOX, OPERAND_SERVICE), \
		.help = help_, \
		.op = op_, \
		.print = cmd_service_print, \
	}
ACT(start, OP_SERVICE_START, "start", "Start a service and wait until it runs");
ACT(stop, OP_SERVICE_STOP, "stop", "Stop a service by its signal, then kill it");
ACT(restart, OP_SERVICE_RESTART, "restart", "Restart a service");

const struct cmd cmd_service_rm = {
	CMD_USAGE("service rm", "[--json] SANDBOX NAME"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX, OPERAND_SERVICE),
	.help = "Stop a service and delete it and its log",
	.run = cmd_service_rm_run,
};

static const struct opt log_rows[] = {
	{ "follow", 'f', OPT_FLAG, offsetof(struct service_log_query, follow),
	  .help = "Follow the log, across restarts, until Ctrl-C" },
	{ "offset", 0, OPT_U64, offsetof(struct service_log_query, offset), .max = INT64_MAX,
	  .arg = "N", .help = "Start at this byte" },
};

/* Copy the bytes of one reply to stdout; advances *at. */
static int cmd_service_logs_copy_reply(struct cli *c, const struct api_call *call, uint64_t *at,
				       struct cay_err *err)
{
	auto_http h = HTTP_INIT;
	int r = api_call_open(&c->api, call, &h, err);

	if (r >= 0)
		r = api_call_receive_head(&c->api, call->op, &h, err);
	if (r >= 0 && h.status >= 400)
		return api_call_finish(&c->api, call->op, &h, NULL, err);
	while (r >= 0) {
		*at += h.body.len;
		r = fd_write_all(STDOUT_FILENO, buf_str(&h.body), h.body.len);
		buf_clear(&h.body);
		if (r < 0 || h.reply_complete)
			break;
		r = http_client_wait(&h, POLLIN, UINT64_MAX, &c->api.intr);
		r = r < 0 ? r : http_client_receive(&h, err);
		if (r == -EAGAIN)
			r = 0;
	}
	if (r == -EINTR || r == -EPIPE) /* interrupted, or stdout is closed */
		return r;
	return r < 0 && !err->code ? cay_fail_sys(err, CAY_E_UNAVAILABLE, -r, "service.log") : r;
}

static int cmd_service_logs_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	struct service_log_query query = *(const struct service_log_query *)c->args;
	struct api_call get = { .op = OP_SERVICE_GET }, log;
	bool first = true;
	int r = cmd_service_fill_call(c, w, &get, err);

	query.limit = INT64_MAX;
	log = get;
	log.op = OP_SERVICE_LOG;
	log.query = &query;
	if (r >= 0)
		r = interrupt_open(&c->api.intr, err);
	/* a reply ends before lost bytes; log_start tells where the log continues */
	while (r >= 0) {
		struct service_info now = {};

		r = api_call(&c->api, &get, &now, err);
		if (r < 0)
			break;
		if (!first && now.log_start > query.offset)
			print_note("%llu bytes of the log are no longer kept",
				   (unsigned long long)(now.log_start - query.offset));
		if (now.log_start > query.offset)
			query.offset = now.log_start;
		first = false;
		r = cmd_service_logs_copy_reply(c, &log, &query.offset, err);
		if (!query.follow)
			break;
	}
	return (r == -EINTR || r == -EPIPE) && !err->code ? 0 : r;
}

const struct cmd cmd_service_logs = {
	CMD_USAGE("service logs", "[-f] [--offset N] SANDBOX NAME"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX, OPERAND_SERVICE),
	CMD_OPTIONS(service_log_query, OPTS(log_rows, 0)),
	.no_json = true,
	.help = "Show the log of a service",
	.run = cmd_service_logs_run,
};
