/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/print.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"

/* Code points that control a terminal or change the order of its text. */
static bool print_char_is_unsafe(const unsigned char *p, size_t n)
{
	if (n == 1)
		return p[0] < 0x20 || p[0] == 0x7f;
	if (n == 2)
		return p[0] == 0xc2 && p[1] < 0xa0; /* U+0080..9F */
	if (n != 3 || p[0] != 0xe2)
		return false;
	return (p[1] == 0x80 && p[2] >= 0x8b && p[2] <= 0x8f) || /* U+200B..200F */
	       (p[1] == 0x80 && p[2] >= 0xa8 && p[2] <= 0xae) || /* U+2028..202E */
	       (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xaf);   /* U+2066..206F */
}

static int print_escape_bytes(struct buf *out, const unsigned char *p, size_t n)
{
	int r = 0;

	if (*p == '\n')
		return buf_puts(out, "\\n");
	if (*p == '\t')
		return buf_puts(out, "\\t");
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = buf_printf(out, "\\x%02x", p[i]);
	return r;
}

int print_append_escaped(struct buf *out, struct slice s)
{
	int r = 0;

	for (size_t i = 0, n; r >= 0 && i < s.n; i += n) {
		const unsigned char *p = (const unsigned char *)s.p + i;
		size_t len = utf8_len(s.p + i, s.n - i);

		n = len ? len : 1;
		r = !len || print_char_is_unsafe(p, len) ? print_escape_bytes(out, p, n)
							 : buf_append(out, p, n);
	}
	return r;
}

size_t print_text_width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

struct print_table print_table_create(size_t columns)
{
	assert(columns <= PRINT_TABLE_COLUMNS_MAX);
	return (struct print_table){ .text = BUF_INIT(MIB(64)), .columns = columns };
}

void print_table_fini(struct print_table *t)
{
	buf_fini(&t->text);
}

void print_table_add_cell(struct print_table *t, const char *text)
{
	size_t column = t->cells % t->columns, begin = t->text.len, width;
	int r = print_append_escaped(&t->text, slice_of(text));

	if (r >= 0)
		r = buf_putc(&t->text, 0);
	if (r < 0) {
		t->failed = r;
		return;
	}
	width = print_text_width(t->text.data + begin);
	if (width > t->width[column])
		t->width[column] = width;
	t->cells++;
}

__attribute__((format(printf, 2, 0))) static void print_table_add_cellv(struct print_table *t,
									const char *fmt, va_list ap)
{
	auto_buf text = BUF_INIT(KIB(64));
	int r = buf_vprintf(&text, fmt, ap);

	if (r < 0)
		t->failed = r;
	else
		print_table_add_cell(t, buf_str(&text));
}

void print_table_add_cellf(struct print_table *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_table_add_cellv(t, fmt, ap);
	va_end(ap);
}

void print_table_add_pair(struct print_table *t, const char *name, const char *fmt, ...)
{
	va_list ap;

	print_table_add_cell(t, name);
	va_start(ap, fmt);
	print_table_add_cellv(t, fmt, ap);
	va_end(ap);
}

struct print_table print_table_create_headed(const char *const *headings, size_t n)
{
	struct print_table t = print_table_create(n);

	for (size_t i = 0; i < n; i++)
		print_table_add_cell(&t, headings[i]);
	return t;
}

int print_table_write(const struct print_table *t, struct buf *out)
{
	const char *cell = buf_str(&t->text);
	int r = t->failed;

	for (size_t i = 0; r >= 0 && i < t->cells; i++) {
		size_t column = i % t->columns;
		bool last = column + 1 == t->columns;
		size_t pad = last ? 0 : t->width[column] - print_text_width(cell) + 2;

		r = buf_puts(out, cell);
		for (; r >= 0 && pad; pad--)
			r = buf_putc(out, ' ');
		if (r >= 0 && last)
			r = buf_putc(out, '\n');
		cell += strlen(cell) + 1;
	}
	return r;
}

int print_table_stdout(const struct print_table *t, struct cay_err *err)
{
	auto_buf out = BUF_INIT(MIB(64));

	return print_table_write(t, &out) < 0 ? cay_no_memory(err) : print_stdout(&out, err);
}

void print_age_format(uint64_t now_ns, uint64_t then_ns, char ret[static PRINT_AGE_MAX])
{
	static const struct {
		uint64_t s;
		const char *unit;
	} units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" }, { 1, "s" } };
	uint64_t s = now_ns > then_ns ? (now_ns - then_ns) / NS_PER_S : 0;
	size_t i = 0;
	int n;

	while (i + 1 < ARRAY_SIZE(units) && s < units[i].s * 2)
		i++;
	n = snprintf(ret, PRINT_AGE_MAX, "%llu %s", (unsigned long long)(s / units[i].s),
		     units[i].unit);
	assert(n > 0 && n < PRINT_AGE_MAX);
}

static void print_stderr_line(const char *lead, const char *text)
{
	auto_buf b = BUF_INIT(KIB(16));

	if (buf_puts(&b, lead) < 0 || print_append_escaped(&b, slice_of(text)) < 0 ||
	    buf_putc(&b, '\n') < 0)
		return;
	/* a failure of stderr cannot be reported */
	(void)!fd_write_all(STDERR_FILENO, b.data, b.len);
}

void print_failure(const char *message, const char *hint)
{
	print_stderr_line("cay: ", message);
	if (hint[0])
		print_stderr_line("  hint: ", hint);
}

void print_note(const char *fmt, ...)
{
	auto_buf b = BUF_INIT(KIB(4));
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = buf_vprintf(&b, fmt, ap);
	va_end(ap);
	if (r >= 0)
		print_stderr_line("cay: ", buf_str(&b));
}

int print_stdout(const struct buf *b, struct cay_err *err)
{
	int r = fd_write_all(STDOUT_FILENO, buf_str(b), b->len);

	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "write to stdout") : 0;
}

int print_line(struct cay_err *err, const char *fmt, ...)
{
	auto_table t = print_table_create(1);
	va_list ap;

	va_start(ap, fmt);
	print_table_add_cellv(&t, fmt, ap);
	va_end(ap);
	return print_table_stdout(&t, err);
}

int print_lines(const char *text, struct cay_err *err)
{
	struct slice rest = slice_of(text);
	int r = 0;

	while (rest.n && r >= 0) {
		struct slice line = slice_cut(&rest, '\n');

		r = print_line(err, "%.*s", (int)line.n, line.p);
	}
	return r;
}

bool print_wants_colour(int fd)
{
	const char *no = getenv("NO_COLOR");

	return isatty(fd) && !(no && no[0]);
}
