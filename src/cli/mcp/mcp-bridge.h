/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_MCP_MCP_BRIDGE_H
#define CAY_CLI_MCP_MCP_BRIDGE_H
/*
 * bridge - MCP over standard input and output, to a server that speaks it over HTTP
 *
 * A line is a message and becomes a POST; what comes back, a body or a stream of
 * events, becomes lines.  Nothing else is ever written to standard output: a failure
 * of HTTP is an answer of JSON-RPC when somebody waits for one, and a word on stderr
 * when nobody does.  A message says which request it wants to be left off: then that
 * connection is closed, which is how a server over HTTP is told.
 *
 * BRIDGE_CALLS requests are under way at the most; then standard input is not read.
 * Nor is it behind a notification until the server has it, so that they arrive in
 * order.  When standard input ends, what was asked before is still answered, if that
 * takes no longer than the api's timeout.
 */
#include "cli/client/api.h"

#define BRIDGE_CALLS 16

/* target: path and query, encoded.  Until standard input ends. */
[[nodiscard]] int mcp_bridge_run(struct api *api, const char *target, struct cay_err *err);
#endif
