/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_MCP_BRIDGE_RPC_H
#define CAY_CLI_MCP_BRIDGE_RPC_H
/*
 * bridge-rpc - JSON-RPC messages of MCP between stdio and HTTP
 *
 * The bridge checks that a text is a message, which request it answers, and which members
 * HTTP headers repeat.  It never re-encodes a message: the text is forwarded in one line.
 */
#include "base/buf.h"
#include "text/json.h"

#define RPC_MAX MIB(4)
#define RPC_VERSION_MAX 32 /* of the protocol, with the final 0 */

enum bridge_rpc_code {
	RPC_UNREADABLE = -32700,
	RPC_NO_REQUEST = -32600,
	RPC_SERVER = -32000, /* HTTP failed instead of an answer */
};

struct bridge_rpc {
	json_t *tree;
	const char *method; /* NULL: an answer */
	const json_t *id;   /* NULL: a notification */
};

#define auto_rpc CAY_CLEANUP(bridge_rpc_fini) struct bridge_rpc

/* On failure, *ret_code is the JSON-RPC error code. */
[[nodiscard]] int bridge_rpc_parse(struct slice text, struct bridge_rpc *ret,
				   enum bridge_rpc_code *ret_code, struct cay_err *err);
void bridge_rpc_fini(struct bridge_rpc *m);

/* The HTTP headers for the message.  version: as negotiated, or "". */
[[nodiscard]] int bridge_rpc_format_headers(const struct bridge_rpc *m, const char *version,
					    struct buf *out, struct cay_err *err);
/* The protocol version in the answer to "initialize"; "" when it has none. */
void bridge_rpc_read_version(const struct bridge_rpc *answer, char ret[static RPC_VERSION_MAX]);
/* The id of the request that a message cancels, or NULL. */
const json_t *bridge_rpc_find_cancelled_id(const struct bridge_rpc *m);
bool bridge_rpc_is_answer_to(const struct bridge_rpc *m, const json_t *id);

/* Append the text of a valid message as one line. */
[[nodiscard]] int bridge_rpc_format_line(struct slice text, struct buf *out);
/* Append an error answer; id may be NULL. */
[[nodiscard]] int bridge_rpc_format_error(const json_t *id, enum bridge_rpc_code code,
					  const struct cay_err *why, const char *hint,
					  struct buf *out);
#endif
