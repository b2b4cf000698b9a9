/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_EDGE_H
#define CAY_EDGE_EDGE_H
/*
 * edge - the public HTTP endpoint
 *
 *	main.c           start, listen, drain
 *	control-feed.c   the connection to control: records in, reports out
 *	control-state.c  the state those records describe
 *	admission.c      admit a request: Host, Origin, rates
 *	authenticate.c   identify the caller: keys, tokens, JWTs
 *	route.c          forward a request to a sandbox or to control
 *	face.c           programs that the edge forwards to, and that call back
 *	mcp-forward.c    forward /mcp to cay-mcp
 *	e2b-forward.c    forward /e2b to cay-e2b
 *	edge-preview.c   ports of sandboxes: below a path, and on hosts of their own
 *	edge-desktop.c   the screens of sandboxes, on hosts of their own
 *	known-jwt.c      JWTs that were verified before
 *	signature-budget.h time for verifying others
 *	live-request.c   requests in progress, ended when their credential expires
 *	edge-attach.c    a WebSocket of a client, frames of a sandbox
 *	attach-raw.c     the same for clients without frames
 *	rate.c           rate limits
 *	trusted-proxies.c whom a proxy forwards for
 *	refusal.c        refused requests, summed up for control
 *	counters.c       counters of the edge, reported to control
 *	load-shed.c      shed load fairly between tenants
 *
 * The edge has no database and no keeper socket, and needs control only for control's own
 * operations: requests to running sandboxes continue while control is not running.  Data from
 * a sandbox is passed on unread.
 */
#include <uv.h>

#include "auth/jwks.h"
#include "auth/preview.h"
#include "auth/token.h"
#include "base/clock.h"
#include "base/log.h"
#include "edge/control-state.h"
#include "edge/counters.h"
#include "edge/face.h"
#include "edge/known-jwt.h"
#include "edge/live-request.h"
#include "edge/load-shed.h"
#include "edge/rate.h"
#include "edge/refusal.h"
#include "edge/signature-budget.h"
#include "edge/trusted-proxies.h"
#include "net/relay.h"
#include "ops/settings.h"

#define EDGE_LISTENERS 8

struct edge_attach;
struct control_feed;
struct viewer_files;

struct edge {
	struct settings settings;
	struct preview_base preview_base; /* domain "": previews are off */
	struct viewer_files *viewer_files;
	struct trusted_proxies trusted;
	struct log log;
	const struct clk *clk;
	uv_loop_t loop;
	struct control_state *control_state;
	struct control_feed *control_feed;
	struct upstream_pool *control;
	struct jwks *jwks; /* NULL: JWTs are not accepted */
	struct known_jwts *known_jwts;
	struct signature_budget signature_budget;
	struct rate_limiter *failure_rates, *tenant_rates, *anonymous_rates;
	struct load_shed load_shed;
	uv_prepare_t round; /* one loop round; time and idle time of the last */
	uint64_t round_ns, idle_ns, refusing_ns;
	uint16_t control_requests[RATE_BUCKETS]; /* requests at control, by hash of the tenant */
	struct refusals refusals;
	struct edge_counters counters;
	struct live_request *live_requests;
	unsigned n_live_requests;
	uv_timer_t live_requests_timer;
	struct conn_layer *tls; /* NULL: plain */
	struct server_conf conf;
	struct server *servers[EDGE_LISTENERS];
	unsigned n_servers;
	int listen_fds[EDGE_LISTENERS]; /* owned by the servers once they run */
	unsigned n_listen_fds;
	char addresses[EDGE_LISTENERS][64]; /* of edge.listen, as in a Host header */
	struct edge_attach *attaches;
	struct edge_face faces[FACES];
	bool draining;
};

/* control-feed.c: connect to control, and reconnect when it is lost. */
[[nodiscard]] int control_feed_start(struct edge *e, struct cay_err *err);
/* Count a request to a sandbox; control hears at once of one that dozes, and wakes it. */
void control_feed_enter_sandbox(struct edge *e, struct control_state_sandbox *s);
/* Control is connected but silent: it hangs or is stopped. */
bool control_feed_is_hung(const struct edge *e);
/* Control is connected, sends its heartbeat, and has sent its whole state. */
bool control_feed_is_serving(const struct edge *e);

/* admission.c, authenticate.c: conf->admit of the servers sets a struct credential as rq->data.  A
 * request without an operation needs a credential. */
