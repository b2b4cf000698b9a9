/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"
#include "cli/print/list.h"
#include "cli/print/print.h"

struct fsck_args {
	bool repair;
	struct json_args json;
};

static const struct opt rows[] = {
	{ "repair", 0, OPT_FLAG, offsetof(struct fsck_args, repair),
	  .help = "Put right what can be" },
};
static const struct opt_group options[] = { OPTS(rows, 0), OPTS_JSON(fsck_args, json), OPTS_END };

static const struct {
	const char *meaning, *repair;
} kinds[FSCK_NUM] = {
#define CAY_FSCK(sym, name, meaning_, repair_) [FSCK_##sym] = { meaning_, repair_ },
#include "ops/fsck.def"
#undef CAY_FSCK
};

static int cmd_fsck_add_row(struct print_table *t, const struct fsck_row *f, bool repair)
{
	const char *done = !repair || f->repaired ? kinds[f->kind].repair : "nothing";
	char id[ID_TEXT_LEN + 1];

	id_format(&f->sandbox, id);
	return print_table_add_cell(t, id) < 0 ||
			       print_table_add_cell(t, field_choice_name(&fsck_row_table, "kind",
									 f->kind)) < 0 ||
			       print_table_add_cell(t, kinds[f->kind].meaning) < 0 ||
			       print_table_add_cell(t, done) < 0
		       ? -ENOMEM
		       : 0;
}

static int cmd_fsck_format_findings(const struct fsck_list *list, bool repair, struct buf *out)
{
	const char *const headings[] = { "SANDBOX", "KIND", "MEANING",
					 repair ? "DONE" : "--repair" };
	const struct fsck_row *found = list->findings.v;
	auto_table table = print_table_create(ARRAY_SIZE(headings));
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(headings); i++)
		r = print_table_add_cell(&table, headings[i]);
	for (size_t i = 0; r >= 0 && i < list->findings.n; i++)
		r = cmd_fsck_add_row(&table, &found[i], repair);
	if (r >= 0 && list->findings.n)
		r = print_table_write(&table, out);
	if (r < 0)
		return r;
	return buf_printf(out, "%llu sandboxes compared, %zu findings\n",
			  (unsigned long long)list->checked, list->findings.n);
}

static int cmd_fsck_run(struct cli *c, const void *args, const struct opt_words *,
			struct cay_err *err)
{
	const struct fsck_args *a = args;
	auto_buf out = BUF_INIT(MIB(4));
	struct fsck_list list = {};
	int r = api_call(&c->api,
			 &(struct api_call){ .op = a->repair ? OP_SYSTEM_REPAIR : OP_SYSTEM_FSCK },
			 &list, err);

	if (r < 0)
		return r;
	if (a->json.json)
		r = print_json(&fsck_list_table, &list, err);
	else if (cmd_fsck_format_findings(&list, a->repair, &out) < 0)
		r = cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	else
		r = print_stdout(&out, err);
	return r < 0 ? r : list.findings.n > 0;
}

const struct cmd cmd_fsck = {
	.name = "fsck",
	.args = "[--repair] [--json]",
	.options = options,
	.size = sizeof(struct fsck_args),
	.help = "Compare what the daemon knows with what the machine has",
	.more = "The exit status is 1 when something differs, also when --repair has put it right: "
		"run it again to see that it has.",
	.run = cmd_fsck_run,
};
