/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <sys/socket.h>

#include "auth/key.h"
#include "edge/edge.h"

#define PEER_LEN 16

/* Names that lead here from this machine only. */
static const char *const own_names[] = { "localhost", "127.0.0.1", "[::1]" };

static bool same_name(struct slice a, struct slice b)
{
	return a.n == b.n && strncasecmp(a.p, b.p, a.n) == 0;
}

/* Is it one of the words? */
static bool has_word(const char *words, struct slice want)
{
	struct slice left = slice_of(words), word;

	while (left.n) {
		word = slice_cut(&left, ' ');
		if (same_name(word, want))
			return true;
	}
	return false;
}

/* Without its port; an address of six bytes and more is in brackets. */
static struct slice without_port(struct slice host)
{
	const char *end = host.p[0] == '[' ? memchr(host.p, ']', host.n) : NULL;
	const char *from = end ? end : host.p;
	const char *colon = memchr(from, ':', host.n - (size_t)(from - host.p));

	if (colon)
		host.n = (size_t)(colon - host.p);
	return host;
}

bool gate_host(const struct edge *e, struct slice host)
{
	struct slice name = host.n ? without_port(host) : host;
	struct slice link = http_origin_host(slice_of(e->settings.edge_public_url));

	if (!name.n)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(own_names); i++)
		if (http_eq(name, own_names[i]))
			return true;
	for (unsigned i = 0; i < e->n_servers; i++)
		if (e->addresses[i][0] && http_eq(name, e->addresses[i]))
			return true;
	/* a link that was made must lead somewhere */
	return (link.n && same_name(without_port(link), name)) ||
	       has_word(e->settings.edge_hosts, name);
}

bool gate_origin(const struct edge *e, struct slice origin)
{
	return origin.n && has_word(e->settings.edge_origins, origin);
}

/* Who is at the other end, as control is told it; all zero when nobody knows. */
static void peer_of(struct request *rq, uint8_t ret[static PEER_LEN])
{
	struct sockaddr_storage at;

	memset(ret, 0, PEER_LEN);
	if (request_address(rq, &at) < 0)
		return;
	if (at.ss_family == AF_INET) {
		memset(ret + 10, 0xff, 2);
		memcpy(ret + 12, &((const struct sockaddr_in *)(const void *)&at)->sin_addr, 4);
	} else if (at.ss_family == AF_INET6) {
		/* whoever has one address of a network has all of them */
		memcpy(ret, &((const struct sockaddr_in6 *)(const void *)&at)->sin6_addr, 8);
	}
}

/* Whose refusals are counted together: an address's.  Those who come by way of cay-mcp have
 * none, and are as many as their credentials. */
static void share_of(struct request *rq, uint8_t ret[static PEER_LEN])
{
	struct slice auth = http_header(rq->head, "authorization");
	struct sockaddr_storage at;
	uint8_t hash[32];

	peer_of(rq, ret);
	if (!auth.n || request_address(rq, &at) < 0 || at.ss_family != AF_UNIX)
		return;
	key_hash(auth, hash);
	memcpy(ret, hash, PEER_LEN);
}

static int overloaded(struct cay_err *err)
{
	return cay_fail(err, CAY_E_OVERLOADED, "more is asked than can be done now");
}

/* What a round of the loop took, but for waiting; or the part of it since the last call. */
void gate_round(struct edge *e)
{
	uint64_t now = clk_boot_ns(e->clk), idle = uv_metrics_idle_time(&e->loop);
	uint64_t all = now - e->round_ns, waited = idle - e->idle_ns, refusing = 0;

	for (unsigned i = 0; i < e->n_servers; i++)
		refusing += server_refusing_ns(e->servers[i]);
	shed_round(&e->shed, all > waited ? all - waited : 0, refusing - e->refusing_ns, now);
	e->refusing_ns = refusing;
	e->round_ns = now;
	e->idle_ns = idle;
}

