/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/core/command.h"
#include "cli/print/print.h"

struct info_args {
	struct info_query query;
	struct json_args json;
};

static const struct opt rows[] = {
	{ "versions", 0, OPT_FLAG, offsetof(struct info_args, query.versions),
	  .help = "Ask each tool for its version" },
};
static const struct opt_group options[] = { OPTS(rows, 0), OPTS_JSON(info_args, json), OPTS_END };

static int cmd_info_add_row(struct print_table *t, const char *what, const char *text)
{
	int r = text ? print_table_add_cell(t, what) : 0;

	return r < 0 || !text ? r : print_table_add_cell(t, text);
}

static int cmd_info_print(const struct info *i, struct cay_err *err)
{
	auto_table t = print_table_create(2);
	auto_buf out = BUF_INIT(MIB(1)), who = BUF_INIT(KIB(1));
	int r = buf_printf(&who, "%s%s%llu:%llu", i->user ? i->user : "", i->user ? ", " : "",
			   (unsigned long long)i->uid, (unsigned long long)i->gid);

	const struct {
		const char *what, *text;
	} said[] = {
		{ "workspace", i->workspace }, { "user", buf_str(&who) }, { "home", i->home },
		{ "hostname", i->hostname },   { "os", i->os },           { "kernel", i->kernel },
		{ "arch", i->arch },
	};
	for (size_t k = 0; r >= 0 && k < ARRAY_SIZE(said); k++)
		r = cmd_info_add_row(&t, said[k].what, said[k].text);
	for (size_t k = 0; r >= 0 && k < i->tools.n; k++) {
		const struct tool *tool = (const struct tool *)i->tools.v + k;

		r = cmd_info_add_row(&t, tool->name, tool->version ? tool->version : tool->path);
	}
	if (r >= 0)
		r = print_table_write(&t, &out);
	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory") : print_stdout(&out, err);
}

static int cmd_info_run(struct cli *c, const void *args, const struct opt_words *w,
			struct cay_err *err)
{
	const struct info_args *a = args;
	struct api_call call = { .op = OP_SANDBOX_INFO, .query = &a->query };
	struct info now = {};
	int r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);

	if (r >= 0)
		r = api_call(&c->api, &call, &now, err);
	if (r < 0)
		return r;
	return a->json.json ? print_json(&info_table, &now, err) : cmd_info_print(&now, err);
}

const struct cmd cmd_info = {
	.name = "info",
	.args = "[--versions] [--json] SANDBOX",
	.operands = { OPERAND_SANDBOX },
	.min = 1,
	.max = 1,
	.options = options,
	.size = sizeof(struct info_args),
	.help = "What a sandbox is like inside: user, operating system, tools",
	.run = cmd_info_run,
};

struct ping_args {
	uint64_t port, timeout_ms;
	struct json_args json;
};

static const struct opt ping_rows[] = {
	{ "port", 'p', OPT_U64, offsetof(struct ping_args, port), .min = 1, .max = 65535,
	  .arg = "N", .help = "Also connect to this TCP port inside" },
	{ "timeout", 't', OPT_DURATION, offsetof(struct ping_args, timeout_ms), .arg = "TIME",
	  .help = "How long that may take" },
};
static const struct opt_group ping_options[] = {
	OPTS(ping_rows, 0),
	OPTS_JSON(ping_args, json),
	OPTS_END,
};

static void cmd_ping_set_defaults(void *args)
{
	((struct ping_args *)args)->timeout_ms = 1000;
}

static int cmd_ping_run(struct cli *c, const void *args, const struct opt_words *w,
			struct cay_err *err)
{
	const struct ping_args *a = args;
	struct sandbox_health_query query = { .port = a->port,
					      .has_port = a->port,
					      .timeout_ms = a->timeout_ms };
	struct api_call call = { .op = OP_SANDBOX_HEALTH, .query = &query };
	auto_buf out = BUF_INIT(256);
	struct sandbox_health now = {};
	uint64_t began, took;
	int r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);

	began = clk_boot_ns(&clk_system);
	if (r >= 0)
		r = api_call(&c->api, &call, &now, err);
	took = (clk_boot_ns(&clk_system) - began) / 1000;
	if (r >= 0 && a->json.json)
		r = print_json(&sandbox_health_table, &now, err);
	if (r >= 0 && !now.ok)
		return cay_fail(err, CAY_E_UNAVAILABLE, "port %llu: %s",
				(unsigned long long)now.port, now.detail ? now.detail : "not well");
	if (r < 0 || a->json.json)
		return r;
	if (buf_printf(&out, "ok, %llu.%03llu ms\n", (unsigned long long)(took / 1000),
		       (unsigned long long)(took % 1000)) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return print_stdout(&out, err);
}

const struct cmd cmd_ping = {
	.name = "ping",
	.args = "[--port N] [--timeout TIME] [--json] SANDBOX",
	.operands = { OPERAND_SANDBOX },
	.min = 1,
	.max = 1,
	.options = ping_options,
	.size = sizeof(struct ping_args),
	.init_args = cmd_ping_set_defaults,
	.help = "Whether a sandbox answers, and a port in it",
	.run = cmd_ping_run,
};
