/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>

#include "base/clock.h"
#include "base/path.h"
#include "cli/core/command.h"
#include "cli/print/list.h"
#include "cli/print/print.h"

static const struct opt_group json_options[] = { OPTS(opts_json, 0), OPTS_END };

/* SANDBOX NAME into a call. */
static int cmd_service_fill_call(struct cli *c, const struct opt_words *w, struct api_call *call,
				 struct cay_err *err)
{
	if (!op_name_is_valid(slice_of(w->operands[1])))
		return cay_fail(err, CAY_E_INVALID,
				"service: '%s' is no name: letters, digits, '.', '_' and '-'",
				w->operands[1]);
	call->path_name = w->operands[1];
	return api_find_sandbox(&c->api, w->operands[0], &call->ids[0], err);
}

/* What became of it; a state nobody asked for is a failure. */
static int cmd_service_print(const struct service_info *s, bool json, struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(4));
	int r;

	if (json)
		return print_json(&service_info_table, s, err);
	if (s->state == SERVICE_BACKOFF || s->state == SERVICE_FATAL)
		return cay_fail(err, CAY_E_STATE, "service %s is %s%s%s", s->name,
				field_choice_name(&service_info_table, "state", s->state),
				s->error ? ": " : "", s->error ? s->error : "");
	r = print_append_escaped(
		&out, slice_of(field_choice_name(&service_info_table, "state", s->state)));
	if (r >= 0)
		r = buf_putc(&out, '\n');
	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory") : print_stdout(&out, err);
}

/* ls */

static int cmd_service_ls_add_cells(struct print_table *t, const void *row)
{
	const struct service_info *s = row;
	auto_buf pid = BUF_INIT(32), starts = BUF_INIT(32), priority = BUF_INIT(32);
	char age[PRINT_AGE_MAX];
	int r = 0;

	print_age_format(clk_wall_ns(&clk_system), s->changed_ns, age);
	if (s->has_pid)
		r = buf_printf(&pid, "%llu", (unsigned long long)s->pid);
	if (r >= 0)
		r = buf_printf(&starts, "%llu", (unsigned long long)s->starts);
	if (r >= 0)
		r = buf_printf(&priority, "%llu", (unsigned long long)s->priority);
	if (r >= 0)
		r = print_table_add_cell(t, s->name);
	if (r >= 0)
		r = print_table_add_cell(t,
					 field_choice_name(&service_info_table, "state", s->state));
	if (r >= 0)
		r = print_table_add_cell(t, age);
	if (r >= 0)
		r = print_table_add_cell(t, pid.len ? pid.data : "-");
	if (r >= 0)
		r = print_table_add_cell(t, buf_str(&starts));
	if (r >= 0)
		r = print_table_add_cell(t, buf_str(&priority));
	return r < 0 ? r : print_table_add_cell(t, s->error ? s->error : "-");
}

static int cmd_service_ls_run(struct cli *c, const void *args, const struct opt_words *w,
			      struct cay_err *err)
{
	static const struct list_spec kind = { .op = OP_SERVICE_LIST,
					       .row = &service_info_table,
					       .headings = { "NAME", "STATE", "FOR", "PID",
							     "STARTS", "PRIORITY", "ERROR" },
					       .columns = 7,
					       .add_cells = cmd_service_ls_add_cells };
	struct service_list all = {};
	bool json = ((const struct json_args *)args)->json;
	int r = list_print_of_sandbox(&c->api, &kind, w->operands[0], &all, &all.services, json,
				      err);

	if (r >= 0 && !json && all.left_out)
		print_note("%llu files or services found no room",
			   (unsigned long long)all.left_out);
	return r;
}

const struct cmd cmd_service_ls = {
	.name = "service ls",
	.args = "[--json] SANDBOX",
	.operands = { OPERAND_SANDBOX },
	.min = 1,
	.max = 1,
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "Programs that are kept running in a sandbox, in the order they start",
	.run = cmd_service_ls_run,
};

/* add */

struct service_add_args {
	struct service_put put;
	bool manual;
	struct json_args json;
};

#define AT(m) offsetof(struct service_add_args, put.m)

