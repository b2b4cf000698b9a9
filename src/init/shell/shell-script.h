/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SHELL_SHELL_SCRIPT_H
#define CAY_INIT_SHELL_SHELL_SCRIPT_H
/*
 * script - what is written into a shell's script, for a run and around it
 *
 * A shell is a bash that reads its script from a pipe.  A run's text goes into it as
 * it is, so bash does with it what it does with any script; behind it goes one line
 * that tells status and directory on the side (shell-report.h).  That line is made of what no
 * trap, trace or option of the shell sees: loops over nothing whose redirection fails,
 * for the error message names the file, and the file's name is what we want to know.
 *
 * Text that bash would not parse to its end would swallow that line, or end the shell.
 * So text that is not plainly whole is first parsed by a child of the shell (script_check),
 * which has its aliases and options; what fails there goes through eval.
 * Pure.
 */
#include "base/buf.h"
#include "base/str.h"

#define SCRIPT_NONCE 16 /* hexadecimal digits */
#define SCRIPT_REPORT_FD 250
#define SCRIPT_FD 9
#define SCRIPT_GUARD_FD 8
#define SCRIPT_STOP_SIGNAL 47 /* a number: C libraries differ in where SIGRTMIN is */
#define SCRIPT_TEXT_MAX KIB(32)
#define SCRIPT_MAX (6 * SCRIPT_TEXT_MAX) /* of what any of these writes */

/* Whether text is whole commands for certain, whatever the shell's options are. */
bool script_text_is_plain(struct slice text);
/* The first lines: go to cwd, be ready to be stopped, tell. */
[[nodiscard]] int script_append_start(struct buf *b, const char *nonce, const char *cwd);
/* Tell 0 when text can be parsed, 1 when not; nothing of it runs. */
[[nodiscard]] int script_append_check(struct buf *b, const char *nonce, struct slice text);
/* Run it, and tell; by eval when it cannot be parsed. */
[[nodiscard]] int script_append_run(struct buf *b, const char *nonce, struct slice text, bool eval);
/* Behind a run that was stopped: make the shell what it was, with $? 130, and tell. */
[[nodiscard]] int script_append_restore(struct buf *b, const char *nonce);
#endif
