/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool.h"

const struct profile *profile_find(struct slice name)
{
	for (size_t i = 0; i < PROFILE_NUM; i++)
		if (slice_eq(name, slice_of(profiles[i].name)))
			return &profiles[i];
	return NULL;
}

const struct mcp_tool *tool_find(enum tool_profile profile, struct slice name)
{
	for (size_t i = 0; i < n_mcp_tools; i++)
		if (mcp_tools[i].profile == profile && slice_eq(name, slice_of(mcp_tools[i].name)))
			return &mcp_tools[i];
	return NULL;
}

bool tool_is_allowed(const struct mcp_tool *t, const struct actor *a)
{
	const struct op *op = &ops[t->op];
	struct id any = { .noun = ID_SANDBOX };
	bool of_one = strstr(op->path, "{sandbox}");

	if (a->one_sandbox && t->hints & TOOL_OF_TENANT)
		return false;
	return actor_check_access(a, op,
				  !of_one          ? NULL
				  : a->one_sandbox ? &a->sandbox
						   : &any) == CAY_OK;
}
