/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_EXEC_SESSION_H
#define CAY_CLI_EXEC_SESSION_H
/*
 * session - run a command in a sandbox as if it ran locally
 *
 * Starts it with exec.run, copies its output, forwards standard input and signals, and
 * reports how it ended.  One poll loop; output that cannot be written is not read, so a slow
 * terminal slows the command and at most 64 KiB are held.
 *
 * When a connection breaks, output continues by offset through exec.output, one connection for each
 * stream, after up to SESSION_TRIES attempts in a row without a byte; more over a context.
 */
#include "cli/client/api.h"

#define SESSION_TRIES 5
#define SESSION_TRIES_FAR 8 /* 13 s: enough for a cay-edge to restart */

struct session_spec {
	struct id sandbox;
	struct exec_run request;
	const struct api_call
		*start; /* an operation that replies as exec.run, instead of it; or NULL */
	bool forward_stdin;
	bool discard; /* drop the output; first_ns is still set */
	/* show the output of an exec started before: request is ignored, signals are not
	 * forwarded */
	bool watch_existing;
	struct id exec;
	unsigned streams; /* STREAM_BIT()s to show */
	uint64_t offset;  /* of their first byte */
	bool once;        /* show the output so far; do not wait for the end */
};

struct session_result {
	struct end end;
	struct id exec;
	uint64_t first_ns; /* boot time of the first byte of output; 0: none */
	int quit;          /* 0, or the exit status after leaving before the command ended */
};

[[nodiscard]] int session_run(struct api *a, const struct session_spec *spec,
			      struct session_result *ret, struct cay_err *err);
/* How often in a row a broken connection is opened again. */
unsigned session_tries_max(const struct api *a);
/* How long to wait before this try: the first comes at once, each later one doubles. */
uint64_t session_backoff_ns(unsigned tries);
/* Whether a failure with this result is of the connection and not of the exec. */
bool session_can_reconnect(int r, const struct cay_err *why);
/* An end frame's JSON. */
[[nodiscard]] int session_end_decode(struct api *a, struct slice json, struct end *ret,
				     struct cay_err *err);
/* The exit status for an end; details go to stderr. */
int exit_status_from_end(const struct end *end, uint64_t ran_ms);
/* 128 plus the number of "SIGTERM"; 255 for an unknown name. */
int exit_status_from_signal(const char *name);
#endif
