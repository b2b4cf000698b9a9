/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_MCP_AGENT_GROUP_H
#define CAY_CLI_MCP_AGENT_GROUP_H
/*
 * agent-group - the group of an agent's sandboxes, kept across starts
 *
 * One file for each context, CONTEXT.group, in $XDG_STATE_HOME/cay or ~/.local/state/cay:
 * a random name, generated on first use.
 */
#include "base/err.h"

#define GROUP_MAX 64 /* with the final 0 */

[[nodiscard]] int agent_group_find_or_create(const char *context, char ret[static GROUP_MAX],
					     struct cay_err *err);
#endif