static int too_often(struct edge *e, const uint8_t peer[static PEER_LEN], struct cay_err *err)
{
	refusal_add(&e->refusals, PUSH_TOO_OFTEN, peer, NULL);
	e->counts.now.refused[METRICS_PEER_RATE]++;
	*err = (struct cay_err){};
	return cay_fail(err, CAY_E_RATE, "too many requests from there");
}

/* What anybody may ask is done by control, which has one thread. */
static int stranger(struct edge *e, struct request *rq, struct cay_err *err)
{
	uint64_t now = clk_boot_ns(e->clk);
	uint8_t peer[PEER_LEN];

	peer_of(rq, peer);
	if (!rate_take(e->strangers, peer, sizeof(peer), now))
		return too_often(e, peer, err);
	return shed_take(&e->shed, SHED_STRANGER, NULL, 0, now) ? 0 : overloaded(err);
}

static int find_out(struct edge *e, struct request *rq, struct pass *by, struct cay_err *err)
{
	uint64_t now = clk_boot_ns(e->clk);
	uint8_t share[PEER_LEN];
	bool spent;

	share_of(rq, share);
	/* a signature is not looked at for whoever has had its share */
	if (who_is_dear(e, rq->head) &&
	    !shed_take(&e->shed, SHED_STRANGER, share, sizeof(share), now))
		return overloaded(err);
	spent = rate_spent(e->failures, share, sizeof(share), now);
	return gate_known(e, rq, who_asks(e, rq->head, /* dear= */ !spent, &rq->actor, by, err),
			  err);
}

/* Whose rate it is: who looks at a preview must not keep its tenant from the API. */
static const struct id *payer(const struct request *rq)
{
	const struct op *op = rq->match.op;
	bool looks = op == &ops[OP_PORT_PROXY] || op == &ops[OP_PORT_APP];

	return looks && rq->actor.one_sandbox ? &rq->actor.sandbox : &rq->actor.tenant;
}

int gate_known(struct edge *e, struct request *rq, int r, struct cay_err *err)
{
	const struct id *who = payer(rq);
	uint64_t now = clk_boot_ns(e->clk);
	uint8_t peer[PEER_LEN], share[PEER_LEN];

	peer_of(rq, peer);
	share_of(rq, share);
	if (r < 0 && !table_ready(e->table)) {
		*err = (struct cay_err){};
		return cay_fail(err, CAY_E_UNAVAILABLE, "control has not said yet who may");
	}
	/* who has a good key or token is not kept out by its neighbours */
	if (r < 0 && !rate_take(e->failures, share, sizeof(share), now))
		return too_often(e, peer, err);
	if (r < 0) {
		refusal_add(&e->refusals, PUSH_NO_CREDENTIAL, peer, NULL);
		e->counts.now.refused[METRICS_NO_CREDENTIAL]++;
		return r;
	}
	if (rate_take(e->tenants, who, sizeof(*who), now))
		return shed_take(&e->shed, SHED_TENANT, who, sizeof(*who), now) ? 0
										: overloaded(err);
	e->counts.now.refused[METRICS_TENANT_RATE]++;
	return cay_fail(err, CAY_E_RATE, "this tenant asks more often than %llu times a second",
			(unsigned long long)e->settings.edge_rate);
}

static int too_little(struct edge *e, struct request *rq, struct cay_err *err)
{
	uint8_t peer[PEER_LEN];

	peer_of(rq, peer);
	refusal_add(&e->refusals, PUSH_NO_SCOPE, peer, &rq->actor.key);
	e->counts.now.refused[METRICS_NO_SCOPE]++;
	return cay_fail(err, CAY_E_FORBIDDEN, "this key may not do %s", rq->match.op->name);
}

