/* SPDX-License-Identifier: Apache-2.0 */
#include "text/reference.h"

#include <errno.h>
#include <string.h>

#define TAG_MAX 128
#define DIGEST_LEN (7 + 64)

static bool reference_is_lower_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || ascii_is_digit(c);
}

static bool reference_is_word_char(char c)
{
	return reference_is_lower_alnum(c) || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool reference_is_label(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!reference_is_lower_alnum(s.p[i]) && (s.p[i] != '-' || i == 0 || i + 1 == s.n))
			return false;
	return s.n > 0 && s.n <= 63;
}

bool reference_is_host(struct slice text)
{
	struct slice port = text, name = slice_cut(&port, ':');
	bool dotted = name.n && memchr(name.p, '.', name.n);
	uint64_t number;

	if (port.p && str_parse_u64(port, 1, 65535, &number) < 0)
		return false;
	if (!port.p && !dotted && !slice_eq(name, SLICE("localhost")))
		return false;
	if (!name.n || name.n > 253 || name.p[name.n - 1] == '.')
		return false;
	while (name.n)
		if (!reference_is_label(slice_cut(&name, '.')))
			return false;
	return true;
}

/* Letters and digits, with '.', '_', '__' or dashes between them. */
static bool reference_is_path_part(struct slice s)
{
	for (size_t i = 0; i < s.n; i++) {
		bool mark = s.p[i] == '.' || s.p[i] == '_' || s.p[i] == '-';

		if (!reference_is_lower_alnum(s.p[i]) && (!mark || i == 0 || i + 1 == s.n))
			return false;
	}
	return s.n > 0;
}

static bool reference_is_path(struct slice path)
{
	if (!path.n || path.p[path.n - 1] == '/')
		return false;
	while (path.n)
		if (!reference_is_path_part(slice_cut(&path, '/')))
			return false;
	return true;
}

static bool reference_is_tag(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!reference_is_word_char(s.p[i]) && (i == 0 || (s.p[i] != '.' && s.p[i] != '-')))
			return false;
	return s.n > 0 && s.n <= TAG_MAX;
}

static bool reference_is_digest(struct slice s)
{
	if (s.n != DIGEST_LEN || memcmp(s.p, "sha256:", 7) != 0)
		return false;
	for (size_t i = 7; i < s.n; i++)
		if (!ascii_is_digit(s.p[i]) && (s.p[i] < 'a' || s.p[i] > 'f'))
			return false;
	return true;
}

int reference_parse(struct slice text, struct reference *ret)
{
	struct reference r = {};

	if (!text.n || text.n > REFERENCE_MAX)
		return -EINVAL;
	r.digest = text;
	text = slice_cut(&r.digest, '@');
	r.path = text;
	r.host = slice_cut(&r.path, '/');
	if (!r.path.p)
		return -EINVAL;
	r.tag = r.path;
	r.path = slice_cut(&r.tag, ':');
	if (!reference_is_host(r.host) || !reference_is_path(r.path) ||
	    (r.tag.p && !reference_is_tag(r.tag)) || (r.digest.p && !reference_is_digest(r.digest)))
		return -EINVAL;
	*ret = r;
	return 0;
}

int reference_complete(struct slice prefix, struct slice name, struct buf *ret)
{
	struct slice host = prefix, path = name, part = slice_cut(&path, '@');
	struct reference parsed;
	int r;

	if (reference_parse(name, &parsed) >= 0)
		return buf_append(ret, name.p, name.n);
	if (!prefix.n)
		return -EINVAL;
	if (part.n && memchr(part.p, '/', part.n))
		prefix = slice_cut(&host, '/');
	r = buf_append(ret, prefix.p, prefix.n);
	if (r >= 0)
		r = buf_putc(ret, '/');
	if (r >= 0)
		r = buf_append(ret, name.p, name.n);
	return r < 0 ? r : reference_parse((struct slice){ ret->data, ret->len }, &parsed);
}
