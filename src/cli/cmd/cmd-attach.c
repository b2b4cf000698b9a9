/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/cmd/cmd-exec.h"
#include "cli/exec/session.h"
#include "cli/exec/terminal.h"
#include "cli/print/print.h"

struct attach_args {
	bool take, watch;
	const char *keys;
};

#define AT(m) offsetof(struct attach_args, m)

static const struct opt rows[] = {
	{ "take", 0, OPT_FLAG, AT(take),
	  .help = "Take over input; the current writer only watches from then on" },
	{ "watch", 0, OPT_FLAG, AT(watch), .help = "Only watch; Ctrl-C detaches" },
	OPT_DETACH_KEYS(AT(keys)),
};

int exec_attach_foreground(struct cli *c, const struct terminal_spec *spec, struct cay_err *err)
{
	uint64_t began = clk_boot_ns(&clk_system);
	char sandbox[ID_TEXT_LEN + 1], exec[ID_TEXT_LEN + 1];
	struct terminal_result result;
	int r = terminal_run(&c->api, spec, &result, err);

	id_format(&spec->sandbox, sandbox);
	id_format(&spec->exec, exec);
	if (r < 0 || result.detached || result.quit)
		print_note("%s is still running; reattach with 'cay attach %s %s'", exec, sandbox,
			   exec);
	if (r < 0 || result.detached)
		return r;
	if (result.quit)
		return result.quit;
	return exit_status_from_end(&result.end, (clk_boot_ns(&clk_system) - began) / NS_PER_MS);
}

static int cmd_attach_find_newest_tty(struct cli *c, const struct id *sandbox,
				      struct exec_info *ret, struct cay_err *err)
{
	struct exec_list list = {};
	const struct exec_info *rows_;
	bool found = false;
	int r = api_call(&c->api, &(struct api_call){ .op = OP_EXEC_LIST, .ids = { *sandbox } },
			 &list, err);

	if (r < 0)
		return r;
	rows_ = list.execs.v;
	for (size_t i = 0; i < list.execs.n; i++)
		if (rows_[i].state == EXEC_RUNNING && rows_[i].has_tty) {
			*ret = rows_[i];
			found = true;
		}
	if (found)
		return 0;
	api_hint_set(&c->api, "'cay shell SANDBOX' starts one; 'cay attach SANDBOX EXEC' attaches "
			      "to a command without a terminal");
	return cay_fail(err, CAY_E_NOT_FOUND,
			"no command with a terminal is running in the sandbox");
}

static int cmd_attach_find_exec(struct cli *c, const struct id *sandbox, const char *word,
				struct exec_info *ret, struct cay_err *err)
{
	struct id id;

	if (!word)
		return cmd_attach_find_newest_tty(c, sandbox, ret, err);
	if (id_parse(ID_EXEC, slice_of(word), &id) < 0)
		return cay_fail(err, CAY_E_INVALID, "'%s' is not an exec id", word);
	return api_call(&c->api, &(struct api_call){ .op = OP_EXEC_GET, .ids = { *sandbox, id } },
			ret, err);
}

static int cmd_attach_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct attach_args *a = c->args;
	struct terminal_spec spec = { .role = a->take    ? ROLE_TAKE
					      : a->watch ? ROLE_WATCH
							 : ROLE_AUTO };
	struct exec_info exec = {};
	int r;

	if (a->take && a->watch)
		return cay_fail(err, CAY_E_INVALID,
				"attach: --take and --watch cannot be combined");
	r = detach_keys_parse(a->keys ? a->keys : DETACH_KEYS_DEFAULT, &spec.detach_keys, err);
	if (r >= 0)
		r = api_find_sandbox(&c->api, w->operands[0], &spec.sandbox, err);
	if (r >= 0)
		r = cmd_attach_find_exec(c, &spec.sandbox,
					 w->n_operands > 1 ? w->operands[1] : NULL, &exec, err);
	if (r >= 0)
		r = interrupt_open(&c->api.intr, err);
	if (r < 0)
		return r;
	spec.exec = exec.id;
	spec.tty = exec.has_tty;
	spec.forward_stdin = !a->watch;
	return exec_attach_foreground(c, &spec, err);
}

const struct cmd cmd_attach = {
	CMD_USAGE("attach", "[OPTION...] SANDBOX [EXEC]"),
	CMD_OPERANDS(1, 2, OPERAND_SANDBOX),
	CMD_OPTIONS(attach_args, OPTS(rows, 0)),
	.no_json = true,
	.help = "Attach to a running command",
	.more = "Without EXEC, attaches to the newest command that has a terminal. The kept output "
		"is printed first. One client writes to a terminal, any number watch. A command "
		"without a terminal gets standard input byte for byte, and its end; Ctrl-C leaves "
		"it running.",
	.run = cmd_attach_run,
};
