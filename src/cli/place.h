/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_PLACE_H
#define CAY_CLI_PLACE_H
/* place - what a word names: a file of this machine, or NAME:PATH in a sandbox */
#include "cli/cmd.h"

struct place {
	bool inside;
	struct id sandbox;
	const char *path; /* "." where nothing stands behind the colon */
};

/* What has a slash before its colon is of this machine. */
[[nodiscard]] int place_of(struct cli *c, const char *word, struct place *ret, struct cay_err *err);
/* The same, and it must be in a sandbox. */
[[nodiscard]] int place_inside(struct cli *c, const char *word, struct place *ret,
			       struct cay_err *err);
/* A file's bytes, to where fd leads; more than total is a failure, 0: nobody knows. */
[[nodiscard]] int place_fetch(struct cli *c, const struct place *from, int fd, uint64_t total,
			      struct cay_err *err);
#endif
