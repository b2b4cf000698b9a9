/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <sys/socket.h>

#include "base/seqpacket.h"
#include "daemon/control-peer.h"
#include "egress/egress.h"
#include "wire/verb.h"

#define FEED_BATCH 64 /* messages before others get their turn */

/* A connection of cayd; the latest counts, older ones are closed. */
struct feed_peer {
	struct egress *egress;
	uv_poll_t poll;
	int fd;
	bool greeted;
	struct buf out; /* a reply that the socket has no room for */
};

struct feed {
	uv_poll_t poll;
	int listener;
	struct feed_peer *peer;
	uint64_t round; /* of ALL; each begins another */
	bool all;       /* between ALL and END */
	char in[EGRESS_MESSAGE_MAX], reply[EGRESS_MESSAGE_MAX];
	struct egress_flow_row flows[EGRESS_FLOWS_MAX];
	struct {
		struct egress_log_end end;
		struct egress_log_row rows[EGRESS_LOG_ROWS_MAX];
	} log;
};

static void on_feed_peer_closed(uv_handle_t *h)
{
	struct feed_peer *p = h->data;

	cay_closep(&p->fd);
	buf_fini(&p->out);
	free(p);
}

static void feed_peer_close(struct feed_peer *p, const char *why)
{
	struct egress *e = p->egress;

	if (e->feed->peer != p)
		return;
	e->feed->peer = NULL;
	if (why)
		log_warn(&e->log, "disconnected cayd: %s", why);
	uv_close((uv_handle_t *)&p->poll, on_feed_peer_closed);
}

static void on_feed_peer_ready(uv_poll_t *h, int status, int events);

/* While a reply waits for room, nothing is read. */
static void feed_peer_poll(struct feed_peer *p)
{
	(void)uv_poll_start(&p->poll, p->out.len ? UV_WRITABLE : UV_READABLE, on_feed_peer_ready);
}

static void feed_send(struct feed_peer *p, const void *msg, size_t n)
{
	int r;

	if (p->egress->feed->peer != p)
		return;
	r = p->out.len ? -EAGAIN : seqpacket_send(p->fd, msg, n, -EBADF);
	if (r == -EAGAIN && !p->out.len && buf_append(&p->out, msg, n) >= 0)
		feed_peer_poll(p);
	else if (r < 0)
		feed_peer_close(p, "it does not read");
}

static void feed_reply(struct feed_peer *p, enum egress_kind kind, const struct id *sandbox,
		       uint64_t generation, struct slice body)
{
	struct feed *feed = p->egress->feed;
	struct egress_message m = egress_message_init(kind, sandbox, generation);

	memcpy(feed->reply, &m, sizeof(m));
	if (body.n)
		memcpy(feed->reply + sizeof(m), body.p, body.n);
	feed_send(p, feed->reply, sizeof(m) + body.n);
}

static void feed_reply_applied(struct feed_peer *p, struct egress_sandbox *sb, uint64_t generation)
{
	const struct egress_counts counts = egress_sandbox_get_counts(sb);

	auto_buf body = BUF_INIT(sizeof(counts) + EGRESS_CA_MAX);

	sb->count.sent = counts;
	if (buf_append(&body, &counts, sizeof(counts)) < 0 ||
	    (egress_policy_inspects((struct slice){ sb->policy.data, sb->policy.len }) &&
	     ca_write_pem(p->egress, &sb->id, &body) < 0)) {
		feed_reply(p, EGRESS_MSG_REFUSED, &sb->id, generation, (struct slice){});
		return;
	}
	feed_reply(p, EGRESS_MSG_APPLIED, &sb->id, generation,
		   (struct slice){ body.data, body.len });
}

static void feed_list_log(struct feed_peer *p, const struct egress_message *m, struct slice body)
{
	struct feed *feed = p->egress->feed;
	struct egress_log_query which;
	size_t n;

	memcpy(&which, body.p, sizeof(which));
	n = recent_list(egress_sandbox_find(p->egress, &m->sandbox), &which, feed->log.rows,
			&feed->log.end);
	feed_reply(p, EGRESS_MSG_LOG, &m->sandbox, m->generation,
		   (struct slice){ (const char *)&feed->log,
				   sizeof(feed->log.end) + n * sizeof(feed->log.rows[0]) });
}

static void feed_answer_question(struct feed_peer *p, const struct egress_message *m,
				 struct slice body)
{
	struct feed *feed = p->egress->feed;
	struct egress_sandbox *sb = egress_sandbox_find(p->egress, &m->sandbox);
	struct egress_answer answer;
	struct egress_cut which;
	uint64_t n;

