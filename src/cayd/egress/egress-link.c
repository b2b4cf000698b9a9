/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/egress/egress-link.h"

#include "base/seqpacket.h"
#include "cayd/core/init-call.h"
#include "cayd/core/keeper-link.h"
#include "cayd/egress/asks.h"
#include "cayd/egress/egress-counts.h"
#include "cayd/egress/peers.h"
#include "cayd/egress/policy.h"
#include "cayd/egress/trust.h"
#include "egress/policy.h"
#include "wire/hello.h"

#define AGAIN_MS 200
#define ATTACH_NS (10 * NS_PER_S) /* so long a sandbox waits for cay-egress */
#define ANSWER_NS (5 * NS_PER_S)  /* and so long a message for its reply */
#define RESOLVER_MS 2000          /* and so long PID 1 may take */
#define REPLY_BATCH 64            /* before other work gets its turn */
#define EVENTS_QUEUED_MAX 256     /* so many messages wait: no event joins them */
#define QUEUE_MAX 8192            /* messages that the socket has no room for */

/* A message that cay-egress has not acknowledged. */
struct egress_call {
	struct egress_call *next;
	struct id sandbox;
	uint64_t generation;
	uint64_t deadline_ns;
	enum egress_kind reply; /* APPLIED, or that of a question */
	egress_link_fn *fn;
	egress_answer_fn *answer; /* of a question, instead of fn */
	void *arg;
};

struct egress_attach;

struct egress_outgoing {
	struct egress_outgoing *next;
	int fd;
	size_t n;
	char bytes[];
};

struct egress_link {
	struct cayd *cayd;
	uv_timer_t retry;
	uv_poll_t *poll; /* NULL: not connected */
	int fd;
	bool greeted;
	uint64_t connection;  /* counts them: a reply of the keeper may come late */
	unsigned n_attaching; /* of the sandboxes that this connection began with */
	bool complete;        /* END was sent */
	struct egress_call *calls, **last_call;
	uint64_t n_questions;
	struct egress_attach *waiting;
	struct egress_outgoing *queue, **last_queued;
	unsigned n_queued;
	char in[EGRESS_MESSAGE_MAX];
};

bool egress_link_is_ready(const struct cayd *c)
{
	return c->egress_link && c->egress_link->greeted;
}

bool egress_link_has(const struct sandbox *sb)
{
	const struct egress_link *l = sb->cayd->egress_link;

	return l && l->greeted && sb->attached_to == l->connection;
}

static void egress_fail_unavailable(struct cay_err *err)
{
	(void)cay_fail(err, CAY_E_EGRESS, "cay-egress is not running");
}

static void egress_call_finish(struct egress_link *l, struct egress_call **at,
			       const struct cay_err *outcome, struct slice body)
{
	struct egress_call *call = *at;

	*at = call->next;
	if (l->last_call == &call->next)
		l->last_call = at;
	if (call->fn)
		call->fn(call->arg, outcome);
	if (call->answer)
		call->answer(call->arg, outcome, body);
	free(call);
}

static void egress_queue_drop(struct egress_link *l)
{
	struct egress_outgoing *o = l->queue;

	l->queue = o->next;
	if (!l->queue)
		l->last_queued = &l->queue;
	l->n_queued--;
	cay_closep(&o->fd);
	free(o);
}

static void egress_link_disconnect(struct egress_link *l, const char *why)
{
	struct cay_err err = {};

	if (!l->poll)
		return;
	if (why)
		log_warn(&l->cayd->log, "disconnected cay-egress: %s", why);
	uv_close((uv_handle_t *)l->poll, on_handle_closed);
	l->poll = NULL;
	cay_closep(&l->fd);
	l->greeted = l->complete = false;
	l->n_attaching = 0;
	l->connection++;
	egress_counts_forget_open(l->cayd);
	asks_forget_waiting(l->cayd);
	while (l->queue)
		egress_queue_drop(l);
	egress_fail_unavailable(&err);
	while (l->calls)
		egress_call_finish(l, &l->calls, &err, (struct slice){});
}

