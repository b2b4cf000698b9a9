/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/edge/edge-push.h"

#include "auth/key.h"
#include "base/seqpacket.h"
#include "cayd/core/listener-socket.h"
#include "cayd/edge/edge-report.h"
#include "cayd/tenant/api-key.h"
#include "cayd/tenant/exports.h"
#include "cayd/tenant/revoke.h"
#include "cayd/tenant/tenant.h"
#include "cayd/tenant/token.h"
#include "wire/push.h"

#define HELLO_MS 5000
#define TICK_MS 1000
#define BUCKETS 256
#define SANDBOXES_MOST UINT64_C(30000) /* limits.sandboxes (settings.def) */

/* A sandbox with requests inside that came through this edge. */
struct edge_busy_sandbox {
	struct sandbox *sandbox;
	struct edge_busy_sandbox *next;
};

struct edge_push_peer {
	struct edge_push *all;
	struct edge_push_peer *prev, *next;
	uv_pipe_t pipe;
	uv_timer_t timer;
	uv_write_t write;
	unsigned open;
	bool greeted, closing, writing;
	struct buf out, sending;
	uint8_t in[PUSH_SIZE];
	size_t n_in;
	struct edge_busy_sandbox *busy_sandboxes[BUCKETS];
	struct edge_report *report;
};

struct edge_push {
	struct cayd *cayd;
	uv_pipe_t listener;
	uv_timer_t tick;
	struct edge_push_peer *peers;
	unsigned n;
};

static struct edge_busy_sandbox **edge_peer_busy_find(struct edge_push_peer *p,
						      const struct sandbox *sb)
{
	struct edge_busy_sandbox **at =
		&p->busy_sandboxes[sb->info.id.bits[sizeof(sb->info.id.bits) - 1] % BUCKETS];

	while (*at && (*at)->sandbox != sb)
		at = &(*at)->next;
	return at;
}

static void edge_peer_busy_remove(struct edge_busy_sandbox **at)
{
	struct edge_busy_sandbox *i = *at;

	*at = i->next;
	(void)sandbox_apply_event(i->sandbox, &(struct life_event){ .kind = LIFE_LEAVE });
	sandbox_release(i->sandbox);
	free(i);
}

static void on_edge_peer_closed(uv_handle_t *h)
{
	struct edge_push_peer *p = h->data;

	if (--p->open)
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		while (p->busy_sandboxes[i])
			edge_peer_busy_remove(&p->busy_sandboxes[i]);
	*(p->prev ? &p->prev->next : &p->all->peers) = p->next;
	if (p->next)
		p->next->prev = p->prev;
	p->all->n--;
	edge_report_free(p->all->cayd, p->report);
	buf_fini(&p->out);
	buf_fini(&p->sending);
	free(p);
}

static void edge_peer_close(struct edge_push_peer *p)
{
	if (p->closing)
		return;
	p->closing = true;
	uv_close((uv_handle_t *)&p->pipe, on_edge_peer_closed);
	uv_close((uv_handle_t *)&p->timer, on_edge_peer_closed);
}

static void edge_peer_flush(struct edge_push_peer *p);

static void on_edge_peer_written(uv_write_t *w, int status)
{
	struct edge_push_peer *p = w->data;

	p->writing = false;
	buf_clear(&p->sending);
	if (status < 0)
		edge_peer_close(p);
	else
		edge_peer_flush(p);
}

/* Written at once if the socket has room: a client that is answered after a push finds that the
 * edges have it. */
static void edge_peer_flush(struct edge_push_peer *p)
{
	struct buf swap = p->sending;
	uv_buf_t b;
	int n;

	if (p->writing || p->closing || !p->out.len)
		return;
	b = uv_buf_init(p->out.data, (unsigned)p->out.len);
	n = uv_try_write((uv_stream_t *)&p->pipe, &b, 1);
	if (n > 0)
		buf_consume(&p->out, (size_t)n);
	if (!p->out.len)
		return;
	p->sending = p->out;
	p->out = swap;
	b = uv_buf_init(p->sending.data, (unsigned)p->sending.len);
	p->writing = true;
	if (uv_write(&p->write, (uv_stream_t *)&p->pipe, &b, 1, on_edge_peer_written) < 0)
		edge_peer_close(p);
}

static void edge_peer_append(void *arg, const struct push *what)
{
	struct edge_push_peer *p = arg;
	uint8_t bytes[PUSH_SIZE];

	push_encode(what, bytes);
	if (buf_append(&p->out, bytes, sizeof(bytes)) < 0)
		edge_peer_close(p);
	explicit_bzero(bytes, sizeof(bytes));
}

