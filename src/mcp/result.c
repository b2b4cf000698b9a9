/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/result.h"

#include <stdio.h>

#include "text/base64.h"

/* NUL may stand in JSON, and many who read it refuse that, as we do ourselves. */
static int spell_nul(struct slice text, struct buf *out)
{
	int r = 0;

	while (r >= 0 && text.p) {
		struct slice part = slice_cut(&text, 0);

		r = buf_add(out, part.p, part.n);
		if (r >= 0 && text.p)
			r = buf_puts(out, "\xef\xbf\xbd");
	}
	return r;
}

void result_text(struct result *out, struct slice text)
{
	auto_buf b = BUF_INIT(3 * text.n);
	bool nul = text.n && memchr(text.p, 0, text.n);

	if (nul && spell_nul(text, &b) < 0 && !out->w->err)
		out->w->err = -ENOMEM;
	if (nul)
		text = (struct slice){ b.data, b.len };
	jw_object(out->w, NULL);
	jw_str(out->w, "type", "text");
	jw_strn(out->w, "text", text);
	jw_end(out->w);
}

void result_printf(struct result *out, const char *fmt, ...)
{
	auto_buf text = BUF_INIT(RESULT_TEXT);
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = buf_vprintf(&text, fmt, ap);
	va_end(ap);
	if (r < 0 && !out->w->err)
		out->w->err = r;
	result_text(out, (struct slice){ buf_str(&text), text.len });
}

/* The first byte at or behind `at` that begins a character. */
static size_t next_char(struct slice t, size_t at)
{
	while (at < t.n && ((unsigned char)t.p[at] & 0xc0) == 0x80)
		at++;
	return at;
}

void result_cut(struct result *out, struct slice text, size_t most, const char *how)
{
	auto_buf b = BUF_INIT(most + KIB(1));
	size_t head, tail;
	int r;

	if (text.n <= most) {
		result_text(out, text);
		return;
	}
	head = utf8_whole(text.p, most / 2);
	tail = next_char(text, text.n - most / 2);
	r = buf_add(&b, text.p, head);
	if (r >= 0)
		r = buf_printf(&b, "\n[... %zu of %zu bytes are left out here%s%s ...]\n",
			       tail - head, text.n, how ? "; " : "", how ? how : "");
	if (r >= 0)
		r = buf_add(&b, text.p + tail, text.n - tail);
	if (r < 0 && !out->w->err)
		out->w->err = r;
	result_text(out, (struct slice){ buf_str(&b), b.len });
}

static const struct {
	const char *media;
	size_t at, n;
	const char *bytes;
} images[] = {
	{ "image/png", 0, 8, "\x89PNG\r\n\x1a\n" },
	{ "image/jpeg", 0, 3, "\xff\xd8\xff" },
	{ "image/gif", 0, 4, "GIF8" },
	{ "image/webp", 8, 4, "WEBP" },
};

static const char *image_media(struct slice b)
{
	for (size_t i = 0; i < ARRAY_SIZE(images); i++)
		if (b.n >= 16 && memcmp(b.p + images[i].at, images[i].bytes, images[i].n) == 0)
			return images[i].media;
	return NULL;
}

bool result_image(struct result *out, struct slice bytes)
{
	const char *media = bytes.n <= RESULT_IMAGE ? image_media(bytes) : NULL;
	auto_free char *text = media ? malloc(BASE64_TEXT(bytes.n)) : NULL;

	if (!media)
		return false;
	if (!text) {
		out->w->err = out->w->err ? out->w->err : -ENOMEM;
		return true;
	}
	base64_encode((const uint8_t *)bytes.p, bytes.n, text);
	jw_object(out->w, NULL);
	jw_str(out->w, "type", "image");
	jw_strn(out->w, "data", (struct slice){ text, BASE64_TEXT(bytes.n) });
	jw_str(out->w, "mimeType", media);
	jw_end(out->w);
	return true;
}

void result_fail(struct result *out, const struct cay_err *err)
{
	const struct cay_error_row *row = cay_error_row(err->code);

	out->error = true;
	result_printf(out, "%s: %s%s%s%s%s", row->name, err->field, err->field[0] ? ": " : "",
		      err->msg, row->hint ? "\n" : "", row->hint ? row->hint : "");
}