static void on_egress_link_ready(uv_poll_t *p, int status, int events);

static void egress_link_poll(struct egress_link *l)
{
	if (l->poll)
		(void)uv_poll_start(l->poll, UV_READABLE | (l->queue ? UV_WRITABLE : 0),
				    on_egress_link_ready);
}

static void egress_link_flush(struct egress_link *l)
{
	while (l->queue) {
		int r = seqpacket_send(l->fd, l->queue->bytes, l->queue->n, l->queue->fd);

		if (r == -EAGAIN)
			break;
		if (r < 0) {
			egress_link_disconnect(l, strerror(-r));
			return;
		}
		egress_queue_drop(l);
	}
	egress_link_poll(l);
}

/* Takes fd. */
static void egress_link_send(struct egress_link *l, const struct egress_message *m,
			     struct slice body, int fd)
{
	struct egress_outgoing *o =
		l->n_queued < QUEUE_MAX ? malloc(sizeof(*o) + sizeof(*m) + body.n) : NULL;

	if (!o) {
		cay_closep(&fd);
		egress_link_disconnect(l, "it does not read");
		return;
	}
	*o = (struct egress_outgoing){ .fd = fd, .n = sizeof(*m) + body.n };
	memcpy(o->bytes, m, sizeof(*m));
	if (body.n)
		memcpy(o->bytes + sizeof(*m), body.p, body.n);
	*l->last_queued = o;
	l->last_queued = &o->next;
	l->n_queued++;
	egress_link_flush(l);
}

static void egress_link_send_plain(struct egress_link *l, enum egress_kind kind,
				   const struct id *sandbox)
{
	struct egress_message m = egress_message_init(kind, sandbox, 0);

	egress_link_send(l, &m, (struct slice){}, -EBADF);
}

bool egress_link_send_event(const struct cayd *c, struct slice json)
{
	const struct egress_message m = egress_message_init(EGRESS_MSG_EVENT, NULL, 0);
	struct egress_link *l = c->egress_link;

	if (!l || !l->greeted || l->n_queued >= EVENTS_QUEUED_MAX || json.n > EGRESS_EVENT_MAX)
		return false;
	egress_link_send(l, &m, json, -EBADF);
	return true;
}

static void egress_link_expect(struct egress_link *l, struct egress_call *call)
{
	call->deadline_ns = clk_boot_ns(l->cayd->clk) + ANSWER_NS;
	*l->last_call = call;
	l->last_call = &call->next;
}

/* Takes fd, the socket of VERB_NET, or none. */
static void egress_link_send_sandbox(struct sandbox *sb, int fd, egress_link_fn *fn, void *arg)
{
	struct egress_link *l = sb->cayd->egress_link;
	const struct egress_limits limits = sandbox_get_egress_limits(sb);
	auto_buf body = BUF_INIT(sizeof(struct egress_counts) + sizeof(limits) + EGRESS_POLICY_MAX);
	struct egress_call *call = calloc(1, sizeof(*call));
	struct egress_message m;
	struct cay_err err = {};

	if (!call || buf_append(&body, &sb->egress_counts.now, sizeof(struct egress_counts)) < 0 ||
	    buf_append(&body, &limits, sizeof(limits)) < 0)
		(void)cay_no_memory(&err);
	else if (!l->greeted)
		egress_fail_unavailable(&err);
	else
		(void)sandbox_egress_compile(sb->cayd, sb, &body, &err);
	if (!call || err.code) {
		cay_closep(&fd);
		free(call);
		if (fn)
			fn(arg, &err);
		return;
	}
	m = egress_message_init(EGRESS_MSG_SANDBOX, &sb->info.id, sandbox_egress_generation(sb));
	m.tenant = *sandbox_get_egress_tenant(sb);
	*call = (struct egress_call){ .sandbox = sb->info.id,
				      .generation = m.generation,
				      .reply = EGRESS_MSG_APPLIED,
				      .fn = fn,
				      .arg = arg };
	egress_link_expect(l, call);
	sb->attached_to = l->connection;
	egress_link_send(l, &m, (struct slice){ body.data, body.len }, fd);
}

