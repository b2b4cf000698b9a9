/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/socket.h>

#include "base/seqpacket.h"
#include "broker/broker.h"
#include "daemon/control-peer.h"

#define FEED_BATCH 64 /* messages before others get their turn */

/* A connection of cayd; the latest counts, older ones are closed. */
struct credential_peer {
	struct broker *broker;
	uv_poll_t poll;
	int fd;
	bool greeted;
};

struct credential_feed {
	uv_poll_t poll;
	int listener;
	struct credential_peer *peer;
	bool all; /* between ALL and END */
	struct credential_message in;
};

static void on_credential_peer_closed(uv_handle_t *h)
{
	struct credential_peer *p = h->data;

	cay_closep(&p->fd);
	free(p);
}

static void credential_peer_close(struct credential_peer *p, const char *why)
{
	struct credential_feed *feed = p->broker->credential_feed;

	if (feed->peer != p)
		return;
	feed->peer = NULL;
	if (why)
		log_warn(&p->broker->log, "disconnected cayd: %s", why);
	uv_close((uv_handle_t *)&p->poll, on_credential_peer_closed);
}

/* cayd sends a few PUT at a time, so there is room for their replies. */
static void credential_peer_send(struct credential_peer *p, const struct credential_message *m)
{
	if (p->broker->credential_feed->peer == p &&
	    seqpacket_send(p->fd, m, sizeof(*m), -EBADF) < 0)
		credential_peer_close(p, "it does not read");
}

static void credential_peer_put(struct credential_peer *p)
{
	struct broker *b = p->broker;
	const struct credential_message *in = &b->credential_feed->in;
	int r = credentials_put(&b->credentials, in);
	struct credential_message out =
		credential_message_init(r < 0 ? CREDENTIAL_MSG_CLOSED : CREDENTIAL_MSG_APPLIED);

	if (r < 0)
		log_warn(&b->log, "cannot open a credential: %s", strerror(-r));
	out.serial = in->serial;
	out.tenant = in->tenant;
	memcpy(out.name, in->name, sizeof(out.name));
	credential_peer_send(p, &out);
}

static void credential_peer_hello(struct credential_peer *p)
{
	struct credential_message out = credential_message_init(CREDENTIAL_MSG_HELLO);

	static_assert(sizeof(out.key) == ENVELOPE_KEY_LEN);
	memcpy(out.key, p->broker->public_key.bytes, sizeof(out.key));
	p->greeted = true;
	credential_peer_send(p, &out);
}

static void credential_peer_handle(struct credential_peer *p)
{
	struct credential_feed *feed = p->broker->credential_feed;
	struct credentials *all = &p->broker->credentials;
	const struct credential_message *m = &feed->in;

	if (!p->greeted != (m->kind == CREDENTIAL_MSG_HELLO)) {
		credential_peer_close(p, "it did not begin with one hello");
	} else if (m->kind == CREDENTIAL_MSG_HELLO) {
		credential_peer_hello(p);
	} else if (m->kind == CREDENTIAL_MSG_ALL) {
		all->round++;
		feed->all = true;
	} else if (m->kind == CREDENTIAL_MSG_END) {
		if (feed->all)
			credentials_remove_all_but(all, all->round);
		feed->all = false;
	} else if (m->kind == CREDENTIAL_MSG_GONE) {
		credentials_remove(all, &m->tenant, m->name);
	} else {
		credential_peer_put(p);
	}
}

static void on_credential_peer_ready(uv_poll_t *h, int, int)
{
	struct credential_peer *p = h->data;
	struct credential_feed *feed = p->broker->credential_feed;

	for (unsigned i = 0; i < FEED_BATCH && feed->peer == p; i++) {
		auto_close int fd = -EBADF;
		unsigned n_fds;
		ssize_t n = seqpacket_receive(p->fd, &feed->in, sizeof(feed->in), &fd, &n_fds);

		if (n == -EAGAIN)
			return;
		if (n <= 0)
			credential_peer_close(p, NULL);
		else if (n_fds || credential_message_check(&feed->in, (size_t)n, true) < 0)
			credential_peer_close(p, "it sent an invalid message");
		else
			credential_peer_handle(p);
	}
}

static void on_credential_connection(uv_poll_t *h, int, int)
{
	struct broker *b = h->data;
	auto_close int fd =
		accept4(b->credential_feed->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct credential_peer *p;

	if (fd < 0)
		return;
	if (!control_peer_check(fd, b->control_uid)) {
		log_warn(&b->log, "refused credentials of another user");
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p || uv_poll_init(&b->loop, &p->poll, fd) < 0) {
		free(p);
		return;
	}
	seqpacket_refuse_fds(fd);
	p->broker = b;
	p->fd = cay_take_fd(&fd);
	p->poll.data = p;
	if (b->credential_feed->peer)
		credential_peer_close(b->credential_feed->peer, NULL);
	b->credential_feed->peer = p;
	b->credential_feed->all = false;
	(void)uv_poll_start(&p->poll, UV_READABLE, on_credential_peer_ready);
}

int credential_feed_open(struct broker *b, struct cay_err *err)
{
	struct credential_feed *feed = calloc(1, sizeof(*feed));

	if (!feed)
		return cay_no_memory(err);
	b->credential_feed = feed;
	feed->listener = control_peer_listen(&b->settings, CREDENTIAL_SOCKET, 4, err);
	if (feed->listener < 0)
		return feed->listener;
	if (uv_poll_init(&b->loop, &feed->poll, feed->listener) < 0)
		return cay_no_memory(err);
	feed->poll.data = b;
	(void)uv_poll_start(&feed->poll, UV_READABLE, on_credential_connection);
	return 0;
}
