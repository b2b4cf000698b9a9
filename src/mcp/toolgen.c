/* SPDX-License-Identifier: Apache-2.0 */
/* toolgen - print the tool table as JSON: docs/tools.json */
#include <stdio.h>

#include "base/path.h"
#include "mcp/tool.h"

/* The tools as in tools/list, and the operation of each. */
static void toolgen_write_profile(enum tool_profile p, struct jw *w)
{
	jw_str(w, "name", profiles[p].name);
	jw_str(w, "description", profiles[p].help);
	jw_str(w, "instructions", profiles[p].instructions);
	jw_array_begin(w, "tools");
	for (size_t i = 0; i < n_mcp_tools; i++)
		if (mcp_tools[i].profile == p)
			tool_describe(&mcp_tools[i], w);
	jw_end(w);
	jw_object_begin(w, "operations");
	for (size_t i = 0; i < n_mcp_tools; i++)
		if (mcp_tools[i].profile == p)
			jw_str(w, mcp_tools[i].name, ops[mcp_tools[i].op].name);
	jw_end(w);
}

int main(void)
{
	auto_buf b = BUF_INIT(MIB(4));
	struct jw w = jw_to(&b);

	jw_object_begin(&w, NULL);
	jw_array_begin(&w, "profiles");
	for (unsigned p = 0; p < PROFILE_NUM; p++) {
		jw_object_begin(&w, NULL);
		toolgen_write_profile((enum tool_profile)p, &w);
		jw_end(&w);
	}
	jw_end(&w);
	jw_end(&w);
	if (jw_finish(&w) < 0 || fd_write_all(STDOUT_FILENO, b.data, b.len) < 0) {
		(void)fputs("toolgen: cannot write\n", stderr);
		return 1;
	}
	return 0;
}