static enum egress_kind egress_reply_of(enum egress_kind question)
{
	return question == EGRESS_MSG_CUT        ? EGRESS_MSG_CUT_DONE
	       : question == EGRESS_MSG_EXPOSE   ? EGRESS_MSG_CUT_DONE
	       : question == EGRESS_MSG_LIST_LOG ? EGRESS_MSG_LOG
	       : question == EGRESS_MSG_ANSWER   ? EGRESS_MSG_ANSWERED
						 : EGRESS_MSG_FLOWS;
}

/* One that nothing but others of its group connect to has no listeners. */
static bool egress_link_may_ask(const struct sandbox *sb, enum egress_kind kind)
{
	return kind == EGRESS_MSG_EXPOSE ? egress_link_is_ready(sb->cayd) : egress_link_has(sb);
}

void egress_link_send_peer(struct cayd *c, const struct id *from, uint64_t number,
			   const struct egress_peer_done *done, int fd)
{
	const struct egress_message m = egress_message_init(EGRESS_MSG_PEER_DONE, from, number);

	if (egress_link_is_ready(c))
		egress_link_send(c->egress_link, &m,
				 (struct slice){ (const char *)done, sizeof(*done) }, fd);
	else
		cay_closep(&fd);
}

void egress_link_ask(struct sandbox *sb, enum egress_kind kind, struct slice body,
		     egress_answer_fn *fn, void *arg)
{
	struct egress_link *l = sb->cayd->egress_link;
	struct egress_call *call = egress_link_may_ask(sb, kind) ? calloc(1, sizeof(*call)) : NULL;
	struct egress_message m;
	struct cay_err err = {};

	if (!call) {
		if (egress_link_may_ask(sb, kind))
			(void)cay_no_memory(&err);
		else
			egress_fail_unavailable(&err);
		fn(arg, &err, (struct slice){});
		return;
	}
	m = egress_message_init(kind, &sb->info.id, ++l->n_questions);
	*call = (struct egress_call){
		.sandbox = sb->info.id,
		.generation = m.generation,
		.reply = egress_reply_of(kind),
		.answer = fn,
		.arg = arg,
	};
	egress_link_expect(l, call);
	egress_link_send(l, &m, body, -EBADF);
}

static void egress_link_send_end_if_complete(struct egress_link *l)
{
	if (l->complete || !l->greeted || l->n_attaching)
		return;
	l->complete = true;
	egress_link_send_plain(l, EGRESS_MSG_END, NULL);
}

/* A sandbox to attach: the keeper steers its connections, then cay-egress gets the listeners. */
struct egress_attach {
	struct egress_attach *next; /* of those that wait for cay-egress */
	struct sandbox *sandbox;
	uint64_t deadline_ns;
	uint64_t connection;
	egress_link_fn *fn;
	void *arg;
	bool of_start; /* one of n_attaching */
};

/* A stopped one has no network namespace, and its next start attaches it. */
static bool egress_can_attach(const struct sandbox *sb)
{
	return sb->life.state < SB_ENDING && sb->life.state != SB_STOPPING &&
	       sb->life.state != SB_STOPPED;
}

static void egress_attach_wait(struct egress_link *l, struct egress_attach *a)
{
	a->next = l->waiting;
	l->waiting = a;
}

/* An accepted create does not fail because cay-egress is restarted.  One that no request waits for
 * is tried until it succeeds, also while the keeper is restarted; after a reconnect it is one of
 * those that are attached again. */
