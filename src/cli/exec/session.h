/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_EXEC_SESSION_H
#define CAY_CLI_EXEC_SESSION_H
/*
 * session - a command in a sandbox, from here as if it ran here
 *
 * Starts it with exec.run, passes its output on as it comes, feeds it our
 * standard input, passes signals on, and tells how it ended.  One poll loop
 * moves everything; what cannot be written is not read, so a slow terminal slows
 * the command and 64 KiB are held at the most.
 *
 * A process is not a connection: when the stream breaks it goes on by offset
 * through exec.output, one connection a stream, up to SESSION_TRIES times in a
 * row without a byte; over a context more often.
 */
#include "cli/client/api.h"

#define SESSION_TRIES 5
#define SESSION_TRIES_FAR 8 /* a door that is restarted, a network that is away: 13 s */

struct session_spec {
	struct id sandbox;
	struct exec_run request;
	bool forward_stdin; /* forward our standard input */
	bool discard;       /* the output is not wanted, only when it came */
	/* to see what one that was started before wrote: request is not looked at, and no
	 * signal of ours goes to it */
	bool watch_existing;
	struct id exec;
	unsigned streams; /* STREAM_BIT() of those that are wanted */
	uint64_t offset;  /* of their first byte */
	bool once;        /* what there is now, instead of until it ends */
};

struct session_result {
	struct end end;
	struct id exec;
	uint64_t first_ns; /* boot time of the first byte of output, 0: none came */
	int quit;          /* 0, or the exit status of who left before the command ended */
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
/* The exit status an end becomes; says on stderr what a number cannot. */
int exit_status_from_end(const struct end *end, uint64_t ran_ms);
/* 128 and the number of "SIGTERM"; 255 for a name nobody knows. */
int exit_status_from_signal(const char *name);
#endif
