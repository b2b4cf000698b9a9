/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_SETUP_SECRET_FILE_H
#define CAY_CLI_SETUP_SECRET_FILE_H
/*
 * secret-file - write a secret to standard output, or to a file that only we may read
 *
 * Open it before the secret is created: a secret that cannot be written is lost.
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
/* Write the file with mode 0600; not for standard output. */
[[nodiscard]] int secret_file_write(const struct secret_file *to, const char *secret,
				    struct cay_err *err);
void secret_file_close(struct secret_file *to);
[[nodiscard]] int print_line_escaped(const char *text, struct cay_err *err);
#endif
