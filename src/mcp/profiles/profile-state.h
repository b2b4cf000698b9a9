/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_PROFILES_PROFILE_STATE_H
#define CAY_MCP_PROFILES_PROFILE_STATE_H
/* profile-state - snapshots and forks, for native tools that have other work too */
#include "mcp/profiles/profile-parts.h"

/* sandbox_create with the files of `from`, a snapshot or a sandbox. */
[[nodiscard]] int create_from_next_call(struct tool_run *run, const char *from,
					struct cay_err *err);
/* Ask for the snapshots, and write the reply as lines. */
[[nodiscard]] int snapshots_begin_call(struct tool_run *run, struct cay_err *err);
void snapshots_add_lines(const json_t *answer, struct result_lines *lines);
[[nodiscard]] int snapshot_delete_next_call(struct tool_run *run, const char *text,
					    struct cay_err *err);
#endif
