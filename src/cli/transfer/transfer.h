/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_TRANSFER_TRANSFER_H
#define CAY_CLI_TRANSFER_TRANSFER_H
/*
 * transfer - an operation whose body or reply is the content of files
 *
 * Blocking, with the callbacks of archive/tar.h, and a progress bar on stderr when that is a
 * terminal.  A daemon that replies before it has the whole body has refused: sending stops,
 * and its reply is reported.  A reply that ends early is a failure.
 *
 * Bounded: one piece out, HTTP_PIECE in.  Fails when no byte moves for api->timeout_ms.
 */
#include "archive/tar.h"
#include "cli/client/api.h"
#include "cli/print/progress.h"

#define TRANSFER_PIECE KIB(60)

struct transfer {
	struct api *api;
	enum op_id op;
	struct http_client h;
	struct progress bar;
	bool shown;
	uint64_t moved;
	size_t n;
	char piece[TRANSFER_PIECE];
};

/* total: bytes for the progress bar, 0 when not known. */
[[nodiscard]] int transfer_open(struct transfer *c, struct api *a, const struct api_call *call,
				uint64_t total, struct cay_err *err);
void transfer_fini(struct transfer *c);

/* Send; arg is the transfer.  Then decode the reply into the operation's struct. */
tar_write_fn transfer_write;
[[nodiscard]] int transfer_finish_send(struct transfer *c, void *ret, struct cay_err *err);

/* Receive: first the head, which must have the operation's status; then the bytes. */
[[nodiscard]] int transfer_receive_head(struct transfer *c, struct cay_err *err);
tar_read_fn transfer_read;
#endif
