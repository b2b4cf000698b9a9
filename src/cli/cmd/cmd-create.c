/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/client/registry-auth.h"
#include "cli/core/command.h"
#include "cli/print/print.h"
#include "cli/print/pull-progress.h"
#include "ops/package.h"

struct create_args {
	struct sandbox_create_args make;
	uint64_t count;
	const char *from; /* a snapshot, or NULL */
	struct field_texts volumes;
	bool no_wait;
};

#define AT(m) offsetof(struct sandbox_create_args, create.m)
#define LIFE_MIN_MS 1000
#define LIFE_MAX_MS UINT64_C(31622400000)
#define KEY_MAX 64
#define COUNT_MAX 1000

const struct opt opts_create[37] = {
	{ "template", 0, OPT_TEXT, AT(template), .operand = OPERAND_TEMPLATE, .arg = "NAME",
	  .help = "Create it from this template instead of IMAGE" },
	{ "name", 0, OPT_TEXT, AT(name), .arg = "NAME",
	  .help = "Name; creating it again returns the same sandbox" },
	{ "group", 0, OPT_TEXT, AT(group), .operand = OPERAND_GROUP, .arg = "NAME",
	  .help = "Group; ls, events and rm can select by it" },
	{ "label", 0, OPT_PAIRS, AT(labels), .arg = "KEY=VALUE", .help = "Label; may be repeated" },
	{ "env", 0, OPT_PAIRS, AT(env), .arg = "KEY=VALUE",
	  .help = "Environment variable of every process; may be repeated" },
	{ "timezone", 0, OPT_TEXT, AT(timezone), .arg = "ZONE",
	  .help = "Time zone, e.g. Asia/Shanghai: TZ of every process, unless --env sets it" },
	{ "memory", 0, OPT_BYTES, AT(limits.memory_bytes), .arg = "SIZE",
	  .help = "Memory limit, e.g. 512Mi" },
	{ "cpu", 0, OPT_MILLI, AT(limits.cpu_milli), .arg = "CORES",
	  .help = "CPU limit, e.g. 500m or 2" },
	{ "pids", 0, OPT_U64, AT(limits.pids), .arg = "N",
	  .help = "Limit of processes and threads" },
	{ "nofile", 0, OPT_U64, AT(limits.nofile), .arg = "N",
	  .help = "Limit of open files of a process" },
	{ "disk", 0, OPT_BYTES, AT(limits.disk_bytes), .arg = "SIZE",
	  .help = "Disk limit, e.g. 10Gi; refused if the node has no quota" },
	{ "inodes", 0, OPT_U64, AT(limits.disk_inodes), .arg = "N",
	  .help = "Limit of files and directories; refused if the node has no quota" },
	{ "shm", 0, OPT_BYTES, AT(limits.shm_bytes), .arg = "SIZE",
	  .help = "Size of /dev/shm, e.g. 2Gi; counts as memory" },
	{ "output-size", 0, OPT_BYTES, AT(limits.output_bytes), .arg = "SIZE",
	  .help = "Output to keep of all its commands together, e.g. 16Mi" },
	{ "storage", 0, OPT_CHOICE, AT(storage), .table = &sandbox_create_table,
	  .member = "storage", .arg = "disk|memory|read_only",
	  .help = "Where its files are written; read_only: only --writable paths" },
	{ "writable", 0, OPT_TEXT, offsetof(struct sandbox_create_args, writable), .arg = "PATHS",
	  .help = "Writable paths of a read-only root, e.g. /workspace,/tmp" },
	{ "runtime", 0, OPT_CHOICE, AT(runtime), .table = &sandbox_create_table,
	  .member = "runtime", .arg = "crun|runc", .help = "OCI runtime" },
	{ "ttl", 0, OPT_DURATION, AT(ttl_ms), LIFE_MIN_MS, LIFE_MAX_MS, .arg = "TIME",
	  .help = "End it after this time, e.g. 1h" },
	{ "idle", 0, OPT_DURATION, AT(idle_ms), LIFE_MIN_MS, LIFE_MAX_MS, .arg = "TIME",
	  .help = "End it after this time without a request, e.g. 10m" },
	{ "stop-after", 0, OPT_DURATION, AT(stop_after_ms), LIFE_MIN_MS, LIFE_MAX_MS, .arg = "TIME",
	  .help = "Stop it after this time without a request or a command that runs, e.g. 15m" },
	{ "pause-after", 0, OPT_DURATION, AT(pause_after_ms), LIFE_MIN_MS, LIFE_MAX_MS,
	  .arg = "TIME",
	  .help = "Let it doze after this time without a request or a command that runs, e.g. 1m; "
		  "a request wakes it" },
	{ "on-expire", 0, OPT_CHOICE, AT(on_expire), .table = &sandbox_create_table,
	  .member = "on_expire", .arg = "end|stop",
	  .help = "What happens when --ttl is over; stop keeps its files" },
	{ "wake", 0, OPT_CHOICE, AT(wake), .table = &sandbox_create_table, .member = "wake",
	  .arg = "key|never",
	  .help = "Whether a command or a file operation starts it when it is stopped; never: nor "
		  "wakes it when it dozes" },
	{ "rest-ttl", 0, OPT_DURATION, AT(rest_ttl_ms), LIFE_MIN_MS, LIFE_MAX_MS, .arg = "TIME",
	  .help = "End it after it was stopped for this time, e.g. 30d" },
	{ "lease", 0, OPT_DURATION, AT(lease_ms), LIFE_MIN_MS, LIFE_MAX_MS, .arg = "TIME",
	  .help = "End it after this time unless 'cay extend --lease' renews the lease" },
	{ "on-full", 0, OPT_CHOICE, AT(on_full), .table = &sandbox_create_table,
	  .member = "on_full", .arg = "refuse|evict_idle",
	  .help = "When a quota is used up: fail, or end your longest idle sandbox" },
	{ "service", 0, OPT_PAIRS, offsetof(struct sandbox_create_args, services),
	  .arg = "NAME=COMMAND",
	  .help = "Shell command to keep running, started before create returns; may be repeated" },
	{ "warm-python", 0, OPT_TEXT, offsetof(struct sandbox_create_args, warm_python),
	  .arg = "MODULES",
	  .help = "Keep python with these modules loaded, e.g. numpy,pandas, to fork kernels "
		  "from" },
	{ "app-port", 0, OPT_U64, AT(app_port), 1, UINT16_MAX, .arg = "PORT",
	  .help = "Port of its application, by default 9000; 'cay preview' shows it" },
	{ "public-ports", 0, OPT_FLAG, AT(public_ports),
	  .help = "Let everybody who knows the address of a preview see it, without a token" },
	{ "egress", 0, OPT_TEXTS, offsetof(struct sandbox_create_args, egress.presets),
	  .arg = "PRESET", .help = "Let it connect to what this preset allows; may be repeated" },
	{ "allow", 0, OPT_TEXTS, offsetof(struct sandbox_create_args, egress.allow),
	  .arg = "NAME[:PORTS]",
	  .help = "Let it connect to this name, on port 443 without PORTS; may be repeated" },
	{ "ask", 0, OPT_TEXTS, offsetof(struct sandbox_create_args, egress.ask),
	  .arg = "NAME[:PORTS]",
	  .help = "Let connections to this name wait for an answer, see 'cay ask watch'; may be "
		  "repeated" },
	{ "deny", 0, OPT_TEXTS, offsetof(struct sandbox_create_args, egress.deny),
	  .arg = "NAME[:PORTS]",
	  .help = "Deny this name, before anything is allowed; may be repeated" },
	{ "expose", 0, OPT_TEXTS, offsetof(struct sandbox_create_args, egress.expose),
	  .arg = "PORTS",
	  .help = "Let sandboxes of its group connect to this port, or range; may be repeated" },
	{ "registry-auth", 0, OPT_TEXT, offsetof(struct sandbox_create_args, registry_auth),
	  .operand = OPERAND_FILE, .arg = "FILE",
	  .help = "File with USER:PASSWORD, for the pull of a private image; - is stdin" },
	{ "key", 0, OPT_TEXT, offsetof(struct sandbox_create_args, idempotency_key), .arg = "KEY",
	  .help = "Idempotency key: repeated requests create one sandbox" },
};

