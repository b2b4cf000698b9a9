/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <sys/socket.h>

#include "edge/edge.h"

#define PEER_LEN 16

/* Names that lead here from this machine only. */
static const char *const own_names[] = { "localhost", "127.0.0.1", "[::1]" };

/* Is it one of the words? */
static bool has_word(const char *words, struct slice want)
{
	struct slice left = slice_of(words), word;

	while (left.n) {
		word = slice_cut(&left, ' ');
		if (word.n == want.n && strncasecmp(word.p, want.p, want.n) == 0)
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

	if (!name.n)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(own_names); i++)
		if (http_eq(name, own_names[i]))
			return true;
	for (unsigned i = 0; i < e->n_servers; i++)
		if (e->addresses[i][0] && http_eq(name, e->addresses[i]))
			return true;
	return has_word(e->settings.edge_hosts, name);
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
	uint8_t peer[PEER_LEN];

	peer_of(rq, peer);
	return rate_take(e->strangers, peer, sizeof(peer), clk_boot_ns(e->clk))
		       ? 0
		       : too_often(e, peer, err);
}

static int find_out(struct edge *e, struct request *rq, struct pass *by, struct cay_err *err)
{
	uint64_t now = clk_boot_ns(e->clk);
	uint8_t peer[PEER_LEN];
	bool spent;
	int r;

	peer_of(rq, peer);
	spent = rate_spent(e->failures, peer, sizeof(peer), now);
	r = who_asks(e, rq->head, /* dear= */ !spent, &rq->actor, by, err);
	if (r < 0 && !table_ready(e->table)) {
		*err = (struct cay_err){};
		return cay_fail(err, CAY_E_UNAVAILABLE, "control has not said yet who may");
	}
	/* who has a good key or token is not kept out by its neighbours */
	if (r < 0 && !rate_take(e->failures, peer, sizeof(peer), now))
		return too_often(e, peer, err);
	if (r < 0) {
		refusal_add(&e->refusals, PUSH_NO_CREDENTIAL, peer, NULL);
		e->counts.now.refused[METRICS_NO_CREDENTIAL]++;
		return r;
	}
	if (rate_take(e->tenants, &rq->actor.tenant, sizeof(rq->actor.tenant), now))
		return 0;
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

int gate_admit(struct request *rq, void *arg, struct cay_err *err)
{
	struct edge *e = arg;
	struct slice origin = http_header(rq->head, "origin");
	const struct op *op = rq->match.op;
	struct pass *by = pool_take(&rq->pool, 1, sizeof(*by));
	int r;

	if (!by)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	*by = (struct pass){ .until_ms = PUSH_NEVER };
	rq->data = by;
	if (!gate_host(e, http_header(rq->head, "host"))) {
		e->counts.now.refused[METRICS_HOST]++;
		return cay_fail(err, CAY_E_FORBIDDEN,
				"this server is not that Host; edge.hosts lists the names it has");
	}
	if (origin.p && !gate_origin(e, origin)) {
		e->counts.now.refused[METRICS_ORIGIN]++;
		return cay_fail(err, CAY_E_FORBIDDEN, "pages of that Origin may not ask");
	}
	rq->actor = (struct actor){ .scope = SCOPE_PUBLIC };
	r = op->scope == SCOPE_PUBLIC ? stranger(e, rq, err) : find_out(e, rq, by, err);
	if (r < 0) {
		if (err->code == CAY_E_RATE)
			(void)request_header(rq, "Retry-After", "1");
		else if (err->code == CAY_E_UNAUTHENTICATED)
			(void)request_header(rq, "WWW-Authenticate", "Bearer");
		if (err->code == CAY_E_UNAUTHENTICATED) /* no more than the rate of refusals */
			log_info(&e->log, "refused: %s", err->msg);
		return r;
	}
	if (op->scope != SCOPE_PUBLIC &&
	    actor_may(&rq->actor, op, rq->match.n_params ? &rq->match.params[0] : NULL))
		return too_little(e, rq, err);
	return 0;
}
