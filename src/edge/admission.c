/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/key.h"
#include "edge/edge.h"

#define PEER_LEN 16

static const char *const admission_loopback_names[] = { "localhost", "127.0.0.1", "[::1]" };

static bool host_name_equals(struct slice a, struct slice b)
{
	return a.n == b.n && strncasecmp(a.p, b.p, a.n) == 0;
}

static bool word_list_has(const char *words, struct slice want)
{
	struct slice left = slice_of(words);

	while (left.n)
		if (host_name_equals(slice_cut(&left, ' '), want))
			return true;
	return false;
}

/* Without the port; an IPv6 address is in brackets. */
static struct slice host_without_port(struct slice host)
{
	const char *end = host.p[0] == '[' ? memchr(host.p, ']', host.n) : NULL;
	const char *from = end ? end : host.p;
	const char *colon = memchr(from, ':', host.n - (size_t)(from - host.p));

	if (colon)
		host.n = (size_t)(colon - host.p);
	return host;
}

bool admission_host_is_ours(const struct edge *e, struct slice host)
{
	struct slice name = host.n ? host_without_port(host) : host;
	struct slice link = http_origin_parse_host(slice_of(e->settings.edge_public_url));

	if (!name.n)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(admission_loopback_names); i++)
		if (http_equals_nocase(name, admission_loopback_names[i]))
			return true;
	for (unsigned i = 0; i < e->n_servers; i++)
		if (e->addresses[i][0] && http_equals_nocase(name, e->addresses[i]))
			return true;
	/* links we create use edge.public_url */
	return (link.n && host_name_equals(host_without_port(link), name)) ||
	       word_list_has(e->settings.edge_hosts, name);
}

bool admission_origin_is_allowed(const struct edge *e, struct slice origin)
{
	return origin.n && word_list_has(e->settings.edge_origins, origin);
}

/* The client's address, as reported to control; all zero when unknown. */
static void admission_peer_key(const struct edge *e, struct request *rq,
			       uint8_t ret[static PEER_LEN])
{
	struct sockaddr_storage at;

	memset(ret, 0, PEER_LEN);
	if (request_peer_address(rq, &at) < 0 || !net_address_from_socket(&at, ret))
		return;
	if (e->trusted.n)
		trusted_proxies_find_client(&e->trusted, rq->head, ret);
	/* a peer can use any address of its IPv6 network */
	if (!net_address_is_v4(ret))
		memset(ret + 8, 0, 8);
}

/* The key refusals are counted by: the address, or the credential for cay-mcp, which has none. */
static void admission_failure_key(const struct edge *e, struct request *rq,
				  uint8_t ret[static PEER_LEN])
{
	struct slice auth = http_header_find(rq->head, "authorization");
	struct sockaddr_storage at;
	uint8_t hash[32];

	admission_peer_key(e, rq, ret);
	if (!auth.n || request_peer_address(rq, &at) < 0 || at.ss_family != AF_UNIX)
		return;
	key_hash(auth, hash);
	memcpy(ret, hash, PEER_LEN);
}

static int admission_check_load(struct edge *e, enum load_shed_kind kind, const void *who, size_t n,
				uint64_t now, struct cay_err *err)
{
	return load_shed_try_admit(&e->load_shed, kind, who, n, now)
		       ? 0
		       : cay_fail(err, CAY_E_OVERLOADED, "the server is overloaded");
}

/* Measure the busy time of a loop round, or of the part since the last call. */
void admission_measure_loop_round(struct edge *e)
{
	uint64_t now = clk_boot_ns(e->clk), idle = uv_metrics_idle_time(&e->loop);
	uint64_t all = now - e->round_ns, waited = idle - e->idle_ns, refusing = 0;

	for (unsigned i = 0; i < e->n_servers; i++)
		refusing += server_refusing_ns(e->servers[i]);
	load_shed_add_loop_round(&e->load_shed, all > waited ? all - waited : 0,
				 refusing - e->refusing_ns, now);
	e->refusing_ns = refusing;
	e->round_ns = now;
	e->idle_ns = idle;
}

static int admission_refuse_peer_rate(struct edge *e, const uint8_t peer[static PEER_LEN],
				      struct cay_err *err)
{
	refusal_add(&e->refusals, PUSH_TOO_OFTEN, peer, NULL);
	e->counters.now.refused[METRICS_PEER_RATE]++;
	*err = (struct cay_err){};
	return cay_fail(err, CAY_E_RATE, "too many requests from this address");
}

/* Anonymous requests are served by control, which has one thread. */
static int admission_check_anonymous(struct edge *e, struct request *rq, struct cay_err *err)
{
	uint64_t now = clk_boot_ns(e->clk);
	uint8_t peer[PEER_LEN];

	admission_peer_key(e, rq, peer);
	if (!rate_limiter_try_acquire(e->anonymous_rates, peer, sizeof(peer), now))
		return admission_refuse_peer_rate(e, peer, err);
	return admission_check_load(e, SHED_STRANGER, NULL, 0, now, err);
}

