/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_MCP_H
#define CAY_MCP_MCP_H
/*
 * mcp - the face that models see, without any authority of its own
 *
 *	main.c   start, listen, drain
 *	mcp-listener.c   a request of an edge's: what it says of who asks, its body, its end
 *	methods.c  methods: what there is, and which tools
 *	tool-call.c     a tool call: operations asked for, progress, cancellation
 *	mcp-rpc.c    messages (pure), tool*.c the table (pure), tool-run.c, tool-sandbox.c a tool as
 *calls (pure)
 *
 * An edge has checked Host, Origin and credential, and passes the request on together with
 * that credential.  Everything a tool does is a request to the same edge with the same
 * credential: nothing can be done here that could not be done there, and who breaks into
 * this program has what passes through it and no more (docs/adr/0048).
 */
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "mcp/mcp-rpc.h"
#include "mcp/tool-run.h"
#include "net/client-call.h"
#include "net/server.h"

#define MCP_EDGES 64
#define MCP_SESSION_LEN 32
#define MCP_EDGE_HEADER "cay-back"
#define MCP_HOST_HEADER "cay-host"

struct mcp {
	struct settings settings;
	struct log log;
	const struct clk *clk;
	uv_loop_t loop;
	struct server_conf conf;
	struct server *server;
	struct upstream_pool *edges[MCP_EDGES]; /* NULL: not asked yet */
	struct mcp_request *requests;           /* all that are under way */
	uv_timer_t progress_timer;              /* runs while somebody waits for progress */
};

/* One request. */
struct mcp_request {
	struct mcp *mcp;
	struct mcp_request *prev, *next;
	struct request *rq;
	struct buf body;
	struct mcp_rpc rpc;
	unsigned edge;    /* which one asks, and is asked */
	const char *host; /* by which name the client asked it; of the request's pool */
	enum tool_profile profile;
	bool accepts_stream; /* the client takes SSE, ... */
	bool stream_begun;   /* and it has begun */
	uint64_t arrived_ms, progress_due_ms,
		progress_interval_ms; /* ms: when it came; when progress is due, and how often */
	char session[MCP_SESSION_LEN + 1]; /* "": none */
	struct client_call *call;
	bool sandbox_found; /* which sandbox is meant */
	struct tool_run run;
	size_t n_auth;
	char auth[]; /* the credential, as it came; a C string */
};

/* mcp-listener.c */
request_fn *mcp_listener_find_handler(struct request *rq, void *arg);
/* The visit is over: with this answer, whose buffer is emptied; and without one. */
void mcp_request_reply(struct mcp_request *v, int status, struct buf *body);
void mcp_request_reply_fault(struct mcp_request *v, const struct mcp_rpc_fault *fault);
/* A message on its stream, which begins with the first. */
void mcp_request_send_event(struct mcp_request *v, struct buf *body);

/* methods.c */
void mcp_method_dispatch(struct mcp_request *v);

/* tool-call.c */
void tool_call_start(struct mcp_request *v, const struct mcp_tool *t, json_t *args);
/* Somebody wants to hear how it goes on. */
void tool_call_start_progress_timer(struct mcp *m);
/* Nobody wants to know any more. */
void tool_call_cancel(struct mcp_request *v);
#endif
