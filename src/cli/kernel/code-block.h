/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_KERNEL_CODE_BLOCK_H
#define CAY_CLI_KERNEL_CODE_BLOCK_H
/*
 * code-block - whether typed lines are code to run, or more lines have to come
 *
 * A guess from brackets, strings and comments, not a parser: a wrong one costs an empty line or a
 * syntax error of the kernel.  A block of Python (a line that ends with ':', a decorator, a cell
 * magic) ends with an empty line.
 */
#include "base/str.h"

/* text: whole lines, each with its line end. */
bool code_block_is_open(const char *language, struct slice text);
#endif
