/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kernel/kernel-code.h"

#include <fcntl.h>

#include "base/clock.h"
#include "cli/exec/session.h"
#include "cli/kernel/picture.h"
#include "cli/kernel/run-stream.h"
#include "cli/print/print.h"

/* Of each stream, and of all results, in a reply in one piece: the most that can be asked for. */
#define OUTPUT_MAX MIB(4)
#define RESULTS_MAX MIB(32)

static const struct {
	const char *extension, *language;
} code_languages[] = {
	{ ".py", "python" }, { ".js", "node" }, { ".mjs", "node" },
	{ ".cjs", "node" },  { ".r", "r" },     { ".R", "r" },
};

/* By the name of the file; python if that says nothing. */
static const char *kernel_code_guess_language(const char *file)
{
	const char *dot = file ? strrchr(file, '.') : NULL;

	for (size_t i = 0; dot && i < ARRAY_SIZE(code_languages); i++)
		if (str_eq(dot, code_languages[i].extension))
			return code_languages[i].language;
	return "python";
}

static int kernel_code_read_fd(int fd, struct buf *ret)
{
	for (;;) {
		char piece[KIB(16)];
		ssize_t n = read(fd, piece, sizeof(piece));
		int r = n < 0 ? -errno : buf_append(ret, piece, (size_t)n);

		if (r == -EINTR)
			continue;
		if (r < 0 || n == 0)
			return r;
	}
}

int kernel_code_read(const char *file, struct buf *ret, struct cay_err *err)
{
	bool is_stdin = str_eq(file, "-");
	auto_close int own = is_stdin ? -EBADF : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int r;

	if (!is_stdin && own < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "open '%s'", file);
	r = kernel_code_read_fd(is_stdin ? STDIN_FILENO : own, ret);
	if (r == -ENOBUFS)
		return cay_fail(err, CAY_E_TOO_LARGE, "the code in '%s' is larger than 1 MiB",
				file);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -r, "read '%s'", file);
	if (memchr(buf_str(ret), 0, ret->len) || !utf8_is_valid(buf_str(ret), ret->len))
		return cay_fail(err, CAY_E_INVALID, "the code in '%s' is not UTF-8 text", file);
	return ret->len ? 0 : cay_fail(err, CAY_E_INVALID, "there is no code in '%s'", file);
}

int kernel_client_open(struct api *a, const struct id *sandbox, const struct kernel_create *request,
		       struct id *ret, struct cay_err *err)
{
	struct api_call call = { .op = OP_KERNEL_CREATE, .ids = { *sandbox }, .request = request };
	struct kernel_info made = {};
	int r = api_call(a, &call, &made, err);

	*ret = made.id;
	return r;
}

void kernel_client_remove(struct api *a, const struct id *sandbox, const struct id *kernel)
{
	struct api_call call = { .op = OP_KERNEL_DELETE, .ids = { *sandbox, *kernel } };
	char text[ID_TEXT_LEN + 1], hint[API_HINT_MAX];
	struct cay_err why = {};

	memcpy(hint, a->hint, sizeof(hint));
	a->intr.quit = false; /* Ctrl-C stopped the run, not this */
	id_format(kernel, text);
	if (api_call(a, &call, &(struct kernel_info){}, &why) < 0 && why.code != CAY_E_NOT_FOUND)
		print_note("cannot remove kernel %s: %s", text, why.msg);
	memcpy(a->hint, hint, sizeof(hint));
}

void kernel_client_note_ended(struct api *a, const struct id *sandbox, const struct id *kernel)
{
	struct api_call call = { .op = OP_KERNEL_GET, .ids = { *sandbox, *kernel } };
	struct kernel_info info = {};
	struct cay_err ignored = {};

	if (api_call(a, &call, &info, &ignored) >= 0 && info.state == SESSION_ENDED)
		print_note("the kernel has ended%s%s; the next run starts it again, without its "
			   "variables",
			   info.why ? ": " : "", info.why ? info.why : "");
	a->hint[0] = 0;
}

/* Run it in this kernel. */
static int kernel_code_run_in(struct cli *c, const struct id *sandbox, const struct id *kernel,
			      const struct kernel_code *code, struct cay_err *err)
{
	struct kernel_run request = { .code = code->text,
				      .timeout_ms = code->timeout_ms,
				      .max_output_bytes = OUTPUT_MAX,
				      .max_results_bytes = RESULTS_MAX,
				      .keep = KEEP_TAIL };
	struct run_view view = run_view_create(code->pictures);
	struct run_stream_spec spec = { .sandbox = *sandbox,
					.kernel = *kernel,
					.request = &request,
					.view = c->global.json ? NULL : &view };
	uint64_t began = clk_boot_ns(&clk_system);
	struct run_stream_result result;
	struct run_info info = {};
	int r;

	if (code->kernel) { /* a new one has them already */
		request.cwd = code->create.cwd;
		request.env = code->create.env;
	}
	r = run_stream_run(&c->api, &spec, &result, &info, err);
	if (r >= 0 && !result.quit)
		r = c->global.json ? print_json(&run_info_table, &info, err)
				   : run_view_finish(&view, /* line= */ false, err);
	run_view_fini(&view);
	if (r < 0 || result.quit)
		return r < 0 ? r : result.quit;
	return exit_status_from_end(&result.end, (clk_boot_ns(&clk_system) - began) / NS_PER_MS);
}

int kernel_code_run(struct cli *c, const struct id *sandbox, const struct kernel_code *code,
		    struct cay_err *err)
{
	struct kernel_create create = code->create;
	auto_close int pictures = code->pictures ? picture_open_dir(code->pictures, err) : -EBADF;
	struct id kernel = {};
	int r = code->pictures && pictures < 0 ? pictures : 0;

	if (r < 0)
		return r;
	if (!create.language)
		create.language = kernel_code_guess_language(code->file);
	if (code->kernel) {
		kernel = *code->kernel;
		kernel_client_note_ended(&c->api, sandbox, &kernel);
	} else {
		r = kernel_client_open(&c->api, sandbox, &create, &kernel, err);
	}
	if (r < 0)
		return r;
	interrupt_read_signals(&c->api.intr);
	if (c->api.intr.signo)
		r = 128 + c->api.intr.signo;
	else
		r = kernel_code_run_in(c, sandbox, &kernel, code, err);
	if (!code->kernel)
		kernel_client_remove(&c->api, sandbox, &kernel);
	return r;
}
