/* SPDX-License-Identifier: Apache-2.0 */
/* cmd-group - groups of sandboxes; a group exists as long as it has a sandbox */
#include "base/clock.h"
#include "cli/core/command.h"
#include "cli/print/pager.h"
#include "cli/print/print.h"

#define GROUPS_MAX 10000

struct group_count {
	const char *name;
	uint64_t sandboxes, running, paused, since_ns;
};

struct group_counts {
	struct group_count *v;
	size_t n;
};

static int cmd_group_ls_count_sandbox(void *to, const void *row)
{
	const struct sandbox_info *s = row;
	struct group_counts *all = to;
	size_t i = 0;

	if (!s->group)
		return 0;
	while (i < all->n && !str_eq(all->v[i].name, s->group))
		i++;
	if (i == GROUPS_MAX)
		return -ENOMEM;
	if (i == all->n)
		all->v[all->n++] =
			(struct group_count){ .name = s->group, .since_ns = s->created_ns };
	all->v[i].sandboxes++;
	all->v[i].running += s->state == SB_RUNNING;
	all->v[i].paused += s->state == SB_PAUSED;
	if (s->created_ns < all->v[i].since_ns)
		all->v[i].since_ns = s->created_ns;
	return 0;
}

static int cmd_group_ls_compare_name(const void *a, const void *b)
{
	return strcmp(((const struct group_count *)a)->name, ((const struct group_count *)b)->name);
}

static int cmd_group_ls_print_json(const struct group_counts *all, struct cay_err *err)
{
	auto_buf out = BUF_INIT(MIB(4));
	struct jw w = json_list_begin(&out, "groups");

	for (size_t i = 0; i < all->n; i++) {
		jw_object_begin(&w, NULL);
		jw_str(&w, "name", all->v[i].name);
		jw_u64(&w, "sandboxes", all->v[i].sandboxes);
		jw_u64(&w, "running", all->v[i].running);
		jw_u64(&w, "paused", all->v[i].paused);
		jw_end(&w);
	}
	return json_list_print(&w, &out, err);
}

static int cmd_group_ls_format_table(const struct group_counts *all, struct buf *out)
{
	static const char *const headings[] = { "GROUP", "SANDBOXES", "RUNNING", "PAUSED", "AGE" };
	auto_table t = print_table_create_headed(headings, ARRAY_SIZE(headings));
	uint64_t now = clk_wall_ns(&clk_system);

	for (size_t i = 0; i < all->n; i++) {
		const struct group_count *g = &all->v[i];
		char age[PRINT_AGE_MAX];

		print_age_format(now, g->since_ns, age);
		print_table_add_pair(&t, g->name, "%llu", (unsigned long long)g->sandboxes);
		print_table_add_cellf(&t, "%llu", (unsigned long long)g->running);
		print_table_add_cellf(&t, "%llu", (unsigned long long)g->paused);
		print_table_add_cell(&t, age);
	}
	return print_table_write(&t, out);
}

static int cmd_group_ls_run(struct cli *c, const struct opt_words *, struct cay_err *err)
{
	const struct sandbox_query live = { .state = "live" };
	struct group_counts all = { .v = arena_alloc(&c->arena, GROUPS_MAX, sizeof(*all.v)) };
	auto_buf out = BUF_INIT(MIB(4));
	int r = all.v ? api_list_each(&c->api, OP_SANDBOX_LIST, &live, cmd_group_ls_count_sandbox,
				      &all, err)
		      : -ENOMEM;

	if (r >= 0)
		qsort(all.v, all.n, sizeof(*all.v), cmd_group_ls_compare_name);
	if (r >= 0 && c->global.json)
		return cmd_group_ls_print_json(&all, err);
	if (r < 0 || cmd_group_ls_format_table(&all, &out) < 0)
		return cay_no_memory(err);
	return pager_show(&c->api, &out, err);
}

const struct cmd cmd_group_ls = {
	CMD_USAGE("group ls", "[--json]"),
	.help = "List groups and count their sandboxes",
	.run = cmd_group_ls_run,
};

static int cmd_group_rm_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	bool json = c->global.json;
	auto_buf out = BUF_INIT(MIB(64));
	struct jw gone = json_list_begin(&out, "sandboxes");
	struct cay_err why = {};
	int r = 0, told;

	for (size_t i = 0; r >= 0 && i < w->n_operands; i++)
		r = sandbox_group_remove(&c->api, w->operands[i], json ? &gone : NULL, err);
	/* print the removed sandboxes also after a failure */
	told = json ? json_list_print(&gone, &out, r < 0 ? &why : err) : 0;
	return r < 0 ? r : told;
}

const struct cmd cmd_group_rm = {
	CMD_USAGE("group rm", "[--json] GROUP..."),
	CMD_OPERANDS(1, SIZE_MAX, OPERAND_GROUP, OPERAND_GROUP),
	.help = "Remove all sandboxes and uploads of a group",
	.run = cmd_group_rm_run,
};
