/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/mask.h"

#include <string.h>

#include "text/base64.h"
#include "text/percent.h"

#define FORM_MAX MASK_HELD_MAX
#define MASK_HELD_MIN KIB(1)

static int mask_add_form(struct mask *m, struct slice form)
{
	struct buf *b = &m->forms[m->n];

	for (unsigned i = 0; i < m->n; i++)
		if (slice_eq(form, (struct slice){ m->forms[i].data, m->forms[i].len }))
			return 0;
	if (m->n == MASK_FORMS_MAX)
		return -ENOSPC;
	while (m->held_max < form.n)
		m->held_max = m->held_max ? 2 * m->held_max : MASK_HELD_MIN;
	*b = BUF_INIT(FORM_MAX);
	/* reserved at once: a buffer that grows leaves a copy */
	if (buf_reserve(b, form.n) < 0 || buf_append(b, form.p, form.n) < 0)
		return -ENOMEM;
	m->n++;
	return 0;
}

/* The characters that are the same whatever stands around the secret, if it begins at this byte of
 * a group of three. */
static int mask_add_base64(struct mask *m, struct slice secret, size_t at, bool url)
{
	size_t n = secret.n + at, first = (at * 8 + 5) / 6, last = n * 8 / 6;
	auto_buf bytes = BUF_INIT(FORM_MAX), text = BUF_INIT(FORM_MAX);
	int r = buf_reserve(&bytes, n);

	if (r >= 0)
		r = buf_reserve(&text, BASE64_TEXT(n));
	if (r >= 0)
		r = buf_append(&bytes, "\0\0", at);
	if (r >= 0)
		r = buf_append(&bytes, secret.p, secret.n);
	if (r >= 0 && url)
		base64url_encode((const uint8_t *)bytes.data, n, text.data);
	else if (r >= 0)
		base64_encode((const uint8_t *)bytes.data, n, text.data);
	if (r >= 0)
		r = mask_add_form(m, (struct slice){ text.data + first, last - first });
	text.len = text.cap ? BASE64_TEXT(n) : 0;
	buf_wipe(&bytes);
	buf_wipe(&text);
	return r;
}

/* slash: as it is, which encoders of paths do. */
static int mask_add_percent(struct mask *m, struct slice secret, bool lower, bool slash)
{
	auto_buf text = BUF_INIT(FORM_MAX);
	int r = buf_reserve(&text, 3 * secret.n);

	for (size_t i = 0; r >= 0 && i < secret.n; i++)
		if (slash && secret.p[i] == '/')
			text.data[text.len++] = '/';
		else
			text.len += percent_encode(secret.p + i, 1, text.data + text.len);
	for (size_t i = 0; lower && i + 2 < text.len; i++)
		if (text.data[i] == '%') {
			text.data[i + 1] = ascii_to_lower(text.data[i + 1]);
			text.data[i + 2] = ascii_to_lower(text.data[i + 2]);
		}
	if (r >= 0)
		r = mask_add_form(m, (struct slice){ text.data, text.len });
	buf_wipe(&text);
	return r;
}

/* In a text of JSON: some writers escape the slash too. */
static int mask_add_json(struct mask *m, struct slice secret, bool slash)
{
	auto_buf text = BUF_INIT(FORM_MAX);
	int r = buf_reserve(&text, 2 * secret.n);

	for (size_t i = 0; r >= 0 && i < secret.n; i++) {
		char c = secret.p[i];

		if (c == '"' || c == '\\' || (slash && c == '/'))
			text.data[text.len++] = '\\';
		text.data[text.len++] = c;
	}
	if (r >= 0)
		r = mask_add_form(m, (struct slice){ text.data, text.len });
	buf_wipe(&text);
	return r;
}

int mask_add(struct mask *m, struct slice secret)
{
	int r = mask_add_form(m, secret);

	for (size_t at = 0; r >= 0 && at < 3; at++) {
		r = mask_add_base64(m, secret, at, false);
		if (r >= 0)
			r = mask_add_base64(m, secret, at, true);
	}
	for (int i = 0; r >= 0 && i < 4; i++)
		r = mask_add_percent(m, secret, i & 1, i & 2);
	if (r >= 0)
		r = mask_add_json(m, secret, false);
	return r < 0 ? r : mask_add_json(m, secret, true);
}

void mask_fini(struct mask *m)
{
	for (unsigned i = 0; i < m->n; i++) {
		buf_wipe(&m->forms[i]);
		buf_fini(&m->forms[i]);
	}
	m->n = 0;
}

void mask_apply(const struct mask *m, char *p, size_t n)
{
	for (unsigned i = 0; i < m->n; i++) {
		const struct buf *form = &m->forms[i];
		char *at = p;

		while ((at = memmem(at, n - (size_t)(at - p), form->data, form->len))) {
			memset(at, '*', form->len);
			at += form->len;
		}
	}
}

static size_t mask_printable_end(const char *p, size_t n, size_t most)
{
	size_t run = 0;

	while (run < n && run < most && p[n - run - 1] >= ' ' && p[n - run - 1] <= '~')
		run++;
	return run;
}

size_t mask_release(const struct mask *m, char *p, size_t n)
{
	size_t held = mask_printable_end(p, n, m->held_max), ready = n - held;

	/* each release searches the held bytes too, so it must be worth it */
	if (held == m->held_max && ready < m->held_max)
		return 0;
	if (ready)
		mask_apply(m, p, n);
	return ready;
}