static const struct opt add_rows[] = {
	{ "user", 'u', OPT_TEXT, AT(user), .arg = "USER",
	  .help = "Who runs it: a name or uid of the image" },
	{ "workdir", 'w', OPT_TEXT, AT(cwd), .arg = "DIR", .help = "Where it starts" },
	{ "setenv", 'e', OPT_PAIRS, AT(env), .arg = "KEY=VALUE",
	  .help = "A variable of it; may be repeated" },
	{ "restart", 0, OPT_CHOICE, AT(autorestart), .arg = "WHEN", .table = &service_put_table,
	  .member = "autorestart", .help = "When it is started again" },
	{ "priority", 0, OPT_U64, AT(priority), .max = 1000000, .arg = "N",
	  .help = "Lower ones are started first" },
	{ "start-time", 0, OPT_DURATION, AT(start_ms), .arg = "TIME",
	  .help = "How long it has to run to count as started, as in 1s" },
	{ "retries", 0, OPT_U64, AT(start_retries), .max = 1000000, .arg = "N",
	  .help = "How often it is tried again until it does" },
	{ "stop-signal", 0, OPT_TEXT, AT(stop_signal), .arg = "SIGNAL",
	  .help = "What it is asked to stop with" },
	{ "stop-time", 0, OPT_DURATION, AT(stop_ms), .arg = "TIME",
	  .help = "How long it has to do so; then all of it is killed" },
	{ "no-start", 0, OPT_FLAG, offsetof(struct service_add_args, manual),
	  .help = "Do not start it now" },
};
static const struct opt_group add_options[] = {
	OPTS(add_rows, 0),
	OPTS_JSON(service_add_args, json),
	OPTS_END,
};

/* What the rows of the table say. */
void service_put_set_defaults(struct service_put *put)
{
	put->autostart = true;
	put->autorestart = SERVICE_UNEXPECTED;
	put->priority = 999;
	put->start_retries = 3;
	put->stop_ms = 10000;
}

static void cmd_service_add_set_defaults(void *args)
{
	service_put_set_defaults(&((struct service_add_args *)args)->put);
}

static int cmd_service_add_run(struct cli *c, const void *args, const struct opt_words *w,
			       struct cay_err *err)
{
	const struct service_add_args *a = args;
	struct service_put put = a->put;
	struct api_call call = { .op = OP_SERVICE_PUT, .request = &put };
	struct service_info now = {};
	int r = cmd_service_fill_call(c, w, &call, err);

	put.autostart = !a->manual;
	put.has_argv = true;
	put.argv = (struct field_texts){ (const char **)(uintptr_t)w->rest, w->n_rest };
	if (r >= 0)
		r = api_call(&c->api, &call, &now, err);
	return r < 0 ? r : cmd_service_print(&now, a->json.json, err);
}

const struct cmd cmd_service_add = {
	.name = "service add",
	.args = "[OPTION...] SANDBOX NAME -- COMMAND...",
	.operands = { OPERAND_SANDBOX },
	.min = 2,
	.max = 2,
	.rest = REST_COMMAND,
	.options = add_options,
	.size = sizeof(struct service_add_args),
	.init_args = cmd_service_add_set_defaults,
	.help = "Keep a program running in a sandbox",
	.more = "One that is there already becomes this one; if it runs it is started anew.",
	.run = cmd_service_add_run,
};

/* start, stop, restart, rm */

static int cmd_service_call_op(struct cli *c, enum op_id op, const void *args,
			       const struct opt_words *w, struct cay_err *err)
{
	struct api_call call = { .op = op };
	struct service_info now = {};
	int r = cmd_service_fill_call(c, w, &call, err);

	if (r >= 0)
		r = api_call(&c->api, &call, &now, err);
	return r < 0 ? r : cmd_service_print(&now, ((const struct json_args *)args)->json, err);
}

static int cmd_service_start_run(struct cli *c, const void *args, const struct opt_words *w,
				 struct cay_err *err)
{
	return cmd_service_call_op(c, OP_SERVICE_START, args, w, err);
}

static int cmd_service_stop_run(struct cli *c, const void *args, const struct opt_words *w,
				struct cay_err *err)
{
	return cmd_service_call_op(c, OP_SERVICE_STOP, args, w, err);
}

