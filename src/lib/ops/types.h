/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_TYPES_H
#define CAY_OPS_TYPES_H
/* types - requests and replies as C structs; schemas.def has a row per member */
#include "ops/field.h"
#include "ops/types-egress.h"
#include "ops/types-file.h"
#include "ops/types-image.h"
#include "ops/types-process.h"
#include "ops/types-tenant.h"

enum sandbox_state {
	SB_PENDING,
	SB_RUNNING,
	SB_PAUSED,
	SB_SUSPENDED,
	SB_STOPPING,
	SB_STOPPED, /* has its files and no process */
	SB_STARTING,
	SB_ENDING,
	SB_TERMINATED,
	SB_FAILED,
	SB_NUM_STATES
};

extern const char *const sandbox_state_names[SB_NUM_STATES + 1]; /* ended by NULL */

/* Why something ended; the evidence is beside it. */
enum end_reason {
#define CAY_REASON(sym, ...) END_##sym,
#include "ops/reasons.def"
#undef CAY_REASON
	END_NUM_REASONS
};

extern const char *const end_reasons[END_NUM_REASONS + 1]; /* ended by NULL */
extern const char *const blame_names[BLAME_NUM + 1];       /* ended by NULL */

/* Where the writes of a sandbox go. */
enum storage { STORAGE_DISK, STORAGE_MEMORY, STORAGE_READ_ONLY, STORAGE_NUM };

#define APP_PORT 9000 /* of a sandbox that was given none */

enum on_exit { ON_EXIT_KEEP, ON_EXIT_END, ON_EXIT_NUM };
enum on_expire { ON_EXPIRE_END, ON_EXPIRE_STOP, ON_EXPIRE_NUM };
/* A sandbox is idle without a request, or without one and without work of a client. */
enum idle_by { IDLE_BY_REQUESTS, IDLE_BY_WORK, IDLE_BY_NUM };
/* Whose request to its inside starts a stopped sandbox. */
enum wake_by { WAKE_BY_KEY, WAKE_BY_NEVER, WAKE_BY_NUM };
enum on_full { ON_FULL_REFUSE, ON_FULL_EVICT_IDLE, ON_FULL_NUM };

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
extern const char *const disk_names[];                   /* of enum verb_disk; ended by NULL */

/* What to do if no warm sandbox is ready. */
enum on_empty { ON_EMPTY_CREATE, ON_EMPTY_FAIL, ON_EMPTY_NUM };

struct pool_conf {
	uint64_t min, max;
	unsigned on_empty;
};

struct pool_count {
	uint64_t warm, starting, in_use, claimed, failed;
};

struct health {
	unsigned status;
	const char *version;
	struct field_texts runtimes;
	bool has_runtimes;
	unsigned disk; /* enum verb_disk */
	bool has_disk;
	struct pool_count pools;
	bool has_pools;
};

struct limits {
	uint64_t memory_bytes, cpu_milli, pids;
	uint64_t nofile, shm_bytes, output_bytes;
	uint64_t disk_bytes, disk_inodes;
	bool has_disk_bytes, has_disk_inodes; /* in a reply: it is enforced */
	uint64_t given;
};

/* Limits to change. */
struct limits_change {
	uint64_t memory_bytes, cpu_milli, pids;
	uint64_t nofile, shm_bytes, output_bytes;
	uint64_t disk_bytes, disk_inodes;
	bool has_memory, has_cpu, has_pids;
	bool has_nofile, has_shm, has_output;
	bool has_disk_bytes, has_disk_inodes;
};

struct usage {
	uint64_t memory_bytes, memory_peak_bytes, oom_kills, cpu_ms, throttled_ms, processes;
	uint64_t disk_bytes, disk_inodes;
	bool has_disk_bytes, has_disk_inodes;
	struct egress_usage egress;
	bool has_egress;
};

/* Name to version; "" is the newest. */
struct packages {
	struct field_map python, node, r;
};

