/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_TYPES_H
#define CAY_OPS_TYPES_H
/*
 * types - requests and replies as C structs; schemas.def has a row per member
 */
#include "ops/field.h"

enum sandbox_state {
	SB_PENDING,
	SB_RUNNING,
	SB_PAUSED,
	SB_SUSPENDED,
	SB_ENDING,
	SB_TERMINATED,
	SB_FAILED,
	SB_NUM_STATES
};

extern const char *const sandbox_state_names[SB_NUM_STATES + 1]; /* ended by NULL */

/* Why something ended; the evidence stands beside it. */
enum end_reason {
	END_EXIT,
	END_SIGNAL,
	END_TIMEOUT,
	END_OOM,
	END_KILLED,
	END_TTL,
	END_IDLE,
	END_QUOTA,
	END_EVICTED,
	END_START_FAILED,
	END_NODE_LOST,
	END_NUM_REASONS
};

extern const char *const end_reasons[END_NUM_REASONS + 1]; /* ended by NULL */

enum on_exit { ON_EXIT_KEEP, ON_EXIT_END, ON_EXIT_NUM };

enum fsck_kind {
#define CAY_FSCK(sym, ...) FSCK_##sym,
#include "ops/fsck.def"
#undef CAY_FSCK
	FSCK_NUM
};

enum exec_state { EXEC_RUNNING, EXEC_ENDED, EXEC_NUM_STATES };
enum exec_output { OUTPUT_AUTO, OUTPUT_BLOCK, OUTPUT_DROP, OUTPUT_SPOOL, OUTPUT_NUM };

/* Rows of the keeper's table of runtimes. */
enum runtime_id { RUNTIME_CRUN, RUNTIME_RUNC, RUNTIME_NUM };
extern const char *const runtime_names[RUNTIME_NUM + 1]; /* ended by NULL */

struct health {
	unsigned status;
	const char *version;
	struct field_texts runtimes;
	bool has_runtimes;
};

struct limits {
	uint64_t memory_bytes, cpu_milli, pids;
};

/* What is to be another. */
struct limits_change {
	uint64_t memory_bytes, cpu_milli, pids;
	bool has_memory, has_cpu, has_pids;
};

struct usage {
	uint64_t memory_bytes, memory_peak_bytes, oom_kills, cpu_ms, throttled_ms, processes;
};

struct sandbox_create {
	const char *image, *name;
	struct field_map labels, env;
	struct limits limits;
	unsigned runtime, on_exit;
	bool wait;
	const char *group;
	struct field_texts entrypoint;
	bool has_entrypoint;
	uint64_t ttl_ms, idle_ms;
	bool has_ttl, has_idle;
};

struct end {
	unsigned reason;
	bool has_exit_code, inferred;
	uint64_t exit_code;
	const char *signal, *detail;
};

struct sandbox {
	struct id id, tenant;
	const char *name, *image;
	unsigned state;
	struct field_map labels;
	struct limits limits;
	unsigned runtime;
	uint64_t created_ns, changed_ns, active_ns, expires_ns;
	bool has_expires;
	const char *group, *entry;
	struct end end;
	bool has_end;
};

/* What the journal keeps of a sandbox beside its struct life. */
struct sandbox_record {
	struct sandbox sandbox;
	struct field_map env;
	struct field_texts entrypoint;
	bool has_entrypoint;
	const char *key, *key_body; /* of the request that made it */
	const char *image_digest;
	uint64_t range;
	struct limits wanted; /* not set yet */
	bool has_wanted;
};

struct sandbox_query {
	uint64_t limit;
	const char *cursor, *state, *group, *name, *label;
};

struct group_query {
	const char *group;
};

struct sandbox_extend {
	uint64_t ttl_ms;
};

struct sandbox_labels {
	struct field_map labels;
};

struct event {
	uint64_t seq, at_ns;
	struct id tenant, sandbox;
	const char *group;
	unsigned state;
	struct end end;
	bool has_end;
};

struct event_query {
	uint64_t after, limit;
	const char *sandbox, *group;
	bool follow;
};

