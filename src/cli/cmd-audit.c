/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd-audit - the audit log: read it through the daemon, check it without
 */
#include <fcntl.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/path.h"
#include "cli/cmd.h"
#include "cli/rows.h"
#include "cli/show.h"
#include "text/hex.h"

static const struct opt_group json_options[] = { OPTS(opts_json, 0), OPTS_END };

static const char *or_dash(const char *text)
{
	return text ? text : "-";
}

static int cells(struct show_table *t, const void *row)
{
	const struct audit_row *a = row;
	auto_buf seq = BUF_INIT(32);
	char at[CLK_TEXT_LEN + 1];

	clk_text(a->wall_ns, at);
	return buf_printf(&seq, "%llu", (unsigned long long)a->seq) < 0 ||
			       show_cell(t, buf_str(&seq)) < 0 || show_cell(t, at) < 0 ||
			       show_cell(t, a->op) < 0 || show_cell(t, or_dash(a->outcome)) < 0 ||
			       show_cell(t, or_dash(a->target)) < 0 ||
			       show_cell(t, or_dash(a->request_id)) < 0 ||
			       show_cell(t, or_dash(a->peer)) < 0 ||
			       show_cell(t, or_dash(a->detail)) < 0
		       ? -ENOMEM
		       : 0;
}

static int run_ls(struct cli *c, const void *args, const struct opt_words *, struct cay_err *err)
{
	static const struct rows_kind kind = {
		.op = OP_AUDIT_LIST,
		.list = "records",
		.row = &audit_row_table,
		.headings = { "SEQ", "TIME", "OPERATION", "OUTCOME", "TARGET", "REQUEST", "PEER",
			      "DETAIL" },
		.columns = 8,
		.cells = cells,
	};

	return rows_print(&c->api, &kind, ((const struct json_args *)args)->json, err);
}

const struct cmd cmd_audit_ls = {
	.name = "audit ls",
	.args = "[--json]",
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "List who asked for what, oldest first",
	.run = run_ls,
};

