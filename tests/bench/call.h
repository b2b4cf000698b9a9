/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_BENCH_CALL_H
#define CAY_TESTS_BENCH_CALL_H
/*
 * call - one HTTP request over a unix socket, blocking, as a plain client does it
 *
 * A connection for each request: what is measured has no state from before.  A client of
 * an edge keeps its own.
 * Replies go through the same strict parser as the daemons' requests; one that is
 * not what was asked for is a failure, so that no figure is of a wrong answer.
 */
#include <jansson.h>

#include "http/http.h"

struct call {
	int fd;
	bool kept; /* it is somebody else's */
	struct http_parser parser;
	struct slice rest; /* read and not yet parsed, in `in` */
	char in[KIB(16)];
};

#define auto_call CAY_CLEANUP(call_fini) struct call

struct call_request {
	const char *socket, *method, *target;
	int kept;           /* a connection, when there is no socket's path */
	const char *bearer; /* or NULL */
	const char *accept; /* or NULL */
	const char *body;   /* JSON, or NULL */
	unsigned want;      /* the status; anything else is a failure */
};

/* A connection to a port of this machine. */
[[nodiscard]] int call_dial_port(unsigned port, struct cay_err *err);
/* Connect, send, and read the head of the reply. */
[[nodiscard]] int call_start(struct call *c, const struct call_request *q, struct cay_err *err);
/* The same without the head: read what comes with call_raw(). */
[[nodiscard]] int call_send(struct call *c, const struct call_request *q, struct cay_err *err);
/* The head of what was sent for; another status than this is a failure. */
[[nodiscard]] int call_head(struct call *c, unsigned want, struct cay_err *err);
/* More of the body: 1, or 0 at its end.  *ret lives until the next call. */
[[nodiscard]] int call_more(struct call *c, struct slice *ret, struct cay_err *err);
/* Bytes as they come; 0 at the end of the connection. */
[[nodiscard]] ssize_t call_raw(struct call *c, void *p, size_t n, struct cay_err *err);
void call_fini(struct call *c);

/* The whole of it; *ret is the body as JSON (the caller's), NULL when there is none. */
[[nodiscard]] int call_json(const struct call_request *q, json_t **ret, struct cay_err *err);
#endif