static bool egress_attach_may_wait(const struct egress_link *l, const struct egress_attach *a)
{
	return a->fn ? clk_boot_ns(l->cayd->clk) < a->deadline_ns
		     : a->connection == l->connection && egress_can_attach(a->sandbox);
}

static void egress_attach_finish(void *arg, const struct cay_err *outcome)
{
	struct egress_attach *a = arg;
	struct sandbox *sb = a->sandbox;
	struct egress_link *l = sb->cayd->egress_link;
	const bool of_now = a->of_start && a->connection == l->connection;

	if ((outcome->code == CAY_E_EGRESS || outcome->code == CAY_E_UNAVAILABLE) &&
	    egress_attach_may_wait(l, a)) {
		egress_attach_wait(l, a);
		return;
	}
	if (outcome->code && of_now && l->greeted)
		log_warn(&l->cayd->log, "cannot attach a sandbox to cay-egress: %s", outcome->msg);
	if (a->fn)
		a->fn(a->arg, outcome);
	free(a);
	if (of_now) {
		l->n_attaching--;
		egress_link_send_end_if_complete(l);
	}
	sandbox_release(sb);
}

static void on_egress_net_reply(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct egress_attach *a = arg;
	struct egress_link *l = a->sandbox->cayd->egress_link;
	struct cay_err err = *outcome;

	if (!err.code && l->connection != a->connection)
		egress_fail_unavailable(&err);
	if (!err.code && !egress_can_attach(a->sandbox))
		(void)cay_fail(&err, CAY_E_STATE, "the sandbox has been stopped");
	if (!err.code) {
		egress_link_send_sandbox(a->sandbox, fd, egress_attach_finish, a);
		return;
	}
	cay_closep(&fd);
	egress_attach_finish(a, &err);
}

static void egress_attach_start(struct egress_link *l, struct egress_attach *a)
{
	struct sandbox *sb = a->sandbox;
	struct verb_sandbox q = { .sandbox = sb->info.id, .generation = sb->life.generation };

	a->connection = l->connection;
	keeper_call_for(sb->cayd->keeper, &sb->info.tenant, VERB_NET, &q, on_egress_net_reply, a);
}

static void egress_attach_new(struct sandbox *sb, bool of_start, egress_link_fn *fn, void *arg)
{
	struct egress_link *l = sb->cayd->egress_link;
	struct egress_attach *a = malloc(sizeof(*a));
	struct cay_err err = {};

	if (!a) {
		(void)cay_no_memory(&err);
		if (fn)
			fn(arg, &err);
		return;
	}
	*a = (struct egress_attach){ .sandbox = sb,
				     .deadline_ns = clk_boot_ns(l->cayd->clk) + ATTACH_NS,
				     .fn = fn,
				     .arg = arg,
				     .of_start = of_start };
	sb->holds++;
	l->n_attaching += of_start;
	if (l->greeted)
		egress_attach_start(l, a);
	else
		egress_attach_wait(l, a);
}

/* Start those that wait; or fail those that have waited for too long. */
static void egress_attach_waiting(struct egress_link *l)
{
	struct egress_attach *all = l->waiting;
	struct cay_err err = {};

	egress_fail_unavailable(&err);
	l->waiting = NULL;
	while (all) {
		struct egress_attach *a = all;

		all = a->next;
		if (l->greeted && egress_can_attach(a->sandbox))
			egress_attach_start(l, a);
		else
			egress_attach_finish(a, &err);
	}
}

void egress_link_attach(struct sandbox *sb, egress_link_fn *fn, void *arg)
{
	egress_attach_new(sb, false, fn, arg);
}

/* A sandbox that gets its first policy after its start. */
struct late_attach {
	struct sandbox *sandbox;
	egress_link_fn *fn;
	void *arg;
};

/* Whatever the outcome: a PID 1 of before an upgrade does not know the request. */
static void on_late_attach_resolver(void *arg, unsigned, struct slice, const struct cay_err *)
{
	struct late_attach *a = arg;

	egress_attach_new(a->sandbox, false, a->fn, a->arg);
	sandbox_release(a->sandbox);
	free(a);
}

