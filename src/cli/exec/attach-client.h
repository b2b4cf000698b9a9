/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_EXEC_ATTACH_CLIENT_H
#define CAY_CLI_EXEC_ATTACH_CLIENT_H
/*
 * talk - exec.attach from this side: frames over the daemon's socket, or in a WebSocket
 *
 * The local daemon carries the frames of wire/attach.h bare, an edge in a WebSocket; who
 * uses this does not see which.  Nothing blocks but attach_client_open(): poll talk->http, call
 * http_client_flush() and http_client_receive(), and take frames until there is none.
 */
#include "cli/client/api.h"
#include "wire/attach.h"

struct attach_client {
	struct http_client http;
	bool is_websocket;
	size_t at;     /* bytes of http.body that were taken */
	bool finished; /* the last frame was */
};

#define ATTACH_CLIENT_INIT ((struct attach_client){ .http = HTTP_INIT })

[[nodiscard]] int attach_client_open(struct attach_client *t, struct api *a,
				     const struct id *sandbox, const struct id *exec,
				     const struct exec_attach_query *q, struct cay_err *err);
void attach_client_fini(struct attach_client *t);
/* The next frame; its content is good until the next call.  1; 0: none is here.
 * -ECONNRESET: come back; -EPROTO, -EACCES: do not. */
[[nodiscard]] int attach_client_next_frame(struct attach_client *t, struct frame *ret,
					   struct cay_err *err);
/* Queue one. */
[[nodiscard]] int attach_client_send_frame(struct attach_client *t, const struct frame *f,
					   struct cay_err *err);
#endif
