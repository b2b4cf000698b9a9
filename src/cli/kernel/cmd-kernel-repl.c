/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd-kernel-repl - a prompt at the terminal for the code of a kernel
 *
 * The terminal edits lines by itself.  Signals are read from an fd: while code runs, SIGINT
 * interrupts it; at the prompt, it drops the lines typed so far.
 */
#include <poll.h>
#include <signal.h>

#include "base/path.h"
#include "cli/kernel/code-block.h"
#include "cli/kernel/kernel-code.h"
#include "cli/kernel/picture.h"
#include "cli/kernel/run-stream.h"
#include "cli/print/list.h"

#define TEXT_MAX MIB(1)

struct repl {
	struct api *api;
	struct id sandbox, kernel;
	const char *language;
	struct run_view view;
	struct buf text; /* whole lines typed so far */
	struct buf line; /* a line without its end */
	int quit;        /* 0, or the exit status after a signal */
	bool over;       /* the input has ended */
};

static int repl_prompt(const struct repl *p, struct cay_err *err)
{
	auto_buf out = BUF_INIT(64);
	int r = p->text.len ? buf_puts(&out, "   ...: ")
			    : buf_printf(&out, "In [%llu]: ",
					 (unsigned long long)p->view.execution_count + 1);

	return r < 0 ? cay_no_memory(err) : print_stdout(&out, err);
}

static int repl_drop_input(struct repl *p, struct cay_err *err)
{
	buf_clear(&p->text);
	buf_clear(&p->line);
	return print_line(err, "%s", "");
}

/* The signal that came: SIGINT is handled here, others end the prompt. */
static int repl_handle_signal(struct repl *p, struct cay_err *err)
{
	int signo;

	interrupt_read_signals(&p->api->intr);
	signo = interrupt_take_signal(&p->api->intr);
	p->api->intr.quit = false;
	if (!signo)
		return 0;
	if (signo != SIGINT)
		p->quit = 128 + signo;
	return repl_drop_input(p, err);
}

/* Read bytes of a line; 1: it is complete. */
static int repl_read_line(struct repl *p, struct cay_err *err)
{
	char bytes[KIB(4)];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (n < 0 && errno != EINTR && errno != EAGAIN)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "read from the terminal");
	if (n <= 0) {
		p->over = n == 0;
		return 0;
	}
	if (p->text.len + p->line.len + (size_t)n > TEXT_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, "the code is larger than 1 MiB");
	if (buf_append(&p->line, bytes, (size_t)n) < 0)
		return cay_no_memory(err);
	return p->line.data[p->line.len - 1] == '\n';
}

/* Move the line to the text; 1: the text is code to run. */
static int repl_take_line(struct repl *p, struct cay_err *err)
{
	struct slice text;
	size_t n;

	if (buf_append(&p->text, p->line.data, p->line.len) < 0)
		return cay_no_memory(err);
	buf_clear(&p->line);
	text = (struct slice){ p->text.data, p->text.len };
	n = text.n;
	if (memchr(text.p, 0, n) || !utf8_is_valid(text.p, n)) {
		print_note("these lines are not UTF-8 text");
		buf_clear(&p->text);
		return 0;
	}
	while (text.n && strchr(" \t\r\n", text.p[text.n - 1]))
		text.n--;
	if (!text.n) {
		buf_clear(&p->text);
		return 0;
	}
	/* two empty lines end any block */
	return n - text.n > 2 ||
	       !code_block_is_open(p->language, (struct slice){ p->text.data, n });
}

/* Wait for code to run in p->text; 0: there is none, the prompt ends. */
static int repl_read_code(struct repl *p, struct cay_err *err)
{
	int r = repl_prompt(p, err);

	while (r >= 0 && !p->over && !p->quit) {
		struct pollfd fds[2] = { { STDIN_FILENO, POLLIN, 0 },
					 { p->api->intr.fd, POLLIN, 0 } };

		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "poll");
		if (fds[1].revents) {
			r = repl_handle_signal(p, err);
		} else if (fds[0].revents) {
			r = repl_read_line(p, err);
			if (r <= 0)
				continue;
			r = repl_take_line(p, err);
			if (r > 0)
				return r;
		} else {
			continue;
		}
		if (r >= 0 && !p->quit)
			r = repl_prompt(p, err);
	}
	return r < 0 ? r : 0;
}

static bool repl_kernel_has_died(const struct end *end)
{
	if (end->reason == END_SIGNAL)
		return !str_eq(end->signal, "SIGINT");
	return end->reason != END_EXIT || end->exit_code > 1;
}

/* A failure after which the next line may work. */
static bool repl_may_go_on(const struct cay_err *err)
{
	return err->code == CAY_E_STATE || err->code == CAY_E_UNAVAILABLE ||
	       err->code == CAY_E_LIMIT || err->code == CAY_E_TIMEOUT;
}