/* PID 1 writes /etc/resolv.conf before the reply, so that names are resolved from then on; while
 * the sandbox is paused PID 1 is, too. */
static void egress_attach_late(struct sandbox *sb, egress_link_fn *fn, void *arg)
{
	struct late_attach *a = sandbox_pid1_replies(sb) ? malloc(sizeof(*a)) : NULL;

	if (!a) {
		egress_attach_new(sb, false, fn, arg);
		return;
	}
	*a = (struct late_attach){ sb, fn, arg };
	sb->holds++;
	init_call_with_deadline(sb->cayd, &sb->info.id, "POST", INIT_PATH_RESOLVER,
				(struct slice){}, RESOLVER_MS, on_late_attach_resolver, a);
}

/* One that is being created gets the policy when it is attached. */
void egress_policy_changed(struct sandbox *sb, egress_link_fn *fn, void *arg)
{
	bool runs = sb->life.state == SB_RUNNING || sb->life.state == SB_PAUSED;

	if (egress_link_has(sb))
		egress_link_send_sandbox(sb, -EBADF, fn, arg);
	else if (runs && sandbox_has_egress(sb))
		egress_attach_late(sb, fn, arg);
	else if (fn)
		fn(arg, &(struct cay_err){});
}

void egress_link_forget_ended(struct sandbox *sb)
{
	if ((sb->life.state != SB_ENDING && sb->life.state != SB_STOPPING) || !egress_link_has(sb))
		return;
	sb->attached_to = 0;
	egress_link_send_plain(sb->cayd->egress_link, EGRESS_MSG_GONE, &sb->info.id);
}

static void egress_link_send_exposed(struct egress_link *l, const struct sandbox *sb)
{
	const struct egress_message m = egress_message_init(EGRESS_MSG_EXPOSE, &sb->info.id, 0);
	struct egress_exposed e;

	sandbox_get_exposed(sb, &e);
	if (e.n)
		egress_link_send(l, &m, (struct slice){ (const char *)&e, sizeof(e) }, -EBADF);
}

static void egress_link_attach_all(struct egress_link *l)
{
	egress_link_send_plain(l, EGRESS_MSG_ALL, NULL);
	l->n_attaching = 1; /* this function */
	for (struct sandbox *sb = sandboxes_newest(l->cayd->sandboxes); sb; sb = sb->older)
		if (sb->life.state == SB_RUNNING || sb->life.state == SB_PAUSED)
			egress_link_send_exposed(l, sb);
	for (struct sandbox *sb = sandboxes_newest(l->cayd->sandboxes); sb; sb = sb->older)
		if ((sb->life.state == SB_RUNNING || sb->life.state == SB_PAUSED) &&
		    sandbox_has_egress(sb))
			egress_attach_new(sb, true, NULL, NULL);
	l->n_attaching--;
	egress_link_send_end_if_complete(l);
	egress_attach_waiting(l);
}

static bool egress_call_is_for(const struct egress_call *call, const struct egress_message *m)
{
	return id_eq(&call->sandbox, &m->sandbox) && call->generation == m->generation &&
	       (call->reply == m->kind ||
		(call->reply == EGRESS_MSG_APPLIED && m->kind == EGRESS_MSG_REFUSED));
}

static void egress_link_handle_reply(struct egress_link *l, const struct egress_message *m,
				     struct slice body)
{
	struct sandbox *sb = sandbox_find(l->cayd->sandboxes, &m->sandbox);
	struct egress_call **at = &l->calls;
	struct egress_counts counts;
	egress_link_fn *done = NULL;
	void *arg = NULL;
	struct cay_err err = {};

