/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kernel/kernel-code.h"

#define AT(m) offsetof(struct kernel_run_args, m)

const struct opt opts_kernel_run[8] = {
	{ "kernel", 'k', OPT_TEXT, AT(kernel), .arg = "KERNEL", .operand = OPERAND_KERNEL,
	  .help = "Run it in this kernel, and keep the kernel" },
	{ "language", 'l', OPT_TEXT, AT(code.create.language), .arg = "LANGUAGE",
	  .help = "python, node or r. By default as FILE ends, or python" },
	{ "user", 'u', OPT_TEXT, AT(code.create.user), .arg = "USER",
	  .help = "User to run as: a name of the image, or a uid" },
	{ "workdir", 'w', OPT_TEXT, AT(code.create.cwd), .arg = "DIR",
	  .help = "Working directory" },
	{ "setenv", 'e', OPT_PAIRS, AT(code.create.env), .arg = "KEY=VALUE",
	  .help = "Environment variable; may be repeated" },
	OPT_PICTURES(AT(code.pictures)),
	{ "code", 'c', OPT_TEXT, AT(code.text), .arg = "CODE",
	  .help = "Run this text instead of a file" },
	{ "timeout", 'T', OPT_DURATION, AT(code.timeout_ms), .arg = "TIME",
	  .help = "Interrupt it after this time, e.g. 60s" },
};

int kernel_run_args_check(const struct kernel_run_args *a, struct cay_err *err)
{
	if (a->kernel && (a->code.create.language || a->code.create.user))
		return cay_fail(err, CAY_E_INVALID,
				"--language and --user are for a new kernel, not for --kernel");
	return 0;
}

static int cmd_kernel_run_check(struct cli *c, const struct kernel_run_args *a,
				const struct opt_words *w, struct cay_err *err)
{
	int r = kernel_run_args_check(a, err);

	if (r < 0)
		return r;
	if (a->code.text && !a->code.text[0])
		return cay_fail(err, CAY_E_INVALID, "kernel run: --code is empty");
	if (a->code.text && w->n_operands > 1)
		return cay_fail(err, CAY_E_INVALID,
				"kernel run: --code and FILE cannot be combined");
	if (a->code.text || w->n_operands > 1 || !isatty(STDIN_FILENO))
		return 0;
	api_hint_set(&c->api,
		     "'cay kernel run SANDBOX FILE' runs a file; 'cay kernel repl SANDBOX' "
		     "is for typing");
	return cay_fail(err, CAY_E_INVALID, "kernel run: no FILE and no --code");
}

static int cmd_kernel_run_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct kernel_run_args *a = c->args;
	struct kernel_code code = a->code;
	auto_buf text = BUF_INIT(CODE_MAX);
	struct id sandbox, kernel;
	int r = cmd_kernel_run_check(c, a, w, err);

	code.file = w->n_operands > 1 ? w->operands[1] : "-";
	if (r >= 0 && !code.text) {
		r = kernel_code_read(code.file, &text, err);
		code.text = buf_str(&text);
	}
	if (r >= 0)
		r = api_find_sandbox(&c->api, w->operands[0], &sandbox, err);
	if (r >= 0 && a->kernel) {
		r = api_find_kernel(&c->api, &sandbox, a->kernel, &kernel, err);
		code.kernel = &kernel;
	}
	if (r >= 0)
		r = interrupt_open(&c->api.intr, err);
	return r < 0 ? r : kernel_code_run(c, &sandbox, &code, err);
}

const struct cmd cmd_kernel_run = {
	CMD_USAGE("kernel run", "[OPTION...] SANDBOX [FILE]"),
	CMD_OPERANDS(1, 2, OPERAND_SANDBOX, OPERAND_FILE),
	CMD_OPTIONS(kernel_run_args, OPTS(opts_kernel_run, 0)),
	.help = "Run a file of code in a kernel and show its results",
	.more = "Without FILE, or for '-', the code is read from standard input. Without --kernel "
		"a new kernel runs it and is removed. Output is passed on as it arrives, results "
		"follow as text, an exception goes to standard error and makes the exit status 1. "
		"A picture is drawn where the terminal can; else it is saved and its path is "
		"printed. Ctrl-C interrupts the code; a second Ctrl-C within a second quits. "
		"With --json the run is printed when it has ended, with pictures in base64.",
	.run = cmd_kernel_run_run,
};
