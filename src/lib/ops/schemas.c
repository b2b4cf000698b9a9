/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/types.h"
#include "wire/verb.h"

static const char *const health_states[] = { "ok", NULL };
static const char *const status_levels[] = { "error", "warning", NULL }; /* of enum log_level */
const char *const sandbox_state_names[SB_NUM_STATES + 1] = {
	[SB_PENDING] = "pending",     [SB_RUNNING] = "running",   [SB_PAUSED] = "paused",
	[SB_SUSPENDED] = "suspended", [SB_STOPPING] = "stopping", [SB_STOPPED] = "stopped",
	[SB_STARTING] = "starting",   [SB_ENDING] = "ending",     [SB_TERMINATED] = "terminated",
	[SB_FAILED] = "failed",       [SB_NUM_STATES] = NULL,
};
const char *const end_reasons[END_NUM_REASONS + 1] = {
#define CAY_REASON(sym, name, ...) [END_##sym] = name,
#include "ops/reasons.def"
#undef CAY_REASON
	[END_NUM_REASONS] = NULL,
};
const char *const blame_names[BLAME_NUM + 1] = {
	[BLAME_INFRA] = "infra", [BLAME_CALLER] = "caller", [BLAME_LIMIT] = "limit",
	[BLAME_TASK] = "task",   [BLAME_NUM] = NULL,
};
static const char *const exec_states[] = {
	[EXEC_RUNNING] = "running", [EXEC_ENDED] = "ended", [EXEC_NUM_STATES] = NULL
};
static const char *const exec_outputs[] = {
	[OUTPUT_AUTO] = "auto",   [OUTPUT_BLOCK] = "block", [OUTPUT_DROP] = "drop",
	[OUTPUT_SPOOL] = "spool", [OUTPUT_NUM] = NULL,
};
static const char *const service_states[] = {
	[SERVICE_STOPPED] = "stopped",   [SERVICE_STARTING] = "starting",
	[SERVICE_RUNNING] = "running",   [SERVICE_BACKOFF] = "backoff",
	[SERVICE_STOPPING] = "stopping", [SERVICE_EXITED] = "exited",
	[SERVICE_FATAL] = "fatal",       [SERVICE_NUM_STATES] = NULL,
};
static const char *const service_restarts[] = {
	[SERVICE_NEVER] = "never",
	[SERVICE_ALWAYS] = "always",
	[SERVICE_UNEXPECTED] = "unexpected",
	[SERVICE_NUM_RESTARTS] = NULL,
};
static const char *const session_states[] = {
	[SESSION_STARTING] = "starting", [SESSION_IDLE] = "idle",     [SESSION_BUSY] = "busy",
	[SESSION_ENDED] = "ended",       [SESSION_NUM_STATES] = NULL,
};
static const char *const run_states[] = {
	[RUN_QUEUED] = "queued",
	[RUN_RUNNING] = "running",
	[RUN_ENDED] = "ended",
	[RUN_NUM_STATES] = NULL,
};
static const char *const run_keeps[] = {
	[KEEP_TAIL] = "tail", [KEEP_HEAD] = "head", [KEEP_BOTH] = "both", [KEEP_NUM] = NULL
};
static const char *const storages[STORAGE_NUM + 1] = {
	[STORAGE_DISK] = "disk",
	[STORAGE_MEMORY] = "memory",
	[STORAGE_READ_ONLY] = "read_only",
	[STORAGE_NUM] = NULL,
};
const char *const snapshot_states[SNAPSHOT_NUM + 1] = {
	[SNAPSHOT_CREATING] = "creating",
	[SNAPSHOT_READY] = "ready",
	[SNAPSHOT_DELETING] = "deleting",
	[SNAPSHOT_NUM] = NULL,
};
static const char *const volume_states[] = {
	[VOLUME_CREATING] = "creating",
	[VOLUME_READY] = "ready",
	[VOLUME_DELETING] = "deleting",
	[VOLUME_NUM] = NULL,
};
static const char *const change_kinds[] = { "added", "modified", "deleted", NULL };
static const char *const snapshot_consistencies[] = {
	[SNAPSHOT_FROZEN] = "frozen",
	[SNAPSHOT_STOPPED] = "stopped",
	[SNAPSHOT_NUM_CONSISTENCIES] = NULL,
};
static const char *const pull_states[] = {
	[PULL_ASKING] = "asking", [PULL_PULLING] = "pulling", [PULL_UNPACKING] = "unpacking",
	[PULL_DONE] = "done",     [PULL_FAILED] = "failed",   [PULL_NUM] = NULL,
};
static const char *const egress_actions[] = {
	[EGRESS_SPEC_ALLOW] = "allow",
	[EGRESS_SPEC_ASK] = "ask",
	[EGRESS_SPEC_DENY] = "deny",
	[EGRESS_SPEC_NUM_ACTIONS] = NULL,
};
static const char *const egress_layers[] = { "node",    "tenant",  "template",
					     "sandbox", "answers", NULL };
