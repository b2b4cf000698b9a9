/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_EDGE_H
#define CAY_EDGE_EDGE_H
/*
 * edge - the world's door
 *
 *	main.c    start, listen, drain
 *	control-feed.c    what control says, and what it is told
 *	control-state.c   what that amounts to
 *	admission.c    may this request come in: Host, Origin, how often
 *	authenticate.c     whose it is: keys, tokens, JWTs
 *	route.c   where it goes: into a sandbox, or to control
 *	mcp-forward.c     /mcp: to cay-mcp, which asks back
 *	edge-preview.c ports of sandboxes: below a path, and on hosts of their own
 *	live-request.c   who is under way, for as long as it may
 *	edge-attach.c  a WebSocket of the world's, frames of a sandbox's
 *	attach-raw.c     the same for who knows no frames
 *	rate.c    how often somebody may
 *	refusal.c who was refused, until control is told
 *	counters.c   what it counts of itself, told to control too
 *	load-shed.c    whose requests are done when there are too many
 *
 * It holds no database and no keeper's socket, and needs control only for what control
 * does: requests into running sandboxes go on while control is away.  What comes from
 * a sandbox is moved and never looked into.
 */
#include <uv.h>

#include "auth/jwks.h"
#include "auth/preview.h"
#include "auth/token.h"
#include "base/clock.h"
#include "base/log.h"
#include "edge/control-state.h"
#include "edge/counters.h"
#include "edge/live-request.h"
#include "edge/load-shed.h"
#include "edge/rate.h"
#include "edge/refusal.h"
#include "net/relay.h"
#include "ops/settings.h"

#define EDGE_LISTENERS 8

struct edge_attach;
struct control_feed;

struct edge {
	struct settings settings;
	struct preview_base preview_base; /* domain "": there are none */
	struct log log;
	const struct clk *clk;
	uv_loop_t loop;
	struct control_state *control_state;
	struct control_feed *control_feed;
	struct upstream_pool *control;
	struct jwks *jwks; /* NULL: no JWT is believed */
	struct rate_limiter *failure_rates, *tenant_rates, *anonymous_rates;
	struct load_shed load_shed;
	uv_prepare_t round; /* of the loop, and when and how idle it was at its last */
	uint64_t round_ns, idle_ns, refusing_ns;
	uint16_t control_requests[RATE_BUCKETS]; /* requests at control, by tenant */
	struct refusals refusals;
	struct edge_counters counters;
	struct live_request *live_requests;
	unsigned n_live_requests;
	uv_timer_t live_requests_timer;
	struct conn_layer *tls; /* NULL: plain */
	struct server_conf conf;
	struct server *servers[EDGE_LISTENERS];
	unsigned n_servers;
	int listen_fds[EDGE_LISTENERS]; /* the servers' once they serve */
	unsigned n_listen_fds;
	char addresses[EDGE_LISTENERS][64]; /* those of listen, as a Host header has them */
	struct edge_attach *attaches;
	/* cay-mcp (NULL: there is none), and where it asks back */
	struct upstream_pool *mcp;
	unsigned mcp_slot;
	int mcp_callback_fd;
	struct server_conf mcp_callback_conf;
	struct server *mcp_callback_server;
	bool draining;
};

/* control-feed.c: dial control, now and whenever it is away. */
[[nodiscard]] int control_feed_start(struct edge *e, struct cay_err *err);
/* Control is there and says nothing: it hangs, or was stopped. */
bool control_feed_is_hung(const struct edge *e);

/* admission.c, authenticate.c: conf->admit of the servers, which leaves a struct credential as the
 * request's data; and whether a header names one of ours. */
request_admit admission_admit_request;
void admission_measure_loop_round(struct edge *e);
bool on_edge_request_answered(struct request *rq, int status, enum cay_code code, bool whole,
			      void *arg);
/* Somebody has shown what it has, r says whether that is good: how often it may.  May fail
 * with another reason than r's. */
[[nodiscard]] int admission_check_authenticated(struct edge *e, struct request *rq, int r,
						struct cay_err *err);
/* The same as admission_admit_request() of what is no operation, but wants a credential. */
[[nodiscard]] int admission_admit_non_operation(struct edge *e, struct request *rq,
						struct cay_err *err);
bool admission_host_is_ours(const struct edge *e, struct slice host);
bool admission_origin_is_allowed(const struct edge *e, struct slice origin);
/* The one credential of a request. */
[[nodiscard]] int credential_find_bearer(const struct http_head *h, struct slice *ret,
					 struct cay_err *err);
/* Whose request it is, and by what.  CAY_E_UNAUTHENTICATED with the reason, for the log.
 * Not dear: nothing is looked at that takes longer than saying no, which is CAY_E_RATE. */
[[nodiscard]] int authenticate_request(struct edge *e, const struct http_head *head, bool dear,
				       struct actor *ret, struct credential *ret_by,
				       struct cay_err *err);
/* The token of a preview, which must be of that port. */
[[nodiscard]] int authenticate_preview_token(struct edge *e, struct slice text,
					     const struct id *sandbox, uint16_t port,
					     struct actor *ret, struct credential *ret_by,
					     struct cay_err *err);
/* Whether that takes long to find out. */
bool credential_is_expensive(const struct edge *e, const struct http_head *head);

/* route.c: the handler of everything; and conf->stray of the servers. */
request_fn route_request;
request_fn *route_find_special_handler(struct request *rq, void *arg);

/* mcp-forward.c: what is for cay-mcp; where that is, and its way back, before and when it serves.
 */
request_fn *mcp_forward_find_handler(struct request *rq, void *arg);
[[nodiscard]] int mcp_forward_open(struct edge *e, struct cay_err *err);
[[nodiscard]] int mcp_callback_serve(struct edge *e, struct cay_err *err);

/* edge-preview.c: what is for a port; and what edge.previews says, when it starts. */
request_fn *edge_preview_find_handler(struct request *rq, void *arg);
[[nodiscard]] int edge_preview_open(struct edge *e, struct cay_err *err);

/* edge-attach.c: carry the request as conf says and go on as a WebSocket; takes it.  Or it is
 * no WebSocket's (CAY_E_UPGRADE, CAY_E_INVALID): nothing happened.  From when it is one
 * until conf->done, *hold is it, and conf->hold nothing. */
[[nodiscard]] int edge_attach_start(struct edge *e, struct request *rq, struct relay_conf *conf,
				    struct edge_attach **hold, struct cay_err *err);
/* Whoever has it may not any more, or the sandbox is gone. */
void edge_attach_terminate(struct edge_attach *a, const struct cay_err *why);
/* Every one ends; who has one comes back to another edge. */
void edge_attach_drain_all(struct edge *e);
#endif
