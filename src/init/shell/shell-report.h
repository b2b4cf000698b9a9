/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SHELL_SHELL_REPORT_H
#define CAY_INIT_SHELL_SHELL_REPORT_H
/*
 * shell-report - the report of a shell that a run has finished: its status and directory
 *
 *	...: /dev/null/NONCE:STATUS:DIRECTORY:NONCE...
 *
 * in an error message of bash (shell-script.h).  Every process in the sandbox can write there,
 * so the input is hostile: bytes without the nonce are skipped, up to a limit.  Only the shell
 * and its processes know the nonce, and these can lie only about their own shell.  Nothing
 * grows.
 * Pure.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "init/shell/shell-script.h"

#define SHELL_REPORT_CWD_MAX 4096
#define SHELL_REPORT_JUNK_MAX KIB(256) /* per report; after that the shell is broken */
#define SHELL_REPORT_BUF (SHELL_REPORT_CWD_MAX + 256)

enum shell_report_result { SHELL_REPORT_MORE, SHELL_REPORT_COMPLETE, SHELL_REPORT_BROKEN };

struct shell_report {
	char nonce[SCRIPT_NONCE + 1]; /* "" while no report is expected */
	char data[SHELL_REPORT_BUF];
	size_t len, junk;
	unsigned status;  /* of a report */
	struct slice cwd; /* of a report, in data; n is 0 when unknown */
};

/* Expect a report with this nonce; earlier bytes are dropped. */
void shell_report_expect(struct shell_report *s, const char nonce[static SCRIPT_NONCE + 1]);
/* Add bytes; those after a report are dropped. */
enum shell_report_result shell_report_add_bytes(struct shell_report *s, const char *p, size_t n);
#endif