	if (m->kind == EGRESS_MSG_CUT) {
		memcpy(&which, body.p, sizeof(which));
		n = egress_sandbox_cut_flows(sb, &which);
		feed_reply(p, EGRESS_MSG_CUT_DONE, &m->sandbox, m->generation,
			   (struct slice){ (const char *)&n, sizeof(n) });
	} else if (m->kind == EGRESS_MSG_LIST_LOG) {
		feed_list_log(p, m, body);
	} else if (m->kind == EGRESS_MSG_ANSWER) {
		memcpy(&answer, body.p, sizeof(answer));
		n = egress_sandbox_answer_asks(sb, &answer);
		feed_reply(p, EGRESS_MSG_ANSWERED, &m->sandbox, m->generation,
			   (struct slice){ (const char *)&n, sizeof(n) });
	} else {
		n = egress_sandbox_list_flows(sb, feed->flows);
		feed_reply(p, EGRESS_MSG_FLOWS, &m->sandbox, m->generation,
			   (struct slice){ (const char *)feed->flows, n * sizeof(feed->flows[0]) });
	}
}

uint64_t feed_round(const struct egress *e)
{
	return e->feed->round;
}

static void feed_handle_peer_done(struct egress *e, const struct egress_message *m,
				  struct slice body, int *fd)
{
	struct egress_peer_done done;

	memcpy(&done, body.p, sizeof(done));
	egress_sandbox_connect_peer(egress_sandbox_find(e, &m->sandbox), m->generation, &done,
				    cay_take_fd(fd));
}

static void feed_handle_expose(struct feed_peer *p, const struct egress_message *m,
			       struct slice body)
{
	struct egress *e = p->egress;
	struct egress_exposed ports;
	uint64_t n;

	memcpy(&ports, body.p, sizeof(ports));
	n = egress_expose(e, &m->sandbox, &ports, e->feed->round);
	feed_reply(p, EGRESS_MSG_CUT_DONE, &m->sandbox, m->generation,
		   (struct slice){ (const char *)&n, sizeof(n) });
}

bool feed_push(struct egress *e, const void *msg, size_t n)
{
	const struct feed_peer *p = e->feed->peer;

	return p && p->greeted && !p->out.len && seqpacket_send(p->fd, msg, n, -EBADF) >= 0;
}

/* The keeper's message on the socket it gave to cayd. */
static int feed_open_listeners(struct egress_sandbox *sb, int envelope)
{
	struct verb_net_message m;
	int fds[STEER_NUM];
	unsigned n_fds;
	ssize_t n = seqpacket_receive_fds(envelope, &m, sizeof(m), fds, STEER_NUM, &n_fds);

	if (n == sizeof(m) && n_fds == STEER_NUM && id_eq(&m.sandbox, &sb->id))
		return egress_sandbox_attach(sb, fds);
	for (size_t i = 0; i < STEER_NUM; i++)
		cay_closep(&fds[i]);
	return -EPROTO;
}

static int feed_apply_sandbox(struct egress *e, const struct egress_message *m, struct slice body,
			      int envelope)
{
	struct egress_sandbox *sb = egress_sandbox_find(e, &m->sandbox);
	struct egress_counts counts;
	struct egress_limits limits;
	const size_t at = sizeof(counts) + sizeof(limits);
	const struct slice policy = { body.p + at, body.n - at };
	const bool is_new = !sb;
	int r;

	if (egress_policy_check(policy) < 0)
		return -EPROTO;
	if (!sb && envelope < 0)
		return -ENOENT;
	if (!sb)
		sb = egress_sandbox_add(e, &m->sandbox, &m->tenant);
	if (!sb)
		return -ENOMEM;
	memcpy(&counts, body.p, sizeof(counts));
	memcpy(&limits, body.p + sizeof(counts), sizeof(limits));
	if (is_new)
		egress_sandbox_set_counts(sb, &counts);
	sb->round = e->feed->round;
	/* the policy first: no connection is accepted before there is one */
	r = egress_sandbox_set_limits(sb, &limits);
	if (r >= 0)
		r = egress_sandbox_set_policy(sb, policy);
	if (r >= 0 && envelope >= 0)
		r = feed_open_listeners(sb, envelope);
	if (r >= 0 && egress_sandbox_fd(sb, STEER_LINK) < 0)
		r = -ENOENT;
	if (r < 0)
		egress_sandbox_remove(sb);
	return r;
}