struct build_file {
	const char *path, *content, *content_b64, *mode, *owner;
};

/* Contents of a layer; their hash identifies it. */
struct layer_spec {
	struct id tenant;
	const char *image; /* "sha256:..." */
	struct field_map env;
	struct field_list files; /* struct build_file */
	struct packages packages;
	struct field_texts setup;
	bool has_setup;
};

struct sandbox_create {
	const char *image, *name;
	struct field_map labels, env;
	struct limits limits;
	unsigned runtime, on_exit, on_full;
	bool wait;
	const char *group;
	struct field_texts entrypoint;
	bool has_entrypoint, image_entrypoint;
	uint64_t ttl_ms, idle_ms, lease_ms, stop_after_ms, rest_ttl_ms;
	bool has_ttl, has_idle, has_lease, has_stop_after, has_rest_ttl;
	uint64_t pause_after_ms;
	bool has_pause_after;
	unsigned on_expire, idle_by, wake;
	bool has_on_expire, has_idle_by, has_wake;
	const char *template;
	struct id snapshot; /* no noun: of the image */
	struct packages packages;
	unsigned storage;
	struct field_texts writable;
	bool has_writable;
	struct field_list services; /* struct service_spec */
	struct field_list kernels;  /* struct warm_kernel */
	struct field_list volumes;  /* struct volume_mount */
	uint64_t app_port;
	bool has_app_port, public_ports;
	const char *timezone;
	struct egress_spec egress;
	bool has_egress;
	struct registry_auth registry_auth;
	bool has_registry_auth;
	uint64_t given;
	/* not of the request: the layer to use in place of the image, and whether the
	 * packages are in it */
	const char *layer;
	bool layered;
	uint64_t disk_ceiling, inode_ceiling;      /* for limits that it leaves out; 0: none */
	uint64_t max_ttl_ms;                       /* longest lifetime; 0: the setting's */
	const struct egress_spec *template_egress; /* which egress can only narrow, or NULL */
	bool template_egress_bounds;    /* it is a snapshot's: no policy for what has none */
	bool egress_is_default;         /* egress is not of the request */
	const struct id *egress_tenant; /* has the bound of its policy; NULL: its own tenant */
	bool is_fork;                   /* the snapshot is not of the request */
};

struct sandbox_fork {
	uint64_t count;
	struct field_map labels, env;
	uint64_t ttl_ms;
	bool has_ttl;
	struct field_texts names;
	bool has_names;
};

/* Used until the end. */
struct used {
	uint64_t cpu_ms, memory_peak_bytes, read_bytes, write_bytes;
	bool has_read, has_write; /* of a process; nothing counts those of a sandbox */
};

struct end {
	unsigned reason;
	bool has_exit_code, inferred;
	uint64_t exit_code;
	const char *signal, *detail;
	uint64_t memory_limit_bytes, memory_peak_bytes;
	bool has_memory_limit, has_memory_peak;
	unsigned blame; /* enum blame */
	bool retryable;
	bool has_blame, has_retryable; /* programs older than the two members send neither */
	struct used used;
	bool has_used;
};

/* What ended: the same reason is blamed differently. */
enum end_of {
	END_OF_PROCESS, /* an exec, a run, a service, an entrypoint */
	END_OF_PID1,    /* the first process of a sandbox, unasked */
	END_OF_SANDBOX, /* a sandbox, by control */
	END_OF_NUM
};

/* Set who is to blame, by the rows of reasons.def. */
void end_judge(struct end *end, enum end_of of);
/* The same for one that failed to start: as the error is. */
void end_judge_failure(struct end *end, enum cay_code code);
/* Name somebody else than the row does. */
void end_judge_as(struct end *end, enum blame blame);

