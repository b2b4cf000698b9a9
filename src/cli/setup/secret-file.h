/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_SETUP_SECRET_FILE_H
#define CAY_CLI_SETUP_SECRET_FILE_H
/*
 * sink - where a secret goes: standard output, or a file that only we may read
 *
 * It is opened before the secret is made: what cannot be written would be lost.
 */
#include "base/arena.h"
#include "base/err.h"

struct secret_file {
	int dir; /* -EBADF: standard output */
	const char *name;
};

/* path NULL: standard output. */
[[nodiscard]] int secret_file_open(struct arena *arena, const char *path, struct secret_file *ret,
				   struct cay_err *err);
/* The file, with 0600; there must be one. */
[[nodiscard]] int secret_file_write(const struct secret_file *to, const char *secret,
				    struct cay_err *err);
void secret_file_close(struct secret_file *to);
/* One line on standard output, escaped. */
[[nodiscard]] int print_line_escaped(const char *text, struct cay_err *err);
#endif
