/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_PROFILES_PROFILE_SCREEN_H
#define CAY_MCP_PROFILES_PROFILE_SCREEN_H
/*
 * profile-screen - screen.act and screen.shot for the tools of several profiles
 *
 * Coordinates are those of the pictures that the tools return: the whole screen, reduced to a size
 * whose details the models see.
 */
#include "mcp/profiles/profile-parts.h"

/* Begin screen.act with an array of actions, which is stolen. */
[[nodiscard]] int screen_tool_act(struct tool_run *run, json_t *actions, bool with_picture,
				  struct cay_err *err);
/* Begin screen.shot of the region between two corners; region: the argument to name if it is wrong.
 */
[[nodiscard]] int screen_tool_zoom(struct tool_run *run, const json_int_t at[static 4],
				   const char *region, struct cay_err *err);
/* The picture that either of them returned. */
[[nodiscard]] int screen_tool_add_picture(struct tool_run *run, struct tool_result *out,
					  struct cay_err *err);
#endif
