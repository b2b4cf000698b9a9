/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_TOOL_RESULT_H
#define CAY_MCP_TOOL_RESULT_H
/*
 * tool-result - content for a model: text, images, and the same as data
 *
 * Text is bounded by RESULT_TEXT, output of commands by RESULT_OUTPUT: longer text is shown as
 * its head and tail, with a note on the omitted part and how to read it.  Images are image content,
 * not text.  All content comes from a sandbox and is marked as nothing else: we add no text before
 * it that it could imitate to its advantage.
 */
#include "mcp/tool.h"

#define RESULT_TEXT KIB(48)
#define RESULT_OUTPUT KIB(16) /* of one stream of a command */
#define RESULT_IMAGE MIB(4)
#define RESULT_SAID MIB(1) /* of a result that is data in another product's shape as well */

/* Append text as UTF-8: bytes that are not, and NUL, become U+FFFD. */
[[nodiscard]] int text_append_utf8(struct slice text, struct buf *out);

struct tool_result {
	struct jw *w;       /* inside the content array */
	bool error;         /* isError */
	const json_t *data; /* structuredContent, or NULL; points into the reply or to owned */
	json_t *owned;      /* set when it must be freed */
	struct buf *said;   /* collects the text, or NULL */
	bool has_image;
};

/* Remember the first failure to write; r >= 0 is none. */
void tool_result_note_failure(struct tool_result *out, int r);
void tool_result_add_text(struct tool_result *out, struct slice text);
/* Returns 0, for write_result to return. */
__attribute__((format(printf, 2, 3))) int tool_result_printf(struct tool_result *out,
							     const char *fmt, ...);
/* Omit the middle to leave `most` bytes, at character boundaries; how: "read on with ...", or
 * NULL. */
void tool_result_add_cut(struct tool_result *out, struct slice text, size_t most, const char *how);
/* Of PNG, JPEG, GIF and WebP, by its first bytes; NULL: none of them. */
const char *image_media_type(struct slice bytes);
/* True when it is an image clients can show (PNG, JPEG, GIF, WebP, by its first bytes). */
bool tool_result_add_image(struct tool_result *out, struct slice bytes);
/* Make the collected text data in this shape, unless the tool has data of its own or an image: that
 * is image content, which clients do not show next to data. */
void tool_result_set_shape(struct tool_result *out, enum result_shape shape);
/* An error for the model to correct; hint: what it can do, or "". */
void tool_result_add_error(struct tool_result *out, const struct cay_err *err, const char *hint);
#endif