struct event_list {
	struct field_list events;
	uint64_t next;
	uint64_t missed_until;
	bool has_missed;
};

struct fsck_row {
	struct id sandbox;
	unsigned kind;
	const char *detail;
	bool repaired;
};

struct fsck_list {
	uint64_t checked;
	struct field_list findings;
};

struct audit_row {
	uint64_t seq, wall_ns;
	const char *tenant, *key, *op, *target, *outcome, *request_id, *peer, *detail;
	uint64_t count;
	bool has_count;
	const char *head, *prev;
};

struct audit_list {
	struct field_list records;
	const char *next_cursor;
};

struct audit_head {
	uint64_t count;
	const char *head;
};

struct page_query {
	uint64_t limit;
	const char *cursor;
};

struct sandbox_list {
	struct field_list sandboxes;
	const char *next_cursor;
};

struct exec_run {
	struct field_texts argv;
	bool has_argv;
	const char *shell, *cwd, *user, *stdin_text;
	struct field_map env;
	uint64_t timeout_ms;
	unsigned output;
	bool detach, stdin_open;
};

struct exec {
	struct id id;
	unsigned state;
	uint64_t started_ns, ended_ns;
	uint64_t stdout_bytes, stderr_bytes;
	const char *stdout_text, *stdout_b64, *stderr_text, *stderr_b64;
	uint64_t stdout_offset, stderr_offset;
	bool has_stdout, has_stderr; /* only in the reply to who waited */
	struct end end;
	bool has_end;
};

struct exec_list {
	struct field_list execs;
};

struct exec_output_query {
	unsigned stream;
	uint64_t offset, limit;
	bool follow;
};

struct exec_stdin_query {
	bool close;
};

struct exec_attach_query {
	uint64_t stdout_offset, stderr_offset;
	bool acks;
};

struct exec_signal {
	const char *signal;
};

struct image {
	struct id id;
	const char *name, *digest;
	uint64_t size_bytes, created_ns;
};

struct image_list {
	struct field_list images;
	const char *next_cursor;
};

struct image_import_query {
	const char *name;
};

struct image_config {
	struct field_map env;
	const char *user, *cwd;
};

struct claim {
	struct field_map env;
	const char *user, *cwd;
};

struct tenant {
	struct id id;
	const char *name;
	uint64_t created_ns;
};

struct tenant_create {
	const char *name;
};

struct tenant_list {
	struct field_list tenants;
	const char *next_cursor;
};

/* What a key may be good for: enum op_scope from SCOPE_READ on. */
enum key_scope { KEY_READ, KEY_WRITE, KEY_OPERATOR, KEY_NUM_SCOPES };

struct key_create {
	struct id tenant;
	const char *name;
	unsigned scope;
	uint64_t ttl_ms;
	bool has_ttl;
};

struct key {
	struct id id, tenant;
	const char *name, *prefix;
	unsigned scope;
	uint64_t created_ns, expires_ns, used_ns, old_until_ns;
	bool has_expires, revoked;
};

struct key_made {
	struct key key;
	const char *secret;
};

struct key_rotate {
	uint64_t overlap_ms;
};

struct key_list {
	struct field_list keys;
	const char *next_cursor;
};

/* What the journal keeps of a key. */
struct key_record {
	struct key key;
	const char *hash, *old_hash;
};

struct token_create {
	unsigned scope; /* enum op_scope from SCOPE_READ on, without operator */
	uint64_t ttl_ms;
};

struct token_made {
	const char *token;
	uint64_t expires_ns;
};

struct error_details {
	const char *node;
};

struct error_object {
	unsigned code; /* enum cay_code less one: "ok" is no error */
	const char *message, *hint, *field, *request_id;
	bool retryable;
	struct error_details details;
	bool has_details;
};

struct error_body {
	struct error_object error;
};

#define CAY_SCHEMA(s) extern const struct field_table s##_table;
#include "ops/schemas.list.def"
#undef CAY_SCHEMA

/* Every table, in the order of schemas.list.def, ended by NULL. */
extern const struct field_table *const field_tables[];
#endif