struct sandbox_info {
	struct id id, tenant;
	struct id snapshot; /* no noun: of the image */
	const char *name, *image, *template;
	unsigned state;
	struct field_map labels;
	struct limits limits;
	unsigned runtime;
	uint64_t created_ns, changed_ns, active_ns, expires_ns, lease_ms, lease_until_ns;
	bool has_expires, has_lease, has_lease_until;
	uint64_t stop_after_ms, rest_ttl_ms, held_ns;
	bool has_stop_after, has_rest_ttl, has_held;
	uint64_t pause_after_ms;
	bool has_pause_after, dozing;
	unsigned on_expire, idle_by, wake;
	bool has_on_expire, has_idle_by, has_wake;
	const char *group, *entry;
	struct end end;
	bool has_end;
	unsigned storage;
	struct field_texts writable;
	bool has_writable;
	struct field_list volumes; /* struct volume_mount */
	uint64_t app_port;
	bool public_ports;
	const char *timezone;
	uint64_t cpu_ms;
	bool has_cpu;
	const char *hold; /* static text */
};

/* The part of a sandbox's journal row beside its struct life. */
struct sandbox_record {
	struct sandbox_info sandbox;
	struct field_map env;
	struct field_texts entrypoint;
	bool has_entrypoint;
	struct field_list services, kernels;
	const char *key, *key_body; /* of the request that created it */
	const char *image_digest;
	uint64_t range;
	struct id home;
	uint64_t ttl_ms, rest_left_ms;
	bool has_ttl, has_rest_left;
	bool rolled_back, dozes;
	struct limits wanted; /* not set yet */
	bool has_wanted;
	uint64_t epoch;
	bool has_epoch;
	struct field_list revoked; /* struct revoked */
	struct field_list exports; /* struct export_record */
	struct egress_record egress;
	bool has_egress;
};

struct kept_key_row {
	struct id sandbox, tenant;
	const char *key, *body; /* a hash of the request */
	uint64_t created_ns;
};

struct revoked {
	const char *nonce;
	uint64_t until_s;
};

struct sandbox_revoke {
	const char *link; /* or NULL */
};

struct sandbox_query {
	uint64_t limit;
	const char *cursor, *state, *group, *name, *label;
	struct id tenant; /* no noun: the caller's */
};

struct group_query {
	const char *group;
};

/* Sandboxes to end: those of a group, those with labels, or those of a group with labels. */
struct delete_query {
	uint64_t limit;
	const char *cursor, *group, *label;
	bool has_limit;
};

struct sandbox_extend {
	uint64_t ttl_ms, lease_ms;
	bool has_ttl, has_lease;
};

struct sandbox_rollback {
	struct id snapshot;
};

struct sandbox_hold {
	uint64_t for_ms;
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
	bool has_end, dozing;
	const char *hold;
};

/* The node held a sandbox, or let it go on. */
struct hold_event {
	struct id tenant, sandbox;
	bool held;
	uint64_t free_bytes, reserve_bytes;
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
	struct id sandbox, snapshot; /* snapshot: of that sandbox; no noun: it is the sandbox's */
	struct id volume;            /* it is of this, and of no sandbox */
	unsigned kind;
	const char *detail;
	bool repaired;
};

struct repair_query {
	bool end_foreign;
	uint64_t older_ms;
};

struct fsck_list {
	uint64_t checked;
	bool restarting;
	struct field_list findings;
};

struct status_sandboxes {
	uint64_t pending, running, paused, stopped, ending, max;
};

struct status_row {
	uint64_t wall_ns;
	unsigned level; /* enum log_level */
	const char *message;
};

