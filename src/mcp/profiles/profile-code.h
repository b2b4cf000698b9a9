/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_PROFILES_PROFILE_CODE_H
#define CAY_MCP_PROFILES_PROFILE_CODE_H
/* profile-code - kernel.eval for the tools of several profiles */
#include "mcp/profiles/profile-parts.h"

/* Begin kernel.eval with the profile's limits; the arguments are mapped, and `language` replaces
 * theirs unless it is NULL.  max_results: bytes of results in the reply. */
[[nodiscard]] int code_tool_begin_call(struct tool_run *run, const char *language,
				       uint64_t max_results, struct cay_err *err);

/* The traceback of an exception as one text. */
[[nodiscard]] int exception_add_traceback(const json_t *exception, struct buf *out);
/* "[image/png of 9 bytes is not shown; it is in /tmp/x.png]" */
[[nodiscard]] int result_cut_add_text(const json_t *cut, struct buf *out);
/* The bytes of a picture of a result.  -EINVAL: it is not base64, or not a picture of its MIME
 * type. */
[[nodiscard]] int picture_decode(const char *mime, struct slice base64, struct buf *out);
#endif