static const char *const egress_log_verdicts[] = {
	[EGRESS_ALLOWED] = "allow",
	[EGRESS_DENIED] = "deny",
	[EGRESS_FAILED] = "failed",
	[EGRESS_NUM_VERDICTS] = NULL,
};
/* In the order of enum credential_kind of wire/credential-message.h. */
static const char *const credential_kinds[] = {
	"bearer", "basic", "header", "query", "sigv4", NULL
};

static const char *const egress_flow_states[] = { "checking",   "asking", "resolving",
						  "connecting", "open",   NULL };
static const char *const ask_states[] = { "waiting", "allowed", "denied", "expired",
					  "gone",    "nobody",  NULL };
static const char *const ask_kinds[] = { "none", "tls", "http", "other", NULL };
static const char *const ask_remembers[] = {
	[REMEMBER_ONCE] = "once",
	[REMEMBER_SANDBOX] = "sandbox",
	[REMEMBER_GROUP] = "group",
	[REMEMBER_NUM] = NULL,
};
static const char *const screen_actions[] = {
	[SCREEN_MOVE] = "move", [SCREEN_CLICK] = "click",    [SCREEN_DOWN] = "down",
	[SCREEN_UP] = "up",     [SCREEN_DRAG] = "drag",      [SCREEN_SCROLL] = "scroll",
	[SCREEN_KEY] = "key",   [SCREEN_HOLD] = "hold",      [SCREEN_TYPE] = "type",
	[SCREEN_WAIT] = "wait", [SCREEN_FOCUS] = "focus",    [SCREEN_CLOSE] = "close",
	[SCREEN_COPY] = "copy", [SCREEN_NUM_ACTIONS] = NULL,
};
static const char *const screen_buttons[] = {
	[BUTTON_LEFT] = "left", [BUTTON_MIDDLE] = "middle",   [BUTTON_RIGHT] = "right",
	[BUTTON_BACK] = "back", [BUTTON_FORWARD] = "forward", [BUTTON_NUM] = NULL,
};
static const char *const screen_directions[] = {
	[SCROLL_UP] = "up",       [SCROLL_DOWN] = "down", [SCROLL_LEFT] = "left",
	[SCROLL_RIGHT] = "right", [SCROLL_NUM] = NULL,
};
static const char *const preview_screens[] = {
	[SCREEN_WATCH] = "watch", [SCREEN_CONTROL] = "control", [SCREEN_CHOICE_NUM] = NULL
};
static const char *const screen_afters[] = {
	[AFTER_NONE] = "none", [AFTER_SHOT] = "after", [AFTER_NUM] = NULL
};
static const char *const browser_actions[] = {
	[BROWSER_NAVIGATE] = "navigate", [BROWSER_BACK] = "back",
	[BROWSER_FORWARD] = "forward",   [BROWSER_RELOAD] = "reload",
	[BROWSER_CLICK] = "click",       [BROWSER_HOVER] = "hover",
	[BROWSER_DRAG] = "drag",         [BROWSER_SCROLL] = "scroll",
	[BROWSER_FILL] = "fill",         [BROWSER_TYPE] = "type",
	[BROWSER_PRESS] = "press",       [BROWSER_UPLOAD] = "upload",
	[BROWSER_EVALUATE] = "evaluate", [BROWSER_WAIT] = "wait",
	[BROWSER_TAB_NEW] = "tab_new",   [BROWSER_TAB_CLOSE] = "tab_close",
	[BROWSER_NUM_ACTIONS] = NULL,
};
static const char *const browser_formats[] = {
	[BROWSER_PNG] = "png", [BROWSER_PDF] = "pdf", [BROWSER_NUM_FORMATS] = NULL
};
static const char *const browser_filters[] = {
	[BROWSER_NONE] = "none",      [BROWSER_VISIBLE] = "visible",
	[BROWSER_ALL] = "all",        [BROWSER_INTERACTIVE] = "interactive",
	[BROWSER_TEXT] = "text",      [BROWSER_MARKDOWN] = "markdown",
	[BROWSER_NUM_FILTERS] = NULL,
};
static const char *const warm_languages[] = { "python", NULL };
static const char *const loaded_states[] = {
	[LOADED_LOADING] = "loading", [LOADED_READY] = "ready",   [LOADED_STALE] = "stale",
	[LOADED_ENDED] = "ended",     [LOADED_FAILED] = "failed", NULL
};
static const char *const on_exits[] = { "keep", "end", NULL };
static const char *const on_expires[] = { "end", "stop", NULL };
static const char *const idle_bys[] = { "requests", "work", NULL };
static const char *const wake_bys[] = { "key", "never", NULL };
static const char *const usage_bys[] = { "tenant", "label", NULL };
static const char *const on_fulls[] = { "refuse", "evict_idle", NULL };
static const char *const on_empties[] = { "create", "fail", NULL };
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
static const char *const template_states[] = {
	[TEMPLATE_READY] = "ready",
	[TEMPLATE_BUILDING] = "building",
	[TEMPLATE_FAILED] = "failed",
	[TEMPLATE_NUM_STATES] = NULL,
};
static const char *const template_changes[] = {
	[TEMPLATE_CREATED] = "created", [TEMPLATE_CHANGED] = "changed",
	[TEMPLATE_BEGUN] = "building",  [TEMPLATE_BUILT] = "built",
	[TEMPLATE_UNBUILT] = "failed",  [TEMPLATE_POOLED] = "pool",
	[TEMPLATE_REMOVED] = "removed", [TEMPLATE_NUM_CHANGES] = NULL,
};
static const char *const file_verbs[] = {
	[FILE_MKDIR] = "mkdir",   [FILE_MOVE] = "move",   [FILE_COPY] = "copy",
	[FILE_DELETE] = "delete", [FILE_CHMOD] = "chmod", [FILE_LINK] = "symlink",
	[FILE_WRITE] = "write",   [FILE_STAT] = "stat",   [FILE_NUM_VERBS] = NULL,
};
static const char *const file_types[] = {
	[FILE_REGULAR] = "file",       [FILE_DIR] = "directory", [FILE_SYMLINK] = "symlink",
	[FILE_FIFO] = "fifo",          [FILE_SOCKET] = "socket", [FILE_CHAR] = "char_device",
	[FILE_BLOCK] = "block_device", [FILE_NUM_TYPES] = NULL,
};
static const char *const find_types[] = { "file", "directory", "any", NULL };
static const char *const link_formats[] = {
	[LINK_TAR] = "tar", [LINK_TAR_GZ] = "tar.gz", [LINK_FILE] = "file", NULL
};
static const char *const export_types[] = {
	[EXPORT_FILE] = "file", [EXPORT_DIR] = "directory", [EXPORT_NUM_TYPES] = NULL
};
static const char *const tree_formats[] = { [TREE_TAR] = "tar", [TREE_TAR_GZ] = "tar.gz", NULL };
static const char *const file_events[] = { "ready",    "created",    "modified", "closed",
					   "deleted",  "moved_from", "moved_to", "attrib",
					   "overflow", "limit",      "gone",     NULL };
