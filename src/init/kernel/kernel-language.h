/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_KERNEL_KERNEL_LANGUAGE_H
#define CAY_INIT_KERNEL_KERNEL_LANGUAGE_H
/*
 * kernel-language - the languages that have kernels, and how their runners start
 *
 * A runner is a program of ours (guest/kernels) whose text is built into cay-init.  Its interpreter
 * is the image's, and reads the text from fd 5.
 */
#include <stddef.h>

#include "base/err.h"

struct kernel_language {
	const char *name;
	const char *const *other_names;   /* ended by NULL */
	const char *const *argv;          /* ended by NULL */
	const unsigned char *const *text; /* a pointer to its text, of *text_size bytes */
	const size_t *text_size;
	bool interrupt_by_frame; /* a signal does not reach code that loops */
	const char *missing;     /* what to do when the image lacks argv[0] */
};

/* NULL: err says why there is none, and what to use instead. */
const struct kernel_language *kernel_language_find(const char *name, struct cay_err *err);
#endif