/* Takes *fd, or leaves it. */
static void feed_handle_message(struct feed_peer *p, size_t n, int *fd)
{
	struct egress *e = p->egress;
	struct feed *feed = e->feed;
	struct egress_message m;
	struct egress_sandbox *sb;
	int r;

	memcpy(&m, feed->in, sizeof(m));
	if (!p->greeted != (m.kind == EGRESS_MSG_HELLO)) {
		feed_peer_close(p, "it did not begin with one hello");
		return;
	}
	if (m.kind == EGRESS_MSG_HELLO) {
		p->greeted = true;
		feed_reply(p, EGRESS_MSG_HELLO, NULL, 0, (struct slice){});
		counter_send_again(e);
		egress_tell_asks_again(e);
	} else if (m.kind == EGRESS_MSG_ALL) {
		feed->round++;
		feed->all = true;
	} else if (m.kind == EGRESS_MSG_END) {
		if (feed->all) {
			egress_sandbox_remove_all_but(e, feed->round);
			egress_cut_unexposed(e, feed->round);
			name_file_forget_rest(e);
		}
		feed->all = false;
	} else if (m.kind == EGRESS_MSG_EVENT) {
		webhook_add(e, egress_message_body(feed->in, n));
	} else if (m.kind == EGRESS_MSG_GONE) {
		sb = egress_sandbox_find(e, &m.sandbox);
		name_file_forget(e, &m.sandbox, sb ? &sb->names : NULL);
		if (sb) {
			egress_sandbox_counts_send(sb);
			egress_sandbox_remove(sb);
		}
	} else if (m.kind == EGRESS_MSG_PEER_DONE) {
		feed_handle_peer_done(e, &m, egress_message_body(feed->in, n), fd);
	} else if (m.kind == EGRESS_MSG_EXPOSE) {
		feed_handle_expose(p, &m, egress_message_body(feed->in, n));
	} else if (m.kind == EGRESS_MSG_LIST_FLOWS || m.kind == EGRESS_MSG_CUT ||
		   m.kind == EGRESS_MSG_LIST_LOG || m.kind == EGRESS_MSG_ANSWER) {
		feed_answer_question(p, &m, egress_message_body(feed->in, n));
	} else {
		r = feed_apply_sandbox(e, &m, egress_message_body(feed->in, n), *fd);
		sb = r < 0 ? NULL : egress_sandbox_find(e, &m.sandbox);
		if (r < 0)
			log_warn(&e->log, "cannot use a sandbox from cayd: %s", strerror(-r));
		if (sb)
			feed_reply_applied(p, sb, m.generation);
		else
			feed_reply(p, EGRESS_MSG_REFUSED, &m.sandbox, m.generation,
				   (struct slice){});
	}
}

static void feed_peer_send_waiting(struct feed_peer *p)
{
	int r = seqpacket_send(p->fd, p->out.data, p->out.len, -EBADF);

	if (r == -EAGAIN)
		return;
	buf_clear(&p->out);
	if (r < 0)
		feed_peer_close(p, "it does not read");
	else
		feed_peer_poll(p);
}

static void on_feed_peer_ready(uv_poll_t *h, int, int)
{
	struct feed_peer *p = h->data;
	struct feed *feed = p->egress->feed;

	if (feed->peer == p && p->out.len)
		feed_peer_send_waiting(p);
	for (unsigned i = 0; i < FEED_BATCH && feed->peer == p && !p->out.len; i++) {
		auto_close int fd = -EBADF;
		unsigned n_fds;
		ssize_t n = seqpacket_receive(p->fd, feed->in, sizeof(feed->in), &fd, &n_fds);

		if (n == -EAGAIN)
			return;
		if (n <= 0)
			feed_peer_close(p, NULL);
		else if (egress_message_check(feed->in, (size_t)n, n_fds, true) < 0)
			feed_peer_close(p, "it sent an invalid message");
		else
			feed_handle_message(p, (size_t)n, &fd);
	}
}

static void on_feed_connection(uv_poll_t *h, int, int)
{
	struct egress *e = h->data;
	auto_close int fd = accept4(e->feed->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct feed_peer *p;

	if (fd < 0)
		return;
	if (!control_peer_check(fd, e->control_uid)) {
		log_warn(&e->log, "refused a connection of another user");
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p || uv_poll_init(&e->loop, &p->poll, fd) < 0) {
		free(p);
		return;
	}
	p->egress = e;
	p->out = BUF_INIT(EGRESS_MESSAGE_MAX);
	p->fd = cay_take_fd(&fd);
	p->poll.data = p;
	if (e->feed->peer)
		feed_peer_close(e->feed->peer, NULL);
	e->feed->peer = p;
	e->feed->all = false;
	feed_peer_poll(p);
}

int feed_open(struct egress *e, struct cay_err *err)
{
	e->feed = calloc(1, sizeof(*e->feed));
	if (!e->feed)
		return cay_no_memory(err);
	e->feed->listener = control_peer_listen(&e->settings, EGRESS_SOCKET, 4, err);
	if (e->feed->listener < 0)
		return e->feed->listener;
	if (uv_poll_init(&e->loop, &e->feed->poll, e->feed->listener) < 0)
		return cay_no_memory(err);
	e->feed->poll.data = e;
	(void)uv_poll_start(&e->feed->poll, UV_READABLE, on_feed_connection);
	return 0;
}
