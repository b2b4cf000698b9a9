/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdio.h>

#include "base/jsonw.h"

static constexpr size_t MSG_MAX_BYTES = 2048;

static const char *const level_names[] = {
	[LOG_L_ERROR] = "error",
	[LOG_L_WARNING] = "warning",
	[LOG_L_INFO] = "info",
	[LOG_L_DEBUG] = "debug",
};
static_assert(ARRAY_SIZE(level_names) == LOG_NUM_LEVELS);

const char *log_level_name(enum log_level level)
{
	return level_names[level];
}

struct log log_to(int fd, const char *prog, const struct clk *clk)
{
	return (struct log){ .fd = fd,
			     .level = LOG_L_INFO,
			     .form = isatty(fd) == 1 ? LOG_TEXT : LOG_JSON,
			     .prog = prog,
			     .clk = clk };
}

static int format_json(const struct log *l, enum log_level level, const char *msg, struct buf *line)
{
	struct jw w = jw_to(line);
	char ts[CLK_TEXT_LEN + 1];

	clk_text(clk_wall_ns(l->clk), ts);
	jw_object(&w, NULL);
	jw_str(&w, "ts", ts);
	jw_str(&w, "level", level_names[level]);
	jw_str(&w, "prog", l->prog);
	if (l->op)
		jw_str(&w, "op", l->op);
	if (l->id)
		jw_str(&w, "id", l->id);
	if (l->request)
		jw_str(&w, "request", l->request);
	jw_str(&w, "msg", msg);
	jw_end(&w);
	return jw_done(&w);
}

/* A terminal obeys control characters, and the message may quote a stranger:
 * they are written as dots. */
static int format_text(const struct log *l, enum log_level level, const char *msg, struct buf *line)
{
	char ts[CLK_TEXT_LEN + 1];
	int r;

	clk_text(clk_wall_ns(l->clk), ts);
	r = buf_printf(line, "%.8s %s %s", ts + strlen("2026-11-15T"), level_names[level], l->prog);
	if (r >= 0 && l->op)
		r = buf_printf(line, " %s", l->op);
	if (r >= 0 && l->id)
		r = buf_printf(line, " %s", l->id);
	if (r >= 0 && l->request)
		r = buf_printf(line, " %s", l->request);
	if (r >= 0)
		r = buf_printf(line, ": %s", msg);
	for (size_t i = 0; i < line->len; i++)
		if ((unsigned char)line->data[i] < 0x20 || line->data[i] == 0x7F)
			line->data[i] = '.';
	return r;
}

void log_line(struct log *l, enum log_level level, const char *fmt, ...)
{
	/* an escaped byte can take six: a cut message must still fit */
	auto_buf line = BUF_INIT(4096 + 6 * MSG_MAX_BYTES);
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
	if (r >= 0)
		r = l->form == LOG_JSON ? format_json(l, level, msg, &line)
					: format_text(l, level, msg, &line);
	if (r >= 0)
		r = buf_putc(&line, '\n');
	if (r < 0 || write(l->fd, line.data, line.len) != (ssize_t)line.len)
		l->lost++;
}
