/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/cmd.h"
#include "cli/pager.h"
#include "cli/show.h"

/* "image" is none, but several begin with it. */
static int no_command(struct cli *c, const char *word, struct cay_err *err)
{
	auto_buf below = BUF_INIT(API_HINT_MAX - 1);
	const char *near = cmd_near(word);
	int r = cmd_below(word, &below);

	if (r >= 0 && !below.len && near)
		r = buf_printf(&below, "did you mean 'cay %s'?", near);
	api_hint(&c->api, r < 0 ? "" : buf_str(&below));
	return cay_fail(err, CAY_E_INVALID, "there is no command '%s'", word);
}

static int run_help(struct cli *c, const void *args, const struct opt_words *w, struct cay_err *err)
{
	bool json = ((const struct json_args *)args)->json;
	auto_buf out = BUF_INIT(KIB(256));
	const struct cmd *cmd = NULL;
	size_t used = 0;
	int r;

	if (w->n_operands) {
		cmd = cmd_find(w->operands, w->n_operands, &used);
		if (!cmd || used != w->n_operands) {
			return no_command(c, w->operands[0], err);
		}
	}
	if (json)
		r = help_json(cmd, &out);
	else
		r = cmd ? help_command(cmd, &out) : help_list(&out);
	if (r < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return json ? show_out(&out, err) : pager_show(&c->api, &out, err);
}

static const struct opt_group json_options[] = { OPTS(opts_json, 0), OPTS_END };

const struct cmd cmd_help = {
	.name = "help",
	.place = PLACE_NOBODY,
	.options = json_options,
	.size = sizeof(struct json_args),
	.args = "[--json] [COMMAND]",
	.operands = { OPERAND_COMMAND, OPERAND_COMMAND },
	.max = 2,
	.help = "Say what cay or one command can do",
	.run = run_help,
};

static int version_json(const char *far, struct buf *out)
{
	struct jw w = jw_to(out);

	jw_object(&w, NULL);
	jw_str(&w, "cay", CAY_VERSION);
	if (far)
		jw_str(&w, "cayd", far);
	jw_end(&w);
	return jw_done(&w) < 0 ? -ENOMEM : buf_putc(out, '\n');
}

static int version_text(const char *far, struct buf *out)
{
	int r = buf_puts(out, "cay " CAY_VERSION "\n");

	if (r < 0 || !far)
		return r;
	r = buf_puts(out, "cayd ");
	if (r >= 0)
		r = show_text(out, slice_of(far));
	return r < 0 ? r : buf_putc(out, '\n');
}

static int run_version(struct cli *c, const void *args, const struct opt_words *,
		       struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(1));
	struct cay_err quiet = {};
	struct health health = {};
	bool there = api_call(&c->api, &(struct api_call){ .op = OP_HEALTH }, &health, &quiet) >= 0;
	const char *far = there ? health.version : NULL;
	int r = ((const struct json_args *)args)->json ? version_json(far, &out)
						       : version_text(far, &out);

	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory") : show_out(&out, err);
}

const struct cmd cmd_version = {
	.name = "version",
	.args = "[--json]",
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "Print the version of cay, and of the daemon when it answers",
	.run = run_version,
};
