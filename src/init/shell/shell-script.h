/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SHELL_SHELL_SCRIPT_H
#define CAY_INIT_SHELL_SHELL_SCRIPT_H
/*
 * shell-script - the text written to a shell's script, for a run and around it
 *
 * A shell is a bash that reads its script from a pipe.  The text of a run goes into it
 * unchanged, so bash treats it as any script; one line follows that reports status and
 * directory (shell-report.h).  That line must be invisible to traps, traces and options of the
 * shell.  It consists of loops over nothing whose redirection fails: the error message contains
 * the file's name, and the name carries the report.
 *
 * Text that bash cannot parse to its end would swallow that line, or end the shell.  So text
 * that is not plainly complete is first parsed by a child of the shell (script_append_check()),
 * which has its aliases and options; text that fails there is run by eval.
 * Pure.
 */
#include "base/buf.h"
#include "base/str.h"

#define SCRIPT_NONCE 16 /* hexadecimal digits */
#define SCRIPT_REPORT_FD 250
#define SCRIPT_FD 9
#define SCRIPT_GUARD_FD 8
#define SCRIPT_STOP_SIGNAL 47 /* a number: C libraries differ in SIGRTMIN */
#define SCRIPT_TEXT_MAX MIB(1)
#define SCRIPT_MAX (6 * SCRIPT_TEXT_MAX) /* of the text any of these appends */

/* Whether text certainly consists of whole commands, under any shell option. */
bool script_text_is_plain(struct slice text);
/* The first lines: change to cwd, prepare for the stop signal, report. */
[[nodiscard]] int script_append_start(struct buf *b, const char *nonce, const char *cwd);
/* Report 0 when the text can be parsed, 1 when not; runs nothing of it. */
[[nodiscard]] int script_append_check(struct buf *b, const char *nonce, struct slice text);
/* Run the text and report; by eval when it cannot be parsed. */
[[nodiscard]] int script_append_run(struct buf *b, const char *nonce, struct slice text, bool eval);
/* After a stopped run: restore the shell's state, set $? to 130 and report. */
[[nodiscard]] int script_append_restore(struct buf *b, const char *nonce);
#endif
