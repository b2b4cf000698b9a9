/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_TRANSFER_REMOTE_PATH_H
#define CAY_CLI_TRANSFER_REMOTE_PATH_H
/* place - what a word names: a file of this machine, or NAME:PATH in a sandbox */
#include "cli/core/command.h"

struct remote_path {
	bool in_sandbox;
	struct id sandbox;
	const char *path; /* "." where nothing stands behind the colon */
};

/* What has a slash before its colon is of this machine. */
[[nodiscard]] int remote_path_parse(struct cli *c, const char *word, struct remote_path *ret,
				    struct cay_err *err);
/* The same, and it must be in a sandbox. */
[[nodiscard]] int remote_path_parse_in_sandbox(struct cli *c, const char *word,
					       struct remote_path *ret, struct cay_err *err);
/* A file's bytes, to where fd leads; more than total is a failure, 0: nobody knows. */
[[nodiscard]] int remote_path_fetch(struct cli *c, const struct remote_path *from, int fd,
				    uint64_t total, struct cay_err *err);
#endif
