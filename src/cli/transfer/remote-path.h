/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_TRANSFER_REMOTE_PATH_H
#define CAY_CLI_TRANSFER_REMOTE_PATH_H
/* remote-path - an operand that is a local file, or NAME:PATH in a sandbox */
#include "cli/core/command.h"

struct remote_path {
	bool in_sandbox;
	struct id sandbox;
	const char *path; /* "." when the colon ends the operand */
};

/* An operand with a slash before its colon is a local file. */
[[nodiscard]] int remote_path_parse(struct cli *c, const char *word, struct remote_path *ret,
				    struct cay_err *err);
/* As above; fails for a local file. */
[[nodiscard]] int remote_path_parse_in_sandbox(struct cli *c, const char *word,
					       struct remote_path *ret, struct cay_err *err);
/* Write the file's bytes to fd; fails after more than total bytes, 0: not known. */
[[nodiscard]] int remote_path_fetch(struct cli *c, const struct remote_path *from, int fd,
				    uint64_t total, struct cay_err *err);
/* The same for the reply of any call that returns bytes; what: in errors. */
[[nodiscard]] int raw_reply_fetch(struct cli *c, const struct api_call *call, const char *what,
				  int fd, uint64_t total, struct cay_err *err);
/* The same to a file; "-" or NULL: standard output, unless it is a terminal. */
[[nodiscard]] int raw_reply_save(struct cli *c, const struct api_call *call, const char *what,
				 const char *file, struct cay_err *err);
#endif
