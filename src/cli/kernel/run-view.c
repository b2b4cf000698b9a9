/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kernel/run-view.h"

#include <stdio.h>
#include <unistd.h>

#include "base/path.h"
#include "cli/kernel/picture.h"
#include "cli/print/print.h"
#include "cli/print/progress.h"
#include "ops/op.h"
#include "text/base64.h"

#define EVENT_MAX MIB(32)
#define SAVED_MAX 1000u /* pictures of a run: code in a sandbox must not fill a directory */

static const struct json_limits event_limits = { .bytes = EVENT_MAX, .depth = 8, .values = 65536 };

/* The forms of a result, the one to show first. */
static const struct view_form {
	const char *mime;
	const char *extension; /* of the file to save it in; NULL: print it */
	bool base64;
} view_forms[] = {
	{ "image/png", "png", true },      { "image/jpeg", "jpg", true },
	{ "image/gif", "gif", true },      { "image/webp", "webp", true },
	{ "image/svg+xml", "svg", false }, { "application/pdf", "pdf", true },
	{ "text/plain", NULL, false },     { "text/markdown", NULL, false },
	{ "text/latex", NULL, false },     { "application/json", NULL, false },
	{ "text/html", "html", false },
};
static_assert(ARRAY_SIZE(view_forms) == RUN_VIEW_FORMS);

struct run_view run_view_create(const char *pictures)
{
	return (struct run_view){
		.pictures = pictures,
		.draws = !pictures && picture_is_drawn_here(),
		.terminal = { isatty(STDOUT_FILENO), isatty(STDERR_FILENO) },
		.line = BUF_INIT(EVENT_MAX),
	};
}

void run_view_fini(struct run_view *v)
{
	buf_fini(&v->line);
}

static int run_view_write(struct run_view *v, int which, struct slice bytes, struct cay_err *err)
{
	int r;

	if (!bytes.n)
		return 0;
	r = fd_write_all(which ? STDERR_FILENO : STDOUT_FILENO, bytes.p, bytes.n);
	if (r == -EPIPE)
		return r;
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "write the output");
	v->unfinished[which] = bytes.p[bytes.n - 1] != '\n';
	if (v->terminal[0] && v->terminal[1]) /* they share lines */
		v->unfinished[!which] = v->unfinished[which];
	return 0;
}

/* Bytes to print on lines of their own. */
static int run_view_write_lines(struct run_view *v, int which, const struct buf *text,
				struct cay_err *err)
{
	int r = v->unfinished[which] ? run_view_write(v, which, SLICE("\n"), err) : 0;

	return r < 0 ? r : run_view_write(v, which, (struct slice){ text->data, text->len }, err);
}

int run_view_add_output(struct run_view *v, int which, struct slice bytes, struct cay_err *err)
{
	auto_buf clean = BUF_INIT(MIB(8));

	if (!v->terminal[which])
		return run_view_write(v, which, bytes, err);
	if (terminal_filter_add(&v->filter[which], bytes, &clean) < 0)
		return cay_no_memory(err);
	return run_view_write(v, which, (struct slice){ clean.data, clean.len }, err);
}

static int run_view_print_text(struct run_view *v, bool numbered, const char *text,
			       struct cay_err *err)
{
	auto_buf out = BUF_INIT(MIB(64));
	bool several = strchr(text, '\n');
	int r = 0;

	if (numbered)
		r = buf_printf(&out, "Out[%llu]:%c", (unsigned long long)v->execution_count,
			       several ? '\n' : ' ');
	if (r >= 0)
		r = print_append_lines(&out, slice_of(text));
	if (r >= 0 && (!out.len || out.data[out.len - 1] != '\n'))
		r = buf_putc(&out, '\n');
	return r < 0 ? cay_no_memory(err) : run_view_write_lines(v, 0, &out, err);
}

static int run_view_show_picture(struct run_view *v, const struct view_form *form,
				 struct slice bytes, struct cay_err *err)
{
	auto_buf path = BUF_INIT(KIB(8)), out = BUF_INIT(MIB(32));
	int r;

	if (v->draws && str_eq(form->mime, "image/png")) {
		r = picture_append_drawing(&out, bytes);
		if (r == 0)
			return run_view_write_lines(v, 0, &out, err);
		buf_clear(&out);
	}
	if (v->saved >= SAVED_MAX) {
		v->unsaved++;
		return 0;
	}
	r = picture_save(v->pictures ? v->pictures : ".", form->extension, bytes,
			 &v->next_names[form - view_forms], &path, err);
	if (r < 0)
		return r;
	v->saved++;
	if (print_append_escaped(&out, slice_of(buf_str(&path))) < 0 || buf_putc(&out, '\n') < 0)
		return cay_no_memory(err);
	return run_view_write_lines(v, 0, &out, err);
}

static int run_view_show_form(struct run_view *v, const struct view_form *form, bool numbered,
			      const char *data, struct cay_err *err)
{
	auto_buf bytes = BUF_INIT(PICTURE_MAX);
	size_t n = strlen(data);

	if (!form->extension)
		return run_view_print_text(v, numbered, data, err);
	if (!form->base64)
		return run_view_show_picture(v, form, slice_of(data), err);
	if (buf_reserve(&bytes, BASE64_BYTES(n)) < 0)
		return cay_no_memory(err);
	if (base64_decode(data, n, (uint8_t *)bytes.data, &n) < 0) {
		print_note("a result of type %s is not valid base64", form->mime);
		return 0;
	}
	return run_view_show_picture(v, form, (struct slice){ bytes.data, n }, err);
}

