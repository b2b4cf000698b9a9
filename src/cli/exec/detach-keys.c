/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/detach-keys.h"

#include "base/str.h"

static int detach_keys_parse_one(struct slice word)
{
	static const struct slice ctrl = { "ctrl-", 5 };
	uint8_t c;

	if (word.n == 1 && word.p[0] > ' ' && word.p[0] < 0x7f)
		return word.p[0];
	if (word.n != ctrl.n + 1 || memcmp(word.p, ctrl.p, ctrl.n) != 0)
		return -EINVAL;
	c = (uint8_t)word.p[ctrl.n];
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 1;
	return c >= '@' && c <= '_' ? c - '@' : -EINVAL;
}

int detach_keys_parse(const char *text, struct detach_keys *ret, struct cay_err *err)
{
	struct slice rest = slice_of(text);
	struct detach_keys k = {};

	while (rest.n) {
		int key = detach_keys_parse_one(slice_trim(slice_cut(&rest, ',')));

		if (key < 0 || k.n == KEYS_MAX)
			return cay_fail(
				err, CAY_E_INVALID,
				"invalid keys '%s': use the form 'ctrl-p,ctrl-q' or 'ctrl-],d'",
				text);
		k.v[k.n++] = (uint8_t)key;
	}
	*ret = k;
	return 0;
}

size_t detach_keys_scan(struct detach_keys *k, const uint8_t *in, size_t n)
{
	for (size_t i = 0; k->n && i < n; i++) {
		if (in[i] != k->v[k->matched])
			k->matched = 0;
		if (in[i] == k->v[k->matched])
			k->matched++;
		if (k->matched == k->n) {
			k->matched = 0;
			return i;
		}
	}
	return n;
}
