/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/key.h"
#include "edge/edge.h"
#include "net/ws.h"
#include "wire/frame.h"

/* How long a sandbox or control may take to begin an answer; a command that is waited
 * for takes as long as it takes, and so does a sandbox that is. */
#define ANSWER_MS 30000
#define CREATE_MS 120000
#define CONTROL_MAX 1024
#define INSIDE_MAX 256
#define BEARER "Bearer "
#define PROOF_MAX (sizeof(BEARER) - 1 + KEY_TEXT_LEN)

struct asked {
	struct guest guest;
	struct relay_hold hold;
	struct attach *attach; /* instead, once it is one */
	struct edge *edge;
	unsigned slot;
};

static void cut_asked(struct guest *g, const struct cay_err *why)
{
	struct asked *a = (struct asked *)g;

	if (a->attach)
		attach_cut_off(a->attach, why);
	else
		relay_cut(&a->hold, why);
}

static void on_told(void *arg)
{
	struct asked *a = arg;

	guest_leave(&a->guest);
	a->edge->asking[a->slot]--;
	free(a);
}

/* Of one tenant only so many at once: who follows events holds a connection of control's
 * for as long as it likes. */
static struct asked *ask(struct edge *e, struct request *rq)
{
	const struct id *t = &rq->actor.tenant;
	unsigned slot = (unsigned)(t->bits[14] | t->bits[13] << 8) % RATE_BUCKETS;
	struct asked *a = e->asking[slot] < CONTROL_MAX ? malloc(sizeof(*a)) : NULL;

	if (!a) {
		(void)request_header(rq, "Retry-After", "1");
		request_refuse(rq, CAY_E_RATE, "too many requests of this tenant are under way");
		return NULL;
	}
	*a = (struct asked){ .edge = e, .slot = slot };
	guest_enter(e, &a->guest, rq, NULL, cut_asked);
	e->asking[slot]++;
	return a;
}

static void to_control(struct edge *e, struct request *rq)
{
	char actor[ACTOR_TEXT_MAX + 1], proof[PROOF_MAX + 1] = "";
	struct relay_header who[] = { { "Cay-Actor", actor }, { "Authorization", proof } };
	struct relay_conf conf = { .upstream = e->control, .headers = who, .n_headers = 1 };
	struct asked *a;
	struct cay_err err = {};
	struct slice key;

	/* who waits for it now would ask again, and then be asked for twice */
	if (feed_hangs(e)) {
		(void)request_header(rq, "Retry-After", "1");
		request_refuse(rq, CAY_E_UNAVAILABLE, "control does not answer");
		return;
	}
	a = ask(e, rq);
	if (!a)
		return;
	/* control does not take our word for a key */
	if (a->guest.pass.kind == PASS_KEY && who_bearer(rq->head, &key, &err) >= 0 &&
	    key.n == KEY_TEXT_LEN) {
		memcpy(proof, BEARER, sizeof(BEARER) - 1);
		memcpy(proof + sizeof(BEARER) - 1, key.p, key.n);
		conf.n_headers++;
	}
	conf.hold = &a->hold;
	conf.done = on_told;
	conf.arg = a;
	actor_format(&rq->actor, actor);
	if (rq->match.op->reply != REPLY_FRAMES && rq->match.op->reply != REPLY_EVENTS)
		conf.head_timeout_ms = rq->match.op->method == METHOD_GET ? ANSWER_MS : CREATE_MS;
	/* of what is no WebSocket control says what it says of the sandbox */
	if (rq->match.op->reply != REPLY_SOCKET || attach_start(e, rq, &conf, &a->attach, &err) < 0)
		relay_start(rq, &conf);
	explicit_bzero(proof, sizeof(proof));
}

struct visit {
	struct guest guest;
	struct relay_hold hold;
	struct attach *attach; /* instead, once it is one */
	struct edge *edge;
	struct table_sandbox *to;
};

static void cut_visit(struct guest *g, const struct cay_err *why)
{
	struct visit *v = (struct visit *)g;

	if (v->attach)
		attach_cut_off(v->attach, why);
	else
		relay_cut(&v->hold, why);
}

static void on_left(void *arg)
{
	struct visit *v = arg;

	guest_leave(&v->guest);
	table_leave(v->edge->table, v->to);
	free(v);
}

/* A stream begins at once; who waits for a command waits as long as it takes. */
static uint64_t patience(const struct request *rq)
{
	bool streams = http_accepts(rq->head, FRAME_MEDIA_TYPE) ||
		       http_accepts(rq->head, "text/event-stream");

	return rq->match.op == &ops[OP_EXEC_RUN] && !streams ? 0 : ANSWER_MS;
}

static void not_a_socket(struct request *rq, const struct cay_err *err)
{
	if (err->code == CAY_E_UPGRADE) {
		(void)request_header(rq, "Upgrade", "websocket");
		(void)request_header(rq, "Sec-WebSocket-Version", WS_VERSION);
	}
	request_fail(rq, err);
}

static void inside(struct edge *e, struct request *rq, struct table_sandbox *s)
{
	auto_buf path = BUF_INIT(128);
	struct relay_conf conf = { .head_timeout_ms = patience(rq), .done = on_left };
	struct visit *v = malloc(sizeof(*v));
	char name[ID_TEXT_LEN + 1];
	struct cay_err err = {};

	id_format(&s->id, name);
	if (!v || buf_printf(&path, "%s/box/%s", e->settings.run_dir, name) < 0) {
		free(v);
		request_refuse(rq, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	*v = (struct visit){ .edge = e, .to = s };
	table_enter(e->table, s);
	guest_enter(e, &v->guest, rq, s, cut_visit);
	conf.path = path.data;
	conf.hold = &v->hold;
	conf.arg = v;
	if (rq->match.op->reply != REPLY_SOCKET) {
		relay_start(rq, &conf);
	} else if (attach_start(e, rq, &conf, &v->attach, &err) < 0) {
		on_left(v);
		not_a_socket(rq, &err);
	}
}

void route_request(struct request *rq, void *arg)
{
	struct edge *e = arg;
	struct table_sandbox *s;

	if (rq->match.op->where != WHERE_INSIDE) {
		to_control(e, rq);
		return;
	}
	s = table_sandbox(e->table, &rq->match.params[0]);
	/* control may know of one we have not heard of yet; to it a foreign one is absent */
	if (!s || !id_eq(&s->tenant, &rq->actor.tenant))
		to_control(e, rq);
	else if (s->state != SB_RUNNING)
		request_refuse(rq, CAY_E_STATE, "the sandbox is not running");
	else if (s->busy >= INSIDE_MAX) {
		(void)request_header(rq, "Retry-After", "1");
		request_refuse(rq, CAY_E_RATE, "too many requests are in this sandbox");
	} else
		inside(e, rq, s);
}
