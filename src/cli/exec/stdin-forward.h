/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_EXEC_STDIN_FORWARD_H
#define CAY_CLI_EXEC_STDIN_FORWARD_H
/*
 * stdin-forward - send standard input to an exec
 *
 *	READ: read and send bytes; REPLY: the body is complete, wait for its reply;
 *	CLOSE: end of file was sent; FINISHED
 *
 * Bytes are the chunked body of exec.stdin on a separate connection.  Standard input is
 * read only when nothing is queued, so a command that does not read stops our writer, and at
 * most STDIN_PIECE bytes are held.  Before a body reaches the operation's limit it is
 * ended and another request begins.  End of file is a separate request.
 */
#include "cli/client/api.h"

#define STDIN_PIECE KIB(16)

enum stdin_state { STDIN_FINISHED, STDIN_READ, STDIN_REPLY, STDIN_CLOSE };

struct stdin_forward {
	struct api *api;
	struct id sandbox, exec;
	enum stdin_state state;
	struct http_client http; /* fd is negative while there is no request */
	uint64_t in_body;        /* bytes of this request */
	bool eof;
	size_t n_early; /* read before the command was started */
	char early[STDIN_PIECE];
};

/* Check standard input without blocking: false if it is at its end or closed. */
[[nodiscard]] bool stdin_forward_init(struct stdin_forward *f, struct api *a);
/* Call once the command runs. */
void stdin_forward_start(struct stdin_forward *f, const struct id *sandbox, const struct id *exec);
/* The events to poll standard input and f->http.fd for. */
void stdin_forward_poll_events(const struct stdin_forward *f, short *ret_stdin, short *ret_http);
/* Send and receive as much as goes without blocking. */
[[nodiscard]] int stdin_forward_continue(struct stdin_forward *f, bool readable, bool readable_http,
					 struct cay_err *err);
#endif