static int run_head(struct cli *c, const void *args, const struct opt_words *, struct cay_err *err)
{
	auto_buf out = BUF_INIT(256);
	struct audit_head head = {};
	int r = api_call(&c->api, &(struct api_call){ .op = OP_AUDIT_HEAD }, &head, err);

	if (r < 0)
		return r;
	if (((const struct json_args *)args)->json)
		return print_json(&audit_head_table, &head, err);
	if (buf_printf(&out, "%llu:%s\n", (unsigned long long)head.count, head.head) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return show_out(&out, err);
}

const struct cmd cmd_audit_head = {
	.name = "audit head",
	.args = "[--json]",
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "Print the anchor of now: COUNT:HEAD",
	.more = "Keep it where nobody who can write the log can change it. cay audit verify "
		"--anchor holds the log against it.",
	.run = run_head,
};

struct verify_args {
	const char *anchor;
	struct json_args json;
};

static const struct opt verify_rows[] = {
	{ "anchor", 0, OPT_TEXT, offsetof(struct verify_args, anchor), .arg = "COUNT:HEAD",
	  .help = "What cay audit head printed once" },
};
static const struct opt_group verify_options[] = { OPTS(verify_rows, 0),
						   OPTS_JSON(verify_args, json), OPTS_END };

/* Whose exit status an outcome has. */
static const enum cay_code statuses[AUDIT_NUM_FAULTS] = {
	[AUDIT_FINE] = CAY_OK,
	[AUDIT_UNREADABLE] = CAY_E_INTERNAL,
	[AUDIT_ORDER] = CAY_E_INTERNAL,
	[AUDIT_CHANGED] = CAY_E_INTERNAL,
	[AUDIT_NO_SEGMENT] = CAY_E_INTERNAL,
	[AUDIT_TRUNCATED] = CAY_E_CONFLICT,
	[AUDIT_OTHER] = CAY_E_CONFLICT,
	[AUDIT_FORGOTTEN] = CAY_E_NOT_FOUND,
};

static int read_anchor(const char *text, struct audit_anchor *ret, struct cay_err *err)
{
	struct slice head = slice_of(text), count = slice_cut(&head, ':');
	uint8_t md[AUDIT_HEX_LEN / 2];

	if (str_u64(count, 0, INT64_MAX, &ret->count) < 0 || !head.p ||
	    hex_read(head.p, head.n, md, sizeof(md)) < 0)
		return cay_fail(err, CAY_E_INVALID,
				"--anchor is a number, ':' and 64 hexadecimal digits");
	memcpy(ret->head, head.p, AUDIT_HEX_LEN + 1);
	return 0;
}

static int open_log(const struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	auto_close int state = -EBADF;
	int fd;

	if (w->n_operands) {
		fd = open(w->operands[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return fd < 0 ? cay_fail_sys(err, CAY_E_INVALID, errno, "open %s", w->operands[0])
			      : fd;
	}
	state = open(c->conf.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = state < 0 ? -errno : path_open(state, "audit", O_RDONLY | O_DIRECTORY, 0);
	return fd < 0 ? cay_fail_sys(err, CAY_E_INVALID, -fd, "open %s/audit", c->conf.state_dir)
		      : fd;
}

static int write_json(const struct audit_report *r, struct buf *out)
{
	struct jw w = jw_to(out);

	jw_object(&w, NULL);
	jw_bool(&w, "ok", r->fault == AUDIT_FINE);
	jw_str(&w, "fault", audit_fault_names[r->fault]);
	jw_u64(&w, "count", r->at.count);
	jw_str(&w, "head", r->at.head);
	jw_u64(&w, "dropped", r->base.count);
	jw_u64(&w, "torn_bytes", r->torn);
	if (r->fault != AUDIT_FINE) {
		jw_u64(&w, "file", r->segment);
		jw_u64(&w, "line", r->line);
		jw_u64(&w, "record", r->record);
	}
	jw_end(&w);
	return jw_done(&w) < 0 ? -ENOMEM : buf_putc(out, '\n');
}

static int write_line(const struct audit_report *r, struct buf *out)
{
	int e = 0;

	if (r->fault == AUDIT_FINE)
		e = buf_printf(out, "%llu records, head %s: %s\n", (unsigned long long)r->at.count,
			       r->at.head, audit_fault_text(r->fault));
	else if (r->segment)
		e = buf_printf(out, "%08u.log line %llu, record %llu: %s\n", r->segment,
			       (unsigned long long)r->line, (unsigned long long)r->record,
			       audit_fault_text(r->fault));
	else
		e = buf_printf(out, "%s\n", audit_fault_text(r->fault));
	if (e >= 0 && r->base.count)
		e = buf_printf(out, "records up to %llu were dropped by audit.keep\n",
			       (unsigned long long)r->base.count);
	if (e >= 0 && r->torn)
		e = buf_printf(out, "%llu bytes of half a line at the end are no record\n",
			       (unsigned long long)r->torn);
	return e;
}

static int run_verify(struct cli *c, const void *args, const struct opt_words *w,
		      struct cay_err *err)
{
	const struct verify_args *a = args;
	struct audit_anchor anchor;
	struct audit_report report;
	auto_buf out = BUF_INIT(KIB(4));
	auto_close int fd = -EBADF;
	int r = a->anchor ? read_anchor(a->anchor, &anchor, err) : 0;

	if (r < 0)
		return r;
	fd = open_log(c, w, err);
	if (fd < 0)
		return fd;
	r = audit_verify(fd, a->anchor ? &anchor : NULL, &report, err);
	if (r < 0)
		return r;
	if ((a->json.json ? write_json(&report, &out) : write_line(&report, &out)) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	r = show_out(&out, err);
	if (r < 0 || report.fault == AUDIT_FINE)
		return r;
	return cay_error_row(statuses[report.fault])->exit;
}

const struct cmd cmd_audit_verify = {
	.name = "audit verify",
	.place = PLACE_HERE,
	.args = "[--anchor COUNT:HEAD] [--json] [DIR]",
	.operands = { OPERAND_FILE },
	.max = 1,
	.options = verify_options,
	.size = sizeof(struct verify_args),
	.help = "Check that the audit log is what was written",
	.more = "Reads the files themselves, in DIR or below paths.state; the daemon need not "
		"run. The first place that is wrong is named. That the last records were cut off, "
		"or that all of it was written anew, only an anchor can show. The exit status is "
		"0 when all is right, 1 when a record or a file is changed, missing or moved, 5 "
		"when the log is not the anchor's, 4 when the anchor's record was dropped.",
	.run = run_verify,
};
