/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_PRINT_PROGRESS_H
#define CAY_CLI_PRINT_PROGRESS_H
/* progress - a progress bar on a terminal, or a line of text */
#include "base/buf.h"
#include "base/clock.h"

struct progress {
	const struct clk *clk;
	bool terminal;
	uint64_t total; /* 0: not known */
	uint64_t began_ns, drawn_ns;
};

struct progress progress_start(const struct clk *clk, bool terminal, uint64_t total);
/* The line for done bytes after so many ns, without a line end:
 * "[#####.....]  50 %  154.0 of 308.0 MiB  180.3 MiB/s" */
[[nodiscard]] int progress_format_line(uint64_t done, uint64_t total, uint64_t ns, struct buf *out);
/* Draw the bar on stderr, if that is a terminal, at most ten times a second. */
void progress_draw(struct progress *p, uint64_t done);
/* Replace the bar by a word ("unpacking"); "" removes it. */
void progress_draw_word(struct progress *p, const char *word);
/* "1.5 GiB" */
[[nodiscard]] int byte_size_format(uint64_t bytes, struct buf *out);
#endif
