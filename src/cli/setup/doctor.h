/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_SETUP_DOCTOR_H
#define CAY_CLI_SETUP_DOCTOR_H
/*
 * doctor - checks of this machine, one row each
 *
 * A check reports what it found and a verdict; its row has the advice.  Checks change
 * nothing and work without the daemon.
 */
#include "cli/core/command.h"

enum doctor_verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL, VERDICT_NUM };

#define DOCTOR_FOUND_MAX 512

struct doctor_check;
struct doctor_finding {
	struct cli *cli;
	const struct doctor_check *row;
	enum doctor_verdict verdict;
	struct buf found; /* text; not escaped yet */
};

struct doctor_check {
	const char *name;
	void (*run)(struct doctor_finding *f);
	const char *path;        /* a file or program the check is about, or NULL */
	uint64_t want;           /* minimum, as a number; or the number of a system call */
	const char *version;     /* or as a version */
	enum doctor_verdict bad; /* verdict below the minimum */
	const char *advice;      /* printed unless the verdict is OK */
};

/* Both ended by a row without a name. */
extern const struct doctor_check doctor_kernel[];
extern const struct doctor_check doctor_host[];

/* Run a check; the caller frees ret->found. */
void doctor_check_run(struct cli *c, const struct doctor_check *row, struct doctor_finding *ret);
/* Set the finding; only the first call counts. */
__attribute__((format(printf, 3, 4))) void finding_set(struct doctor_finding *f,
						       enum doctor_verdict v, const char *fmt, ...);
/* Read a file below /proc. */
[[nodiscard]] int doctor_proc_file_read(const char *path, struct buf *ret);
/* Compare "1.28" or "6.12.30-amd64" by number: -1, 0, 1 as a is older, equal, newer; a
 * part that is not a number counts as 0. */
int doctor_version_compare(const char *a, const char *b);
#endif