static void edge_peer_append_sandbox(struct edge_push_peer *p, const struct sandbox *sb)
{
	struct push what = { .kind = PUSH_SANDBOX,
			     .value = sandbox_wakes(sb) ? PUSH_DOZING : sb->life.state,
			     .number = (uint32_t)sb->info.app_port |
				       (sb->info.public_ports ? PUSH_PUBLIC_PORTS : 0),
			     .time = sb->epoch,
			     .id = sb->info.id,
			     .tenant = sb->info.tenant };

	key_name_tag(sb->info.group, what.secret);
	key_name_tag(sb->info.name, what.secret + PUSH_GROUP_TAG);
	edge_peer_append(p, &what);
	revoked_emit_push_records(sb, edge_peer_append, p);
	exports_emit_push_records(sb, edge_peer_append, p);
}

static void edge_peer_send_snapshot(struct edge_push_peer *p)
{
	struct push hello = { .kind = PUSH_HELLO, .number = PUSH_ABI, .secret = CAY_VERSION };

	static_assert(sizeof(CAY_VERSION) <= sizeof(hello.secret));
	static_assert(PUSH_QUEUE_MAX >
		      SANDBOXES_MOST * (1 + PUSH_REVOKED_MAX + PUSH_EXPORTS_MAX / 2) * PUSH_SIZE);
	edge_peer_append(p, &hello);
	edge_peer_append(p, &(struct push){ .kind = PUSH_ALL });
	for (struct sandbox *sb = sandboxes_newest(p->all->cayd->sandboxes); sb; sb = sb->older)
		if (!life_is_finished(&sb->life) && !sb->life.warm && !sb->life.claimed &&
		    !tenant_is_for_builds(&sb->info.tenant))
			edge_peer_append_sandbox(p, sb);
	key_emit_push_records(p->all->cayd, NULL, edge_peer_append, p);
	token_signer_emit_push_records(p->all->cayd, edge_peer_append, p);
	edge_peer_append(p, &(struct push){ .kind = PUSH_END });
	edge_peer_flush(p);
}

/* A sandbox with a request inside is not idle; the end of the last one restarts its idle time. */
static void edge_peer_update_busy(struct edge_push_peer *p, const struct push *what)
{
	struct sandbox *sb = sandbox_find(p->all->cayd->sandboxes, &what->id);
	struct life_event in = { .kind = LIFE_ENTER }, out = { .kind = LIFE_LEAVE };
	struct edge_busy_sandbox **at = sb ? edge_peer_busy_find(p, sb) : NULL, *i;

	if (!sb || (what->number && *at))
		return;
	if (!what->number && *at) {
		edge_peer_busy_remove(at);
		return;
	}
	i = what->number ? malloc(sizeof(*i)) : NULL;
	if ((what->number && !i) || sandbox_apply_event(sb, &in) != CAY_OK) {
		free(i);
		return;
	}
	if (!i) {
		(void)sandbox_apply_event(sb, &out);
		return;
	}
	*i = (struct edge_busy_sandbox){ sb, NULL };
	sb->holds++;
	*at = i;
}

/* One record; false when it is not one that edges send. */
static bool edge_peer_handle_record(struct edge_push_peer *p)
{
	struct push what;

	if (push_decode(p->in, &what) < 0)
		return false;
	if (!p->greeted) {
		if (what.kind != PUSH_HELLO || what.number != PUSH_ABI)
			return false;
		p->greeted = true;
		(void)uv_timer_stop(&p->timer);
		p->report = edge_report_create(p->all->cayd, what.secret);
		edge_peer_send_snapshot(p);
		return true;
	}
	if (what.kind == PUSH_BUSY)
		edge_peer_update_busy(p, &what);
	else if (what.kind == PUSH_KEY_USED)
		key_mark_used(p->all->cayd, &what.id);
	else if (what.kind == PUSH_REFUSED)
		edge_refusal_record(p->all->cayd, &what);
	else if (what.kind == PUSH_COUNT)
		return edge_report_set_count(p->report, &what);
	else
		return false;
	return true;
}

static void on_edge_peer_alloc(uv_handle_t *h, size_t, uv_buf_t *ret)
{
	struct edge_push_peer *p = h->data;

	*ret = uv_buf_init((char *)p->in + p->n_in, (unsigned)(PUSH_SIZE - p->n_in));
}

