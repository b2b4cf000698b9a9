/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_EXEC_ATTACH_CLIENT_H
#define CAY_CLI_EXEC_ATTACH_CLIENT_H
/*
 * attach-client - exec.attach: frames over the local socket, or in a WebSocket
 *
 * The local daemon carries the frames of wire/attach.h bare, an edge in a WebSocket; callers
 * see no difference.  Only attach_client_open() blocks: poll http, call http_client_flush()
 * and http_client_receive(), and read frames until there is none.
 */
#include "cli/client/api.h"
#include "wire/attach.h"

struct attach_client {
	struct http_client http;
	bool is_websocket;
	size_t at;     /* bytes of http.body already read */
	bool finished; /* after FRAME_END or FRAME_ERROR */
};

#define ATTACH_CLIENT_INIT ((struct attach_client){ .http = HTTP_INIT })

[[nodiscard]] int attach_client_open(struct attach_client *t, struct api *a,
				     const struct id *sandbox, const struct id *exec,
				     const struct exec_attach_query *q, struct cay_err *err);
void attach_client_fini(struct attach_client *t);
/* 1: the next frame, whose content is valid until the next call; 0: none has arrived.
 * -ECONNRESET: reconnect; -EPROTO, -EACCES: do not. */
[[nodiscard]] int attach_client_next_frame(struct attach_client *t, struct frame *ret,
					   struct cay_err *err);
[[nodiscard]] int attach_client_send_frame(struct attach_client *t, const struct frame *f,
					   struct cay_err *err);
#endif
