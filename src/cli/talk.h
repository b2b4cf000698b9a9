/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_TALK_H
#define CAY_CLI_TALK_H
/*
 * talk - exec.attach from this side: frames over the daemon's socket, or in a WebSocket
 *
 * The local daemon carries the frames of wire/attach.h bare, an edge in a WebSocket; who
 * uses this does not see which.  Nothing blocks but talk_open(): poll talk->http, call
 * http_flush() and http_pull(), and take frames until there is none.
 */
#include "cli/api.h"
#include "wire/attach.h"

struct talk {
	struct http http;
	bool ws;
	size_t at; /* bytes of http.body that were taken */
	bool over; /* the last frame was */
};

#define TALK_INIT ((struct talk){ .http = HTTP_INIT })

[[nodiscard]] int talk_open(struct talk *t, struct api *a, const struct id *sandbox,
			    const struct id *exec, const struct exec_attach_query *q,
			    struct cay_err *err);
void talk_fini(struct talk *t);
/* The next frame; its content is good until the next call.  1; 0: none is here.
 * -ECONNRESET: come back; -EPROTO, -EACCES: do not. */
[[nodiscard]] int talk_next(struct talk *t, struct frame *ret, struct cay_err *err);
/* Queue one. */
[[nodiscard]] int talk_send(struct talk *t, const struct frame *f, struct cay_err *err);
#endif
