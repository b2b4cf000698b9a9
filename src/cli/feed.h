/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_FEED_H
#define CAY_CLI_FEED_H
/*
 * feed - our standard input, on its way to a command's
 *
 *	READ: bytes are read and sent; REPLY: a body is complete, its reply is not
 *	here; CLOSE: end of file was told; OVER
 *
 * Bytes travel as the chunked body of exec.stdin on a connection of their own.
 * Standard input is read only when nothing is queued, so a command that does not
 * read stops whoever writes to us, and FEED_PIECE bytes are held at the most.  A
 * body may not be longer than the operation's limit: before that it is ended and
 * another begun.  End of file is a request of its own that says so.
 */
#include "cli/api.h"

#define FEED_PIECE KIB(16)

enum feed_state { FEED_OVER, FEED_READ, FEED_REPLY, FEED_CLOSE };

struct feed {
	struct api *api;
	struct id sandbox, exec;
	enum feed_state state;
	struct http http; /* fd is negative while no request is under way */
	uint64_t in_body; /* bytes of this request */
	bool eof;
	size_t n_first; /* read before the command was started */
	char first[FEED_PIECE];
};

/* Look at standard input without waiting: whether there is, or may come,
 * something to forward. */
[[nodiscard]] bool feed_begin(struct feed *f, struct api *a);
/* The command runs: bytes may flow. */
void feed_start(struct feed *f, const struct id *sandbox, const struct id *exec);
void feed_fini(struct feed *f);
/* What to poll for: events of standard input and of f->http.fd. */
void feed_events(const struct feed *f, short *ret_stdin, short *ret_http);
/* Move what can be moved. */
[[nodiscard]] int feed_step(struct feed *f, bool readable, bool readable_http, struct cay_err *err);
#endif
