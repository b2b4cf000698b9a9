/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_MCP_RPC_H
#define CAY_MCP_MCP_RPC_H
/*
 * mcp-rpc - parse a JSON-RPC message of MCP, and write replies
 *
 * Two protocol versions share one path.  Modern (2026-07-28): every request has its version and
 * capabilities in _meta, headers repeat what intermediaries route by, and there is no state.
 * Legacy (2025-11-25, 2025-06-18): initialize first; the version is a header from then on.  A
 * request that claims to be modern in either place must be so in both: a mismatch of header
 * and body is refused, because two readers would interpret it differently.
 *
 * Pure.  Bounded: RPC_BYTES, RPC_DEPTH, RPC_VALUES; no batches.
 */
#include "base/jsonw.h"
#include "text/json.h"

#define RPC_BYTES MIB(1)
#define RPC_DEPTH 32
#define RPC_VALUES 16384
#define RPC_ID_MAX 256 /* of a textual id or progress token */

#define RPC_MODERN "2026-07-28"
#define RPC_LEGACY "2025-11-25"
extern const char *const rpc_versions[]; /* newest first, ended by NULL */

enum rpc_method {
	RPC_NONE,
#define CAY_RPC(sym, name, modern, legacy, has_id) RPC_##sym,
#include "mcp/methods.def"
#undef CAY_RPC
	RPC_NUM
};

enum {
	RPC_PARSE = -32700,
	RPC_INVALID = -32600,
	RPC_NO_METHOD = -32601,
	RPC_PARAMS = -32602,
	RPC_INTERNAL = -32603,
	RPC_HEADER = -32020,
	RPC_VERSION = -32022,
	RPC_CANCELLED_CODE = -32800,
};

/* A string; p NULL: none. */
static inline struct slice json_slice(const json_t *j)
{
	return (struct slice){ json_string_value(j), json_string_length(j) };
}

/* The relevant headers; p NULL: absent. */
struct mcp_rpc_headers {
	struct slice version, method, name;
};

struct mcp_rpc {
	json_t *message; /* owns the members below */
	json_t *id;      /* NULL: a notification */
	json_t *params;  /* an object, or NULL */
	json_t *progress;
	enum rpc_method method;
	bool modern;
};

/* A refusal.  status is HTTP's; version: the requested one, for RPC_VERSION. */
struct mcp_rpc_fault {
	int code, status;
	char msg[CAY_ERR_MSG_MAX];
	char version[64];
};

/* -EINVAL with the fault; *ret is filled as far as known even then, for the reply. */
[[nodiscard]] int mcp_rpc_parse(struct slice body, const struct mcp_rpc_headers *h,
				struct mcp_rpc *ret, struct mcp_rpc_fault *fault);
void mcp_rpc_fini(struct mcp_rpc *r);

/* {"jsonrpc":"2.0","id":...,"result":{ ... }}: the caller writes the members.  A modern result
 * begins with its type and the server's name. */
void mcp_rpc_begin_result(const struct mcp_rpc *r, struct jw *w);
void mcp_rpc_end_result(struct jw *w);
void mcp_rpc_write_server_info(const char *key, struct jw *w);
void mcp_rpc_write_versions(const char *key, struct jw *w);
void mcp_rpc_write_fault(const struct mcp_rpc *r, const struct mcp_rpc_fault *fault, struct jw *w);
/* A progress notification; ms: elapsed time. */
void mcp_rpc_write_progress(const struct mcp_rpc *r, uint64_t ms, const char *says, struct jw *w);

/* Compare a header's value, which may be base64-encoded; false when malformed. */
[[nodiscard]] bool mcp_rpc_header_equals(struct slice value, struct slice want);
#endif
