/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_PRINT_PAGER_H
#define CAY_CLI_PRINT_PAGER_H
/*
 * pager - what is longer than the screen, for somebody who is at one
 *
 * Only on a terminal, only what does not fit, and not with --no-pager: programs and pipes
 * never meet it.  PAGER says which; empty or "cat" is none, and without it less is used
 * where there is one.  What it gets is shown text already: nothing in it moves a cursor.
 */
#include "cli/client/api.h"

[[nodiscard]] int pager_show(const struct api *a, const struct buf *text, struct cay_err *err);
/* Whether a text of so many lines needs one; 0 columns or rows: nobody is there. */
bool pager_is_needed(struct slice text, unsigned columns, unsigned rows);
#endif