static const struct opt rows[] = {
	{ "image-entrypoint", 0, OPT_FLAG,
	  offsetof(struct create_args, make.create.image_entrypoint),
	  .help = "Start the image's ENTRYPOINT and CMD" },
	{ "on-exit", 0, OPT_CHOICE, offsetof(struct create_args, make.create.on_exit),
	  .table = &sandbox_create_table, .member = "on_exit", .arg = "keep|end",
	  .help = "What happens to the sandbox when COMMAND ends" },
	{ "python", 0, OPT_PAIRS, offsetof(struct create_args, make.create.packages.python),
	  .arg = "NAME=VERSION", .help = "Package for pip; NAME= is the newest; may be repeated" },
	{ "node", 0, OPT_PAIRS, offsetof(struct create_args, make.create.packages.node),
	  .arg = "NAME=VERSION", .help = "The same for npm" },
	{ "r", 0, OPT_PAIRS, offsetof(struct create_args, make.create.packages.r),
	  .arg = "NAME=VERSION", .help = "The same for R" },
	{ "from", 0, OPT_TEXT, offsetof(struct create_args, from), .operand = OPERAND_SNAPSHOT,
	  .arg = "SNAPSHOT", .help = "Create it with the files of this snapshot instead of IMAGE" },
	{ "volume", 0, OPT_TEXTS, offsetof(struct create_args, volumes), .arg = "NAME:PATH[:ro]",
	  .help = "Mount this volume at this path; ro: nothing can be written; host/NAME is a "
		  "directory of the machine; may be repeated" },
	{ "count", 0, OPT_U64, offsetof(struct create_args, count), 1, COUNT_MAX, .arg = "N",
	  .help = "Create N sandboxes alike; print each id as soon as the sandbox runs" },
	{ "no-wait", 0, OPT_FLAG, offsetof(struct create_args, no_wait),
	  .help = "Print the id once the request is accepted, before it runs" },
};

