/* SPDX-License-Identifier: Apache-2.0 */
/* cmd-audit - read the audit log through the daemon, and verify its files without */
#include <fcntl.h>

#include "audit/audit.h"
#include "base/path.h"
#include "cli/print/list.h"
#include "text/hex.h"

const struct cmd cmd_audit_ls = {
	CMD_USAGE("audit ls", "[--json]"),
	.help = "List audit records, oldest first",
	.op = OP_AUDIT_LIST,
	CMD_COLUMNS({ "SEQ", "seq" }, { "TIME", "time" }, { "OPERATION", "op" },
		    { "OUTCOME", "outcome" }, { "TARGET", "target" }, { "REQUEST", "request_id" },
		    { "PEER", "peer" }, { "DETAIL", "detail" }),
};

static int cmd_audit_head_print(const void *reply, struct cay_err *err)
{
	const struct audit_head *head = reply;

	return print_line(err, "%llu:%s", (unsigned long long)head->count, head->head);
}

const struct cmd cmd_audit_head = {
	CMD_USAGE("audit head", "[--json]"),
	.help = "Print the current anchor of the audit log: COUNT:HEAD",
	.more = "Store it where an account that can write the log cannot change it. 'cay audit "
		"verify --anchor' compares the log with it.",
	.op = OP_AUDIT_HEAD,
	.print = cmd_audit_head_print,
};

struct audit_verify_args {
	const char *anchor;
};

static const struct opt verify_rows[] = {
	{ "anchor", 0, OPT_TEXT, offsetof(struct audit_verify_args, anchor), .arg = "COUNT:HEAD",
	  .help = "An anchor that 'cay audit head' printed earlier" },
};

/* The error whose exit status a verdict has. */
static const enum cay_code statuses[AUDIT_NUM_VERDICTS] = {
	[AUDIT_INTACT] = CAY_OK,
	[AUDIT_UNREADABLE] = CAY_E_INTERNAL,
	[AUDIT_OUT_OF_ORDER] = CAY_E_INTERNAL,
	[AUDIT_CHANGED] = CAY_E_INTERNAL,
	[AUDIT_NO_SEGMENT] = CAY_E_INTERNAL,
	[AUDIT_TRUNCATED] = CAY_E_CONFLICT,
	[AUDIT_OTHER_CHAIN] = CAY_E_CONFLICT,
	[AUDIT_ANCHOR_DROPPED] = CAY_E_NOT_FOUND,
};

static int cmd_audit_verify_parse_anchor(const char *text, struct audit_anchor *ret,
					 struct cay_err *err)
{
	struct slice head = slice_of(text), count = slice_cut(&head, ':');
	uint8_t md[AUDIT_HEX_LEN / 2];

	if (str_parse_u64(count, 0, INT64_MAX, &ret->count) < 0 || !head.p ||
	    hex_decode(head.p, head.n, md, sizeof(md)) < 0)
		return cay_fail(
			err, CAY_E_INVALID,
			"--anchor: expected COUNT:HEAD, a number and 64 hexadecimal digits");
	memcpy(ret->head, head.p, AUDIT_HEX_LEN + 1);
	return 0;
}

static int cmd_audit_verify_open_log(const struct cli *c, const struct opt_words *w,
				     struct cay_err *err)
{
	auto_close int state = -EBADF;
	int fd;

	if (w->n_operands) {
		fd = open(w->operands[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return fd < 0 ? cay_fail_sys(err, CAY_E_INVALID, errno, "open %s", w->operands[0])
			      : fd;
	}
	state = open(c->settings.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = state < 0 ? -errno : path_open(state, "audit", O_RDONLY | O_DIRECTORY, 0);
	return fd < 0 ? cay_fail_sys(err, CAY_E_INVALID, -fd, "open %s/audit",
				     c->settings.state_dir)
		      : fd;
}

static int cmd_audit_verify_print_json(const struct audit_report *r, struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(4));
	struct jw w = jw_to(&out);

	jw_object_begin(&w, NULL);
	jw_bool(&w, "ok", r->verdict == AUDIT_INTACT);
	jw_str(&w, "fault", audit_verdict_names[r->verdict]);
	jw_u64(&w, "count", r->at.count);
	jw_str(&w, "head", r->at.head);
	jw_u64(&w, "dropped", r->base.count);
	jw_u64(&w, "torn_bytes", r->torn);
	if (r->verdict != AUDIT_INTACT) {
		jw_u64(&w, "file", r->segment);
		jw_u64(&w, "line", r->line);
		jw_u64(&w, "record", r->record);
	}
	jw_end(&w);
	return print_json_finish(&w, &out, err);
}

static int cmd_audit_verify_print_text(const struct audit_report *r, struct cay_err *err)
{
	const char *verdict = audit_verdict_text(r->verdict);
	auto_table t = print_table_create(1);

	if (r->verdict == AUDIT_INTACT)
		print_table_add_cellf(&t, "%llu records, head %s: %s",
				      (unsigned long long)r->at.count, r->at.head, verdict);
	else if (r->segment)
		print_table_add_cellf(&t, "%08u.log line %llu, record %llu: %s", r->segment,
				      (unsigned long long)r->line, (unsigned long long)r->record,
				      verdict);
	else
		print_table_add_cell(&t, verdict);
	if (r->base.count)
		print_table_add_cellf(&t, "records up to %llu were dropped by audit.keep",
				      (unsigned long long)r->base.count);
	if (r->torn)
		print_table_add_cellf(&t, "ignored an incomplete last line of %llu bytes",
				      (unsigned long long)r->torn);
	return print_table_stdout(&t, err);
}

static int cmd_audit_verify_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct audit_verify_args *a = c->args;
	struct audit_anchor anchor;
	struct audit_report report;
	auto_close int fd = -EBADF;
	int r = a->anchor ? cmd_audit_verify_parse_anchor(a->anchor, &anchor, err) : 0;

	if (r < 0)
		return r;
	fd = cmd_audit_verify_open_log(c, w, err);
	if (fd < 0)
		return fd;
	r = audit_verify(fd, a->anchor ? &anchor : NULL, &report, err);
	if (r < 0)
		return r;
	/* such as that of cay-egress, which has a directory for each tenant */
	if (w->n_operands && !a->anchor && !report.at.count && !report.torn &&
	    report.verdict == AUDIT_INTACT)
		return cay_fail(err, CAY_E_NOT_FOUND,
				"%s has no records: name a directory with "
				"files such as 00000001.log",
				w->operands[0]);
	r = c->global.json ? cmd_audit_verify_print_json(&report, err)
			   : cmd_audit_verify_print_text(&report, err);
	if (r < 0 || report.verdict == AUDIT_INTACT)
		return r;
	return cay_error_row(statuses[report.verdict])->exit;
}

const struct cmd cmd_audit_verify = {
	CMD_USAGE("audit verify", "[--anchor COUNT:HEAD] [--json] [DIR]"),
	.needs = CMD_NEEDS_THIS_MACHINE,
	CMD_OPERANDS(0, 1, OPERAND_FILE),
	CMD_OPTIONS(audit_verify_args, OPTS(verify_rows, 0)),
	.help = "Check that the audit log has not been changed",
	.more = "Reads the files in DIR, or below paths.state; the daemon need not run. The first "
		"fault is printed with its file and line. Only an anchor can show that the last "
		"records were cut off or that the whole log was rewritten. The exit status is 0 "
		"when the log is intact, 1 when a record or file is changed, missing or moved, 5 "
		"when the log does not match the anchor, 4 when the anchor's record was dropped.",
	.run = cmd_audit_verify_run,
};
