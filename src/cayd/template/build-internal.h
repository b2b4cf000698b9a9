/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TEMPLATE_BUILD_INTERNAL_H
#define CAY_CAYD_TEMPLATE_BUILD_INTERNAL_H
/* Shared by build.c and build-run.c. */
#include "auth/key.h"
#include "cayd/template/build.h"

enum build_state { BUILD_STARTING, BUILD_RUNNING, BUILD_COMMITTING, BUILD_FINISHED };

struct build_waiter {
	struct build_waiter *next;
	build_fn *fn;
	void *arg;
};

/* One command. */
struct build_step {
	const char *title;
	struct exec_run run;
	const struct build_file *file; /* its stdin */
	const char *field;             /* the field of the request, for errors */
};

struct build {
	struct build *next;
	struct cayd *cayd;
	enum build_state state;
	char hash[BUILD_HASH_LEN + 1];
	uint8_t egress_hash[KEY_HASH_LEN];
	struct arena arena;
	struct layer_spec spec;
	uint8_t parent[32];
	struct id tenant;           /* none: a template's */
	uint64_t unwaited_since_ns; /* when it had a waiter last, boot clock */
	struct sandbox *sandbox;
	uv_timer_t *timer;
	struct build_waiter *waiters;
	struct build_step *steps;
	size_t n_steps, step;
	/* the command that runs */
	bool call_pending;
	char exec_id[ID_TEXT_LEN + 1]; /* "": none */
	struct buf stdin_pending;      /* bytes left for its stdin */
	uint64_t read[2], written[2];  /* of its two outputs */
	unsigned stream;
	struct exec_info exec_info;
	uint64_t failed_ns; /* boot clock; 0: it has not */
	struct buf log;
	uint64_t log_lost; /* bytes dropped from the beginning */
	unsigned commits;
	uint64_t bytes; /* size of the layer's own files */
};

/* build-run.c: plan the steps; poll the one that runs. */
[[nodiscard]] int build_plan(struct build *b, struct cay_err *err);
void build_continue(struct build *b);
/* build-egress.c: the hash of the policies in `like`, and of a build of theirs. */
[[nodiscard]] int build_egress_get_hash(const struct sandbox_create *like,
					uint8_t ret[static KEY_HASH_LEN]);
/* Give the sandbox of the build the policies in `like`. */
[[nodiscard]] int build_egress_apply(const struct build *b, const struct sandbox_create *like,
				     struct sandbox_create *spec, struct cay_err *err);
/* What the network may have to do with a failure: "" or words for its message. */
void build_egress_describe(const struct build *b, char *ret, size_t size);
/* build.c: all commands have succeeded, or one failed. */
void build_commit(struct build *b);
void build_fail(struct build *b, const struct cay_err *err);
void build_log_append(struct build *b, const char *p, size_t n);
#endif
