/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_EXEC_STDIN_FORWARD_H
#define CAY_CLI_EXEC_STDIN_FORWARD_H
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
#include "cli/client/api.h"

#define STDIN_FORWARD_PIECE KIB(16)

enum stdin_forward_state {
	STDIN_FORWARD_FINISHED,
	STDIN_FORWARD_READ,
	STDIN_FORWARD_REPLY,
	STDIN_FORWARD_CLOSE
};

struct stdin_forward {
	struct api *api;
	struct id sandbox, exec;
	enum stdin_forward_state state;
	struct http_client http; /* fd is negative while no request is under way */
	uint64_t in_body;        /* bytes of this request */
	bool eof;
	size_t n_early; /* read before the command was started */
	char early_bytes[STDIN_FORWARD_PIECE];
};

/* Look at standard input without waiting: whether there is, or may come,
 * something to forward. */
[[nodiscard]] bool stdin_forward_init(struct stdin_forward *f, struct api *a);
/* The command runs: bytes may flow. */
void stdin_forward_start(struct stdin_forward *f, const struct id *sandbox, const struct id *exec);
void stdin_forward_fini(struct stdin_forward *f);
/* What to poll for: events of standard input and of f->http.fd. */
void stdin_forward_poll_events(const struct stdin_forward *f, short *ret_stdin, short *ret_http);
/* Move what can be moved. */
[[nodiscard]] int stdin_forward_continue(struct stdin_forward *f, bool readable, bool readable_http,
					 struct cay_err *err);
#endif