#define OPTION_UNSET UINT64_MAX

static uint64_t *cmd_create_limit_at(struct limits *l, size_t row)
{
	return (uint64_t *)(void *)((char *)l + limits_table.rows[row].offset);
}

void create_request_init(void *to)
{
	struct sandbox_create *request = to;

	for (size_t i = 0; i < limits_table.n; i++)
		*cmd_create_limit_at(&request->limits, i) = OPTION_UNSET;
	request->runtime = request->on_exit = request->on_full = request->storage =
		request->on_expire = request->wake = (unsigned)OPTION_UNSET;
	request->wait = true;
}

static void cmd_create_unset_field(struct sandbox_create *request, const char *name)
{
	for (size_t i = 0; i < sandbox_create_table.n; i++)
		if (str_eq(sandbox_create_table.rows[i].name, name))
			request->given &= ~(UINT64_C(1) << i);
}

static void cmd_create_unset_enum(struct sandbox_create *request, unsigned *value, const char *name)
{
	if (*value != (unsigned)OPTION_UNSET)
		return;
	*value = 0;
	cmd_create_unset_field(request, name);
}

void create_request_mark_given(struct sandbox_create *request)
{
	request->given = UINT64_MAX;
	request->limits.given = 0;
	for (size_t i = 0; i < limits_table.n; i++) {
		const struct field *f = &limits_table.rows[i];
		bool said = *cmd_create_limit_at(&request->limits, i) != OPTION_UNSET;

		if (said)
			request->limits.given |= UINT64_C(1) << i;
		if (f->has)
			*((bool *)&request->limits + (f->has - 1)) = said;
	}
	if (!request->limits.given)
		cmd_create_unset_field(request, "limits");
	cmd_create_unset_enum(request, &request->runtime, "runtime");
	cmd_create_unset_enum(request, &request->on_exit, "on_exit");
	cmd_create_unset_enum(request, &request->on_full, "on_full");
	cmd_create_unset_enum(request, &request->storage, "storage");
	if (!request->image_entrypoint)
		cmd_create_unset_field(request, "image_entrypoint");
	if (!packages_has_any(&request->packages))
		cmd_create_unset_field(request, "packages");
	if (!request->services.n) /* an empty list would replace the template's */
		cmd_create_unset_field(request, "services");
	if (!request->volumes.n)
		cmd_create_unset_field(request, "volumes");
	if (!request->kernels.n)
		cmd_create_unset_field(request, "kernels");
}

