/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_PROFILES_PROFILE_NETWORK_H
#define CAY_MCP_PROFILES_PROFILE_NETWORK_H
/* profile-network - the egress policy in tools */
#include "mcp/tool-run.h"

/* The argument network_policy becomes `egress` of the create; absent: nothing is set. */
[[nodiscard]] int osb_create_set_policy(struct tool_run *run, struct cay_err *err);
#endif
