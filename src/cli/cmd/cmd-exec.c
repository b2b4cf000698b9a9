/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd/cmd-exec.h"

#include "base/clock.h"
#include "cli/exec/session.h"

struct cmd_exec_args {
	struct exec_args exec;
	bool detach;
};

#define AT(m) offsetof(struct exec_args, m)

const struct opt opts_exec[7] = {
	{ "user", 'u', OPT_TEXT, AT(request.user), .arg = "USER",
	  .help = "User to run as: a name of the image, or a uid" },
	{ "workdir", 'w', OPT_TEXT, AT(request.cwd), .arg = "DIR", .help = "Working directory" },
	{ "setenv", 'e', OPT_PAIRS, AT(request.env), .arg = "KEY=VALUE",
	  .help = "Environment variable; may be repeated" },
	{ "timeout", 'T', OPT_DURATION, AT(request.timeout_ms), .arg = "TIME",
	  .help = "End it after this time, e.g. 60s" },
	{ "interactive", 'i', OPT_FLAG, AT(interactive),
	  .help = "Forward standard input even when it is a terminal" },
	{ "tty", 't', OPT_FLAG, AT(tty),
	  .help = "Give it a terminal; with -i connect it to this one" },
	OPT_DETACH_KEYS(AT(keys)),
};

static const struct opt rows[] = {
	{ "detach", 'd', OPT_FLAG, offsetof(struct cmd_exec_args, detach),
	  .help = "Do not wait; print the exec id" },
};

static struct exec_run cmd_exec_build_request(const struct exec_args *a, const struct opt_words *w)
{
	struct exec_run request = a->request;

	request.has_argv = true;
	request.argv = (struct field_texts){ (const char **)(uintptr_t)w->rest, w->n_rest };
	return request;
}

int exec_run_foreground(struct cli *c, const struct id *sandbox, const struct exec_args *a,
			const struct opt_words *w, struct cay_err *err)
{
	struct session_spec spec = {
		.sandbox = *sandbox,
		.request = cmd_exec_build_request(a, w),
		.forward_stdin = a->interactive || !isatty(STDIN_FILENO),
	};
	uint64_t began = clk_boot_ns(&clk_system);
	struct session_result result;
	int r;

	if (a->tty)
		return exec_run_terminal(c, sandbox, &spec.request, spec.forward_stdin, a->keys,
					 err);
	r = session_run(&c->api, &spec, &result, err);
	if (r < 0)
		return r;
	if (result.quit)
		return result.quit;
	return exit_status_from_end(&result.end, (clk_boot_ns(&clk_system) - began) / NS_PER_MS);
}

static int cmd_exec_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct cmd_exec_args *a = c->args;
	struct exec_run request = cmd_exec_build_request(&a->exec, w);
	struct api_call call = { .op = OP_EXEC_RUN, .request = &request };
	int r;

	if (a->detach && a->exec.interactive)
		return cay_fail(err, CAY_E_INVALID,
				"exec: --detach and --interactive cannot be combined");
	if (a->detach && a->exec.tty)
		return cay_fail(err, CAY_E_INVALID,
				"exec: --detach and --tty cannot be combined; ctrl-p ctrl-q "
				"detaches from a terminal");
	if (c->global.json && !a->detach)
		return cay_fail(err, CAY_E_INVALID, "exec: --json needs --detach");
	r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);
	request.detach = true;
	if (r >= 0 && a->detach)
		return api_call_print(c, &call, "id", err);
	if (r >= 0)
		r = interrupt_open(&c->api.intr, err);
	return r < 0 ? r : exec_run_foreground(c, &call.ids[0], &a->exec, w, err);
}

const struct cmd cmd_exec = {
	CMD_USAGE("exec", "[OPTION...] SANDBOX [--] COMMAND..."),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.rest = REST_COMMAND,
	CMD_OPTIONS(cmd_exec_args, OPTS(opts_exec, offsetof(struct cmd_exec_args, exec)),
		    OPTS(rows, 0)),
	.help = "Run a command in a sandbox",
	.more = "COMMAND begins with the first word after SANDBOX that is no option; the words "
		"after it are its own. Output is passed on as it arrives, and the exit status of "
		"the command is the exit "
		"status of cay. Standard input is forwarded unless it is a terminal. Ctrl-C sends "
		"SIGINT to the command; a second Ctrl-C within a second quits and leaves it "
		"running. With -it the command gets a terminal, connected to this one: see shell.",
	.run = cmd_exec_run,
};
