/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool-result.h"

#include <stdio.h>

#include "text/base64.h"

/* JSON may contain NUL, but many parsers, including ours, refuse it. */
static int text_replace_nul(struct slice text, struct buf *out)
{
	int r = 0;

	while (r >= 0 && text.p) {
		struct slice part = slice_cut(&text, 0);

		r = buf_append(out, part.p, part.n);
		if (r >= 0 && text.p)
			r = buf_puts(out, "\xef\xbf\xbd");
	}
	return r;
}

int text_append_utf8(struct slice text, struct buf *out)
{
	int r = 0;

	while (r >= 0 && text.n) {
		size_t good = 0, len;

		while (good < text.n && text.p[good] &&
		       (len = utf8_len(text.p + good, text.n - good)))
			good += len;
		r = buf_append(out, text.p, good);
		if (r >= 0 && good < text.n) {
			r = buf_puts(out, "\xef\xbf\xbd");
			good++;
		}
		text = (struct slice){ text.p + good, text.n - good };
	}
	return r;
}

void tool_result_note_failure(struct tool_result *out, int r)
{
	if (r < 0 && !out->w->err)
		out->w->err = r;
}

void tool_result_add_text(struct tool_result *out, struct slice text)
{
	auto_buf b = BUF_INIT(3 * text.n);
	bool nul = text.n && memchr(text.p, 0, text.n);

	if (nul) {
		tool_result_note_failure(out, text_replace_nul(text, &b) < 0 ? -ENOMEM : 0);
		text = (struct slice){ b.data, b.len };
	}
	if (out->said && (out->said->len ? buf_putc(out->said, '\n') : 0) >= 0)
		tool_result_note_failure(out, text_append_utf8(text, out->said));
	jw_object_begin(out->w, NULL);
	jw_str(out->w, "type", "text");
	jw_slice(out->w, "text", text);
	jw_end(out->w);
}

int tool_result_printf(struct tool_result *out, const char *fmt, ...)
{
	auto_buf text = BUF_INIT(RESULT_TEXT);
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = buf_vprintf(&text, fmt, ap);
	va_end(ap);
	tool_result_note_failure(out, r);
	tool_result_add_text(out, (struct slice){ buf_str(&text), text.len });
	return 0;
}

/* The first byte at or after `at` that begins a character. */
static size_t utf8_next_char_start(struct slice t, size_t at)
{
	while (at < t.n && ((unsigned char)t.p[at] & 0xc0) == 0x80)
		at++;
	return at;
}

void tool_result_add_cut(struct tool_result *out, struct slice text, size_t most, const char *how)
{
	auto_buf b = BUF_INIT(most + KIB(1));
	size_t head, tail;
	int r;

	if (text.n <= most) {
		tool_result_add_text(out, text);
		return;
	}
	head = utf8_whole_prefix_len(text.p, most / 2);
	tail = utf8_next_char_start(text, text.n - most / 2);
	r = buf_append(&b, text.p, head);
	if (r >= 0)
		r = buf_printf(&b, "\n[... %zu of %zu bytes omitted%s%s ...]\n", tail - head,
			       text.n, how ? "; " : "", how ? how : "");
	if (r >= 0)
		r = buf_append(&b, text.p + tail, text.n - tail);
	tool_result_note_failure(out, r);
	tool_result_add_text(out, (struct slice){ buf_str(&b), b.len });
}

static const struct {
	const char *media;
	size_t at, n;
	const char *bytes;
} image_signatures[] = {
	{ "image/png", 0, 8, "\x89PNG\r\n\x1a\n" },
	{ "image/jpeg", 0, 3, "\xff\xd8\xff" },
	{ "image/gif", 0, 4, "GIF8" },
	{ "image/webp", 8, 4, "WEBP" },
};

const char *image_media_type(struct slice b)
{
	for (size_t i = 0; i < ARRAY_SIZE(image_signatures); i++)
		if (b.n >= 16 && memcmp(b.p + image_signatures[i].at, image_signatures[i].bytes,
					image_signatures[i].n) == 0)
			return image_signatures[i].media;
	return NULL;
}

bool tool_result_add_image(struct tool_result *out, struct slice bytes)
{
	const char *media = bytes.n <= RESULT_IMAGE ? image_media_type(bytes) : NULL;
	auto_free char *text = media ? malloc(BASE64_TEXT(bytes.n)) : NULL;

	if (!media)
		return false;
	out->has_image = true;
	if (!text) {
		tool_result_note_failure(out, -ENOMEM);
		return true;
	}
	base64_encode((const uint8_t *)bytes.p, bytes.n, text);
	jw_object_begin(out->w, NULL);
	jw_str(out->w, "type", "image");
	jw_slice(out->w, "data", (struct slice){ text, BASE64_TEXT(bytes.n) });
	jw_str(out->w, "mimeType", media);
	jw_end(out->w);
	return true;
}

void tool_result_set_shape(struct tool_result *out, enum result_shape shape)
{
	const struct buf *said = out->said;

	if (shape == SHAPE_PLAIN || !said || out->data || out->has_image)
		return;
	json_decref(out->owned);
	out->owned = json_pack("{s:s%, s:s%, s:n, s:s}", "output", buf_str(said),
			       out->error ? 0 : said->len, "error", buf_str(said),
			       out->error ? said->len : 0, "base64_image", "system", "");
	out->data = out->owned;
	tool_result_note_failure(out, out->owned ? 0 : -ENOMEM);
}

void tool_result_add_error(struct tool_result *out, const struct cay_err *err, const char *hint)
{
	out->error = true;
	tool_result_printf(out, "%s: %s%s%s%s%s", cay_error_row(err->code)->name, err->field,
			   err->field[0] ? ": " : "", err->msg, hint[0] ? "\n" : "", hint);
}