static int cmd_service_restart_run(struct cli *c, const void *args, const struct opt_words *w,
				   struct cay_err *err)
{
	return cmd_service_call_op(c, OP_SERVICE_RESTART, args, w, err);
}

static int cmd_service_rm_run(struct cli *c, const void *args, const struct opt_words *w,
			      struct cay_err *err)
{
	struct api_call call = { .op = OP_SERVICE_STOP };
	int r = cmd_service_fill_call(c, w, &call, err);

	if (r >= 0)
		r = api_call(&c->api, &call, &(struct service_info){}, err);
	call.op = OP_SERVICE_DELETE;
	return r < 0 ? r
		     : api_call_print(c, &call, &(struct service_info){},
				      ((const struct json_args *)args)->json, err);
}

#define ACT(sym, verb, help_) \
	const struct cmd cmd_service_##sym = { \
		.name = "service " verb, \
		.args = "[--json] SANDBOX NAME", \
		.operands = { OPERAND_SANDBOX, OPERAND_SERVICE }, \
		.min = 2, \
		.max = 2, \
		.options = json_options, \
		.size = sizeof(struct json_args), \
		.help = help_, \
		.run = cmd_service_##sym##_run, \
	}
ACT(start, "start", "Start a service, and wait until it is up");
ACT(stop, "stop", "Stop a service: its signal, then all of it is killed");
ACT(restart, "restart", "Stop a service and start it");

const struct cmd cmd_service_rm = {
	.name = "service rm",
	.args = "[--json] SANDBOX NAME",
	.operands = { OPERAND_SANDBOX, OPERAND_SERVICE },
	.min = 2,
	.max = 2,
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "Stop a service and forget it, and its log",
	.run = cmd_service_rm_run,
};

/* logs */

struct service_log_args {
	struct service_log_query query;
};

static const struct opt log_rows[] = {
	{ "follow", 'f', OPT_FLAG, offsetof(struct service_log_args, query.follow),
	  .help = "Go on with what it writes, over its restarts, until Ctrl-C" },
	{ "offset", 0, OPT_U64, offsetof(struct service_log_args, query.offset), .max = INT64_MAX,
	  .arg = "N", .help = "From this byte on" },
};
static const struct opt_group log_options[] = { OPTS(log_rows, 0), OPTS_END };

/* One reply's bytes, passed on as they come; *at is where the next one begins. */
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
	if (r == -EINTR || r == -EPIPE) /* who reads it has had enough */
		return r;
	return r < 0 && !err->code ? cay_fail_sys(err, CAY_E_UNAVAILABLE, -r, "service.log") : r;
}

static int cmd_service_logs_run(struct cli *c, const void *args, const struct opt_words *w,
				struct cay_err *err)
{
	struct service_log_query query = ((const struct service_log_args *)args)->query;
	struct api_call get = { .op = OP_SERVICE_GET }, log;
	bool first = true;
	int r = cmd_service_fill_call(c, w, &get, err);

	query.limit = INT64_MAX;
	log = get;
	log.op = OP_SERVICE_LOG;
	log.query = &query;
	if (r >= 0)
		r = interrupt_open(&c->api.intr, err);
	/* a reply ends where bytes are missing; the service says where they go on */
	while (r >= 0) {
		struct service_info now = {};

		r = api_call(&c->api, &get, &now, err);
		if (r < 0)
			break;
		if (!first && now.log_start > query.offset)
			print_note("%llu bytes of the log are gone",
				   (unsigned long long)(now.log_start - query.offset));
		if (now.log_start > query.offset)
			query.offset = now.log_start;
		first = false;
		r = cmd_service_logs_copy_reply(c, &log, &query.offset, err);
		if (!query.follow)
			break;
	}
	/* a service that was deleted while it was followed ends it well */
	return (r == -EINTR || r == -EPIPE) && !err->code ? 0 : r;
}

const struct cmd cmd_service_logs = {
	.name = "service logs",
	.args = "[-f] [--offset N] SANDBOX NAME",
	.operands = { OPERAND_SANDBOX, OPERAND_SERVICE },
	.min = 2,
	.max = 2,
	.options = log_options,
	.size = sizeof(struct service_log_args),
	.help = "What a service wrote, of all its starts, as it is",
	.run = cmd_service_logs_run,
};
