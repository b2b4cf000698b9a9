/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/egress/broker-link.h"

#include "base/seqpacket.h"
#include "cayd/egress/credential-store.h"

#define AGAIN_MS 200
#define ANSWER_NS (5 * NS_PER_S)
#define REPLY_BATCH 64 /* before other work gets its turn */
#define WINDOW 8       /* PUT that have no reply yet: the socket has room for these */

/* A request that waits until cay-broker has a credential. */
struct broker_call {
	struct broker_call *next;
	uint64_t serial;
	broker_link_fn *fn;
	void *arg;
};

struct broker_link {
	struct cayd *cayd;
	uv_timer_t retry;
	uv_poll_t *poll; /* NULL: not connected */
	int fd;
	bool greeted, complete; /* END was sent */
	uint64_t connection;    /* counts them */
	uint64_t serial;
	unsigned n_waiting; /* PUT that have no reply yet */
	uint64_t waiting_since_ns;
	struct envelope_key key;
	struct broker_call *calls;
	struct credential_message in;
};

const struct envelope_key *broker_link_get_key(const struct cayd *c)
{
	return c->broker_link && c->broker_link->greeted ? &c->broker_link->key : NULL;
}

bool broker_link_has(const struct cayd *c, const struct credential_row *row)
{
	return broker_link_get_key(c) && row->opened_in == c->broker_link->connection;
}

/* Those of this serial, or all. */
static void broker_link_finish_calls(struct broker_link *l, uint64_t serial)
{
	struct broker_call **at = &l->calls;

	while (*at) {
		struct broker_call *call = *at;

		if (serial && call->serial != serial) {
			at = &call->next;
			continue;
		}
		*at = call->next;
		call->fn(call->arg);
		free(call);
	}
}

static void broker_link_disconnect(struct broker_link *l, const char *why)
{
	if (!l->poll)
		return;
	if (why)
		log_warn(&l->cayd->log, "disconnected cay-broker: %s", why);
	uv_close((uv_handle_t *)l->poll, on_handle_closed);
	l->poll = NULL;
	cay_closep(&l->fd);
	l->fd = -EBADF;
	l->greeted = l->complete = false;
	l->n_waiting = 0;
	l->connection++;
	broker_link_finish_calls(l, 0);
}

static bool broker_link_send(struct broker_link *l, const struct credential_message *m)
{
	int r = seqpacket_send(l->fd, m, sizeof(*m), -EBADF);

	if (r < 0)
		broker_link_disconnect(l, r == -EAGAIN ? "it does not read" : strerror(-r));
	return r >= 0;
}

static bool broker_link_send_plain(struct broker_link *l, enum credential_message_kind kind)
{
	const struct credential_message m = credential_message_init(kind);

	return broker_link_send(l, &m);
}

static void broker_link_send_row(struct broker_link *l, struct credential_row *row)
{
	row->put.serial = ++l->serial;
	row->sent_in = l->connection;
	if (!l->n_waiting++)
		l->waiting_since_ns = clk_boot_ns(l->cayd->clk);
	(void)broker_link_send(l, &row->put);
}

/* Those that this connection has not had yet; then END. */
static void broker_link_send_rest(struct broker_link *l)
{
	for (size_t i = 0; l->greeted && i < credential_store_count(l->cayd); i++) {
		struct credential_row *row = credential_store_get(l->cayd, i);

		if (row->sent_in == l->connection)
			continue;
		if (l->n_waiting >= WINDOW)
			return;
		broker_link_send_row(l, row);
	}
	if (!l->greeted || l->complete)
		return;
	l->complete = true;
	(void)broker_link_send_plain(l, CREDENTIAL_MSG_END);
}

void broker_link_put(struct cayd *c, struct credential_row *row, broker_link_fn *fn, void *arg)
{
	struct broker_link *l = c->broker_link;
	struct broker_call *call = l->greeted ? calloc(1, sizeof(*call)) : NULL;

	if (!call) {
		fn(arg);
		return;
	}
	*call = (struct broker_call){ l->calls, l->serial + 1, fn, arg };
	l->calls = call;
	broker_link_send_row(l, row);
}

