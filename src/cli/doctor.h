/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_DOCTOR_H
#define CAY_CLI_DOCTOR_H
/*
 * doctor - what this machine must have, one row a check
 *
 * A check looks, says what it found and how bad that is; the row says what to
 * do about it.  None changes anything, none needs the daemon.
 */
#include "cli/cmd.h"

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL, VERDICT_NUM };

#define DOCTOR_FOUND_MAX 512

struct finding {
	enum verdict verdict;
	struct buf found; /* for people; not escaped yet */
};

struct check;
typedef void check_look(struct cli *c, const struct check *row, struct finding *ret);

struct check {
	const char *name;
	check_look *look;
	const char *path;    /* a file or program the check is about, or NULL */
	uint64_t want;       /* a number it should have at the least */
	const char *version; /* or a version */
	enum verdict bad;    /* how bad less is */
	const char *advice;  /* when it is not OK */
};

/* Both ended by a row without a name. */
extern const struct check doctor_kernel[];
extern const struct check doctor_host[];

/* Say what was found; the first words win. */
__attribute__((format(printf, 3, 4))) void doctor_say(struct finding *f, enum verdict v,
						      const char *fmt, ...);
/* The first number of "1.28", "6.12.30-amd64": -1, 0, 1 as a is older, equal,
 * newer; what is not a number is 0. */
int doctor_compare(const char *a, const char *b);
#endif
