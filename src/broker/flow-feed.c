/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>

#include "base/seqpacket.h"
#include "broker/broker.h"
#include "daemon/control-peer.h"

#define FLOW_BATCH 64    /* records before others get their turn */
#define FLOW_PEERS_MAX 8 /* a cay-egress that is restarted may still have its old one */

/* A connection of cay-egress. */
struct flow_peer {
	struct broker *broker;
	uv_poll_t poll;
	int fd; /* -EBADF: this slot is free */
	bool closing;
};

struct flow_feed {
	uv_poll_t poll;
	int listener;
	struct flow_peer peers[FLOW_PEERS_MAX];
};

static void on_flow_peer_closed(uv_handle_t *h)
{
	struct flow_peer *p = h->data;

	cay_closep(&p->fd);
	p->fd = -EBADF;
}

static void flow_peer_close(struct flow_peer *p, const char *why)
{
	if (p->closing)
		return;
	p->closing = true;
	if (why)
		log_warn(&p->broker->log, "disconnected cay-egress: %s", why);
	uv_close((uv_handle_t *)&p->poll, on_flow_peer_closed);
}

/* AF_INET or AF_INET6 of a connected TCP socket, AF_UNIX of a stream, or -EPROTO. */
static int flow_fd_family(int fd)
{
	int family = 0, type = 0, protocol = 0;
	socklen_t n = sizeof(int);
	struct sockaddr_storage at;
	socklen_t n_at = sizeof(at);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &n) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &n) < 0 || type != SOCK_STREAM ||
	    getpeername(fd, (struct sockaddr *)&at, &n_at) < 0)
		return -EPROTO;
	if (family == AF_UNIX)
		return family;
	return (family == AF_INET || family == AF_INET6) && protocol == IPPROTO_TCP ? family
										    : -EPROTO;
}

static void flow_peer_start_flow(const struct flow_peer *p, const struct broker_record *record,
				 int fds[static BROKER_NUM_FDS])
{
	int family = flow_fd_family(fds[BROKER_FD_HOST]);

	if (family >= 0 && family != AF_UNIX && flow_fd_family(fds[BROKER_FD_PAIR]) == AF_UNIX) {
		broker_flow_start(p->broker, record, fds[BROKER_FD_PAIR], fds[BROKER_FD_HOST],
				  family);
		return;
	}
	log_warn(&p->broker->log, "a record has other descriptors than a pair and a host");
	for (unsigned k = 0; k < BROKER_NUM_FDS; k++)
		cay_closep(&fds[k]);
}

static void on_flow_peer_ready(uv_poll_t *h, int, int)
{
	struct flow_peer *p = h->data;

	for (unsigned i = 0; i < FLOW_BATCH && !p->closing; i++) {
		int fds[BROKER_NUM_FDS] = { -EBADF, -EBADF };
		struct broker_record record;
		unsigned n_fds;
		ssize_t n = seqpacket_receive_fds(p->fd, &record, sizeof(record), fds,
						  BROKER_NUM_FDS, &n_fds);

		if (n == -EAGAIN)
			return;
		if (n > 0 && broker_record_check(&record, (size_t)n, n_fds) == 0) {
			flow_peer_start_flow(p, &record, fds);
			continue;
		}
		for (unsigned k = 0; k < BROKER_NUM_FDS; k++)
			cay_closep(&fds[k]);
		flow_peer_close(p, n > 0 ? "it sent an invalid record" : NULL);
	}
}

static struct flow_peer *flow_feed_find_free(struct flow_feed *feed)
{
	for (size_t i = 0; i < FLOW_PEERS_MAX; i++)
		if (feed->peers[i].fd < 0)
			return &feed->peers[i];
	return NULL;
}

static void on_flow_connection(uv_poll_t *h, int, int)
{
	struct broker *b = h->data;
	auto_close int fd = accept4(b->feed->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct flow_peer *p;

	if (fd < 0)
		return;
	if (!control_peer_check(fd, b->egress_uid)) {
		log_warn(&b->log, "refused a connection of another user");
		return;
	}
	p = flow_feed_find_free(b->feed);
	if (!p || uv_poll_init(&b->loop, &p->poll, fd) < 0) {
		log_warn(&b->log, "refused a connection: there are %d", FLOW_PEERS_MAX);
		return;
	}
	p->broker = b;
	p->closing = false;
	p->fd = cay_take_fd(&fd);
	p->poll.data = p;
	(void)uv_poll_start(&p->poll, UV_READABLE, on_flow_peer_ready);
}

int flow_feed_open(struct broker *b, struct cay_err *err)
{
	b->feed = calloc(1, sizeof(*b->feed));
	if (!b->feed)
		return cay_no_memory(err);
	for (size_t i = 0; i < FLOW_PEERS_MAX; i++)
		b->feed->peers[i].fd = -EBADF;
	b->feed->listener = control_peer_listen(&b->settings, BROKER_FLOW_SOCKET, 8, err);
	if (b->feed->listener < 0)
		return b->feed->listener;
	if (uv_poll_init(&b->loop, &b->feed->poll, b->feed->listener) < 0)
		return cay_no_memory(err);
	b->feed->poll.data = b;
	(void)uv_poll_start(&b->feed->poll, UV_READABLE, on_flow_connection);
	return 0;
}
