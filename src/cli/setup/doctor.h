/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_SETUP_DOCTOR_H
#define CAY_CLI_SETUP_DOCTOR_H
/*
 * doctor - what this machine must have, one row a check
 *
 * A check looks, says what it found and how bad that is; the row says what to
 * do about it.  None changes anything, none needs the daemon.
 */
#include "cli/core/command.h"

enum doctor_verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL, VERDICT_NUM };

#define DOCTOR_FOUND_MAX 512

struct doctor_finding {
	enum doctor_verdict verdict;
	struct buf found; /* for people; not escaped yet */
};

struct doctor_check;
typedef void check_look(struct cli *c, const struct doctor_check *row, struct doctor_finding *ret);

struct doctor_check {
	const char *name;
	check_look *run;
	const char *path;        /* a file or program the check is about, or NULL */
	uint64_t want;           /* a number it should have at the least */
	const char *version;     /* or a version */
	enum doctor_verdict bad; /* how bad less is */
	const char *advice;      /* when it is not OK */
};

/* Both ended by a row without a name. */
extern const struct doctor_check doctor_kernel[];
extern const struct doctor_check doctor_host[];

/* Say what was found; the first words win. */
__attribute__((format(printf, 3, 4))) void doctor_finding_report(struct doctor_finding *f,
								 enum doctor_verdict v,
								 const char *fmt, ...);
/* The first number of "1.28", "6.12.30-amd64": -1, 0, 1 as a is older, equal,
 * newer; what is not a number is 0. */
int doctor_version_compare(const char *a, const char *b);
#endif