static int repl_run_code(struct repl *p, struct cay_err *err)
{
	struct kernel_run request = { .code = buf_str(&p->text),
				      .max_output_bytes = MIB(1), /* not of a stream */
				      .keep = KEEP_TAIL };
	struct run_stream_spec spec = { .sandbox = p->sandbox,
					.kernel = p->kernel,
					.request = &request,
					.view = &p->view,
					.stays = true };
	struct run_stream_result result;
	struct run_info ignored = {};
	struct cay_err why = {};
	int r = run_stream_run(p->api, &spec, &result, &ignored, &why), finished;

	buf_clear(&p->text);
	finished = run_view_finish(&p->view, /* line= */ true, err);
	if (finished < 0)
		return finished;
	if (r < 0 && !repl_may_go_on(&why)) {
		*err = why;
		return r;
	}
	if (r < 0)
		print_failure(why.msg, p->api->hint);
	else if (result.quit && result.quit != 128 + SIGINT)
		p->quit = result.quit;
	else if (!result.quit && repl_kernel_has_died(&result.end))
		print_note("the kernel has ended (%s%s%s); the next run starts it again, without "
			   "its variables",
			   field_choice_name(&end_table, "reason", result.end.reason),
			   result.end.detail ? ": " : "",
			   result.end.detail ? result.end.detail : "");
	return 0;
}

/* The count of the kernel's last run, by its number.  If that is forgotten, the prompt is right
 * after the next run. */
static void repl_read_count(struct repl *p, uint64_t number)
{
	auto_buf text = BUF_INIT(24);
	struct run_query query = { .max_output_bytes = 0, .keep = KEEP_TAIL };
	struct api_call get = { .op = OP_KERNEL_RUN_GET,
				.ids = { p->sandbox, p->kernel },
				.query = &query };
	struct run_info last = {};
	struct cay_err ignored = {};

	if (!number || buf_printf(&text, "%llu", (unsigned long long)number) < 0)
		return;
	get.path_name = buf_str(&text);
	if (api_call(p->api, &get, &last, &ignored) >= 0 && last.has_execution_count)
		p->view.execution_count = last.execution_count;
	p->api->hint[0] = 0;
}

static int repl_begin(struct repl *p, struct cay_err *err)
{
	struct api_call get = { .op = OP_KERNEL_GET, .ids = { p->sandbox, p->kernel } };
	struct kernel_info info = {};
	int r = api_call(p->api, &get, &info, err);

	if (r < 0)
		return r;
	p->language = info.language;
	if (info.state == SESSION_ENDED)
		print_note("the kernel has ended; the next run starts it again, without its "
			   "variables");
	else
		repl_read_count(p, info.runs);
	return print_line(err, "%s %s%s%s%s. Ctrl-C interrupts, Ctrl-D ends.", info.language,
			  info.version ? info.version : "", info.implementation ? " (" : "",
			  info.implementation ? info.implementation : "",
			  info.implementation ? ")" : "");
}

static int repl_loop(struct repl *p, struct cay_err *err)
{
	int r = repl_begin(p, err);

	while (r >= 0) {
		r = repl_read_code(p, err);
		if (r <= 0)
			break;
		r = repl_run_code(p, err);
		if (p->quit)
			break;
	}
	if (r >= 0 && p->over)
		r = repl_drop_input(p, err);
	return r < 0 ? r : p->quit;
}

static int cmd_kernel_repl_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct kernel_run_args *a = c->args;
	struct kernel_create create = a->code.create;
	const char *dir = a->code.pictures;
	struct repl p = { .api = &c->api, .text = BUF_INIT(TEXT_MAX), .line = BUF_INIT(TEXT_MAX) };
	auto_close int pictures = dir ? picture_open_dir(dir, err) : -EBADF;
	int r = dir && pictures < 0 ? pictures : kernel_run_args_check(a, err);

	if (r >= 0 && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))) {
		api_hint_set(&c->api, "'cay kernel run SANDBOX' reads code from a pipe");
		return cay_fail(err, CAY_E_INVALID, "kernel repl: this is not a terminal");
	}
	if (r >= 0)
		r = api_find_sandbox(&c->api, w->operands[0], &p.sandbox, err);
	if (r >= 0 && a->kernel)
		r = api_find_kernel(&c->api, &p.sandbox, a->kernel, &p.kernel, err);
	if (r >= 0)
		r = interrupt_open(&c->api.intr, err);
	if (!create.language)
		create.language = "python";
	if (r >= 0 && !a->kernel)
		r = kernel_client_open(&c->api, &p.sandbox, &create, &p.kernel, err);
	if (r < 0)
		return r;
	p.view = run_view_create(dir);
	p.view.numbered = true;
	r = repl_loop(&p, err);
	if (!a->kernel)
		kernel_client_remove(&c->api, &p.sandbox, &p.kernel);
	run_view_fini(&p.view);
	buf_fini(&p.text);
	buf_fini(&p.line);
	return r;
}

const struct cmd cmd_kernel_repl = {
	CMD_USAGE("kernel repl", "[OPTION...] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(kernel_run_args, OPTS_KERNEL_PLACE),
	.no_json = true,
	.help = "Type code for a kernel at this terminal",
	.more = "Without --kernel a new kernel runs the code and is removed at the end. A line "
		"with "
		"an open bracket or string goes on in the next one; a block of Python ends with "
		"an empty line, two empty lines end anything. Ctrl-C interrupts the code, or drops "
		"the lines typed so far; Ctrl-D ends. Results are shown as by kernel run.",
	.run = cmd_kernel_repl_run,
};
