/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_MCP_AGENT_GROUP_H
#define CAY_CLI_MCP_AGENT_GROUP_H
/*
 * group - what the sandboxes of an agent belong to, kept from one start to the next
 *
 * One file each context, CONTEXT.group, in $XDG_STATE_HOME/cay or ~/.local/state/cay: the
 * name of a group nobody else has, made when it is first asked for.
 */
#include "base/err.h"

#define GROUP_MAX 64 /* with the 0 behind it */

[[nodiscard]] int agent_group_find_or_create(const char *context, char ret[static GROUP_MAX],
					     struct cay_err *err);
#endif
