/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_TYPES_PROCESS_H
#define CAY_OPS_TYPES_PROCESS_H
/* types-process - processes, listening ports and kernels of a sandbox; a part of types.h */
#include "ops/field.h"

struct process {
	uint64_t pid, ppid, depth;
	const char *user;
	uint64_t uid;
	const char *state, *command;
	uint64_t threads, cpu_ms, cpu_milli, rss_bytes, started_ns, start;
	struct id exec;
};

struct process_list {
	struct field_list processes;
	uint64_t left_out;
};

struct process_signal {
	const char *signal;
	uint64_t start;
	bool has_start, tree;
};

struct process_signalled {
	uint64_t signalled;
};

struct port {
	uint64_t port;
	const char *address;
	bool reached;
	uint64_t uid, pid;
	bool has_pid;
	struct id exec;
};

struct port_list {
	struct field_list ports;
};

struct port_wait_query {
	uint64_t wait_ms;
};

struct port_open {
	uint64_t port;
	bool open;
	uint64_t waited_ms;
};

struct kernel_create {
	const char *language, *name, *cwd, *user;
	struct field_map env;
};

/* The interpreter from which kernels are forked. */
enum loaded_state { LOADED_LOADING, LOADED_READY, LOADED_STALE, LOADED_ENDED, LOADED_FAILED };
struct loaded_kernel {
	unsigned state;
	struct field_map missing;
	const char *why;
};

struct kernel_list {
	struct field_list kernels;
	struct loaded_kernel loaded;
	bool has_loaded;
};

struct kernel_run {
	const char *code, *cwd;
	uint64_t timeout_ms, max_output_bytes, max_results_bytes;
	struct field_map env;
	unsigned keep;
	bool silent, detach;
};

struct kernel_eval {
	const char *language, *name;
	bool restart;
	struct kernel_run run;
};

struct kernel_install {
	struct field_map packages;
	uint64_t timeout_ms, max_output_bytes;
	unsigned keep;
	bool detach;
};

struct kernel_cut {
	const char *mime, *path;
	uint64_t bytes;
};

struct kernel_result {
	bool main, update;
	struct field_map data, metadata;
	const char *display_id;
	struct field_list cut;
};

struct kernel_exception {
	const char *name, *value;
	struct field_texts traceback;
	bool has_traceback, late;
};
#endif
