/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/cmd.h"
#include "cli/show.h"

/* "image" is none, but several begin with it. */
static int no_command(struct cli *c, const char *word, struct cay_err *err)
{
	auto_buf below = BUF_INIT(API_HINT_MAX - 1);
	const char *near = cmd_near(word);
	int r = cmd_below(word, &below);

	if (r >= 0 && !below.len && near)
		r = buf_printf(&below, "did you mean '%s'?", near);
	api_hint(&c->api, r < 0 ? "" : buf_str(&below));
	return cay_fail(err, CAY_E_INVALID, "there is no command '%s'", word);
}

static int run_help(struct cli *c, const void *, const struct opt_words *w, struct cay_err *err)
{
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
	r = cmd ? help_command(cmd, &out) : help_list(&out);
	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory") : show_out(&out, err);
}

const struct cmd cmd_help = {
	.name = "help",
	.place = PLACE_NOBODY,
	.args = "[COMMAND]",
	.max = 2,
	.help = "Say what cay or one command can do",
	.run = run_help,
};

static int run_version(struct cli *c, const void *, const struct opt_words *, struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(1));
	struct cay_err quiet = {};
	struct health health = {};
	int r = buf_puts(&out, "cay " CAY_VERSION "\n");

	if (r >= 0 &&
	    api_call(&c->api, &(struct api_call){ .op = OP_HEALTH }, &health, &quiet) >= 0) {
		r = buf_puts(&out, "cayd ");
		if (r >= 0)
			r = show_text(&out, slice_of(health.version));
		if (r >= 0)
			r = buf_putc(&out, '\n');
	}
	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory") : show_out(&out, err);
}

const struct cmd cmd_version = {
	.name = "version",
	.args = "",
	.help = "Print the version of cay, and of the daemon when it answers",
	.run = run_version,
};