request_admit admission_admit_request;
void admission_measure_loop_round(struct edge *e);
bool on_edge_request_answered(struct request *rq, int status, enum cay_code code, bool, void *arg);
/* Apply the rate limits after authentication, whose result is r; the error may be another. */
[[nodiscard]] int admission_check_authenticated(struct edge *e, struct request *rq, int r,
						struct cay_err *err);
bool admission_host_is_ours(const struct edge *e, struct slice host);
bool admission_origin_is_allowed(const struct edge *e, struct slice origin);
/* The credential of a request; more than one is an error. */
[[nodiscard]] int credential_find_bearer(const struct http_head *h, struct slice *ret,
					 struct cay_err *err);
/* Identify the caller and its credential.  CAY_E_UNAUTHENTICATED with the reason, for the log.
 * For a suspect, whose address sent too many wrong ones, a credential that is costly to verify may
 * be refused with CAY_E_RATE. */
[[nodiscard]] int authenticate_request(struct edge *e, const struct http_head *head, bool suspect,
				       struct actor *ret, struct credential *ret_by,
				       struct cay_err *err);
/* A preview token, which must be for that port. */
[[nodiscard]] int authenticate_preview_token(struct edge *e, struct slice text,
					     const struct id *sandbox, uint16_t port,
					     struct actor *ret, struct credential *ret_by,
					     struct cay_err *err);
/* A token of this sandbox, of scope write. */
[[nodiscard]] int authenticate_sandbox_token(struct edge *e, struct slice text,
					     const struct id *sandbox, struct actor *ret,
					     struct credential *ret_by, struct cay_err *err);
/* Whether verifying it costs more than refusing it. */
bool credential_is_expensive(const struct edge *e, const struct http_head *head);

/* route.c: the handler of all operations, and conf->find_special. */
request_fn route_request;
/* Whether it is the tenant's, and of the actor's group. */
bool route_actor_has_sandbox(const struct actor *a, const struct control_state_sandbox *s);
/* Find the sandbox of the tenant whose name the path has. */
void route_resolve_name(struct edge *e, struct request *rq);
/* False: the sandbox is not running or has that many requests, and the request was refused. */
bool route_check_sandbox(struct edge *e, struct request *rq, const struct control_state_sandbox *s,
			 unsigned most);
request_fn *route_find_special_handler(struct request *rq, void *arg);
/* A WebSocket on a host of previews to the screen; rq->match has the operation. */
void route_to_screen(struct edge *e, struct request *rq, struct control_state_sandbox *s);

/* mcp-forward.c, e2b-forward.c, opensandbox-forward.c: the handlers of /mcp and of paths below
 * /e2b/ and /opensandbox/. */
request_fn *mcp_forward_find_handler(struct request *rq, void *arg);
request_fn *e2b_forward_find_handler(struct request *rq, void *arg);
request_fn *opensandbox_forward_find_handler(struct request *rq, void *arg);
/* The hosts 49983-SANDBOX and 49999-SANDBOX below edge.previews lead to cay-e2b, if it is there. */
bool e2b_forward_serves_port(const struct edge *e, uint16_t port);
request_fn e2b_forward_request;

/* edge-preview.c: the handler of previews; read edge.previews at start. */
request_fn *edge_preview_find_handler(struct request *rq, void *arg);
void on_edge_preview_head_refused(struct request *rq, struct slice head, void *arg);
[[nodiscard]] int edge_preview_open(struct edge *e, struct cay_err *err);

/* edge-desktop.c: a request to the host of a screen, of an authenticated caller. */
void edge_desktop_start(struct edge *e, struct request *rq, struct control_state_sandbox *s);

/* edge-attach.c: relay the request as conf says and continue as a WebSocket; takes it.  Or it is no
 * WebSocket handshake (CAY_E_UPGRADE, CAY_E_INVALID): nothing happened.  Once it is a WebSocket,
 * until conf->done, *hold is set and conf->handle is empty. */
[[nodiscard]] int edge_attach_start(struct edge *e, struct request *rq, struct relay_conf *conf,
				    struct edge_attach **hold, struct cay_err *err);
/* End it: the credential is no longer valid, or the sandbox is gone. */
void edge_attach_terminate(struct edge_attach *a, const struct cay_err *why);
/* End all of them; clients reconnect to another edge. */
void edge_attach_drain_all(struct edge *e);
#endif
