/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/list.h"

struct fsck_args {
	bool repair, end_foreign;
	uint64_t older_ms;
};

static const struct opt rows[] = {
	{ "repair", 0, OPT_FLAG, offsetof(struct fsck_args, repair),
	  .help = "Repair the differences that can be repaired" },
	{ "end-foreign", 0, OPT_FLAG, offsetof(struct fsck_args, end_foreign),
	  .help = "Repair, and end sandboxes that the journal lacks; of a node that lost its "
		  "journal, accept the loss" },
	{ "older", 0, OPT_DURATION, offsetof(struct fsck_args, older_ms), 0, UINT64_C(31536000000),
	  .arg = "TIME",
	  .help = "With --end-foreign: only sandboxes older than this; 5m by default" },
};

static const struct {
	const char *meaning, *repair;
} kinds[FSCK_NUM] = {
#define CAY_FSCK(sym, name, meaning_, repair_) [FSCK_##sym] = { meaning_, repair_ },
#include "ops/fsck.def"
#undef CAY_FSCK
};

static int cmd_fsck_print_findings(const struct fsck_list *list, bool repair, struct cay_err *err)
{
	const char *const headings[] = { "ID", "KIND", "MEANING", repair ? "DONE" : "--repair" };
	const struct fsck_row *found = list->findings.v;
	auto_table t = print_table_create_headed(headings, ARRAY_SIZE(headings));
	int r = 0;

	for (size_t i = 0; i < list->findings.n; i++) {
		const char *done = kinds[found[i].kind].repair;
		char id[ID_TEXT_LEN + 1];

		id_format(found[i].volume.noun != ID_NONE     ? &found[i].volume
			  : found[i].snapshot.noun != ID_NONE ? &found[i].snapshot
							      : &found[i].sandbox,
			  id);
		print_table_add_cell(&t, id);
		print_table_add_cell(&t, field_choice_name(&fsck_row_table, "kind", found[i].kind));
		print_table_add_cell(&t, kinds[found[i].kind].meaning);
		print_table_add_cell(&t, !repair || found[i].repaired ? done : "nothing");
	}
	if (list->findings.n)
		r = print_table_stdout(&t, err);
	return r < 0 ? r
		     : print_line(err, "%llu sandboxes compared, %zu findings",
				  (unsigned long long)list->checked, list->findings.n);
}

static int cmd_fsck_run(struct cli *c, const struct opt_words *, struct cay_err *err)
{
	const struct fsck_args *a = c->args;
	struct fsck_list list = {};
	struct repair_query query = { .end_foreign = a->end_foreign, .older_ms = a->older_ms };
	bool repair = a->repair || a->end_foreign;
	struct api_call call = { .op = OP_SYSTEM_FSCK };
	int r;

	if (repair)
		call = (struct api_call){ .op = OP_SYSTEM_REPAIR, .query = &query };
	r = api_call(&c->api, &call, &list, err);
	if (r < 0)
		return r;
	if (list.restarting && !c->global.json)
		return print_line(err, "the loss is accepted: control restarts with the journal as "
				       "it is and ends foreign sandboxes; run 'cay fsck' again");
	r = c->global.json ? print_json(&fsck_list_table, &list, err)
			   : cmd_fsck_print_findings(&list, repair, err);
	return r < 0 ? r : list.findings.n > 0;
}

const struct cmd cmd_fsck = {
	CMD_USAGE("fsck", "[--repair] [--end-foreign [--older TIME]] [--json]"),
	CMD_OPTIONS(fsck_args, OPTS(rows, 0)),
	.defaults = &(const struct fsck_args){ .older_ms = 300000 },
	.help = "Compare the daemon's records with the node's state",
	.more = "The exit status is 1 when something differs, even if --repair has repaired it: "
		"run it again to confirm. Control that finds its journal emptied or older than it "
		"was refuses every other operation: put back a copy of db/, or accept the loss "
		"with --end-foreign.",
	.run = cmd_fsck_run,
};
