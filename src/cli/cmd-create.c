/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "cli/cmd.h"

struct create_args {
	struct make_args make;
	bool no_wait;
	struct json_args json;
};

#define AT(m) offsetof(struct make_args, create.m)
#define LIFE_MIN_MS 1000
#define LIFE_MAX_MS UINT64_C(31622400000)
#define KEY_MAX 64

const struct opt opts_create[11] = {
	{ "name", 0, OPT_TEXT, AT(name), .arg = "NAME",
	  .help = "A name of your own; creating it again gives the same sandbox" },
	{ "group", 0, OPT_TEXT, AT(group), .arg = "NAME",
	  .help = "What it belongs to; ls, events and rm can be told to look at one group" },
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
	{ "ttl", 0, OPT_DURATION, AT(ttl_ms), LIFE_MIN_MS, LIFE_MAX_MS, .arg = "TIME",
	  .help = "End it after this long, as in 1h" },
	{ "idle", 0, OPT_DURATION, AT(idle_ms), LIFE_MIN_MS, LIFE_MAX_MS, .arg = "TIME",
	  .help = "End it after so long without a request, as in 10m" },
	{ "key", 0, OPT_TEXT, offsetof(struct make_args, key), .arg = "KEY",
	  .help = "Idempotency key: made once, however often it is asked for" },
};

static const struct opt rows[] = {
	{ "on-exit", 0, OPT_CHOICE, offsetof(struct create_args, make.create.on_exit),
	  .table = &sandbox_create_table, .member = "on_exit", .arg = "keep|end",
	  .help = "What becomes of it when COMMAND ends" },
	{ "no-wait", 0, OPT_FLAG, offsetof(struct create_args, no_wait),
	  .help = "Print its id when it is accepted, not when it runs" },
};

static const struct opt_group options[] = {
	OPTS(opts_create, offsetof(struct create_args, make)),
	OPTS(rows, 0),
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
	create_preset(&((struct create_args *)args)->make.create);
}

/* It becomes a line of the request's head. */
static bool is_key(const char *key)
{
	size_t n = 0;

	for (; key[n]; n++)
		if (key[n] <= ' ' || key[n] > '~')
			return false;
	return n > 0 && n <= KEY_MAX;
}

int create_send(struct cli *c, const struct make_args *a, struct sandbox *ret, struct cay_err *err)
{
	struct sandbox_create request = a->create;
	struct api_call call = { .op = OP_SANDBOX_CREATE, .request = &request, .key = a->key };

	if (a->key && !is_key(a->key))
		return cay_fail(err, CAY_E_INVALID,
				"--key wants 1 to %d plain characters without spaces", KEY_MAX);
	request.has_ttl = request.ttl_ms > 0;
	request.has_idle = request.idle_ms > 0;
	return api_call(&c->api, &call, ret, err);
}

static int run(struct cli *c, const void *args, const struct opt_words *w, struct cay_err *err)
{
	const struct create_args *a = args;
	struct make_args make = a->make;
	struct sandbox made = {};
	int r;

	make.create.image = w->operands[0];
	make.create.wait = !a->no_wait;
	make.create.has_entrypoint = w->n_rest > 0;
	make.create.entrypoint =
		(struct field_texts){ (const char **)(uintptr_t)w->rest, w->n_rest };
	if (make.create.on_exit != ON_EXIT_KEEP && !w->n_rest)
		return cay_fail(err, CAY_E_INVALID,
				"create: --on-exit goes with '--' and a command behind it");
	r = create_send(c, &make, &made, err);
	if (r < 0)
		return r;
	return a->json.json ? print_json(&sandbox_table, &made, err) : print_id(&made.id, err);
}

const struct cmd cmd_create = {
	.name = "create",
	.args = "[OPTION...] IMAGE [-- COMMAND...]",
	.min = 1,
	.max = 1,
	.rest = REST_MAY,
	.options = options,
	.size = sizeof(struct create_args),
	.preset = preset,
	.help = "Make a sandbox and print its id",
	.more = "COMMAND is its main program, started once it runs; with --on-exit end the sandbox "
		"ends with it, failed unless its status was 0. Without one it waits for exec.",
	.run = run,
};
