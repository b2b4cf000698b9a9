/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/core/command.h"
#include "cli/print/print.h"

static const struct opt rows[] = {
	{ "versions", 0, OPT_FLAG, offsetof(struct info_query, versions),
	  .help = "Run each tool to get its version" },
};

static int cmd_info_print(const void *reply, struct cay_err *err)
{
	const struct info *i = reply;
	const struct tool *tools = i->tools.v;
	const struct {
		const char *what, *text;
	} rest[] = { { "home", i->home },
		     { "hostname", i->hostname },
		     { "os", i->os },
		     { "kernel", i->kernel },
		     { "arch", i->arch } };
	auto_table t = print_table_create(2);

	if (i->workspace)
		print_table_add_pair(&t, "workspace", "%s", i->workspace);
	print_table_add_pair(&t, "user", "%s%s%llu:%llu", i->user ? i->user : "",
			     i->user ? ", " : "", (unsigned long long)i->uid,
			     (unsigned long long)i->gid);
	for (size_t k = 0; k < ARRAY_SIZE(rest); k++)
		if (rest[k].text)
			print_table_add_pair(&t, rest[k].what, "%s", rest[k].text);
	for (size_t k = 0; k < i->tools.n; k++) {
		const char *text = tools[k].version ? tools[k].version : tools[k].path;

		if (text)
			print_table_add_pair(&t, tools[k].name, "%s", text);
	}
	return print_table_stdout(&t, err);
}

const struct cmd cmd_info = {
	CMD_USAGE("info", "[--versions] [--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(info_query, OPTS(rows, 0)),
	.help = "Show user, operating system and tools of a sandbox",
	.op = OP_SANDBOX_INFO,
	.print = cmd_info_print,
};

struct ping_args {
	uint64_t port, timeout_ms;
};

static const struct opt ping_rows[] = {
	{ "port", 'p', OPT_U64, offsetof(struct ping_args, port), .min = 1, .max = 65535,
	  .arg = "N", .help = "Also connect to this TCP port in the sandbox" },
	{ "timeout", 't', OPT_DURATION, offsetof(struct ping_args, timeout_ms), .arg = "TIME",
	  .help = "Time limit of the connection" },
};

static int cmd_ping_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct ping_args *a = c->args;
	struct sandbox_health_query query = { .port = a->port,
					      .has_port = a->port,
					      .timeout_ms = a->timeout_ms };
	struct api_call call = { .op = OP_SANDBOX_HEALTH, .query = &query };
	struct sandbox_health now = {};
	uint64_t began, took;
	int r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);

	began = clk_boot_ns(&clk_system);
	if (r >= 0)
		r = api_call(&c->api, &call, &now, err);
	took = (clk_boot_ns(&clk_system) - began) / 1000;
	if (r >= 0 && c->global.json)
		r = print_json(&sandbox_health_table, &now, err);
	if (r >= 0 && !now.ok)
		return cay_fail(err, CAY_E_UNAVAILABLE, "port %llu: %s",
				(unsigned long long)now.port,
				now.detail ? now.detail : "not responding");
	if (r < 0 || c->global.json)
		return r;
	return print_line(err, "ok, %llu.%03llu ms", (unsigned long long)(took / 1000),
			  (unsigned long long)(took % 1000));
}

const struct cmd cmd_ping = {
	CMD_USAGE("ping", "[--port N] [--timeout TIME] [--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(ping_args, OPTS(ping_rows, 0)),
	.defaults = &(const struct ping_args){ .timeout_ms = 1000 },
	.help = "Check that a sandbox, and optionally a port, responds",
	.run = cmd_ping_run,
};
