/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"
#include "cli/print/print.h"

struct rm_args {
	bool all;
	const char *group, *label;
};

static const struct opt rows[] = {
	{ "all", 0, OPT_FLAG, offsetof(struct rm_args, all), .help = "All your sandboxes" },
	{ "group", 0, OPT_TEXT, offsetof(struct rm_args, group), .operand = OPERAND_GROUP,
	  .arg = "NAME", .help = "All sandboxes of this group" },
	{ "label", 0, OPT_TEXT, offsetof(struct rm_args, label), .arg = "LABELS",
	  .help = "All sandboxes with these labels, as in run=r1,team=blue; with --group, only "
		  "those of the group" },
};

struct rm_sandbox_ids {
	struct id *v;
	size_t n, cap;
};

static int cmd_rm_collect_id(void *to, const void *row)
{
	const struct sandbox_info *s = row;
	struct rm_sandbox_ids *ids = to;

	if (ids->n == ids->cap) {
		size_t cap = ids->cap ? ids->cap * 2 : 64;
		struct id *v = realloc(ids->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		ids->v = v;
		ids->cap = cap;
	}
	ids->v[ids->n++] = s->id;
	return 0;
}

static int cmd_rm_remove_sandbox(struct api *a, const struct id *id, struct jw *json,
				 struct cay_err *err)
{
	struct sandbox_info gone = {};
	int r = api_call(a, &(struct api_call){ .op = OP_SANDBOX_DELETE, .ids = { *id } }, &gone,
			 err);

	if (r >= 0 && json)
		field_encode(&sandbox_info_table, NULL, &gone, json);
	return r;
}

/* After a failure the other sandboxes are still removed.  main reports the first failure,
 * cmd_rm_failures_add() the others. */
struct rm_failures {
	int first; /* 0: none */
	char hint[API_HINT_MAX];
	struct cay_err *err;
};

static void cmd_rm_failures_add(struct rm_failures *f, const struct api *a, int r,
				const struct cay_err *why)
{
	if (r >= 0)
		return;
	if (f->first) {
		print_failure(why->msg, "");
		return;
	}
	f->first = r;
	*f->err = *why;
	memcpy(f->hint, a->hint, sizeof(f->hint));
}

static int cmd_rm_failures_result(const struct rm_failures *f, struct api *a)
{
	memcpy(a->hint, f->hint, sizeof(f->hint));
	return f->first;
}

/* Remove the sandboxes that an operation lists; the operation may end them already. */
static int cmd_rm_remove_listed(struct api *a, enum op_id op, const void *which, struct jw *json,
				struct cay_err *err)
{
	struct rm_failures failures = { .err = err };
	struct rm_sandbox_ids ids = {};
	int r = api_list_each(a, op, which, cmd_rm_collect_id, &ids, err);

	if (r == -ENOMEM)
		r = cay_no_memory(err);
	for (size_t i = 0; r >= 0 && i < ids.n; i++) {
		struct cay_err why = {};

		r = cmd_rm_remove_sandbox(a, &ids.v[i], json, &why);
		if (why.code != CAY_E_NOT_FOUND)
			cmd_rm_failures_add(&failures, a, r, &why);
		r = 0;
	}
	free(ids.v);
	return r < 0 ? r : cmd_rm_failures_result(&failures, a);
}

/* Remove all live sandboxes, or those of a group. */
static int cmd_rm_remove_all_live(struct api *a, const char *group, struct jw *json,
				  struct cay_err *err)
{
	const struct sandbox_query which = { .state = "live", .group = group };

	return cmd_rm_remove_listed(a, OP_SANDBOX_LIST, &which, json, err);
}

static int cmd_rm_remove_labelled(struct api *a, const struct rm_args *args, struct jw *json,
				  struct cay_err *err)
{
	const struct delete_query which = { .group = args->group, .label = args->label };

	return cmd_rm_remove_listed(a, OP_GROUP_DELETE, &which, json, err);
}

/* End the whole group at once, then wait for each sandbox and for those added meanwhile. */
int sandbox_group_remove(struct api *a, const char *group, struct jw *json, struct cay_err *err)
{
	struct delete_query query = { .group = group };
	struct rm_failures failures = { .err = err };
	struct sandbox_list ending = {};
	const struct sandbox_info *v;
	int r = api_call(a, &(struct api_call){ .op = OP_GROUP_DELETE, .query = &query }, &ending,
			 err);

	if (r < 0)
		return r;
	v = ending.sandboxes.v;
	for (size_t i = 0; i < ending.sandboxes.n; i++) {
		struct cay_err why = {};

		r = cmd_rm_remove_sandbox(a, &v[i].id, json, &why);
		if (why.code != CAY_E_NOT_FOUND)
			cmd_rm_failures_add(&failures, a, r, &why);
	}
	return failures.first ? cmd_rm_failures_result(&failures, a)
			      : cmd_rm_remove_all_live(a, group, json, err);
}

static int cmd_rm_remove_named(struct cli *c, const struct opt_words *w, struct jw *json,
			       struct cay_err *err)
{
	struct rm_failures failures = { .err = err };

	for (size_t i = 0; i < w->n_operands; i++) {
		struct cay_err why = {};
		struct id id;
		int r = api_find_sandbox(&c->api, w->operands[i], &id, &why);

		if (r >= 0)
			r = cmd_rm_remove_sandbox(&c->api, &id, json, &why);
		r = r < 0 ? cay_err_wrap(&why, r, "%s", w->operands[i]) : r;
		cmd_rm_failures_add(&failures, &c->api, r, &why);
	}
	return cmd_rm_failures_result(&failures, &c->api);
}

/* Prints the removed sandboxes also after a failure. */
static int cmd_rm_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct rm_args *a = c->args;
	auto_buf out = BUF_INIT(MIB(64));
	struct jw gone = json_list_begin(&out, "sandboxes"), *json = c->global.json ? &gone : NULL;
	struct cay_err told = {};
	int r;

	if (a->all + (a->group || a->label) + (w->n_operands > 0) != 1)
		return cay_fail(err, CAY_E_INVALID,
				"rm: expected SANDBOX..., --all, --group NAME or --label LABELS");
	if (a->label)
		r = cmd_rm_remove_labelled(&c->api, a, json, err);
	else if (a->group)
		r = sandbox_group_remove(&c->api, a->group, json, err);
	else if (a->all)
		r = cmd_rm_remove_all_live(&c->api, NULL, json, err);
	else
		r = cmd_rm_remove_named(c, w, json, err);
	if (!json || json_list_print(json, &out, &told) >= 0 || r < 0)
		return r;
	*err = told;
	return -EIO;
}

const struct cmd cmd_rm = {
	CMD_USAGE("rm", "[--json] SANDBOX... | --all | --group NAME | --label LABELS"),
	CMD_OPERANDS(0, SIZE_MAX, OPERAND_SANDBOX, OPERAND_SANDBOX),
	CMD_OPTIONS(rm_args, OPTS(rows, 0)),
	.help = "Remove sandboxes and their data",
	.run = cmd_rm_run,
};