int create_request_set_image(struct sandbox_create *request, const struct opt_words *w,
			     struct cay_err *err)
{
	request->image = w->n_operands ? w->operands[0] : NULL;
	if (!request->image == !request->template)
		return cay_fail(err, CAY_E_INVALID, "expected either IMAGE or --template NAME");
	return 0;
}

/* It becomes a header line. */
static bool cmd_create_key_is_valid(const char *key)
{
	size_t n = 0;

	for (; key[n]; n++)
		if (key[n] <= ' ' || key[n] > '~')
			return false;
	return n > 0 && n <= KEY_MAX;
}

#define LIST_MAX 64 /* cayd allows fewer, and refuses more */

static int cmd_create_split_list(const char *list, struct arena *arena, struct field_texts *ret)
{
	struct slice rest = slice_of(list);

	ret->v = arena_alloc(arena, LIST_MAX, sizeof(*ret->v));
	while (ret->v && rest.p && rest.n && ret->n < LIST_MAX) {
		struct slice one = slice_cut(&rest, ',');

		ret->v[ret->n] = arena_strndup(arena, one.p, one.n);
		if (!ret->v[ret->n++])
			return -ENOMEM;
	}
	return ret->v ? 0 : -ENOMEM;
}

static int cmd_create_fill_services(struct cli *c, const struct field_map *said,
				    struct sandbox_create *request, struct cay_err *err)
{
	struct service_spec *v = arena_alloc(&c->arena, said->n + 1, sizeof(*v));

	for (size_t i = 0; v && i < said->n; i++) {
		const char **argv = arena_alloc(&c->arena, 3, sizeof(*argv));

		if (!argv)
			return cay_no_memory(err);
		argv[0] = "/bin/sh";
		argv[1] = "-c";
		argv[2] = said->values[i];
		v[i].name = said->keys[i];
		service_put_set_defaults(&v[i].put);
		v[i].put.has_argv = true;
		v[i].put.argv = (struct field_texts){ argv, 3 };
	}
	request->services = (struct field_list){ v, said->n };
	return v ? 0 : cay_no_memory(err);
}

static int cmd_create_fill_kernels(struct cli *c, const char *modules,
				   struct sandbox_create *request, struct cay_err *err)
{
	struct warm_kernel *v;

	if (!modules)
		return 0;
	v = arena_alloc(&c->arena, 1, sizeof(*v));
	if (!v || cmd_create_split_list(modules, &c->arena, &v->modules) < 0)
		return cay_no_memory(err);
	v->has_modules = v->modules.n > 0;
	request->kernels = (struct field_list){ v, 1 };
	return 0;
}

static int cmd_create_check_key(const char *key, struct cay_err *err)
{
	if (!key || cmd_create_key_is_valid(key))
		return 0;
	return cay_fail(err, CAY_E_INVALID,
			"--key: expected 1 to %d printable ASCII characters without spaces",
			KEY_MAX);
}

int create_request_apply_args(struct cli *c, const struct sandbox_create_args *a,
			      struct sandbox_create *request, struct cay_err *err)
{
	int r = cmd_create_check_key(a->idempotency_key, err);

