/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/place.h"

int place_of(struct cli *c, const char *word, struct place *ret, struct cay_err *err)
{
	const char *colon = strchr(word, ':'), *slash = strchr(word, '/'), *name;

	*ret = (struct place){ .path = word };
	if (!colon || (slash && slash < colon))
		return 0;
	ret->inside = true;
	ret->path = colon[1] ? colon + 1 : ".";
	name = pool_strn(&c->pool, word, (size_t)(colon - word));
	if (!name)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return api_find_sandbox(&c->api, name, &ret->sandbox, err);
}

int place_inside(struct cli *c, const char *word, struct place *ret, struct cay_err *err)
{
	int r = place_of(c, word, ret, err);

	if (r >= 0 && !ret->inside)
		return cay_fail(err, CAY_E_INVALID, "'%s' is not in a sandbox, as NAME:PATH is",
				word);
	return r;
}
