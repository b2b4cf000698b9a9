/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_KERNEL_KERNEL_CODE_H
#define CAY_CLI_KERNEL_KERNEL_CODE_H
/* kernel-code - run a file of code, or a text, in a kernel: `cay kernel run`, `cay run --kernel` */
#include "cli/core/command.h"

struct kernel_code {
	const char *file; /* which it was read from, or NULL */
	const char *text;
	const struct id *kernel;     /* NULL: a new one, which is removed afterwards */
	struct kernel_create create; /* of the new one; its language may be NULL */
	const char *pictures;        /* directory for pictures, or NULL */
	uint64_t timeout_ms;
};

/* Options of kernel run; the first are also those of kernel repl. */
struct kernel_run_args {
	struct kernel_code code;
	const char *kernel; /* --kernel, or NULL */
};
extern const struct opt opts_kernel_run[8];
#define OPTS_KERNEL_PLACE { .rows = opts_kernel_run, .n = 6 }
[[nodiscard]] int kernel_run_args_check(const struct kernel_run_args *a, struct cay_err *err);

/* --pictures, shared by the commands that show them. */
#define OPT_PICTURES(at) \
	{ "pictures", \
	  0, \
	  OPT_TEXT, \
	  at, \
	  .operand = OPERAND_FILE, \
	  .arg = "DIR", \
	  .help = "Save pictures in this directory, and draw none" }

#define CODE_MAX MIB(1)
/* Read the code of a file, or of standard input for "-".  Call it before interrupt_open(): until
 * then a signal ends the program as it reads. */
[[nodiscard]] int kernel_code_read(const char *file, struct buf *ret, struct cay_err *err);
/* Returns the exit status: that of the run's end. */
[[nodiscard]] int kernel_code_run(struct cli *c, const struct id *sandbox,
				  const struct kernel_code *code, struct cay_err *err);
/* Open a kernel. */
[[nodiscard]] int kernel_client_open(struct api *a, const struct id *sandbox,
				     const struct kernel_create *request, struct id *ret,
				     struct cay_err *err);
/* Note that it has ended, if it has. */
void kernel_client_note_ended(struct api *a, const struct id *sandbox, const struct id *kernel);
/* Remove it; a failure is only noted. */
void kernel_client_remove(struct api *a, const struct id *sandbox, const struct id *kernel);
#endif
