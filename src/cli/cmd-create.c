/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "cli/cmd.h"

struct create_args {
	struct sandbox_create request;
	struct json_args json;
};

#define AT(m) offsetof(struct sandbox_create, m)

const struct opt opts_create[7] = {
	{ "name", 0, OPT_TEXT, AT(name), .arg = "NAME",
	  .help = "A name of your own; creating it again gives the same sandbox" },
	{ "label", 0, OPT_PAIRS, AT(labels), .arg = "KEY=VALUE",
	  .help = "A label; may be repeated" },
	{ "env", 0, OPT_PAIRS, AT(env), .arg = "KEY=VALUE",
	  .help = "A variable of every process in it; may be repeated" },
	{ "memory", 0, OPT_BYTES, AT(limits.memory_bytes), .arg = "SIZE",
	  .help = "Memory at the most, as in 512Mi" },
	{ "cpu", 0, OPT_MILLI, AT(limits.cpu_milli), .arg = "CORES",
	  .help = "CPU time at the most, as in 500m or 2" },
	{ "pids", 0, OPT_U64, AT(limits.pids), .arg = "N",
	  .help = "Processes and threads at the most" },
	{ "runtime", 0, OPT_CHOICE, AT(runtime), .table = &sandbox_create_table,
	  .member = "runtime", .arg = "crun|runc", .help = "The program that makes it" },
};

static const struct opt_group options[] = {
	OPTS(opts_create, offsetof(struct create_args, request)),
	OPTS_JSON(create_args, json),
	OPTS_END,
};

void create_preset(struct sandbox_create *request)
{
	auto_pool pool = POOL_INIT(KIB(4));
	/* what the table says of absent limits; they are numbers, the pool is not kept */
	int r = field_decode_query(&limits_table, SLICE(""), &pool, &request->limits, NULL);

	assert(r == 0);
	request->wait = true;
}

static void preset(void *args)
{
	create_preset(&((struct create_args *)args)->request);
}

static int run(struct cli *c, const void *args, const struct opt_words *w, struct cay_err *err)
{
	const struct create_args *a = args;
	struct sandbox_create request = a->request;
	struct sandbox made = {};
	int r;

	request.image = w->operands[0];
	r = api_call(&c->api, &(struct api_call){ .op = OP_SANDBOX_CREATE, .request = &request },
		     &made, err);
	if (r < 0)
		return r;
	return a->json.json ? print_json(&sandbox_table, &made, err) : print_id(&made.id, err);
}

const struct cmd cmd_create = {
	.name = "create",
	.args = "[OPTION...] IMAGE",
	.min = 1,
	.max = 1,
	.options = options,
	.size = sizeof(struct create_args),
	.preset = preset,
	.help = "Make a sandbox and print its id",
	.run = run,
};
