/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/types.h"

static const char *const health_states[] = { "ok", NULL };
const char *const sandbox_state_names[SB_NUM_STATES + 1] = {
	[SB_PENDING] = "pending",     [SB_RUNNING] = "running", [SB_PAUSED] = "paused",
	[SB_SUSPENDED] = "suspended", [SB_ENDING] = "ending",   [SB_TERMINATED] = "terminated",
	[SB_FAILED] = "failed",       [SB_NUM_STATES] = NULL,
};
const char *const end_reasons[END_NUM_REASONS + 1] = {
	[END_EXIT] = "exit",           [END_SIGNAL] = "signal",
	[END_TIMEOUT] = "timeout",     [END_OOM] = "oom",
	[END_KILLED] = "killed",       [END_TTL] = "ttl",
	[END_IDLE] = "idle",           [END_QUOTA] = "quota",
	[END_EVICTED] = "evicted",     [END_START_FAILED] = "start_failed",
	[END_NODE_LOST] = "node_lost", [END_NUM_REASONS] = NULL,
};
static const char *const exec_states[] = {
	[EXEC_RUNNING] = "running",
	[EXEC_ENDED] = "ended",
	[EXEC_NUM_STATES] = NULL,
};
static const char *const exec_outputs[] = {
	[OUTPUT_AUTO] = "auto",   [OUTPUT_BLOCK] = "block", [OUTPUT_DROP] = "drop",
	[OUTPUT_SPOOL] = "spool", [OUTPUT_NUM] = NULL,
};
static const char *const on_exits[] = { "keep", "end", NULL };
static const char *const fsck_kinds[] = {
#define CAY_FSCK(sym, name, ...) name,
#include "ops/fsck.def"
#undef CAY_FSCK
	NULL,
};
static const char *const token_scopes[] = { [KEY_READ] = "read", [KEY_WRITE] = "write", NULL };
static const char *const key_scopes[] = {
	[KEY_READ] = "read",
	[KEY_WRITE] = "write",
	[KEY_OPERATOR] = "operator",
	[KEY_NUM_SCOPES] = NULL,
};
static const char *const exec_streams[] = { "stdout", "stderr", NULL };

const char *const runtime_names[RUNTIME_NUM + 1] = {
	[RUNTIME_CRUN] = "crun",
	[RUNTIME_RUNC] = "runc",
	[RUNTIME_NUM] = NULL,
};

static const char *const error_codes[] = {
#define CAY_ERROR(sym, name, ...) [CAY_E_##sym - 1] = name,
#include "base/errors.def"
#undef CAY_ERROR
	[CAY_NUM_CODES - 1] = NULL,
};

/* A member of another type than the row says is a compile error; that a row
 * stands in the table of its struct, lint sees. */
#define AT(S, m, CT) \
	(offsetof(struct S, m) + 0 * sizeof(char[_Generic(&((struct S *)0)->m, CT *: 1)]))
#define HAS_AT(S, m) (AT(S, m, bool) + 1)
#define REQ .required = true
#define OPT .required = false

#define BEGIN(s) static const struct field s##_rows[] = {
#define END(s, name_, help_) \
	} \
	; \
	const struct field_table s##_table = { name_, help_, sizeof(struct s), s##_rows, \
					       ARRAY_SIZE(s##_rows) };

#define ROW(S, m, CT, name_, type_, example_, help_, ...) \
	{ .name = name_, \
	  .type = type_, \
	  .offset = AT(S, m, CT), \
	  .example = example_, \
	  .help = help_, \
	  __VA_ARGS__ },
#define BOOL(S, m, name, need, preset_, example, help) \
	ROW(S, m, bool, name, FIELD_BOOL, example, help, need, .preset = preset_)
#define U64(S, m, name, need, min_, max_, preset_, example, help) \
	ROW(S, m, uint64_t, name, FIELD_U64, example, help, need, .min = min_, .max = max_, \
	    .preset = preset_)
#define BYTES(S, m, name, need, min_, max_, preset_, example, help) \
	ROW(S, m, uint64_t, name, FIELD_BYTES, example, help, need, .min = min_, .max = max_, \
	    .preset = preset_)
#define MILLI(S, m, name, need, min_, max_, preset_, example, help) \
	ROW(S, m, uint64_t, name, FIELD_MILLI, example, help, need, .min = min_, .max = max_, \
	    .preset = preset_)
#define HAS(S, m, name, has_, kind, min_, max_, example, help) \
	ROW(S, m, uint64_t, name, FIELD_##kind, example, help, .has = HAS_AT(S, has_), \
	    .min = min_, .max = max_)
#define TEXT(S, m, name, need, check_, min_, max_, example, help) \
	ROW(S, m, const char *, name, FIELD_TEXT, example, help, need, .check = check_, \
	    .min = min_, .max = max_)
#define ENUM(S, m, name, need, preset_, choices_, example, help) \
	ROW(S, m, unsigned, name, FIELD_ENUM, example, help, need, .preset = preset_, \
	    .choices = choices_, .n_choices = ARRAY_SIZE(choices_) - 1)
#define ID(S, m, name, need, noun_, example, help) \
	ROW(S, m, struct id, name, FIELD_ID, example, help, need, .noun = noun_)
#define TIME(S, m, name, need, example, help) \
	ROW(S, m, uint64_t, name, FIELD_TIME, example, help, need)
#define TEXTS(S, m, name, has_, min_, max_, example, help) \
	ROW(S, m, struct field_texts, name, FIELD_TEXTS, example, help, .has = HAS_AT(S, has_), \
	    .min = min_, .max = max_)
#define MAP(S, m, name, need, check_, max_, example, help) \
	ROW(S, m, struct field_map, name, FIELD_MAP, example, help, need, .check = check_, \
	    .max = max_)
#define PATCH(S, m, name, check_, max_, example, help) \
	ROW(S, m, struct field_map, name, FIELD_MAP, example, help, REQ, .check = check_, \
	    .max = max_, .patch = true)
#define OBJ(S, m, name, sub_, help) \
	ROW(S, m, struct sub_, name, FIELD_OBJECT, NULL, help, .sub = &sub_##_table)
#define REQOBJ(S, m, name, sub_, help) \
	ROW(S, m, struct sub_, name, FIELD_OBJECT, NULL, help, .sub = &sub_##_table, REQ)
#define HASOBJ(S, m, name, has_, sub_, help) \
	ROW(S, m, struct sub_, name, FIELD_OBJECT, NULL, help, .sub = &sub_##_table, \
	    .has = HAS_AT(S, has_))
#define LIST(S, m, name, sub_, max_, help) \
	ROW(S, m, struct field_list, name, FIELD_LIST, NULL, help, .sub = &sub_##_table, REQ, \
	    .max = max_)

#include "ops/schemas.def"

const struct field_table *const field_tables[] = {
#define CAY_SCHEMA(s) &s##_table,
#include "ops/schemas.list.def"
#undef CAY_SCHEMA
	NULL,
};
