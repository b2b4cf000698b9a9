/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "mcp/tool.h"

static const struct {
	const char *op; /* prefix of the operation's name */
	enum cay_code code;
	const char *field; /* or NULL: any */
	const char *words;
} tool_hints[] = {
#define CAY_TOOL_HINT(op_, sym, field_, words_) { op_, CAY_E_##sym, field_, words_ },
#include "mcp/hints.def"
#undef CAY_TOOL_HINT
};

/* Of a sandbox that Cay or the machine ended, the blame is known and not the caller's. */
static const char tool_lost_hint[] =
	"the server lost this sandbox, which is not your doing: begin again in a new one, and "
	"repeat what you still need: files, packages, servers";

const char *tool_hint_find(enum op_id op, const struct cay_err *err)
{
	if (err->code == CAY_E_STATE && cay_err_blame(err) == BLAME_INFRA)
		return tool_lost_hint;
	for (size_t i = 0; i < ARRAY_SIZE(tool_hints); i++)
		if (tool_hints[i].code == err->code &&
		    (!tool_hints[i].field || str_eq(tool_hints[i].field, err->field)) &&
		    strncmp(ops[op].name, tool_hints[i].op, strlen(tool_hints[i].op)) == 0)
			return tool_hints[i].words;
	return "";
}
