/* SPDX-License-Identifier: Apache-2.0 */
/* tool-table - the tables of profiles and tools, from the .def files */
#include "mcp/profiles/profile.h"

const struct profile profiles[PROFILE_NUM] = {
#define CAY_PROFILE(sym, name, help, says) [PROFILE_##sym] = { name, help, says },
#include "mcp/profiles/profiles.def"
#undef CAY_PROFILE
};

const struct profile_limits profile_limits[PROFILE_NUM] = {
#define CAY_LIMITS(sym, timeout, ceiling, cut, out, err, lines, chars, shape) \
	[PROFILE_##sym] = { timeout, ceiling, CUT_##cut, out, err, lines, chars, SHAPE_##shape },
#include "mcp/profiles/limits.def"
#undef CAY_LIMITS
};

/* The arguments, ... */
enum { OPT, REQ };
#define ROW(name_, as_, type_, need_, ...) \
	{ .name = name_, .as = as_, .type = TOOL_##type_, .required = (need_) == REQ, __VA_ARGS__ },
#define ARGS(sym) static const struct tool_arg sym##_args[] = {
#define SUB(sym) \
	{ \
	} \
	} \
	;
#define TOOL(sym, ...) SUB(sym)
#define TEXT(n, as, need, lo, hi, pre, h) \
	ROW(n, as, TEXT, need, .min = lo, .max = hi, .preset = pre, .help = h)
#define INT(n, as, need, lo, hi, pre, h) \
	ROW(n, as, INT, need, .min = lo, .max = hi, .preset = pre, .help = h)
#define SECS(n, as, need, lo, hi, pre, h) \
	ROW(n, as, REAL, need, .min = lo, .max = hi, .scale = 1000, .preset = pre, .help = h)
#define REAL(n, as, need, lo, hi, pre, h) \
	ROW(n, as, REAL, need, .min = lo, .max = hi, .preset = pre, .help = h)
#define SIGNED(n, as, need, most, h) \
	ROW(n, as, REAL, need, .max = most, .either_sign = true, .help = h)
#define BOOL(n, as, need, pre, h) ROW(n, as, BOOL, need, .preset = pre, .help = h)
#define CHOICE(n, as, need, list, pre, h) \
	ROW(n, as, CHOICE, need, .choices = list, .preset = pre, .help = h)
#define TEXTS(n, as, need, lo, hi, h) ROW(n, as, TEXTS, need, .min = lo, .max = hi, .help = h)
#define INTS(n, as, need, lo, hi, h) ROW(n, as, INTS, need, .min = lo, .max = hi, .help = h)
#define MAP(n, as, need, hi, h) ROW(n, as, MAP, need, .max = hi, .help = h)
#define OBJECT(n, as, need, of, h) ROW(n, as, OBJECT, need, .sub = of##_args, .help = h)
#define LIST(n, as, need, lo, hi, of, h) \
	ROW(n, as, LIST, need, .min = lo, .max = hi, .sub = of##_args, .help = h)
#define ANY(n, as, need, h) ROW(n, as, ANY, need, .help = h)
#define FIXED(as, pre) ROW(NULL, as, FIXED, OPT, .preset = pre)
#define ALIAS(n, of) ROW(n, of, ALIAS, OPT, )
#define SANDBOX() \
	TEXT("sandbox", "sandbox", OPT, 1, 63, NULL, \
	     "Id or name of the sandbox; default: the one of this conversation, created when " \
	     "first needed")
#include "mcp/profiles/tools.def"
#ifdef CAY_MCP_MORE /* of tests */
#include CAY_MCP_MORE
#endif
#undef ARGS
#undef SUB
#undef TOOL
#undef ROW

/* ... and the tools. */
#define ROW(...)
#define ARGS(...)
#define SUB(...)
#define TOOL(sym, profile_, name_, title_, op_, hints_, next_call_, write_result_, help_) \
	{ PROFILE_##profile_, name_,      title_,        OP_##op_, hints_, \
	  sym##_args,         next_call_, write_result_, help_ },
const struct mcp_tool mcp_tools[] = {
#include "mcp/profiles/tools.def"
#ifdef CAY_MCP_MORE /* of tests */
#include CAY_MCP_MORE
#endif
};
const size_t n_mcp_tools = ARRAY_SIZE(mcp_tools);
