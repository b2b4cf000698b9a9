/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd/cmd-exec.h"
#include "cli/kernel/kernel-code.h"
#include "cli/print/print.h"

struct run_args {
	struct sandbox_create_args make;
	struct exec_args exec;
	bool keep;
	const char *language; /* --kernel, or NULL */
	const char *pictures;
};

static const struct opt rows[] = {
	{ "keep", 0, OPT_FLAG, offsetof(struct run_args, keep),
	  .help = "Keep the sandbox and print its id on stderr" },
	{ "kernel", 0, OPT_TEXT, offsetof(struct run_args, language), .arg = "LANGUAGE",
	  .help = "COMMAND is a file of code, or '-'; run it in a kernel: python, node or r" },
	OPT_PICTURES(offsetof(struct run_args, pictures)),
};

static int cmd_run_check_kernel(const struct run_args *a, const struct opt_words *w,
				struct cay_err *err)
{
	if (!a->language && a->pictures)
		return cay_fail(err, CAY_E_INVALID, "run: --pictures needs --kernel");
	if (!a->language)
		return 0;
	if (a->exec.interactive || a->exec.tty)
		return cay_fail(err, CAY_E_INVALID,
				"run: --kernel cannot be combined with --interactive and --tty");
	if (w->n_rest != 1)
		return cay_fail(err, CAY_E_INVALID,
				"run: with --kernel, COMMAND is one file of code, or '-'");
	return 0;
}

static int cmd_run_code(struct cli *c, const struct id *sandbox, const struct run_args *a,
			const char *file, const char *text, struct cay_err *err)
{
	const struct exec_run *request = &a->exec.request;
	struct kernel_code code = { .file = file,
				    .text = text,
				    .create = { .language = a->language,
						.cwd = request->cwd,
						.user = request->user,
						.env = request->env },
				    .pictures = a->pictures,
				    .timeout_ms = request->timeout_ms };

	return kernel_code_run(c, sandbox, &code, err);
}

static void cmd_run_remove_sandbox(struct cli *c, const struct id *id, bool keep)
{
	struct cay_err why = {};
	char text[ID_TEXT_LEN + 1];

	id_format(id, text);
	if (keep) {
		print_note("kept %s", text);
		return;
	}
	/* Ctrl-C cancelled the command, not the removal */
	c->api.intr.quit = false;
	if (api_call(&c->api, &(struct api_call){ .op = OP_SANDBOX_DELETE, .ids = { *id } },
		     &(struct sandbox_info){}, &why) < 0)
		print_note("cannot remove sandbox %s: %s", text, why.msg);
}

/* A create with an existing name returns that sandbox, which run must not remove. */
static int cmd_run_check_name_is_free(struct cli *c, const char *name, struct cay_err *err)
{
	struct cay_err why = {};
	struct id id;
	int r = api_find_sandbox(&c->api, name, &id, &why);

	if (r >= 0)
		return cay_fail(err, CAY_E_CONFLICT, "sandbox '%s' already exists", name);
	if (why.code == CAY_E_NOT_FOUND)
		return 0;
	*err = why;
	return r;
}

static int cmd_run_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct run_args *a = c->args;
	struct sandbox_create_args make = a->make;
	struct sandbox_info made = {};
	auto_buf code = BUF_INIT(CODE_MAX);
	char hint[API_HINT_MAX];
	int r;

	if (make.create.template && w->n_operands)
		api_hint_set(&c->api, "with --template put '--' before the command");
	r = create_request_set_image(&make.create, w, err);
	if (r >= 0)
		r = cmd_run_check_kernel(a, w, err);
	if (r >= 0 && a->language)
		r = kernel_code_read(w->rest[0], &code, err);
	if (r >= 0)
		r = interrupt_open(&c->api.intr, err);
	if (r >= 0 && make.create.name)
		r = cmd_run_check_name_is_free(c, make.create.name, err);
	if (r >= 0)
		r = create_request_send(c, &make, &made, err);
	if (r < 0 && c->api.intr.quit)
		print_note("the sandbox may still be created; check with 'cay ls'");
	if (r < 0)
		return r;
	interrupt_read_signals(&c->api.intr);
	if (c->api.intr.signo)
		r = 128 + c->api.intr.signo;
	else if (a->language)
		r = cmd_run_code(c, &made.id, a, w->rest[0], buf_str(&code), err);
	else
		r = exec_run_foreground(c, &made.id, &a->exec, w, err);
	memcpy(hint, c->api.hint, sizeof(hint));
	cmd_run_remove_sandbox(c, &made.id, a->keep);
	memcpy(c->api.hint, hint, sizeof(hint));
	return r;
}

const struct cmd cmd_run = {
	CMD_USAGE("run", "[OPTION...] [IMAGE] [--] COMMAND..."),
	CMD_OPERANDS(0, 1, OPERAND_IMAGE),
	.rest = REST_COMMAND,
	CMD_OPTIONS(run_args, OPTS(opts_create, offsetof(struct run_args, make)),
		    OPTS(opts_exec, offsetof(struct run_args, exec)), OPTS(rows, 0)),
	.init_args = create_request_init,
	.no_json = true,
	.help = "Create a sandbox, run a command in it, remove it",
	.more = "The same as create, exec and rm. With --template, which needs no IMAGE, put -- "
		"before COMMAND. The sandbox is removed however the command ends, "
		"also after Ctrl-C. 'cay run --kernel python code FILE' runs a file of code and "
		"shows its results: see kernel run.",
	.run = cmd_run_run,
};
