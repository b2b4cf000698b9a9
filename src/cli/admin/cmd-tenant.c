/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/list.h"
#include "cli/print/print.h"
#include "cli/print/progress.h"
#include "text/time.h"

const struct cmd cmd_tenant_create = {
	CMD_USAGE("tenant create", "[--json] NAME"),
	CMD_OPERANDS(1, 1, OPERAND_FREE),
	.help = "Create a tenant",
	.more = "Create a key for it with 'cay key create --tenant NAME'.",
	.size = sizeof(struct tenant_create),
	.operand_at = { OPERAND_AT(tenant_create, name) },
	.op = OP_TENANT_CREATE,
	.prints = "id",
};

const struct cmd cmd_tenant_ls = {
	CMD_USAGE("tenant ls", "[--json]"),
	.help = "List tenants",
	.op = OP_TENANT_LIST,
	/* the default tenant has no age */
	CMD_COLUMNS({ "ID", "id" }, { "NAME", "name" }, { "AGE", "created_at", AS_AGE }),
};

enum quota_unit { QUOTA_COUNT, QUOTA_BYTES, QUOTA_MILLI, QUOTA_MS };

#define NOT_USED SIZE_MAX

/* What a tenant may have, what it has of it, and the most of one sandbox, where there is such a
 * thing. */
static const struct quota_line {
	const char *name;
	enum quota_unit unit;
	size_t has, quota, used;
} quota_lines[] = {
#define QUOTA(name, unit, has, member, used) \
	{ name, unit, offsetof(struct tenant_status, quotas.has), \
	  offsetof(struct tenant_status, quotas.member), used }
#define CEILING(name, unit, has, member) \
	{ name, unit, offsetof(struct tenant_status, ceilings.has), \
	  offsetof(struct tenant_status, ceilings.member), NOT_USED }
#define USED(member) offsetof(struct tenant_status, usage.member)
	QUOTA("sandboxes", QUOTA_COUNT, has_sandboxes, sandboxes, USED(sandboxes)),
	QUOTA("groups", QUOTA_COUNT, has_groups, groups, USED(groups)),
	QUOTA("memory", QUOTA_BYTES, has_memory, memory_bytes, USED(memory_bytes)),
	QUOTA("cpu", QUOTA_MILLI, has_cpu, cpu_milli, USED(cpu_milli)),
	QUOTA("pids", QUOTA_COUNT, has_pids, pids, USED(pids)),
	QUOTA("disk", QUOTA_BYTES, has_disk, disk_bytes, USED(disk_bytes)),
	QUOTA("uploads", QUOTA_BYTES, has_uploads, uploads_bytes, NOT_USED),
	QUOTA("creates per second", QUOTA_COUNT, has_creates, creates_per_s, NOT_USED),
	QUOTA("snapshots", QUOTA_COUNT, has_snapshots, snapshots, USED(snapshots)),
	QUOTA("volumes", QUOTA_COUNT, has_volumes, volumes, USED(volumes)),
	QUOTA("lifetime", QUOTA_MS, has_max_ttl, max_ttl_ms, NOT_USED),
	CEILING("memory of one sandbox", QUOTA_BYTES, has_memory, memory_bytes),
	CEILING("cpu of one sandbox", QUOTA_MILLI, has_cpu, cpu_milli),
	CEILING("pids of one sandbox", QUOTA_COUNT, has_pids, pids),
	CEILING("disk of one sandbox", QUOTA_BYTES, has_disk_bytes, disk_bytes),
#undef USED
#undef CEILING
#undef QUOTA
};

static void quota_line_add_cell(struct print_table *t, const struct quota_line *q,
				const void *status, size_t at)
{
	auto_buf size = BUF_INIT(KIB(1));
	char time[DURATION_TEXT_MAX];
	uint64_t n;

	if (at == NOT_USED) {
		print_table_add_cell(t, "");
		return;
	}
	memcpy(&n, (const char *)status + at, sizeof(n));
	duration_format(n, time);
	if (q->unit == QUOTA_BYTES && byte_size_format(n, &size) >= 0)
		print_table_add_cell(t, buf_str(&size));
	else if (q->unit == QUOTA_MILLI)
		print_table_add_cellf(t, "%.3g", (double)n / 1000);
	else if (q->unit == QUOTA_MS)
		print_table_add_cell(t, time);
	else
		print_table_add_cellf(t, "%llu", (unsigned long long)n);
}

