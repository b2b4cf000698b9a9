/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SHELL_SHELL_REPORT_H
#define CAY_INIT_SHELL_SHELL_REPORT_H
/*
 * side - what a shell tells beside its output: that a run is over, its status, where it is
 *
 *	...: /dev/null/NONCE:STATUS:DIRECTORY:NONCE...
 *
 * in an error message of bash (shell-script.h).  Everything in the sandbox can write there, so
 * it is hostile: who does not know the nonce is skipped, up to a limit; who knows it
 * is the shell, or lies about its own shell.  Nothing grows.
 * Pure.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "init/shell/shell-script.h"

#define SHELL_REPORT_CWD_MAX 4096
#define SHELL_REPORT_JUNK_MAX KIB(256) /* for one report; behind it the shell is broken */
#define SHELL_REPORT_BUF (SHELL_REPORT_CWD_MAX + 256)

enum shell_report_result { SHELL_REPORT_MORE, SHELL_REPORT_COMPLETE, SHELL_REPORT_BROKEN };

struct shell_report {
	char nonce[SCRIPT_NONCE + 1]; /* "" while nothing is waited for */
	char data[SHELL_REPORT_BUF];
	size_t len, junk;
	unsigned status;  /* of a report */
	struct slice cwd; /* of a report, in data; n is 0 when it is not known */
};

/* Wait for a report of this nonce; what came before is forgotten. */
void shell_report_expect(struct shell_report *s, const char nonce[static SCRIPT_NONCE + 1]);
/* Bytes that came; what stands behind a report is dropped. */
enum shell_report_result shell_report_add_bytes(struct shell_report *s, const char *p, size_t n);
#endif