	if (r >= 0)
		r = cmd_create_fill_services(c, &a->services, request, err);
	if (r >= 0)
		r = cmd_create_fill_kernels(c, a->warm_python, request, err);
	request->has_egress = a->egress.presets.n || a->egress.allow.n || a->egress.ask.n ||
			      a->egress.deny.n || a->egress.expose.n;
	if (r >= 0 && request->has_egress)
		r = egress_options_apply(c, &a->egress, &request->egress, err);
	request->has_registry_auth = a->registry_auth;
	if (r >= 0 && a->registry_auth)
		r = registry_auth_read(a->registry_auth, &c->arena, &request->registry_auth, err);
	request->has_ttl = request->ttl_ms > 0;
	request->has_idle = request->idle_ms > 0;
	request->has_lease = request->lease_ms > 0;
	request->has_stop_after = request->stop_after_ms > 0;
	request->has_pause_after = request->pause_after_ms > 0;
	request->has_rest_ttl = request->rest_ttl_ms > 0;
	request->has_on_expire = request->on_expire != (unsigned)OPTION_UNSET;
	if (!request->has_on_expire)
		request->on_expire = ON_EXPIRE_END;
	request->has_wake = request->wake != (unsigned)OPTION_UNSET;
	if (!request->has_wake)
		request->wake = WAKE_BY_KEY;
	request->has_app_port = request->app_port > 0;
	request->has_writable = a->writable;
	if (r >= 0 && a->writable &&
	    cmd_create_split_list(a->writable, &c->arena, &request->writable) < 0)
		r = cay_no_memory(err);
	create_request_mark_given(request);
	return r;
}

int create_request_send(struct cli *c, const struct sandbox_create_args *a,
			struct sandbox_info *ret, struct cay_err *err)
{
	struct sandbox_create request = a->create;
	struct api_call call = { .op = OP_SANDBOX_CREATE,
				 .request = &request,
				 .idempotency_key = a->idempotency_key };
	int r = create_request_apply_args(c, a, &request, err);

	return r < 0 ? r : pull_progress_call(&c->api, &call, request.image, ret, err);
}

/* For a person only: a program that wants it reads expires_at. */
static void cmd_create_note_expiry(const struct sandbox_info *made)
{
	char left[PRINT_AGE_MAX];

	if (!made->has_expires || !isatty(STDERR_FILENO))
		return;
	/* what is left of the first second counts */
	print_age_format(made->expires_ns + NS_PER_S, clk_wall_ns(&clk_system), left);
	print_note("it expires in %s; 'cay extend' prolongs it", left);
}

static int cmd_create_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct create_args *a = c->args;
	struct sandbox_create_args make = a->make;
	struct sandbox_info made = {};
	int r;

	if (a->from && (w->n_operands || make.create.template))
		return cay_fail(err, CAY_E_INVALID,
				"expected one of IMAGE, --template NAME and --from SNAPSHOT");
	r = a->from ? api_find_snapshot(&c->api, a->from, &make.create.snapshot, err)
		    : create_request_set_image(&make.create, w, err);
	if (r >= 0)
		r = volume_words_apply(c, &a->volumes, &make.create.volumes, err);
	if (r < 0)
		return r;
	make.create.wait = !a->no_wait;
	make.create.has_entrypoint = w->n_rest > 0;
	make.create.entrypoint =
		(struct field_texts){ (const char **)(uintptr_t)w->rest, w->n_rest };
	if (make.create.on_exit == ON_EXIT_END && !w->n_rest && !make.create.template &&
	    !make.create.image_entrypoint)
		return cay_fail(err, CAY_E_INVALID,
				"create: --on-exit needs '--' followed by a command");
	if (a->count)
		return create_many_send(c, &make, a->count, err);
	r = create_request_send(c, &make, &made, err);
	if (r >= 0)
		r = reply_print(c, OP_SANDBOX_CREATE, &made, "id", err);
	if (r >= 0)
		cmd_create_note_expiry(&made);
	return r;
}

const struct cmd cmd_create = {
	CMD_USAGE("create", "[OPTION...] [IMAGE] [-- COMMAND...]"),
	CMD_OPERANDS(0, 1, OPERAND_IMAGE),
	.rest = REST_OPTIONAL,
	CMD_OPTIONS(create_args, OPTS(opts_create, offsetof(struct create_args, make)),
		    OPTS(rows, 0)),
	.init_args = create_request_init,
	.help = "Create a sandbox and print its id",
	.more = "COMMAND is its main program, started once the sandbox runs. With --on-exit end "
		"the sandbox ends with it, as failed unless its status is 0. Without COMMAND the "
		"sandbox waits for exec.",
	.run = cmd_create_run,
};
