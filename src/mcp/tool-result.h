/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_TOOL_RESULT_H
#define CAY_MCP_TOOL_RESULT_H
/*
 * result - what a model is given: text, images, and the same as data
 *
 * Text for models is bounded by RESULT_TEXT: of more, the head and the tail are shown, and
 * between them what was left out and how to read it.  Images are image content, not text.
 * All of it is a sandbox's word and marked as nothing else: no text of ours stands in front
 * of it that it could imitate to its advantage.
 */
#include "mcp/tool.h"

#define RESULT_TEXT KIB(48)
#define RESULT_IMAGE MIB(4)

struct tool_result {
	struct jw *w;       /* the content array is open */
	bool error;         /* isError */
	const json_t *data; /* structuredContent, or NULL; of the run's answer or own */
	json_t *owned;      /* the same when it was made for it */
};

void tool_result_add_text(struct tool_result *out, struct slice text);
__attribute__((format(printf, 2, 3))) void tool_result_printf(struct tool_result *out,
							      const char *fmt, ...);
/* Cut in the middle to `most` bytes, at ends of characters; how: "read on with ...", or NULL. */
void tool_result_add_cut_text(struct tool_result *out, struct slice text, size_t most,
			      const char *how);
/* True when it is one a client shows (PNG, JPEG, GIF, WebP: by its first bytes). */
bool tool_result_add_image(struct tool_result *out, struct slice bytes);
/* A failure the model is told of, so that it can do better. */
void tool_result_add_error(struct tool_result *out, const struct cay_err *err);
#endif
