/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/core/command.h"
#include "cli/print/pager.h"
#include "cli/print/print.h"

/* "image" is none, but several begin with it. */
static int cmd_help_fail_unknown(struct cli *c, const char *word, struct cay_err *err)
{
	auto_buf below = BUF_INIT(API_HINT_MAX - 1);
	const char *near = cmd_find_similar(word);
	int r = cmd_list_subcommands(word, &below);

	if (r >= 0 && !below.len && near)
		r = buf_printf(&below, "did you mean 'cay %s'?", near);
	api_hint_set(&c->api, r < 0 ? "" : buf_str(&below));
	return cay_fail(err, CAY_E_INVALID, "there is no command '%s'", word);
}

static int cmd_help_run(struct cli *c, const void *args, const struct opt_words *w,
			struct cay_err *err)
{
	bool json = ((const struct json_args *)args)->json;
	auto_buf out = BUF_INIT(KIB(256));
	const struct cmd *cmd = NULL;
	size_t used = 0;
	int r;

	if (w->n_operands) {
		cmd = cmd_find(w->operands, w->n_operands, &used);
		if (!cmd || used != w->n_operands) {
			return cmd_help_fail_unknown(c, w->operands[0], err);
		}
	}
	if (json)
		r = help_format_json(cmd, &out);
	else
		r = cmd ? help_format_command(cmd, &out) : help_format_list(&out);
	if (r < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return json ? print_stdout(&out, err) : pager_show(&c->api, &out, err);
}

static const struct opt_group json_options[] = { OPTS(opts_json, 0), OPTS_END };

const struct cmd cmd_help = {
	.name = "help",
	.needs = CMD_NEEDS_NOTHING,
	.options = json_options,
	.size = sizeof(struct json_args),
	.args = "[--json] [COMMAND]",
	.operands = { OPERAND_COMMAND, OPERAND_COMMAND },
	.max = 2,
	.help = "Say what cay or one command can do",
	.run = cmd_help_run,
};

static int cmd_version_format_json(const char *far, struct buf *out)
{
	struct jw w = jw_to(out);

	jw_object_begin(&w, NULL);
	jw_str(&w, "cay", CAY_VERSION);
	if (far)
		jw_str(&w, "cayd", far);
	jw_end(&w);
	return jw_finish(&w) < 0 ? -ENOMEM : buf_putc(out, '\n');
}

static int cmd_version_format_text(const char *far, struct buf *out)
{
	int r = buf_puts(out, "cay " CAY_VERSION "\n");

	if (r < 0 || !far)
		return r;
	r = buf_puts(out, "cayd ");
	if (r >= 0)
		r = print_append_escaped(out, slice_of(far));
	return r < 0 ? r : buf_putc(out, '\n');
}

static int cmd_version_run(struct cli *c, const void *args, const struct opt_words *,
			   struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(1));
	struct cay_err quiet = {};
	struct health health = {};
	bool there = api_call(&c->api, &(struct api_call){ .op = OP_SYSTEM_HEALTH }, &health,
			      &quiet) >= 0;
	const char *far = there ? health.version : NULL;
	int r = ((const struct json_args *)args)->json ? cmd_version_format_json(far, &out)
						       : cmd_version_format_text(far, &out);

	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory") : print_stdout(&out, err);
}

const struct cmd cmd_version = {
	.name = "version",
	.args = "[--json]",
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "Print the version of cay, and of the daemon when it answers",
	.run = cmd_version_run,
};
