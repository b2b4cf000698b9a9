/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_NAME_LINES_H
#define CAY_EGRESS_NAME_LINES_H
/*
 * name-lines - names of sandboxes as lines of a file, which are appended
 *
 * "SANDBOX NAME" is a name that the sandbox has got, "SANDBOX -" says that it has ended: its lines
 * before that one are dead.  Anything else, such as half a line, is no line and dead as well. Pure.
 */
#include "base/buf.h"
#include "base/id.h"
#include "egress/host-name.h"

/* Without its newline.  The name is empty where the sandbox has ended.  False: it is no line. */
bool name_line_parse(struct slice line, struct id *ret_id, struct host_name *ret_name);
/* Append the lines that are not dead, in their order. */
[[nodiscard]] int name_lines_select(struct slice text, struct buf *ret);
#endif
