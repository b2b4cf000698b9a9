/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_PRINT_PAGER_H
#define CAY_CLI_PRINT_PAGER_H
/*
 * pager - show output that is longer than the terminal
 *
 * Used only if stdout is a terminal, and not with --no-pager.  PAGER names the program;
 * empty or "cat" is none, and without it less is used if installed.  The text must already
 * be escaped.
 */
#include "cli/client/api.h"

[[nodiscard]] int pager_show(const struct api *a, const struct buf *text, struct cay_err *err);
/* Whether the text does not fit; 0 columns or rows: no terminal. */
bool pager_is_needed(struct slice text, unsigned columns, unsigned rows);
#endif