static void on_edge_peer_read(uv_stream_t *s, ssize_t n, const uv_buf_t *)
{
	struct edge_push_peer *p = s->data;

	if (n < 0) {
		edge_peer_close(p);
		return;
	}
	p->n_in += (size_t)n;
	if (p->n_in < PUSH_SIZE)
		return;
	p->n_in = 0;
	if (!edge_peer_handle_record(p)) {
		log_warn(&p->all->cayd->log, "disconnected an edge that sent an invalid record");
		edge_peer_close(p);
	}
}

static void on_edge_peer_hello_timeout(uv_timer_t *t)
{
	edge_peer_close(t->data);
}

static void on_edge_peer_connection(uv_stream_t *listener, int status)
{
	struct edge_push *all = listener->data;
	struct edge_push_peer *p = status < 0 ? NULL : calloc(1, sizeof(*p));

	if (!p)
		return;
	*p = (struct edge_push_peer){ .all = all, .open = 2, .next = all->peers };
	p->out.max = p->sending.max = PUSH_QUEUE_MAX;
	(void)uv_pipe_init(listener->loop, &p->pipe, 0);
	(void)uv_timer_init(listener->loop, &p->timer);
	p->pipe.data = p->timer.data = p->write.data = p;
	if (p->next)
		p->next->prev = p;
	all->peers = p;
	all->n++;
	if (uv_accept(listener, (uv_stream_t *)&p->pipe) < 0 || all->n > PUSH_PEERS_MAX ||
	    uv_read_start((uv_stream_t *)&p->pipe, on_edge_peer_alloc, on_edge_peer_read) < 0)
		edge_peer_close(p);
	else
		(void)uv_timer_start(&p->timer, on_edge_peer_hello_timeout, HELLO_MS, 0);
}

/* The heartbeat lets an edge tell a control that hangs from one without news. */
static void on_edge_push_timer(uv_timer_t *t)
{
	struct edge_push *all = t->data;

	for (struct edge_push_peer *p = all->peers; p; p = p->next)
		if (p->greeted) {
			edge_peer_append(p, &(struct push){ .kind = PUSH_HEARTBEAT });
			edge_peer_flush(p);
		}
	edge_refusals_flush(all->cayd);
	token_signer_rotate_if_due(all->cayd);
}

unsigned edge_push_count_edges(const struct cayd *c)
{
	unsigned n = 0;

	for (const struct edge_push_peer *p = c->edge_push ? c->edge_push->peers : NULL; p;
	     p = p->next)
		n += p->greeted && !p->closing;
	return n;
}

void edge_push_sandbox(struct sandbox *sb)
{
	struct edge_push *all = sb->cayd->edge_push;

	if (!all || sb->life.warm || tenant_is_for_builds(&sb->info.tenant))
		return; /* no request can reach a warm sandbox or a build's */
	for (struct edge_push_peer *p = all->peers; p; p = p->next)
		if (p->greeted) {
			edge_peer_append_sandbox(p, sb);
			edge_peer_flush(p);
		}
}

/* Void all secrets of the key, then send those that are valid. */
void edge_push_key(struct cayd *c, const struct id *id)
{
	struct edge_push *all = c->edge_push;

	if (!all)
		return;
	for (struct edge_push_peer *p = all->peers; p; p = p->next)
		if (p->greeted) {
			edge_peer_append(p, &(struct push){ .kind = PUSH_KEY_REMOVED, .id = *id });
			key_emit_push_records(c, id, edge_peer_append, p);
			edge_peer_flush(p);
		}
}

void edge_push_token_keys(struct cayd *c)
{
	for (struct edge_push_peer *p = c->edge_push ? c->edge_push->peers : NULL; p; p = p->next)
		if (p->greeted) {
			token_signer_emit_push_records(c, edge_peer_append, p);
			edge_peer_flush(p);
		}
}

int edge_push_open(struct cayd *c, struct cay_err *err)
{
	struct edge_push *all = calloc(1, sizeof(*all));
	int fd, r;

	if (!all)
		return cay_no_memory(err);
	fd = listener_socket_create(c, "edge/" PUSH_SOCKET, 0660, err);
	if (fd < 0) {
		free(all);
		return fd;
	}
	all->cayd = c;
	(void)uv_pipe_init(&c->loop, &all->listener, 0);
	(void)uv_timer_init(&c->loop, &all->tick);
	all->listener.data = all->tick.data = all;
	seqpacket_refuse_fds(fd);
	r = uv_pipe_open(&all->listener, fd);
	if (r >= 0)
		r = uv_listen((uv_stream_t *)&all->listener, 64, on_edge_peer_connection);
	if (r >= 0)
		r = uv_timer_start(&all->tick, on_edge_push_timer, TICK_MS, TICK_MS);
	c->edge_push = all;
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "listen for edges") : 0;
}