void broker_link_remove(struct cayd *c, const struct credential_row *row)
{
	struct broker_link *l = c->broker_link;
	struct credential_message m = credential_message_init(CREDENTIAL_MSG_GONE);

	if (!l || !l->greeted || row->sent_in != l->connection)
		return;
	m.tenant = row->put.tenant;
	memcpy(m.name, row->put.name, sizeof(m.name));
	(void)broker_link_send(l, &m);
}

static void broker_link_handle_reply(struct broker_link *l, const struct credential_message *m)
{
	struct credential_row *row = credential_store_find(l->cayd, &m->tenant, slice_of(m->name));

	if (l->n_waiting)
		l->n_waiting--;
	l->waiting_since_ns = clk_boot_ns(l->cayd->clk);
	if (row && row->put.serial == m->serial && m->kind == CREDENTIAL_MSG_APPLIED)
		row->opened_in = l->connection;
	if (row && m->kind == CREDENTIAL_MSG_CLOSED)
		log_error(&l->cayd->log,
			  "cay-broker cannot open credential '%s': put broker/broker.key back and "
			  "restart cay-broker, or run 'cay credential put' again",
			  row->put.name);
	broker_link_finish_calls(l, m->serial);
	broker_link_send_rest(l);
}

static void broker_link_handle(struct broker_link *l, const struct credential_message *m)
{
	if (!l->greeted != (m->kind == CREDENTIAL_MSG_HELLO)) {
		broker_link_disconnect(l, "it did not begin with one hello");
	} else if (m->kind == CREDENTIAL_MSG_HELLO) {
		static_assert(sizeof(m->key) == sizeof(l->key));
		memcpy(&l->key, m->key, sizeof(l->key));
		l->greeted = true;
		log_info(&l->cayd->log, "cay-broker is connected");
		if (broker_link_send_plain(l, CREDENTIAL_MSG_ALL))
			broker_link_send_rest(l);
	} else {
		broker_link_handle_reply(l, m);
	}
}

static void on_broker_link_ready(uv_poll_t *p, int, int)
{
	struct broker_link *l = p->data;

	for (unsigned i = 0; i < REPLY_BATCH && l->poll == p; i++) {
		auto_close int fd = -EBADF;
		unsigned n_fds;
		ssize_t n = seqpacket_receive(l->fd, &l->in, sizeof(l->in), &fd, &n_fds);

		if (n == -EAGAIN)
			return;
		if (n <= 0)
			broker_link_disconnect(l, NULL);
		else if (n_fds || credential_message_check(&l->in, (size_t)n, false) < 0)
			broker_link_disconnect(l, "it sent an invalid message");
		else
			broker_link_handle(l, &l->in);
	}
}

static void on_broker_link_retry_timer(uv_timer_t *t)
{
	struct broker_link *l = t->data;

	if (l->n_waiting && clk_boot_ns(l->cayd->clk) > l->waiting_since_ns + ANSWER_NS)
		broker_link_disconnect(l, "it does not reply");
	if (l->poll)
		return;
	l->fd = seqpacket_connect(l->cayd->settings.run_dir, CREDENTIAL_SOCKET);
	l->poll = l->fd < 0 ? NULL : calloc(1, sizeof(*l->poll));
	if (!l->poll || uv_poll_init(&l->cayd->loop, l->poll, l->fd) < 0) {
		free(l->poll);
		l->poll = NULL;
		cay_closep(&l->fd);
		return;
	}
	seqpacket_refuse_fds(l->fd);
	l->poll->data = l;
	(void)uv_poll_start(l->poll, UV_READABLE, on_broker_link_ready);
	(void)broker_link_send_plain(l, CREDENTIAL_MSG_HELLO);
}

int broker_link_open(struct cayd *c, struct cay_err *err)
{
	struct broker_link *l = calloc(1, sizeof(*l));

	if (!l)
		return cay_no_memory(err);
	l->cayd = c;
	l->fd = -EBADF;
	l->connection = 1;
	(void)uv_timer_init(&c->loop, &l->retry);
	l->retry.data = l;
	c->broker_link = l;
	(void)uv_timer_start(&l->retry, on_broker_link_retry_timer, 0, AGAIN_MS);
	return 0;
}
