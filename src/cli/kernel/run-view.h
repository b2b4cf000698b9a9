/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_KERNEL_RUN_VIEW_H
#define CAY_CLI_KERNEL_RUN_VIEW_H
/*
 * run-view - what a run in a kernel writes and shows, on stdout and stderr
 *
 * Output passes unchanged to a pipe or file, and through a terminal-filter to a terminal.  A
 * result is printed in the first of its forms that view_forms[] has: text, escaped except for line
 * ends and tabs; a picture as the path of the file it is saved in, or drawn.  An exception goes to
 * stderr.  All of it comes from a sandbox.
 */
#include "base/err.h"
#include "cli/print/terminal-filter.h"

#define RUN_VIEW_FORMS 11

struct run_view {
	const char *pictures; /* directory to save pictures in; NULL: the current one */
	bool draws;           /* draw pictures instead of saving them */
	bool numbered;        /* "Out[3]: " before the value */
	bool terminal[2];
	bool unfinished[2]; /* the last byte written is no line end */
	struct terminal_filter filter[2];
	struct buf line;                     /* an event that is not complete */
	uint64_t execution_count;            /* of the last run; 0: not known */
	unsigned next_names[RUN_VIEW_FORMS]; /* of pictures of a form */
	unsigned saved, unsaved;             /* pictures of the run */
};

/* pictures: a directory or NULL. */
struct run_view run_view_create(const char *pictures);
void run_view_fini(struct run_view *v);
/* Bytes of stdout (0) or stderr (1).  -EPIPE: no program reads it. */
[[nodiscard]] int run_view_add_output(struct run_view *v, int which, struct slice bytes,
				      struct cay_err *err);
/* Bytes of events: lines of JSON. */
[[nodiscard]] int run_view_add_events(struct run_view *v, struct slice bytes, struct cay_err *err);
/* The terminal has shown "^C": what comes next begins a line. */
void run_view_note_echo(struct run_view *v);
/* The run is over; line: end the line on the terminal that it has left unfinished. */
[[nodiscard]] int run_view_finish(struct run_view *v, bool line, struct cay_err *err);
#endif
