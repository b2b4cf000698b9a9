/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_MCP_BRIDGE_RPC_H
#define CAY_CLI_MCP_BRIDGE_RPC_H
/*
 * rpc - a JSON-RPC message of MCP, as far as a bridge between stdio and HTTP looks
 *
 * What is in a message is nobody's business here but whether it is one, whom it
 * answers, and what HTTP says of it once more in headers.  A message is never written
 * anew: it goes on as it came, in one line.
 */
#include "base/buf.h"
#include "text/json.h"

#define RPC_MAX MIB(4)
#define RPC_VERSION_MAX 32 /* of the protocol, with the 0 behind it */

enum bridge_rpc_code {
	RPC_UNREADABLE = -32700,
	RPC_NO_REQUEST = -32600,
	RPC_SERVER = -32000, /* what HTTP said instead of an answer */
};

struct bridge_rpc {
	json_t *tree;
	const char *method; /* NULL: an answer */
	const json_t *id;   /* NULL: a notification */
};

#define auto_rpc CAY_CLEANUP(bridge_rpc_fini) struct bridge_rpc

/* *ret_code is what is wrong with it. */
[[nodiscard]] int bridge_rpc_parse(struct slice text, struct bridge_rpc *ret,
				   enum bridge_rpc_code *ret_code, struct cay_err *err);
void bridge_rpc_fini(struct bridge_rpc *m);

/* The headers of its request, a line each.  version: of the connection, or "". */
[[nodiscard]] int bridge_rpc_format_headers(const struct bridge_rpc *m, const char *version,
					    struct buf *out, struct cay_err *err);
/* Of the answer to "initialize": what will be spoken; "" when it does not say. */
void bridge_rpc_read_version(const struct bridge_rpc *answer, char ret[static RPC_VERSION_MAX]);
/* The request a message wants to be left off, or NULL. */
const json_t *bridge_rpc_find_cancelled_id(const struct bridge_rpc *m);
/* Whether it answers the request of this id. */
bool bridge_rpc_is_answer_to(const struct bridge_rpc *m, const json_t *id);

/* The text of a message that was read, in one line. */
[[nodiscard]] int bridge_rpc_format_line(struct slice text, struct buf *out);
/* An answer that says what failed; id may be NULL. */
[[nodiscard]] int bridge_rpc_format_error(const json_t *id, enum bridge_rpc_code code,
					  const struct cay_err *why, const char *hint,
					  struct buf *out);
#endif
