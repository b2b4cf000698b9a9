/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd/cmd-exec.h"
#include "cli/exec/terminal.h"
#include "cli/exec/tty.h"
#include "cli/print/print.h"

#define TERM_MAX 64

static const struct opt rows[] = { OPT_DETACH_KEYS(offsetof(struct exec_args, keys)) };

/* Our TERM, if it is a plausible terminal name. */
static const char *cmd_shell_term_name(void)
{
	const char *term = getenv("TERM");

	if (!term || !term[0] || strlen(term) > TERM_MAX)
		return NULL;
	for (const char *p = term; *p; p++)
		if (!ascii_is_alnum(*p) && !strchr("+-._", *p))
			return NULL;
	return term;
}

int exec_run_terminal(struct cli *c, const struct id *sandbox, struct exec_run *request, bool feed,
		      const char *keys, struct cay_err *err)
{
	struct api_call call = { .op = OP_EXEC_RUN, .ids = { *sandbox }, .request = request };
	struct terminal_spec spec = {
		.sandbox = *sandbox, .tty = true, .forward_stdin = feed, .role = ROLE_TAKE
	};
	uint16_t cols = 80, lines = 24;
	struct exec_info made = {};
	int r = detach_keys_parse(keys ? keys : DETACH_KEYS_DEFAULT, &spec.detach_keys, err);

	(void)tty_read_size(&cols, &lines);
	request->has_tty = request->detach = true;
	request->tty = (struct exec_tty){ cols, lines, cmd_shell_term_name() };
	if (r >= 0)
		r = api_call(&c->api, &call, &made, err);
	spec.exec = made.id;
	return r < 0 ? r : exec_attach_foreground(c, &spec, err);
}

static int cmd_shell_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct exec_args *a = c->args;
	struct exec_run request = a->request;
	struct id sandbox;
	int r;

	if (!isatty(STDIN_FILENO)) {
		api_hint_set(&c->api, "'cay exec -i SANDBOX -- sh' reads commands from a pipe");
		return cay_fail(err, CAY_E_INVALID, "shell: standard input is not a terminal");
	}
	request.shell = "if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh";
	r = api_find_sandbox(&c->api, w->operands[0], &sandbox, err);
	if (r >= 0)
		r = interrupt_open(&c->api.intr, err);
	return r < 0 ? r : exec_run_terminal(c, &sandbox, &request, /* feed= */ true, a->keys, err);
}

const struct cmd cmd_shell = {
	CMD_USAGE("shell", "[OPTION...] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(exec_args, OPTS_EXEC_PROCESS, OPTS(rows, 0)),
	.no_json = true,
	.help = "Open an interactive shell in a sandbox",
	.more = "Starts bash, or sh if there is none. ctrl-p ctrl-q detaches and leaves it "
		"running; 'cay attach' reattaches. The exit status of the shell is the exit status "
		"of cay. Output of the sandbox reaches this terminal unfiltered, including escape "
		"sequences.",
	.run = cmd_shell_run,
};
