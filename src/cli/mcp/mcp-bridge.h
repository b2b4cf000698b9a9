/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_MCP_MCP_BRIDGE_H
#define CAY_CLI_MCP_MCP_BRIDGE_H
/*
 * mcp-bridge - MCP over stdin and stdout, bridged to a server that speaks it over HTTP
 *
 * Each line is a message and becomes a POST; each message of the reply, a body or an event stream,
 * becomes a line.  Nothing else is written to standard output: an HTTP failure becomes a JSON-RPC
 * error for a request, and a line on stderr for a notification.  notifications/cancelled closes the
 * connection of its request, which is how a server over HTTP learns of it.
 *
 * While BRIDGE_CALLS requests are open, or a notification is being sent (to keep messages in
 * order), standard input is not read.  After its end, open requests have the api's timeout
 * to complete.
 */
#include "cli/client/api.h"

#define BRIDGE_CALLS 16

/* target: encoded path and query.  Returns after standard input ended. */
[[nodiscard]] int mcp_bridge_run(struct api *api, const char *target, struct cay_err *err);
#endif
