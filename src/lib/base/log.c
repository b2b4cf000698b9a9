/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdio.h>

#include "base/jsonw.h"

static constexpr size_t MSG_MAX_BYTES = 2048;
static constexpr int CONTEXT_MAX_BYTES = 128;

const char *const log_level_names[LOG_NUM_LEVELS + 1] = {
	[LOG_L_ERROR] = "error",
	[LOG_L_WARNING] = "warning",
	[LOG_L_INFO] = "info",
	[LOG_L_DEBUG] = "debug",
};

struct log log_create(int fd, const char *prog, const struct clk *clk)
{
	return (struct log){ .fd = fd,
			     .level = LOG_L_INFO,
			     .form = isatty(fd) == 1 ? LOG_TEXT : LOG_JSON,
			     .prog = prog,
			     .clk = clk };
}

/* A terminal obeys control characters, C1 (U+0080..9F) among them, and turns
 * text round at bidi marks; the message may quote a stranger.  All of them, and
 * bytes that are not UTF-8, are written as dots. */
static bool log_char_is_printable(const char *p, size_t len)
{
	const unsigned char *c = (const unsigned char *)p;

	if (len == 1)
		return c[0] >= 0x20 && c[0] != 0x7F;
	if (len == 2)
		return c[0] != 0xC2 || c[1] >= 0xA0;
	if (len == 3 && c[0] == 0xE2 && c[1] == 0x80)
		return !(c[2] >= 0xA8 && c[2] <= 0xAE) && c[2] != 0x8E && c[2] != 0x8F;
	if (len == 3 && c[0] == 0xE2 && c[1] == 0x81)
		return !(c[2] >= 0xA6 && c[2] <= 0xA9);
	return len != 0;
}

static void log_line_sanitize(struct buf *line)
{
	for (size_t i = 0; i < line->len;) {
		size_t len = utf8_len(line->data + i, line->len - i);

		if (!log_char_is_printable(line->data + i, len))
			memset(line->data + i, '.', len ? len : 1);
		i += len ? len : 1;
	}
}

static int log_format_text(const struct log *l, enum log_level level, const char *msg,
			   struct buf *line)
{
	const char *const context[] = { l->op, l->id, l->request };
	char ts[CLK_TEXT_LEN + 1];
	int r;

	clk_format_rfc3339(clk_wall_ns(l->clk), ts);
	r = buf_printf(line, "%.8s %s %s", ts + strlen("2026-11-15T"), log_level_names[level],
		       l->prog);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(context); i++)
		if (context[i])
			r = buf_printf(line, " %.*s", CONTEXT_MAX_BYTES, context[i]);
	if (r >= 0)
		r = buf_printf(line, ": %s", msg);
	log_line_sanitize(line);
	return r;
}

static void log_write_context(struct jw *w, const char *key, const char *value)
{
	if (value)
		jw_slice(w, key, (struct slice){ value, strnlen(value, CONTEXT_MAX_BYTES) });
}

static int log_format_json(const struct log *l, enum log_level level, const char *msg,
			   struct buf *line)
{
	struct jw w = jw_to(line);
	char ts[CLK_TEXT_LEN + 1];

	clk_format_rfc3339(clk_wall_ns(l->clk), ts);
	jw_object_begin(&w, NULL);
	jw_str(&w, "ts", ts);
	jw_str(&w, "level", log_level_names[level]);
	jw_str(&w, "prog", l->prog);
	log_write_context(&w, "op", l->op);
	log_write_context(&w, "id", l->id);
	log_write_context(&w, "request", l->request);
	jw_str(&w, "msg", msg);
	jw_end(&w);
	return jw_finish(&w);
}

/* A line that was cut off must not swallow the next: that one begins with a newline. */
static void log_write_line(struct log *l, const struct buf *line)
{
	ssize_t n;

	if (l->torn && write(l->fd, "\n", 1) == 1)
		l->torn = false;
	do
		n = write(l->fd, line->data, line->len);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)line->len)
		return;
	l->lost++;
	if (n > 0)
		l->torn = true;
}

static void log_recent_add(struct log_recent *r, uint64_t wall_ns, enum log_level level,
			   const char *msg)
{
	struct log_recent_row *row = &r->rows[r->n++ % LOG_RECENT];
	auto_buf text = BUF_INIT(MSG_MAX_BYTES);
	size_t n = 0;

	row->wall_ns = wall_ns;
	row->level = level;
	row->msg[0] = 0;
	if (buf_puts(&text, msg) < 0)
		return;
	log_line_sanitize(&text);
	/* cut between characters */
	for (size_t len; n < text.len; n += len) {
		len = utf8_len(text.data + n, text.len - n);
		if (n + len >= sizeof(row->msg))
			break;
	}
	memcpy(row->msg, text.data, n);
	row->msg[n] = 0;
}

void log_line(struct log *l, enum log_level level, const char *fmt, ...)
{
	/* an escaped byte can take six: a cut message must still fit */
	auto_buf line = BUF_INIT(1024 + 6 * (MSG_MAX_BYTES + 3 * (size_t)CONTEXT_MAX_BYTES));
	char msg[MSG_MAX_BYTES];
	va_list ap;
	int r;

	if (level > l->level)
		return;
	va_start(ap, fmt);
	r = vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	if (r >= (int)sizeof(msg))
		memcpy(msg + sizeof(msg) - 4, "...", 4);
	if (r >= 0 && l->recent && level <= LOG_L_WARNING)
		log_recent_add(l->recent, clk_wall_ns(l->clk), level, msg);
	if (r >= 0)
		r = l->form == LOG_JSON ? log_format_json(l, level, msg, &line)
					: log_format_text(l, level, msg, &line);
	if (r >= 0)
		r = buf_putc(&line, '\n');
	if (r >= 0)
		log_write_line(l, &line);
	else
		l->lost++;
}