static int admission_authenticate(struct edge *e, struct request *rq, struct credential *by,
				  struct cay_err *err)
{
	uint64_t now = clk_boot_ns(e->clk);
	uint8_t share[PEER_LEN];
	bool suspect;
	int r = 0;

	admission_failure_key(e, rq, share);
	/* under load, new signatures are not verified for a caller over its share */
	if (credential_is_expensive(e, rq->head))
		r = admission_check_load(e, SHED_STRANGER, share, sizeof(share), now, err);
	if (r < 0)
		return r;
	suspect = rate_limiter_is_exhausted(e->failure_rates, share, sizeof(share), now);
	r = authenticate_request(e, rq->head, suspect, &rq->actor, by, err);
	return admission_check_authenticated(e, rq, r, err);
}

/* Limit the caller to the group it names. */
static int admission_apply_group(struct request *rq, struct cay_err *err)
{
	struct slice group = http_header_find(rq->head, ACTOR_GROUP_HEADER);
	int r = group.p ? actor_set_group(&rq->actor, group) : 0;

	if (r == -EACCES) {
		(void)cay_fail(err, CAY_E_FORBIDDEN, "the credential is bound to another group");
		cay_err_hint(err, "leave the group out, or use a key of that group");
		return -EACCES;
	}
	return r < 0 ? cay_fail(err, CAY_E_INVALID, "Cay-Group is not the name of a group") : 0;
}

/* The id whose rate applies: viewers of a preview must not use up the tenant's. */
static const struct id *admission_rate_owner(const struct request *rq)
{
	const struct op *op = rq->match.op;
	bool looks =
		op == &ops[OP_PORT_PROXY] || op == &ops[OP_PORT_APP] || op == &ops[OP_SCREEN_VNC];

	return looks && rq->actor.one_sandbox ? &rq->actor.sandbox : &rq->actor.tenant;
}

int admission_check_authenticated(struct edge *e, struct request *rq, int r, struct cay_err *err)
{
	const struct id *who = admission_rate_owner(rq);
	uint64_t now = clk_boot_ns(e->clk);
	uint8_t peer[PEER_LEN], share[PEER_LEN];

	admission_peer_key(e, rq, peer);
	admission_failure_key(e, rq, share);
	if (r < 0 && !control_state_is_ready(e->control_state)) {
		*err = (struct cay_err){};
		return cay_fail(err, CAY_E_UNAVAILABLE,
				"the keys have not been received from control yet");
	}
	/* a caller with a valid credential is not limited by others at its address */
	if (r < 0 && !rate_limiter_try_acquire(e->failure_rates, share, sizeof(share), now))
		return admission_refuse_peer_rate(e, peer, err);
	if (r < 0) {
		refusal_add(&e->refusals, PUSH_NO_CREDENTIAL, peer, NULL);
		e->counters.now.refused[METRICS_NO_CREDENTIAL]++;
		return r;
	}
	if (rate_limiter_try_acquire(e->tenant_rates, who, sizeof(*who), now))
		return admission_check_load(e, SHED_TENANT, who, sizeof(*who), now, err);
	e->counters.now.refused[METRICS_TENANT_RATE]++;
	return cay_fail(err, CAY_E_RATE, "the tenant exceeds its rate of %llu requests a second",
			(unsigned long long)e->settings.edge_rate);
}

static int admission_refuse_scope(struct edge *e, struct request *rq, struct cay_err *err)
{
	uint8_t peer[PEER_LEN];

	admission_peer_key(e, rq, peer);
	refusal_add(&e->refusals, PUSH_NO_SCOPE, peer, &rq->actor.key);
	e->counters.now.refused[METRICS_NO_SCOPE]++;
	return cay_fail(err, CAY_E_FORBIDDEN, "the credential lacks the scope for %s",
			rq->match.op->name);
}

/* Check the scope, and whether control is likely to accept. */
static int admission_check_operation(struct edge *e, struct request *rq, struct cay_err *err)
{
	const struct op *op = rq->match.op;
	const struct id *t = &rq->actor.tenant;

	route_resolve_name(e, rq);
	if (actor_check_access(&rq->actor, op, rq->match.n_params ? &rq->match.params[0] : NULL))
		return admission_refuse_scope(e, rq, err);
	if ((op == &ops[OP_SANDBOX_CREATE] || op == &ops[OP_SANDBOX_CREATE_MANY]) &&
	    !load_shed_can_ask_control(&e->load_shed, t, sizeof(*t), clk_boot_ns(e->clk)))
		return cay_fail(err, CAY_E_OVERLOADED, "too many sandboxes are being created");
	return 0;
}

/* One that follows is answered for as long as the client likes; a list is a quick request. */
static bool admission_follows_events(const struct request *rq)
{
	const struct event_query *q = rq->query;

	return (q && q->follow) || http_accepts_media_type(rq->head, "text/event-stream");
}

