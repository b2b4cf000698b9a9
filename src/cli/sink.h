/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_SINK_H
#define CAY_CLI_SINK_H
/*
 * sink - where a secret goes: standard output, or a file that only we may read
 *
 * It is opened before the secret is made: what cannot be written would be lost.
 */
#include "base/err.h"
#include "base/pool.h"

struct sink {
	int dir; /* -EBADF: standard output */
	const char *name;
};

/* path NULL: standard output. */
[[nodiscard]] int sink_open(struct pool *pool, const char *path, struct sink *ret,
			    struct cay_err *err);
/* The file, with 0600; there must be one. */
[[nodiscard]] int sink_write(const struct sink *to, const char *secret, struct cay_err *err);
void sink_close(struct sink *to);
/* One line on standard output, escaped. */
[[nodiscard]] int sink_print(const char *text, struct cay_err *err);
#endif
