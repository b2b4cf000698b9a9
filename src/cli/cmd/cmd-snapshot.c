/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"
#include "cli/print/list.h"

static const struct opt snapshot_rows[] = {
	{ "name", 0, OPT_TEXT, offsetof(struct snapshot_create, name), .arg = "NAME",
	  .help = "Name, unique among the snapshots" },
	{ "label", 0, OPT_PAIRS, offsetof(struct snapshot_create, labels), .arg = "KEY=VALUE",
	  .help = "Label; may be repeated" },
	{ "ttl", 0, OPT_DURATION, offsetof(struct snapshot_create, ttl_ms), .arg = "TIME",
	  .help = "Delete it after this time, e.g. 30d; default: never" },
};

static int cmd_snapshot_create_prepare(struct cli *, void *args, const struct opt_words *,
				       struct api_call *, struct cay_err *)
{
	struct snapshot_create *q = args;

	q->has_ttl = q->ttl_ms;
	return 0;
}

const struct cmd cmd_snapshot_create = {
	CMD_USAGE("snapshot create", "[OPTION...] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(snapshot_create, OPTS(snapshot_rows, 0)),
	.help = "Keep the files of a sandbox as they are now, and print the id of the snapshot",
	.more = "A running sandbox is frozen while its files are copied. 'cay create --from' "
		"creates sandboxes with these files. Processes, variables and tokens are not part "
		"of it.",
	.op = OP_SNAPSHOT_CREATE,
	.prepare = cmd_snapshot_create_prepare,
	.prints = "id",
};

const struct cmd cmd_snapshot_ls = {
	CMD_USAGE("snapshot ls", "[--json]"),
	.help = "List snapshots",
	.op = OP_SNAPSHOT_LIST,
	CMD_COLUMNS({ "ID", "id" }, { "NAME", "name" }, { "IMAGE", "image" }, { "STATE", "state" },
		    { "SANDBOX", "sandbox" }, { "AGE", "created_at", AS_AGE }),
};

static int cmd_snapshot_show_print(const void *reply, struct cay_err *err)
{
	return print_json(&snapshot_info_table, reply, err);
}

const struct cmd cmd_snapshot_show = {
	CMD_USAGE("snapshot show", "[--json] NAME|ID"),
	CMD_OPERANDS(1, 1, OPERAND_SNAPSHOT),
	.help = "Show a snapshot as JSON",
	.op = OP_SNAPSHOT_GET,
	.print = cmd_snapshot_show_print,
};

const struct cmd cmd_snapshot_rm = {
	CMD_USAGE("snapshot rm", "[--json] NAME|ID"),
	CMD_OPERANDS(1, 1, OPERAND_SNAPSHOT),
	.help = "Delete a snapshot; sandboxes created from it stay",
	.op = OP_SNAPSHOT_DELETE,
};

#define FORK_MAX 100

static const struct opt fork_rows[] = {
	{ "number", 'n', OPT_U64, offsetof(struct sandbox_fork, count), 1, FORK_MAX, .arg = "N",
	  .help = "How many to create; default 1" },
	{ "label", 0, OPT_PAIRS, offsetof(struct sandbox_fork, labels), .arg = "KEY=VALUE",
	  .help = "Label, over those of the source; may be repeated" },
	{ "env", 0, OPT_PAIRS, offsetof(struct sandbox_fork, env), .arg = "KEY=VALUE",
	  .help = "Environment variable, over those of the source; may be repeated" },
	{ "ttl", 0, OPT_DURATION, offsetof(struct sandbox_fork, ttl_ms), .arg = "TIME",
	  .help = "Longest lifetime, e.g. 2h" },
	{ "name", 0, OPT_TEXTS, offsetof(struct sandbox_fork, names), .arg = "NAME",
	  .help = "Name; once for each of them" },
};

static int cmd_fork_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	struct sandbox_fork request = *(const struct sandbox_fork *)c->args;
	struct api_call call = { .op = OP_SANDBOX_FORK, .request = &request };
	int r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);

	request.count = request.count ? request.count : 1;
	request.has_ttl = request.ttl_ms;
	request.has_names = request.names.n;
	return r < 0 ? r : create_outcomes_print(c, &call, request.count, err);
}

const struct cmd cmd_fork = {
	CMD_USAGE("fork", "[OPTION...] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(sandbox_fork, OPTS(fork_rows, 0)),
	.help = "Create sandboxes that start with the files of this one, and print their ids",
	.more = "All of them have the files of the same moment, and the settings of the source: "
		"limits, environment, labels, services, entrypoint and egress policy. Its "
		"processes "
		"are not part of them.",
	.run = cmd_fork_run,
};