	while (*at && !egress_call_is_for(*at, m))
		at = &(*at)->next;
	if (!*at)
		return; /* of a sandbox that has ended */
	if (m->kind == EGRESS_MSG_REFUSED) {
		(void)cay_fail(&err, CAY_E_EGRESS, "cay-egress cannot use the policy; see its log");
	} else if (sb && m->kind == EGRESS_MSG_APPLIED) {
		memcpy(&counts, body.p, sizeof(counts));
		egress_counts_receive_one(sb, &counts);
		done = cay_take((*at)->fn);
		arg = (*at)->arg;
	}
	egress_call_finish(l, at, &err, body);
	if (done) /* when programs inside trust its CA */
		sandbox_trust_ca(sb,
				 (struct slice){ body.p + sizeof(counts), body.n - sizeof(counts) },
				 done, arg);
}

static void egress_link_handle(struct egress_link *l, const struct egress_message *m,
			       struct slice body)
{
	if (!l->greeted != (m->kind == EGRESS_MSG_HELLO)) {
		egress_link_disconnect(l, "it did not begin with one hello");
	} else if (m->kind == EGRESS_MSG_HELLO) {
		l->greeted = true;
		log_info(&l->cayd->log, "cay-egress is connected");
		egress_link_attach_all(l);
	} else if (m->kind == EGRESS_MSG_COUNTS) {
		egress_counts_receive(l->cayd, body);
	} else if (m->kind == EGRESS_MSG_PEER) {
		peers_receive(l->cayd, m, body);
	} else if (m->kind == EGRESS_MSG_ASK) {
		asks_receive(l->cayd, &m->sandbox, body);
	} else {
		egress_link_handle_reply(l, m, body);
	}
}

static void on_egress_link_ready(uv_poll_t *p, int, int events)
{
	struct egress_link *l = p->data;

	if (events & UV_WRITABLE)
		egress_link_flush(l);
	for (unsigned i = 0; i < REPLY_BATCH && l->poll == p; i++) {
		struct egress_message m;
		auto_close int fd = -EBADF;
		unsigned n_fds;
		ssize_t n = seqpacket_receive(l->fd, l->in, sizeof(l->in), &fd, &n_fds);

		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			egress_link_disconnect(l, NULL);
		} else if (egress_message_check(l->in, (size_t)n, n_fds, false) < 0) {
			egress_link_disconnect(l, "it sent an invalid message");
		} else {
			memcpy(&m, l->in, sizeof(m));
			egress_link_handle(l, &m, egress_message_body(l->in, (size_t)n));
		}
	}
}

static void on_egress_link_retry_timer(uv_timer_t *t)
{
	struct egress_link *l = t->data;

	if (l->calls && clk_boot_ns(l->cayd->clk) > l->calls->deadline_ns)
		egress_link_disconnect(l, "it does not reply");
	egress_attach_waiting(l);
	if (l->poll)
		return;
	l->fd = seqpacket_connect(l->cayd->settings.run_dir, EGRESS_SOCKET);
	l->poll = l->fd < 0 ? NULL : calloc(1, sizeof(*l->poll));
	if (!l->poll || uv_poll_init(&l->cayd->loop, l->poll, l->fd) < 0) {
		free(l->poll);
		l->poll = NULL;
		cay_closep(&l->fd);
		return;
	}
	seqpacket_refuse_fds(l->fd);
	l->poll->data = l;
	egress_link_send_plain(l, EGRESS_MSG_HELLO, NULL);
}

int egress_link_open(struct cayd *c, struct cay_err *err)
{
	struct egress_link *l = calloc(1, sizeof(*l));

	if (!l)
		return cay_no_memory(err);
	*l = (struct egress_link){ .cayd = c, .fd = -EBADF, .connection = 1 };
	l->last_call = &l->calls;
	l->last_queued = &l->queue;
	(void)uv_timer_init(&c->loop, &l->retry);
	l->retry.data = l;
	c->egress_link = l;
	(void)uv_timer_start(&l->retry, on_egress_link_retry_timer, 0, AGAIN_MS);
	return 0;
}