/* May it at all, and is there any use in asking? */
static int check_op(struct edge *e, struct request *rq, struct cay_err *err)
{
	const struct op *op = rq->match.op;
	const struct id *t = &rq->actor.tenant;

	if (actor_may(&rq->actor, op, rq->match.n_params ? &rq->match.params[0] : NULL))
		return too_little(e, rq, err);
	if (op == &ops[OP_SANDBOX_CREATE] &&
	    !shed_ask(&e->shed, t, sizeof(*t), clk_boot_ns(e->clk)))
		return cay_fail(err, CAY_E_OVERLOADED,
				"more sandboxes are asked for than can be made now");
	return 0;
}

bool gate_answered(struct request *rq, int status, enum cay_code code, bool whole, void *arg)
{
	const struct id *t = &rq->actor.tenant;
	const struct op *op = rq->match.op;
	struct edge *e = arg;

	if (status && !code && op) {
		shed_done(&e->shed);
		if (op->where != WHERE_INSIDE && op->method == METHOD_GET &&
		    op->reply != REPLY_FRAMES && op->reply != REPLY_EVENTS)
			shed_answered(&e->shed, uv_hrtime() - rq->begun_ns);
		if (op == &ops[OP_SANDBOX_CREATE])
			shed_heard(&e->shed, t, sizeof(*t), status != 503, clk_boot_ns(e->clk));
	}
	return count_answered(rq, status, code, whole, arg);
}

/* Is it for us, and of a page that may ask?  What it was let in with is the request's. */
static int knock(struct edge *e, struct request *rq, struct pass **ret, struct cay_err *err)
{
	struct slice origin = http_header(rq->head, "origin");
	struct pass *by = pool_take(&rq->pool, 1, sizeof(*by));

	if (!by)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	*by = (struct pass){ .until_ms = PUSH_NEVER };
	rq->data = *ret = by;
	if (!gate_host(e, http_header(rq->head, "host"))) {
		e->counts.now.refused[METRICS_HOST]++;
		return cay_fail(err, CAY_E_FORBIDDEN,
				"this server is not that Host; edge.hosts lists the names it has");
	}
	if (origin.p && !gate_origin(e, origin)) {
		e->counts.now.refused[METRICS_ORIGIN]++;
		return cay_fail(err, CAY_E_FORBIDDEN, "pages of that Origin may not ask");
	}
	/* libuv polls many times before a round is over, if there is enough to do */
	if (clk_boot_ns(e->clk) - e->round_ns >= SHED_INTERVAL_NS)
		gate_round(e);
	rq->actor = (struct actor){ .scope = SCOPE_PUBLIC };
	return 0;
}

/* What a client may do about it. */
static int turned_away(struct edge *e, struct request *rq, int r, const struct cay_err *err)
{
	if (cay_error_row(err->code)->retryable)
		(void)request_header(rq, "Retry-After", "1");
	else if (err->code == CAY_E_UNAUTHENTICATED)
		(void)request_header(rq, "WWW-Authenticate", "Bearer");
	if (err->code == CAY_E_UNAUTHENTICATED) /* no more than the rate of refusals */
		log_info(&e->log, "refused: %s", err->msg);
	return r;
}

int gate_face(struct edge *e, struct request *rq, struct cay_err *err)
{
	struct pass *by = NULL;
	int r = knock(e, rq, &by, err);

	if (r >= 0)
		r = find_out(e, rq, by, err);
	return r < 0 ? turned_away(e, rq, r, err) : 0;
}

int gate_admit(struct request *rq, void *arg, struct cay_err *err)
{
	struct edge *e = arg;
	const struct op *op = rq->match.op;
	struct pass *by = NULL;
	int r = knock(e, rq, &by, err);

	if (r >= 0)
		r = op->scope == SCOPE_PUBLIC ? stranger(e, rq, err) : find_out(e, rq, by, err);
	if (r >= 0 && op->scope != SCOPE_PUBLIC)
		r = check_op(e, rq, err);
	return r < 0 ? turned_away(e, rq, r, err) : 0;
}