/* How long it takes shows how busy control is, and not how much there is to read. */
static bool admission_reply_is_prompt(struct request *rq)
{
	const struct op *op = rq->match.op;

	return op->where != WHERE_INSIDE && op->method == METHOD_GET && op->reply != REPLY_FRAMES &&
	       op->reply != REPLY_TAR && op != &ops[OP_SANDBOX_CHANGES] &&
	       (op->reply != REPLY_EVENTS || !admission_follows_events(rq));
}

bool on_edge_request_answered(struct request *rq, int status, enum cay_code code, bool, void *arg)
{
	const struct id *t = &rq->actor.tenant;
	const struct op *op = rq->match.op;
	struct edge *e = arg;

	/* a reply without control (rq->mark) does not show how quick control is */
	if (status && !code && op && !rq->mark) {
		load_shed_count_done(&e->load_shed);
		if (admission_reply_is_prompt(rq))
			load_shed_add_answer_time(&e->load_shed, t, sizeof(*t),
						  uv_hrtime() - rq->begun_ns, clk_boot_ns(e->clk));
		if (op == &ops[OP_SANDBOX_CREATE])
			load_shed_record_control_reply(&e->load_shed, t, sizeof(*t), status != 503,
						       clk_boot_ns(e->clk));
	}
	edge_counters_count_answer(e, rq, status, code);
	return false;
}

/* Check Host and Origin; *ret is a new credential in the request's arena. */
static int admission_check_host_and_origin(struct edge *e, struct request *rq,
					   struct credential **ret, struct cay_err *err)
{
	struct slice origin = http_header_find(rq->head, "origin");
	struct credential *by = arena_alloc(&rq->arena, 1, sizeof(*by));

	if (!by) {
		(void)cay_no_memory(err);
		return -ENOMEM;
	}
	*by = (struct credential){ .until_ms = PUSH_NEVER };
	rq->data = *ret = by;
	if (!admission_host_is_ours(e, http_header_find(rq->head, "host"))) {
		e->counters.now.refused[METRICS_HOST]++;
		(void)cay_fail(err, CAY_E_FORBIDDEN,
			       "this server does not serve that Host; see edge.hosts");
		cay_err_hint(err, "use a name or address of this server, or have the operator add "
				  "this one to edge.hosts of cay.conf");
		return -EACCES;
	}
	if (origin.p && !admission_origin_is_allowed(e, origin)) {
		e->counters.now.refused[METRICS_ORIGIN]++;
		(void)cay_fail(err, CAY_E_FORBIDDEN, "that Origin is not allowed");
		cay_err_hint(err, "have the operator add the origin of the page to edge.origins of "
				  "cay.conf");
		return -EACCES;
	}
	/* a long loop round is measured in parts */
	if (clk_boot_ns(e->clk) - e->round_ns >= SHED_INTERVAL_NS)
		admission_measure_loop_round(e);
	rq->actor = (struct actor){ .scope = SCOPE_PUBLIC };
	return 0;
}

/* Add the headers that help the client. */
static int admission_finish_refusal(struct edge *e, struct request *rq, int r,
				    const struct cay_err *err)
{
	if (cay_error_row(err->code)->retryable)
		(void)request_add_reply_header(rq, "Retry-After", "1");
	else if (err->code == CAY_E_UNAUTHENTICATED)
		(void)request_add_reply_header(rq, "WWW-Authenticate", "Bearer");
	if (err->code == CAY_E_UNAUTHENTICATED) /* bounded by the rate of refusals */
		log_info(&e->log, "refused: %s", err->msg);
	return r;
}

/* Health is never refused: a caller without a valid credential gets less. */
static void admission_admit_health(struct edge *e, struct request *rq, struct credential *by)
{
	struct cay_err err = {};

	if (http_header_find(rq->head, "authorization").p &&
	    admission_authenticate(e, rq, by, &err) >= 0)
		return;
	*by = (struct credential){ .until_ms = PUSH_NEVER };
	rq->actor = (struct actor){ .scope = SCOPE_PUBLIC };
}

int admission_admit_request(struct request *rq, void *arg, struct cay_err *err)
{
	struct edge *e = arg;
	const struct op *op = rq->match.op;
	bool anonymous = op && op->scope == SCOPE_PUBLIC;
	struct credential *by = NULL;
	int r = admission_check_host_and_origin(e, rq, &by, err);

	if (r >= 0 && op == &ops[OP_SYSTEM_HEALTH])
		admission_admit_health(e, rq, by);
	else if (r >= 0)
		r = anonymous ? admission_check_anonymous(e, rq, err)
			      : admission_authenticate(e, rq, by, err);
	if (r >= 0 && !anonymous)
		r = admission_apply_group(rq, err);
	if (r >= 0 && op && !anonymous)
		r = admission_check_operation(e, rq, err);
	return r < 0 ? admission_finish_refusal(e, rq, r, err) : 0;
}
