/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_PROFILES_PROFILE_OUTPUT_H
#define CAY_MCP_PROFILES_PROFILE_OUTPUT_H
/*
 * profile-output - output of a command for a model, cut as the profile's product cuts it
 * (limits.def)
 *
 * It is text: bytes that are not UTF-8 become U+FFFD, and no character is cut.  A reply comes from
 * a sandbox and may be longer than requested: the limits apply to its actual length.
 */
#include "mcp/profiles/profile-parts.h"

/* Most bytes of each stream in the reply, and the end of a longer one that is kept. */
struct output_query {
	size_t max;
	const char *keep;
};
struct output_query output_query_of(const struct tool_run *run);

/* The most a model gets of a stream: 480,000 bytes are 120,000 characters, and a note. */
#define OUTPUT_TEXT_MAX KIB(512)

/* Append a stream of run's reply to `out`, cut; for MIDDLE, HALVES and CHARS. */
[[nodiscard]] int output_add_stream(const struct tool_run *run, const char *stream,
				    struct buf *out);
/* The same as a value, NULL without memory. */
json_t *output_stream_json(const struct tool_run *run, const char *stream);
/* The first `max` characters of a text, and sandbox-agent's note if that is not all; NULL without
 * memory. */
json_t *output_text_json(struct slice text, size_t max);
/* Append both streams together, cut; for LINES. */
[[nodiscard]] int output_add_lines(const struct tool_run *run, struct buf *out);
#endif
