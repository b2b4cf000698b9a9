/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd-group - sandboxes by what they belong to
 *
 * The server has no list of groups: one is there as long as a sandbox of it is.
 */
#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/pager.h"
#include "cli/show.h"

#define GROUPS_MAX 10000

struct group {
	const char *name;
	uint64_t boxes, running, paused, since_ns;
};

struct groups {
	struct group *v;
	size_t n;
};

static int count(void *to, const void *row)
{
	const struct sandbox *s = row;
	struct groups *all = to;
	size_t i = 0;

	if (!s->group)
		return 0;
	while (i < all->n && !str_eq(all->v[i].name, s->group))
		i++;
	if (i == GROUPS_MAX)
		return -ENOMEM;
	if (i == all->n)
		all->v[all->n++] = (struct group){ .name = s->group, .since_ns = s->created_ns };
	all->v[i].boxes++;
	all->v[i].running += s->state == SB_RUNNING;
	all->v[i].paused += s->state == SB_PAUSED;
	if (s->created_ns < all->v[i].since_ns)
		all->v[i].since_ns = s->created_ns;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct group *)a)->name, ((const struct group *)b)->name);
}

static int as_json(const struct groups *all, struct buf *out)
{
	struct jw w = jw_to(out);

	jw_object(&w, NULL);
	jw_array(&w, "groups");
	for (size_t i = 0; i < all->n; i++) {
		jw_object(&w, NULL);
		jw_str(&w, "name", all->v[i].name);
		jw_u64(&w, "sandboxes", all->v[i].boxes);
		jw_u64(&w, "running", all->v[i].running);
		jw_u64(&w, "paused", all->v[i].paused);
		jw_end(&w);
	}
	jw_end(&w);
	jw_end(&w);
	return jw_done(&w) < 0 ? -ENOMEM : buf_putc(out, '\n');
}

static int number(struct show_table *t, uint64_t n)
{
	auto_buf text = BUF_INIT(32);

	return buf_printf(&text, "%llu", (unsigned long long)n) < 0 ? -ENOMEM
								    : show_cell(t, buf_str(&text));
}

static int as_table(const struct groups *all, struct buf *out)
{
	static const char *const headings[] = { "GROUP", "SANDBOXES", "RUNNING", "PAUSED", "AGE" };
	auto_table t = show_table_of(ARRAY_SIZE(headings));
	uint64_t now = clk_wall_ns(&clk_system);
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(headings); i++)
		r = show_cell(&t, headings[i]);
	for (size_t i = 0; r >= 0 && i < all->n; i++) {
		const struct group *g = &all->v[i];
		char age[SHOW_AGE_MAX];

		show_age(now, g->since_ns, age);
		if (show_cell(&t, g->name) < 0 || number(&t, g->boxes) < 0 ||
		    number(&t, g->running) < 0 || number(&t, g->paused) < 0 ||
		    show_cell(&t, age) < 0)
			r = -ENOMEM;
	}
	return r < 0 ? r : show_table_write(&t, out);
}

static int run_ls(struct cli *c, const void *args, const struct opt_words *, struct cay_err *err)
{
	const struct sandbox_query live = { .state = "live" };
	bool json = ((const struct json_args *)args)->json;
	struct groups all = { .v = pool_take(&c->pool, GROUPS_MAX, sizeof(*all.v)) };
	auto_buf out = BUF_INIT(MIB(4));
	int r = all.v ? api_list(&c->api, OP_SANDBOX_LIST, &live, count, &all, err) : -ENOMEM;

	if (r >= 0) {
		qsort(all.v, all.n, sizeof(*all.v), by_name);
		r = json ? as_json(&all, &out) : as_table(&all, &out);
	}
	if (r < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for the groups");
	return json ? show_out(&out, err) : pager_show(&c->api, &out, err);
}

static const struct opt_group json_options[] = { OPTS(opts_json, 0), OPTS_END };

const struct cmd cmd_group_ls = {
	.name = "group ls",
	.args = "[--json]",
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "List the groups that sandboxes belong to, and how many each has",
	.run = run_ls,
};

static int run_rm(struct cli *c, const void *args, const struct opt_words *w, struct cay_err *err)
{
	bool json = ((const struct json_args *)args)->json;
	auto_buf out = BUF_INIT(MIB(64));
	struct jw gone = removed_begin(&out);
	struct cay_err why = {};
	int r = 0, told;

	for (size_t i = 0; r >= 0 && i < w->n_operands; i++)
		r = group_remove(&c->api, w->operands[i], json ? &gone : NULL, err);
	/* those that are gone are told also when others could not be removed */
	told = json ? removed_print(&gone, &out, r < 0 ? &why : err) : 0;
	return r < 0 ? r : told;
}

const struct cmd cmd_group_rm = {
	.name = "group rm",
	.args = "[--json] GROUP...",
	.operands = { OPERAND_GROUP, OPERAND_GROUP },
	.min = 1,
	.max = SIZE_MAX,
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "End every sandbox of a group, as 'cay rm --group' does, and remove its uploads",
	.run = run_rm,
};