static void tenant_add_policy(struct print_table *t, const char *name, bool has,
			      const struct egress_spec *spec)
{
	auto_buf text = BUF_INIT(KIB(64));

	if (!has || egress_words_write(spec, &text) < 0)
		return;
	print_table_add_cell(t, name);
	print_table_add_cell(t, buf_str(&text));
	print_table_add_cell(t, "");
}

static int cmd_tenant_show_print(const void *reply, struct cay_err *err)
{
	static const char *const headings[] = { "QUOTA", "LIMIT", "GRANTED" };
	auto_table t = print_table_create_headed(headings, ARRAY_SIZE(headings));
	const struct tenant_status *s = reply;
	char id[ID_TEXT_LEN + 1];
	int r;

	id_format(&s->tenant.id, id);
	for (size_t i = 0; i < ARRAY_SIZE(quota_lines); i++) {
		const struct quota_line *q = &quota_lines[i];
		bool has = *(const bool *)((const char *)reply + q->has);

		if (!has && q->used == NOT_USED)
			continue;
		print_table_add_cell(&t, q->name);
		if (has)
			quota_line_add_cell(&t, q, reply, q->quota);
		else
			print_table_add_cell(&t, "-");
		quota_line_add_cell(&t, q, reply, q->used);
	}
	tenant_add_policy(&t, "egress without a policy", s->tenant.has_egress_default,
			  &s->tenant.egress_default);
	tenant_add_policy(&t, "egress at most", s->tenant.has_egress_max, &s->tenant.egress_max);
	r = print_line(err, "tenant %s (%s)", s->tenant.name, id);
	return r < 0 ? r : print_table_stdout(&t, err);
}

const struct cmd cmd_tenant_show = {
	CMD_USAGE("tenant show", "[--json] NAME|ID"),
	CMD_OPERANDS(1, 1, OPERAND_TENANT),
	.help = "Show a tenant, its quotas and what is granted of them",
	.op = OP_TENANT_GET,
	.print = cmd_tenant_show_print,
};

struct tenant_set_args {
	struct tenant_update request;
	struct field_texts egress_default, egress_max;
};

#define AT(member) offsetof(struct tenant_set_args, member)
static const struct opt quota_rows[] = {
	{ "sandboxes", 0, OPT_U64, offsetof(struct tenant_update, quotas.sandboxes), .arg = "N",
	  .help = "Most sandboxes" },
	{ "groups", 0, OPT_U64, offsetof(struct tenant_update, quotas.groups), .arg = "N",
	  .help = "Most groups that have a sandbox" },
	{ "memory", 0, OPT_BYTES, offsetof(struct tenant_update, quotas.memory_bytes),
	  .arg = "SIZE", .help = "Memory limits of all its sandboxes together, e.g. 64Gi" },
	{ "cpu", 0, OPT_MILLI, offsetof(struct tenant_update, quotas.cpu_milli), .arg = "CORES",
	  .help = "CPU limits of all its sandboxes together" },
	{ "pids", 0, OPT_U64, offsetof(struct tenant_update, quotas.pids), .arg = "N",
	  .help = "Limits of processes of all its sandboxes together" },
	{ "disk", 0, OPT_BYTES, offsetof(struct tenant_update, quotas.disk_bytes), .arg = "SIZE",
	  .help = "Disk limits of all its sandboxes together" },
	{ "uploads", 0, OPT_BYTES, offsetof(struct tenant_update, quotas.uploads_bytes),
	  .arg = "SIZE", .help = "Space for uploads" },
	{ "creates", 0, OPT_U64, offsetof(struct tenant_update, quotas.creates_per_s), .arg = "N",
	  .help = "Most creates per second" },
	{ "snapshots", 0, OPT_U64, offsetof(struct tenant_update, quotas.snapshots), .arg = "N",
	  .help = "Most snapshots" },
	{ "volumes", 0, OPT_U64, offsetof(struct tenant_update, quotas.volumes), .arg = "N",
	  .help = "Most volumes" },
	{ "max-ttl", 0, OPT_DURATION, offsetof(struct tenant_update, quotas.max_ttl_ms),
	  .arg = "TIME", .help = "Longest lifetime of a sandbox, e.g. 8h" },
	{ "sandbox-memory", 0, OPT_BYTES, offsetof(struct tenant_update, ceilings.memory_bytes),
	  .arg = "SIZE", .help = "Highest memory limit of one sandbox" },
	{ "sandbox-cpu", 0, OPT_MILLI, offsetof(struct tenant_update, ceilings.cpu_milli),
	  .arg = "CORES", .help = "Highest CPU limit of one sandbox" },
	{ "sandbox-pids", 0, OPT_U64, offsetof(struct tenant_update, ceilings.pids), .arg = "N",
	  .help = "Highest limit of processes of one sandbox" },
	{ "sandbox-disk", 0, OPT_BYTES, offsetof(struct tenant_update, ceilings.disk_bytes),
	  .arg = "SIZE", .help = "Highest disk limit of one sandbox" },
	{ "egress", 0, OPT_TEXTS, AT(egress_default), .arg = "PRESET|NAME[:PORTS]",
	  .help = "Where its sandboxes may connect to that are created without a policy; may be "
		  "repeated" },
	{ "egress-max", 0, OPT_TEXTS, AT(egress_max), .arg = "PRESET|NAME[:PORTS]",
	  .help = "Where its sandboxes may connect to at most, also those that run; may be "
		  "repeated" },
	{ "reset", 0, OPT_FLAG, offsetof(struct tenant_update, reset),
	  .help = "Forget all other quotas, ceilings and egress policies of the tenant" },
};
#undef AT

