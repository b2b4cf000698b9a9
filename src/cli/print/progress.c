/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/progress.h"

#include <unistd.h>

#include "base/path.h"

#define BAR 20u
#define DRAW_NS (NS_PER_S / 10)

int byte_size_format(uint64_t bytes, struct buf *out)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	uint64_t tenths = bytes / 1024 * 10 + bytes % 1024 * 10 / 1024;
	size_t i = 0;

	if (bytes < 1024)
		return buf_printf(out, "%u B", (unsigned)bytes);
	for (; tenths >= 10240; i++)
		tenths /= 1024;
	return buf_printf(out, "%u.%u %s", (unsigned)(tenths / 10), (unsigned)(tenths % 10),
			  units[i]);
}

/* a * b / c, saturating */
static uint64_t progress_scale(uint64_t a, uint64_t b, uint64_t c)
{
	unsigned __int128 v = (unsigned __int128)a * b / c;

	return v > UINT64_MAX ? UINT64_MAX : (uint64_t)v;
}

static int progress_format_bar(uint64_t done, uint64_t total, struct buf *out)
{
	uint64_t shown = done < total ? done : total, full = progress_scale(shown, BAR, total);
	int r = buf_putc(out, '[');

	for (unsigned i = 0; r >= 0 && i < BAR; i++)
		r = buf_putc(out, i < full ? '#' : '.');
	return r < 0 ? r
		     : buf_printf(out, "] %3u %%  ", (unsigned)progress_scale(shown, 100, total));
}

int progress_format_line(uint64_t done, uint64_t total, uint64_t ns, struct buf *out)
{
	int r = total ? progress_format_bar(done, total, out) : 0;

	if (r >= 0)
		r = byte_size_format(done, out);
	if (r >= 0 && total)
		r = buf_puts(out, " of ");
	if (r >= 0 && total)
		r = byte_size_format(total, out);
	if (r >= 0 && ns) {
		r = buf_puts(out, "  ");
		if (r >= 0)
			r = byte_size_format(progress_scale(done, NS_PER_S, ns), out);
		if (r >= 0)
			r = buf_puts(out, "/s");
	}
	return r;
}

struct progress progress_start(const struct clk *clk, bool terminal, uint64_t total)
{
	return (struct progress){
		.clk = clk, .terminal = terminal, .total = total, .began_ns = clk_boot_ns(clk)
	};
}

void progress_draw(struct progress *p, uint64_t done)
{
	uint64_t now = clk_boot_ns(p->clk);
	auto_buf out = BUF_INIT(256);

	if (!p->terminal || (p->drawn_ns && now - p->drawn_ns < DRAW_NS))
		return;
	p->drawn_ns = now;
	if (buf_puts(&out, "\r\033[K") < 0 ||
	    progress_format_line(done, p->total, now - p->began_ns, &out) < 0)
		return;
	(void)!fd_write_all(STDERR_FILENO, out.data, out.len);
}

void progress_draw_word(struct progress *p, const char *word)
{
	auto_buf out = BUF_INIT(256);
	int r = p->terminal ? buf_printf(&out, "\r\033[K%s", word)
			    : buf_printf(&out, "%s%s", word, *word ? "\n" : "");

	if (r >= 0)
		(void)!fd_write_all(STDERR_FILENO, out.data, out.len);
}
