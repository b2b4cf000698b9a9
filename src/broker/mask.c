/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/mask.h"

#include <string.h>

#include "text/base64.h"
#include "text/percent.h"

#define FORM_MAX KIB(16)

static int mask_add_form(struct mask *m, struct slice form)
{
	struct buf *b = &m->forms[m->n];

	for (unsigned i = 0; i < m->n; i++)
		if (slice_eq(form, (struct slice){ m->forms[i].data, m->forms[i].len }))
			return 0;
	if (m->n == MASK_FORMS_MAX)
		return -ENOSPC;
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

static int mask_add_percent(struct mask *m, struct slice secret, bool lower)
{
	auto_buf text = BUF_INIT(FORM_MAX);
	int r = buf_reserve(&text, 3 * secret.n);

	if (r >= 0)
		text.len = percent_encode(secret.p, secret.n, text.data);
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

int mask_add(struct mask *m, struct slice secret)
{
	int r = mask_add_form(m, secret);

	for (size_t at = 0; r >= 0 && at < 3; at++) {
		r = mask_add_base64(m, secret, at, false);
		if (r >= 0)
			r = mask_add_base64(m, secret, at, true);
	}
	if (r >= 0)
		r = mask_add_percent(m, secret, false);
	return r < 0 ? r : mask_add_percent(m, secret, true);
}

void mask_fini(struct mask *m)
{
	for (unsigned i = 0; i < m->n; i++) {
		buf_wipe(&m->forms[i]);
		buf_fini(&m->forms[i]);
	}
	m->n = 0;
}

/* How many of the last bytes are the first ones of the form, and not all of it. */
static size_t mask_form_begins(const struct buf *form, const char *p, size_t n)
{
	size_t most = n < form->len - 1 ? n : form->len - 1;

	for (size_t k = most; k; k--)
		if (memcmp(p + n - k, form->data, k) == 0)
			return k;
	return 0;
}

size_t mask_apply(const struct mask *m, char *p, size_t n)
{
	size_t held = 0;

	for (unsigned i = 0; i < m->n; i++) {
		const struct buf *form = &m->forms[i];
		char *at = p;

		while ((at = memmem(at, n - (size_t)(at - p), form->data, form->len))) {
			memset(at, '*', form->len);
			at += form->len;
		}
	}
	for (unsigned i = 0; i < m->n; i++) {
		size_t k = mask_form_begins(&m->forms[i], p, n);

		held = k > held ? k : held;
	}
	return held;
}
