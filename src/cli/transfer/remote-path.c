/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer/remote-path.h"

int remote_path_parse(struct cli *c, const char *word, struct remote_path *ret, struct cay_err *err)
{
	const char *colon = strchr(word, ':'), *slash = strchr(word, '/'), *name;

	*ret = (struct remote_path){ .path = word };
	if (!colon || (slash && slash < colon))
		return 0;
	ret->in_sandbox = true;
	ret->path = colon[1] ? colon + 1 : ".";
	name = arena_strndup(&c->arena, word, (size_t)(colon - word));
	if (!name)
		return cay_no_memory(err);
	return api_find_sandbox(&c->api, name, &ret->sandbox, err);
}

int remote_path_parse_in_sandbox(struct cli *c, const char *word, struct remote_path *ret,
				 struct cay_err *err)
{
	int r = remote_path_parse(c, word, ret, err);

	if (r >= 0 && !ret->in_sandbox)
		return cay_fail(err, CAY_E_INVALID,
				"'%s' does not name a file in a sandbox: use NAME:PATH", word);
	return r;
}
