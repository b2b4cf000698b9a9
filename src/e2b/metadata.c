/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/metadata.h"

#include <string.h>

#include "base/siphash.h"
#include "base/str.h"
#include "text/base64.h"
#include "text/percent.h"

#define MARK "e2b-"
#define HASH_LEN 16
#define PIECE 61 /* a label has 63, and begins and ends with a letter or digit */
#define NAME_MAX_ 64
#define PAIR_MAX (PIECE * METADATA_PIECES_MAX * 3 / 4)

static bool metadata_is_label_text(const char *s)
{
	size_t n = strlen(s);

	if (n > 63 || (n && (!ascii_is_alnum(s[0]) || !ascii_is_alnum(s[n - 1]))))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!ascii_is_alnum(s[i]) && !strchr("-._", s[i]))
			return false;
	return true;
}

static bool metadata_is_label(const char *key, const char *value)
{
	return key[0] && strncmp(key, MARK, sizeof(MARK) - 1) != 0 && metadata_is_label_text(key) &&
	       metadata_is_label_text(value);
}

/* KEY, 0, VALUE; how long, or -E2BIG. */
static ssize_t metadata_join(const char *key, const char *value, uint8_t ret[static PAIR_MAX])
{
	struct slice k = slice_of(key), text = slice_of(value);

	if (k.n + text.n + 1 > PAIR_MAX)
		return -E2BIG;
	memcpy(ret, k.p, k.n);
	ret[k.n] = 0;
	memcpy(ret + k.n + 1, text.p, text.n);
	return (ssize_t)(k.n + 1 + text.n);
}

static void metadata_name(const uint8_t *pair, size_t n, unsigned piece, char ret[static NAME_MAX_])
{
	static const uint8_t key[SIPHASH_KEY_LEN] = "e2b metadata key";

	if (snprintf(ret, NAME_MAX_, MARK "%016llx-%u", (unsigned long long)siphash(key, pair, n),
		     piece) < 0)
		ret[0] = 0;
}

int metadata_add_label(const char *key, const char *value, json_t *labels, struct cay_err *err)
{
	uint8_t pair[PAIR_MAX];
	char text[BASE64_TEXT(PAIR_MAX) + 1], name[NAME_MAX_], label[PIECE + 3];
	ssize_t n;
	size_t len;

	if (metadata_is_label(key, value))
		return json_object_set_new(labels, key, json_string(value)) < 0 ? cay_no_memory(err)
										: 0;
	n = metadata_join(key, value, pair);
	if (n < 0)
		return cay_fail(err, CAY_E_INVALID,
				"metadata '%.40s' is too long: a pair that is no label may have %d "
				"bytes",
				key, PAIR_MAX - 1);
	base64url_encode(pair, (size_t)n, text);
	len = ((size_t)n * 4 + 2) / 3;
	for (size_t at = 0; at < len; at += PIECE) {
		size_t left = len - at, take = left < PIECE ? left : PIECE;

		metadata_name(pair, (size_t)n, (unsigned)(at / PIECE), name);
		label[0] = 'm';
		memcpy(label + 1, text + at, take);
		label[take + 1] = 'm';
		label[take + 2] = 0;
		if (json_object_set_new(labels, name, json_string(label)) < 0)
			return cay_no_memory(err);
	}
	return 0;
}

/* The pieces of the pair whose first label is `name`; -EINVAL: these labels are not ours. */
static int metadata_read_pieces(const json_t *labels, const char *name, json_t *to)
{
	char text[PIECE * METADATA_PIECES_MAX], key[NAME_MAX_];
	uint8_t pair[BASE64_BYTES(sizeof(text)) + 1];
	size_t len = 0, n, k;

	for (unsigned i = 0; i < METADATA_PIECES_MAX; i++) {
		const char *piece;
		size_t m;

		if (snprintf(key, sizeof(key), "%.*s-%u", (int)sizeof(MARK) - 1 + HASH_LEN, name,
			     i) < 0)
			key[0] = 0;
		piece = json_string_value(json_object_get(labels, key));
		m = piece ? strlen(piece) : 0;
		if (!piece)
			break;
		if (m < 3 || m > PIECE + 2 || len + m - 2 > sizeof(text))
			return -EINVAL;
		memcpy(text + len, piece + 1, m - 2);
		len += m - 2;
	}
	if (base64url_decode(text, len, pair, &n) < 0)
		return -EINVAL;
	pair[n] = 0;
	k = strlen((const char *)pair);
	if (k >= n || strlen((const char *)pair + k + 1) != n - k - 1)
		return -EINVAL;
	return json_object_set_new(to, (const char *)pair, json_string((const char *)pair + k + 1));
}

json_t *metadata_from_labels(const json_t *labels)
{
	json_t *ret = json_object();
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)labels, key, value) {
		size_t n = strlen(key);

		if (strncmp(key, MARK, sizeof(MARK) - 1) != 0 ||
		    n < sizeof(MARK) - 1 + HASH_LEN + 2)
			(void)json_object_set(ret, key, value);
		else if (str_eq(key + sizeof(MARK) - 1 + HASH_LEN, "-0") &&
			 metadata_read_pieces(labels, key, ret) < 0)
			(void)json_object_set(ret, key, value);
	}
	return ret;
}

static int metadata_add_term(const char *key, const char *value, struct buf *b)
{
	uint8_t pair[PAIR_MAX];
	char name[NAME_MAX_];
	ssize_t n;

	if (metadata_is_label(key, value))
		return buf_printf(b, "%s%s=%s", b->len ? "," : "", key, value);
	n = metadata_join(key, value, pair);
	if (n < 0)
		return -EINVAL;
	metadata_name(pair, (size_t)n, 0, name);
	return buf_printf(b, "%s%s", b->len ? "," : "", name);
}

/* One piece of KEY=VALUE, decoded once more. */
static int metadata_decode(struct slice s, char *ret, size_t most)
{
	size_t n;

	if (s.n >= most || percent_decode(s.p ? s.p : "", s.n, ret, &n) < 0)
		return -EINVAL;
	ret[n] = 0;
	return 0;
}

/* The SDKs encode each key and value, then the pairs, then the parameter, which the caller decoded.
 */
int metadata_add_query(const char *query, struct buf *selector, struct cay_err *err)
{
	char pairs[KIB(4)], key[PAIR_MAX + 1], value[PAIR_MAX + 1];
	struct slice left;

	if (metadata_decode(slice_of(query), pairs, sizeof(pairs)) < 0)
		return cay_fail(err, CAY_E_INVALID, "metadata is not valid");
	left = slice_of(pairs);
	while (left.n) {
		struct slice v = slice_cut(&left, '&'), k = slice_cut(&v, '=');

		if (metadata_decode(k, key, sizeof(key)) < 0 ||
		    metadata_decode(v, value, sizeof(value)) < 0 ||
		    metadata_add_term(key, value, selector) < 0)
			return cay_fail(err, CAY_E_INVALID, "metadata is not valid");
	}
	return 0;
}
