/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "cli/print/print.h"
#include "cli/transfer/file-names.h"
#include "cli/transfer/remote-path.h"

#define OUT_MAX MIB(16)

struct grep_args {
	bool ignore_case, fixed, hidden;
};

#define AT(m) offsetof(struct grep_args, m)
static const struct opt rows[] = {
	{ "ignore-case", 'i', OPT_FLAG, AT(ignore_case), .help = "Ignore case" },
	{ "fixed", 'F', OPT_FLAG, AT(fixed),
	  .help = "PATTERN is plain text, not a regular expression" },
	{ "hidden", 0, OPT_FLAG, AT(hidden), .help = "Include hidden files" },
};

/* "path:line:text", escaped. */
static int cmd_grep_format_hit(const struct file_hit *h, struct buf *out)
{
	int r = file_name_format(out, h->path, h->path_b64);

	if (r >= 0)
		r = buf_printf(out, ":%" PRIu64 ":", h->line);
	if (r >= 0)
		r = file_name_format(out, h->text, h->text_b64);
	return r < 0 ? r : buf_putc(out, '\n');
}

static int cmd_grep_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct grep_args *a = c->args;
	auto_buf out = BUF_INIT(OUT_MAX);
	struct file_grep got = {};
	struct remote_path at;
	int r = remote_path_parse_in_sandbox(c, w->operands[1], &at, err);
	struct file_grep_ask ask = { .path = at.path,
				     .pattern = w->operands[0],
				     .fixed = a->fixed,
				     .ignore_case = a->ignore_case,
				     .hidden = a->hidden,
				     .limit = 1000,
				     .per_file = 100,
				     .width = 500 };
	const struct file_hit *hits;

	if (r >= 0)
		r = api_call(&c->api,
			     &(struct api_call){
				     .op = OP_FILE_GREP, .ids = { at.sandbox }, .request = &ask },
			     &got, err);
	if (r < 0)
		return r;
	if (c->global.json)
		return print_json(&file_grep_table, &got, err);
	hits = got.hits.v;
	for (size_t i = 0; i < got.hits.n; i++)
		if (cmd_grep_format_hit(&hits[i], &out) < 0)
			return cay_no_memory(err);
	r = print_stdout(&out, err);
	if (r >= 0 && got.truncated)
		print_note("output truncated; narrow the search");
	return r < 0 ? r : got.hits.n ? 0 : 1;
}

const struct cmd cmd_grep = {
	CMD_USAGE("grep", "[OPTION...] PATTERN NAME:PATH"),
	CMD_OPERANDS(2, 2, OPERAND_FREE, OPERAND_LOCAL_OR_REMOTE_PATH),
	CMD_OPTIONS(grep_args, OPTS(rows, 0)),
	.help = "Search files of a sandbox for a pattern",
	.more = "The exit status is 1 when nothing matches.",
	.run = cmd_grep_run,
};
