/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_MCP_H
#define CAY_MCP_MCP_H
/*
 * mcp - the MCP endpoint for models, without any authority of its own
 *
 *	main.c          start
 *	mcp-listener.c  a request of an edge: its caller, its body
 *	methods.c       the methods of MCP
 *	tool-call.c     a tool call: calls of operations, progress
 *	mcp-request.c   reply to a request and free it
 *	mcp-rpc.c       messages (pure)
 *	tool*.c         tools, their arguments, runs and results (pure)
 *	told-ends.c     ended sandboxes that a model knows of (pure)
 *
 * Each of the first five calls only those below it.
 *
 * Start, confinement and the way to the edges are those of every face (face/face.h).
 */
#include <uv.h>

#include "face/face.h"
#include "mcp/mcp-rpc.h"
#include "mcp/tool-run.h"
#include "net/client-call.h"
#include "net/server.h"

#define MCP_STREAM "text/event-stream"
#define MCP_SESSION_LEN 32

struct mcp {
	struct face face;
	struct mcp_request *requests; /* in progress */
	uv_timer_t progress_timer;    /* runs while a request waits for progress */
	struct told_ends told;
};

struct mcp_request {
	struct mcp *mcp;
	struct mcp_request *prev, *next;
	struct request *rq;
	struct buf body;
	struct mcp_rpc rpc;
	unsigned edge;    /* the edge that sent the request, and is called back */
	const char *host; /* Host of the client's request; in the request's arena */
	enum tool_profile profile;
	bool accepts_stream; /* the client accepts SSE */
	bool stream_begun;   /* the reply's stream has begun */
	uint64_t arrived_ms, progress_due_ms, progress_interval_ms;
	char session[MCP_SESSION_LEN + 1]; /* "": none */
	struct client_call *call;
	bool sandbox_found; /* run.sandbox is known, or not needed */
	struct tool_run run;
	size_t n_auth;
	char auth[]; /* the credential, unchanged; a C string */
};

/* mcp-request.c: end a request, with this reply (its buffer is emptied) or without. */
void mcp_request_reply(struct mcp_request *v, int status, struct buf *body);
void mcp_request_reply_fault(struct mcp_request *v, const struct mcp_rpc_fault *fault);
void mcp_request_free(struct mcp_request *v);
/* Send a message on its event stream, which begins with the first. */
void mcp_request_send_event(struct mcp_request *v, struct buf *body);

/* tool-call.c */
void tool_call_start(struct mcp_request *v, const struct mcp_tool *t, json_t *args);

/* methods.c */
void mcp_method_dispatch(struct mcp_request *v);

/* mcp-listener.c */
request_fn *mcp_listener_find_handler(struct request *rq, void *arg);
#endif