static int cmd_tenant_set_policies(struct cli *c, struct tenant_set_args *a, struct cay_err *err)
{
	struct tenant_update *u = &a->request;
	int r = 0;

	u->has_egress_default = a->egress_default.n;
	u->has_egress_max = a->egress_max.n;
	if (u->has_egress_default)
		r = egress_words_apply(c, &a->egress_default, &u->egress_default, err);
	if (r >= 0 && u->has_egress_max)
		r = egress_words_apply(c, &a->egress_max, &u->egress_max, err);
	return r;
}

static int cmd_tenant_set_prepare(struct cli *cli, void *args, const struct opt_words *,
				  struct api_call *, struct cay_err *err)
{
	struct tenant_set_args *a = args;
	struct tenant_update *u = &a->request;
	struct quotas *q = &u->quotas;
	struct ceilings *c = &u->ceilings;

	q->has_sandboxes = q->sandboxes;
	q->has_groups = q->groups;
	q->has_memory = q->memory_bytes;
	q->has_cpu = q->cpu_milli;
	q->has_pids = q->pids;
	q->has_disk = q->disk_bytes;
	q->has_uploads = q->uploads_bytes;
	q->has_creates = q->creates_per_s;
	q->has_max_ttl = q->max_ttl_ms;
	q->has_snapshots = q->snapshots;
	q->has_volumes = q->volumes;
	c->has_memory = c->memory_bytes;
	c->has_cpu = c->cpu_milli;
	c->has_pids = c->pids;
	c->has_disk_bytes = c->disk_bytes;
	u->has_quotas = q->has_sandboxes || q->has_groups || q->has_memory || q->has_cpu ||
			q->has_pids || q->has_disk || q->has_uploads || q->has_creates ||
			q->has_max_ttl || q->has_snapshots || q->has_volumes;
	u->has_ceilings = c->has_memory || c->has_cpu || c->has_pids || c->has_disk_bytes;
	if (cmd_tenant_set_policies(cli, a, err) < 0)
		return -EINVAL;
	if (!u->has_quotas && !u->has_ceilings && !u->has_egress_default && !u->has_egress_max &&
	    !u->reset)
		return cay_fail(err, CAY_E_INVALID, "give a quota to set, such as --memory 64Gi");
	return 0;
}

const struct cmd cmd_tenant_set = {
	CMD_USAGE("tenant set", "[OPTIONS] NAME|ID"),
	CMD_OPTIONS(tenant_set_args, OPTS(quota_rows, 0)),
	CMD_OPERANDS(1, 1, OPERAND_TENANT),
	.help = "Set quotas of a tenant, ceilings and egress policies of its sandboxes",
	.more = "What is left out stays. 'cay tenant show NAME' shows quotas and what the "
		"tenant has of them. '--egress-max none' lets no sandbox connect.",
	.op = OP_TENANT_UPDATE,
	.prepare = cmd_tenant_set_prepare,
};

const struct cmd cmd_tenant_rm = {
	CMD_USAGE("tenant rm", "[--json] NAME|ID"),
	CMD_OPERANDS(1, 1, OPERAND_TENANT),
	.help = "Delete a tenant that has no sandboxes and no keys",
	.op = OP_TENANT_DELETE,
};