static const char *const edit_kinds[] = { "replace", "replace_all", "insert", NULL };
static const char *const exec_streams[] = { "stdout", "stderr", NULL };
static const char *const exec_roles[] = {
	[ROLE_AUTO] = "auto", [ROLE_WATCH] = "watch", [ROLE_TAKE] = "take", [ROLE_NUM] = NULL
};

const char *const disk_names[VERB_DISK_NUM + 1] = {
	[VERB_DISK_NONE] = "none",
	[VERB_DISK_BTRFS] = "btrfs",
	[VERB_DISK_PROJECT] = "project",
	[VERB_DISK_NUM] = NULL,
};

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

const struct field_table *const field_tables[] = {
#define CAY_SCHEMA(s) &s##_table,
#include "ops/schemas.list.def"
#undef CAY_SCHEMA
	NULL,
};

/* A member of another type than its row is a compile error; lint checks the table of a row. */
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

/* For a struct that records which members were given. */
#define END_GIVEN(s, name_, help_) \
	} \
	; \
	static_assert(ARRAY_SIZE(s##_rows) <= 64); \
	const struct field_table s##_table = { name_, \
					       help_, \
					       sizeof(struct s), \
					       s##_rows, \
					       ARRAY_SIZE(s##_rows), \
					       AT(s, given, uint64_t) + 1 };

#define ROW(S, m, CT, name_, type_, example_, help_, ...) \
	{ .name = name_, \
	  .type = type_, \
	  .offset = AT(S, m, CT), \
	  .example = example_, \
	  .help = help_, \
	  __VA_ARGS__ },
#define BOOL(S, m, name, need, preset_, example, help) \
	ROW(S, m, bool, name, FIELD_BOOL, example, help, need, .preset = preset_)
#define NUMBER(type, S, m, name, need, min_, max_, preset_, example, help) \
	ROW(S, m, uint64_t, name, type, example, help, need, .min = min_, .max = max_, \
	    .preset = preset_)
#define U64(...) NUMBER(FIELD_U64, __VA_ARGS__)
#define BYTES(...) NUMBER(FIELD_BYTES, __VA_ARGS__)
#define MILLI(...) NUMBER(FIELD_MILLI, __VA_ARGS__)
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
#define PORTS(S, m, name, has_, min_, max_, example, help) \
	ROW(S, m, struct field_texts, name, FIELD_TEXTS, example, help, .has = HAS_AT(S, has_), \
	    .min = min_, .max = max_, .check = CHECK_PORTS)
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
#define HASBOOL(S, m, name, has_, example, help) \
	ROW(S, m, bool, name, FIELD_BOOL, example, help, .has = HAS_AT(S, has_))
#define HASENUM(S, m, name, has_, preset_, choices_, example, help) \
	ROW(S, m, unsigned, name, FIELD_ENUM, example, help, .has = HAS_AT(S, has_), \
	    .preset = preset_, .choices = choices_, .n_choices = ARRAY_SIZE(choices_) - 1)
#define HASOBJ(S, m, name, has_, sub_, help) \
	ROW(S, m, struct sub_, name, FIELD_OBJECT, NULL, help, .sub = &sub_##_table, \
	    .has = HAS_AT(S, has_))
#define OPTLIST(S, m, name, sub_, max_, help) \
	ROW(S, m, struct field_list, name, FIELD_LIST, NULL, help, .sub = &sub_##_table, OPT, \
	    .max = max_)
#define HASLIST(S, m, name, has_, sub_, max_, help) \
	ROW(S, m, struct field_list, name, FIELD_LIST, NULL, help, .sub = &sub_##_table, \
	    .has = HAS_AT(S, has_), .max = max_)
#define LIST(S, m, name, sub_, max_, help) \
	ROW(S, m, struct field_list, name, FIELD_LIST, NULL, help, .sub = &sub_##_table, REQ, \
	    .max = max_)

#include "ops/schemas.def"