struct status {
	const char *version;
	uint64_t uptime_ms, edges, tenants, images, creates_waiting;
	bool keeper;
	struct status_sandboxes sandboxes;
	uint64_t cores, load_milli;
	uint64_t memory_total, memory_free, memory_promised, memory_promise_max;
	bool has_memory_promise_max;
	uint64_t disk_total, disk_free;
	bool has_memory_free, has_disk_free;
	struct field_list errors;
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

/* A terminal, requested or existing. */
struct exec_tty {
	uint64_t cols, rows;
	const char *term;
};

struct exec_resize {
	uint64_t cols, rows;
};

enum exec_role { ROLE_AUTO, ROLE_WATCH, ROLE_TAKE, ROLE_NUM };

struct exec_run {
	struct field_texts argv;
	bool has_argv;
	const char *shell, *cwd, *user, *stdin_text;
	struct field_map env;
	uint64_t timeout_ms, max_output_bytes;
	unsigned output, keep;
	bool detach, stdin_open, has_max_output, has_keep;
	struct exec_tty tty;
	bool has_tty;
};

/* The part of longer output that a reply keeps. */
enum run_keep { KEEP_TAIL, KEEP_HEAD, KEEP_BOTH, KEEP_NUM };

/* Output of a command or run on one stream, or the parts of it in a reply. */
struct run_output {
	uint64_t bytes, offset, cut_bytes, cut_offset;
	bool has_bytes, has_offset, has_cut, has_cut_offset;
	const char *text, *b64, *tail, *tail_b64;
};

struct exec_info {
	struct id id;
	unsigned state;
	uint64_t pid; /* of its first process */
	bool has_pid;
	uint64_t started_ns, ended_ns;
	uint64_t stdout_bytes, stderr_bytes;
	struct run_output out, err; /* only in the reply to a request that waited */
	struct end end;
	bool has_end;
	struct exec_tty tty;
	bool has_tty;
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
	unsigned role;
};

struct exec_signal {
	const char *signal;
};

/* Of a shell or kernel. */
enum session_state {
	SESSION_STARTING,
	SESSION_IDLE,
	SESSION_BUSY,
	SESSION_ENDED,
	SESSION_NUM_STATES
};
enum run_state { RUN_QUEUED, RUN_RUNNING, RUN_ENDED, RUN_NUM_STATES };

struct shell_create {
	const char *name, *cwd, *user;
	struct field_map env;
};

struct shell_info {
	struct id id;
	const char *name, *cwd, *why;
	unsigned state;
	uint64_t created_ns, pid, runs, queued, stdout_bytes, stderr_bytes;
	bool has_pid;
	struct end end;
	bool has_end;
};

struct kernel_info {
	struct id id;
	const char *language, *name, *version, *implementation, *cwd, *why;
	unsigned state;
	uint64_t created_ns, pid, runs, queued, restarts, stdout_bytes, stderr_bytes;
	bool has_pid, forked;
	struct end end;
	bool has_end;
};

/* An interpreter that is kept loaded. */
struct warm_kernel {
	unsigned language;
	struct field_texts modules;
	bool has_modules;
};

struct shell_list {
	struct field_list shells;
};

struct shell_run {
	const char *command;
	uint64_t timeout_ms, max_output_bytes;
	unsigned keep;
	bool detach;
};

struct run_info {
	uint64_t number, started_ns, ended_ns;
	unsigned state;
	const char *cwd;
	struct run_output out, err;
	struct end end;
	bool has_end;
	/* of a kernel */
	struct id kernel;
	uint64_t execution_count, results_dropped;
	bool has_execution_count, has_exception, restarted;
	struct field_list results;
	struct kernel_exception exception;
};

struct run_list {
	struct field_list runs;
};

struct run_query {
	uint64_t max_output_bytes;
	unsigned keep;
};

/* Where a service is, in supervisord's words. */
enum service_state {
	SERVICE_STOPPED,
	SERVICE_STARTING,
	SERVICE_RUNNING,
	SERVICE_BACKOFF,
	SERVICE_STOPPING,
	SERVICE_EXITED,
	SERVICE_FATAL,
	SERVICE_NUM_STATES
};
enum service_restart { SERVICE_NEVER, SERVICE_ALWAYS, SERVICE_UNEXPECTED, SERVICE_NUM_RESTARTS };

struct service_put {
	struct field_texts argv;
	bool has_argv, autostart;
	const char *command, *cwd, *user, *exit_codes, *stop_signal;
	struct field_map env;
	unsigned autorestart;
	uint64_t priority, start_ms, start_retries, stop_ms;
};

struct service_spec {
	const char *name;
	struct service_put put;
};

struct service_info {
	const char *name, *source, *error;
	unsigned state, autorestart;
	bool autostart;
	struct field_texts argv;
	bool has_argv;
	uint64_t priority, pid, starts, changed_ns, started_ns, log_start, log_bytes;
	bool has_pid;
	struct end end;
	bool has_end;
};

struct service_list {
	struct field_list services;
	uint64_t left_out;
};

struct service_log_query {
	uint64_t offset, limit;
	bool follow;
};

struct tool {
	const char *name, *path, *version;
};

struct info {
	const char *workspace, *user, *home, *hostname, *os, *os_id, *os_version, *kernel, *arch;
	uint64_t uid, gid;
	struct field_list tools;
};

struct info_query {
	bool versions;
};

struct sandbox_health {
	bool ok;
	uint64_t uptime_ms, port;
	bool has_port;
	const char *detail;
};

struct sandbox_health_query {
	uint64_t port, timeout_ms;
	bool has_port;
};

struct claim {
	struct field_map env;
	const char *user, *cwd;
	uint64_t output_bytes;
	bool has_output;
	struct field_list services, kernels;
	bool has_services, has_kernels;
	bool resolver, has_resolver;
};

/* What PID 1 is told when connections of its sandbox are inspected. */
struct trust {
	const char *ca;
};

struct template_create {
	const char *name;
	struct sandbox_create defaults;
	struct pool_conf pool;
	bool has_pool;
	struct field_list files; /* struct build_file */
	struct packages packages;
	struct field_texts setup;
	bool has_setup;
	struct egress_spec build_egress;
	bool has_build_egress;
};

enum template_state { TEMPLATE_READY, TEMPLATE_BUILDING, TEMPLATE_FAILED, TEMPLATE_NUM_STATES };

struct template_info {
	struct id id;
	const char *name;
	uint64_t created_ns;
	struct sandbox_create defaults;
	struct pool_conf pool;
	struct pool_count now; /* of the pool, in a reply */
	bool has_pool, has_now;
	unsigned state;
	const char *layer, *build, *error;
};

enum template_change {
	TEMPLATE_CREATED,
	TEMPLATE_CHANGED,
	TEMPLATE_BEGUN, /* something is built for it */
	TEMPLATE_BUILT,
	TEMPLATE_UNBUILT,
	TEMPLATE_POOLED,
	TEMPLATE_REMOVED,
	TEMPLATE_NUM_CHANGES
};

struct template_event {
	struct id id;
	const char *name;
	unsigned change, state;
	const char *error;
	struct pool_conf pool;
	bool has_pool;
};

struct template_log_query {
	uint64_t offset;
};

struct template_log {
	unsigned state;
	uint64_t offset, next;
	const char *text;
};

struct template_list {
	struct field_list templates;
	const char *next_cursor;
};

struct error_details {
	const char *node;
};

struct error_object {
	unsigned code; /* enum cay_code less one: "ok" is no error */
	const char *message, *hint, *field, *request_id;
	unsigned blame; /* enum blame */
	bool has_blame, retryable;
	struct error_details details;
	bool has_details;
};

struct error_body {
	struct error_object error;
};

struct sandbox_create_many {
	struct sandbox_create sandbox; /* first: handlers of a create read the body as one */
	uint64_t count;
};

/* Of one of them. */
struct sandbox_outcome {
	uint64_t index;
	struct sandbox_info sandbox;
	struct error_object error;
	bool has_sandbox, has_error;
};

#define CAY_SCHEMA(s) extern const struct field_table s##_table;
#include "ops/schemas.list.def"
#undef CAY_SCHEMA

/* Every table, in the order of schemas.def, ended by NULL. */
extern const struct field_table *const field_tables[];
#endif