/* Data that was too large for a reply. */
static void run_view_note_cut(const struct kernel_cut *cut)
{
	auto_buf size = BUF_INIT(64);

	if (byte_size_format(cut->bytes, &size) < 0)
		return;
	if (cut->path && cut->path[0])
		print_note("%s of %s is in the sandbox: 'cay cp SANDBOX:%s .' gets it", cut->mime,
			   buf_str(&size), cut->path);
	else
		print_note("%s of %s was too large, and could not be saved in the sandbox",
			   cut->mime, buf_str(&size));
}

static int run_view_show_result(struct run_view *v, const struct kernel_result *result,
				struct cay_err *err)
{
	const struct kernel_cut *cuts = result->cut.v;

	for (size_t i = 0; i < result->cut.n; i++)
		run_view_note_cut(&cuts[i]);
	for (size_t f = 0; f < ARRAY_SIZE(view_forms); f++)
		for (size_t i = 0; i < result->data.n; i++)
			if (str_eq(result->data.keys[i], view_forms[f].mime))
				return run_view_show_form(v, &view_forms[f],
							  v->numbered && result->main,
							  result->data.values[i], err);
	if (result->data.n)
		print_note("a result of type %s is not shown", result->data.keys[0]);
	return 0;
}

static int run_view_show_exception(struct run_view *v, const struct kernel_exception *e,
				   struct cay_err *err)
{
	auto_buf out = BUF_INIT(MIB(64));
	int r = e->late ? buf_puts(&out, "Raised by an earlier run:\n") : 0;

	for (size_t i = 0; r >= 0 && i < e->traceback.n; i++) {
		struct slice text = slice_of(e->traceback.v[i]);

		r = print_append_lines(&out, text);
		if (r >= 0 && !(text.n && text.p[text.n - 1] == '\n'))
			r = buf_putc(&out, '\n');
	}
	if (r >= 0 && !e->traceback.n) {
		r = print_append_escaped(&out, slice_of(e->name));
		if (r >= 0)
			r = buf_puts(&out, ": ");
		if (r >= 0)
			r = print_append_lines(&out, slice_of(e->value));
		if (r >= 0)
			r = buf_putc(&out, '\n');
	}
	return r < 0 ? cay_no_memory(err) : run_view_write_lines(v, 1, &out, err);
}

static int run_view_show_event(struct run_view *v, struct slice line, struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(MIB(96));
	struct kernel_exception exception = {};
	struct kernel_result result = {};
	struct cay_err why = {};
	auto_json json = NULL;
	const json_t *part;
	int r = json_parse(line, &event_limits, &json, &why);

	if (r >= 0 && (part = json_object_get(json, "result"))) {
		r = field_decode(&kernel_result_table, part, &arena, &result, &why);
		if (r >= 0)
			return run_view_show_result(v, &result, err);
	} else if (r >= 0 && (part = json_object_get(json, "exception"))) {
		r = field_decode(&kernel_exception_table, part, &arena, &exception, &why);
		if (r >= 0)
			return run_view_show_exception(v, &exception, err);
	} else if (r >= 0 && json_integer_value(json_object_get(json, "execution_count")) > 0) {
		v->execution_count =
			(uint64_t)json_integer_value(json_object_get(json, "execution_count"));
	}
	return r < 0 ? cay_fail(err, CAY_E_MISBEHAVED, "kernel.run: invalid event: %s", why.msg)
		     : 0;
}

int run_view_add_events(struct run_view *v, struct slice bytes, struct cay_err *err)
{
	int r = 0;

	while (r >= 0 && bytes.n) {
		const char *end = memchr(bytes.p, '\n', bytes.n);
		size_t n = end ? (size_t)(end - bytes.p) : bytes.n;

		if (buf_append(&v->line, bytes.p, n) < 0)
			return cay_fail(err, CAY_E_MISBEHAVED, "kernel.run: an event is too large");
		n += end != NULL;
		bytes = (struct slice){ bytes.p + n, bytes.n - n };
		if (!end)
			break;
		r = run_view_show_event(v, (struct slice){ buf_str(&v->line), v->line.len }, err);
		buf_clear(&v->line);
	}
	return r;
}

void run_view_note_echo(struct run_view *v)
{
	for (size_t i = 0; i < ARRAY_SIZE(v->terminal); i++)
		v->unfinished[i] |= v->terminal[i];
}

int run_view_finish(struct run_view *v, bool line, struct cay_err *err)
{
	int r = 0;

	buf_clear(&v->line);
	if (v->unsaved)
		print_note("%u pictures more were not saved: of a run %u are", v->unsaved,
			   SAVED_MAX);
	v->saved = v->unsaved = 0;
	for (int which = 0; r >= 0 && which < 2; which++) {
		bool unfinished = v->unfinished[which] || v->filter[which].n_held;
		auto_buf rest = BUF_INIT(KIB(1));

		if (terminal_filter_finish(&v->filter[which], &rest) < 0)
			return cay_no_memory(err);
		r = run_view_write(v, which, (struct slice){ rest.data, rest.len }, err);
		v->unfinished[which] = unfinished; /* by text, not by the end of a colour */
		if (r < 0)
			return r;
		if (line && v->terminal[which] && v->unfinished[which])
			r = run_view_write(v, which, SLICE("\n"), err);
	}
	return r;
}
