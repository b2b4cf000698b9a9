/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_TRANSFER_TRANSFER_H
#define CAY_CLI_TRANSFER_TRANSFER_H
/*
 * carry - one operation whose body, or whose reply, is bytes of files
 *
 * Blocking, with the callbacks of archive/tar.h, and a bar on stderr when that is a terminal.
 * A daemon that answers before it has everything refuses: sending stops, and its answer is
 * what is told.  A reply that ends in the middle is a failure, however much of it came.
 *
 * Bounded: one piece out, HTTP_PIECE in; no byte for the context's time-out ends it.
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

/* total: what the bar counts to, 0 when nobody knows. */
[[nodiscard]] int transfer_open(struct transfer *c, struct api *a, const struct api_call *call,
				uint64_t total, struct cay_err *err);
void transfer_fini(struct transfer *c);

/* Out: arg is the carry.  Then the answer, into the struct of the operation's row. */
tar_write_fn transfer_write;
[[nodiscard]] int transfer_finish_send(struct transfer *c, void *ret, struct cay_err *err);

/* In: once the head is there and says that it is files. */
[[nodiscard]] int transfer_receive_head(struct transfer *c, struct cay_err *err);
tar_read_fn transfer_read;
#endif
