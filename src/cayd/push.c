/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/push.h"

#include <assert.h>

#include "base/msg.h"
#include "cayd/build.h"
#include "cayd/door.h"
#include "cayd/key.h"
#include "cayd/report.h"
#include "cayd/revoke.h"
#include "cayd/sign.h"
#include "wire/push.h"

#define HELLO_MS 5000
#define TICK_MS 1000
#define BUCKETS 256
#define BOXES_MOST UINT64_C(30000) /* limits.sandboxes (settings.def) */

/* A sandbox that an edge has requests in. */
struct inside {
	struct box *box;
	struct inside *next;
};

struct peer {
	struct pushes *all;
	struct peer *prev, *next;
	uv_pipe_t pipe;
	uv_timer_t timer;
	uv_write_t write;
	unsigned open;
	bool greeted, closing, writing;
	struct buf out, sending;
	uint8_t in[PUSH_SIZE];
	size_t n_in;
	struct inside *inside[BUCKETS];
	struct report *report;
};

struct pushes {
	struct cayd *cayd;
	uv_pipe_t listener;
	uv_timer_t tick;
	struct peer *peers;
	unsigned n;
};

static struct inside **find(struct peer *p, const struct box *b)
{
	struct inside **at = &p->inside[b->info.id.bits[sizeof(b->info.id.bits) - 1] % BUCKETS];

	while (*at && (*at)->box != b)
		at = &(*at)->next;
	return at;
}

static void leave(struct inside **at)
{
	struct inside *i = *at;

	*at = i->next;
	(void)box_happens(i->box, &(struct life_event){ .kind = LIFE_LEAVE });
	box_unhold(i->box);
	free(i);
}

static void on_closed(uv_handle_t *h)
{
	struct peer *p = h->data;

	if (--p->open)
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		while (p->inside[i])
			leave(&p->inside[i]);
	*(p->prev ? &p->prev->next : &p->all->peers) = p->next;
	if (p->next)
		p->next->prev = p->prev;
	p->all->n--;
	report_free(p->all->cayd, p->report);
	buf_fini(&p->out);
	buf_fini(&p->sending);
	free(p);
}

static void shut(struct peer *p)
{
	if (p->closing)
		return;
	p->closing = true;
	uv_close((uv_handle_t *)&p->pipe, on_closed);
	uv_close((uv_handle_t *)&p->timer, on_closed);
}

static void flush(struct peer *p);

static void on_written(uv_write_t *w, int status)
{
	struct peer *p = w->data;

	p->writing = false;
	buf_clear(&p->sending);
	if (status < 0)
		shut(p);
	else
		flush(p);
}

/* At once where there is room: who is answered after a push finds that the edges have it. */
static void flush(struct peer *p)
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
	if (uv_write(&p->write, (uv_stream_t *)&p->pipe, &b, 1, on_written) < 0)
		shut(p);
}

static void say(struct peer *p, const struct push *what)
{
	uint8_t bytes[PUSH_SIZE];

	push_encode(what, bytes);
	if (buf_add(&p->out, bytes, sizeof(bytes)) < 0)
		shut(p);
	explicit_bzero(bytes, sizeof(bytes));
}

static void say_it(void *arg, const struct push *what)
{
	say(arg, what);
}

static void say_box(struct peer *p, const struct box *b)
{
	say(p, &(struct push){ .kind = PUSH_SANDBOX,
			       .value = b->life.state,
			       .number = (uint32_t)b->info.app_port,
			       .time = b->epoch,
			       .id = b->info.id,
			       .tenant = b->info.tenant });
	revoke_tell(b, say_it, p);
}

static void say_all(struct peer *p)
{
	struct push hello = { .kind = PUSH_HELLO, .number = PUSH_ABI, .secret = CAY_VERSION };

	static_assert(sizeof(CAY_VERSION) <= sizeof(hello.secret));
	static_assert(PUSH_QUEUE_MAX > BOXES_MOST * (1 + PUSH_REVOKED_MAX) * PUSH_SIZE);
	say(p, &hello);
	say(p, &(struct push){ .kind = PUSH_ALL });
	for (struct box *b = boxes_newest(p->all->cayd->boxes); b; b = b->older)
		if (!life_over(&b->life) && !b->life.warm && !b->life.taken &&
		    !build_has(&b->info.tenant))
			say_box(p, b);
	key_tell(p->all->cayd, NULL, say_it, p);
	sign_tell(p->all->cayd, say_it, p);
	say(p, &(struct push){ .kind = PUSH_END });
	flush(p);
}

/* Who is inside is not idle, who was is not yet. */
static void busy(struct peer *p, const struct push *what)
{
	struct box *b = box_find(p->all->cayd->boxes, &what->id);
	struct life_event in = { .kind = LIFE_ENTER }, out = { .kind = LIFE_LEAVE };
	struct inside **at = b ? find(p, b) : NULL, *i;

	if (!b || (what->number && *at))
		return;
	if (!what->number && *at) {
		leave(at);
		return;
	}
	i = what->number ? malloc(sizeof(*i)) : NULL;
	if ((what->number && !i) || box_happens(b, &in) != CAY_OK) {
		free(i);
		return;
	}
	if (!i) {
		(void)box_happens(b, &out);
		return;
	}
	*i = (struct inside){ b, NULL };
	b->holds++;
	*at = i;
}

/* One record; false when it is not what an edge says. */
static bool hear(struct peer *p)
{
	struct push what;

	if (push_decode(p->in, &what) < 0)
		return false;
	if (!p->greeted) {
		if (what.kind != PUSH_HELLO || what.number != PUSH_ABI)
			return false;
		p->greeted = true;
		(void)uv_timer_stop(&p->timer);
		p->report = report_new(p->all->cayd, what.secret);
		say_all(p);
		return true;
	}
	if (what.kind == PUSH_BUSY)
		busy(p, &what);
	else if (what.kind == PUSH_USED)
		key_used(p->all->cayd, &what.id);
	else if (what.kind == PUSH_REFUSED)
		report_refused(p->all->cayd, &what);
	else if (what.kind == PUSH_COUNT)
		return report_count(p->report, &what);
	else
		return false;
	return true;
}

static void on_alloc(uv_handle_t *h, size_t, uv_buf_t *ret)
{
	struct peer *p = h->data;

	*ret = uv_buf_init((char *)p->in + p->n_in, (unsigned)(PUSH_SIZE - p->n_in));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *)
{
	struct peer *p = s->data;

	if (n < 0) {
		shut(p);
		return;
	}
	p->n_in += (size_t)n;
	if (p->n_in < PUSH_SIZE)
		return;
	p->n_in = 0;
	if (!hear(p)) {
		log_warn(&p->all->cayd->log, "an edge does not speak our protocol: let go");
		shut(p);
	}
}

static void on_silent(uv_timer_t *t)
{
	shut(t->data);
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct pushes *all = listener->data;
	struct peer *p = status < 0 ? NULL : calloc(1, sizeof(*p));

	if (!p)
		return;
	*p = (struct peer){ .all = all, .open = 2, .next = all->peers };
	p->out.max = p->sending.max = PUSH_QUEUE_MAX;
	(void)uv_pipe_init(listener->loop, &p->pipe, 0);
	(void)uv_timer_init(listener->loop, &p->timer);
	p->pipe.data = p->timer.data = p->write.data = p;
	if (p->next)
		p->next->prev = p;
	all->peers = p;
	all->n++;
	if (uv_accept(listener, (uv_stream_t *)&p->pipe) < 0 || all->n > PUSH_PEERS_MAX ||
	    uv_read_start((uv_stream_t *)&p->pipe, on_alloc, on_read) < 0)
		shut(p);
	else
		(void)uv_timer_start(&p->timer, on_silent, HELLO_MS, 0);
}

/* So that an edge knows a control that hangs from one that has nothing to say. */
static void on_tick(uv_timer_t *t)
{
	struct pushes *all = t->data;

	for (struct peer *p = all->peers; p; p = p->next)
		if (p->greeted) {
			say(p, &(struct push){ .kind = PUSH_TICK });
			flush(p);
		}
	report_tick(all->cayd);
	sign_tick(all->cayd);
}

unsigned push_edges(const struct cayd *c)
{
	unsigned n = 0;

	for (const struct peer *p = c->pushes ? c->pushes->peers : NULL; p; p = p->next)
		n += p->greeted && !p->closing;
	return n;
}

void push_box(const struct box *b)
{
	struct pushes *all = b->cayd->pushes;

	if (!all || build_has(&b->info.tenant)) /* nobody asks anything of a build's */
		return;
	for (struct peer *p = all->peers; p; p = p->next)
		if (p->greeted) {
			say_box(p, b);
			flush(p);
		}
}

/* What was good of it is not, unless it is said again. */
void push_key(struct cayd *c, const struct id *id)
{
	struct pushes *all = c->pushes;

	if (!all)
		return;
	for (struct peer *p = all->peers; p; p = p->next)
		if (p->greeted) {
			say(p, &(struct push){ .kind = PUSH_NO_KEY, .id = *id });
			key_tell(c, id, say_it, p);
			flush(p);
		}
}

void push_signs(struct cayd *c)
{
	for (struct peer *p = c->pushes ? c->pushes->peers : NULL; p; p = p->next)
		if (p->greeted) {
			sign_tell(c, say_it, p);
			flush(p);
		}
}

int push_open(struct cayd *c, struct cay_err *err)
{
	struct pushes *all = calloc(1, sizeof(*all));
	int fd, r;

	if (!all)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	fd = door_listen(c, "edge/" PUSH_SOCKET, 0660, err);
	if (fd < 0) {
		free(all);
		return fd;
	}
	all->cayd = c;
	(void)uv_pipe_init(&c->loop, &all->listener, 0);
	(void)uv_timer_init(&c->loop, &all->tick);
	all->listener.data = all->tick.data = all;
	msg_refuse_fds(fd);
	r = uv_pipe_open(&all->listener, fd);
	if (r >= 0)
		r = uv_listen((uv_stream_t *)&all->listener, 64, on_connection);
	if (r >= 0)
		r = uv_timer_start(&all->tick, on_tick, TICK_MS, TICK_MS);
	c->pushes = all;
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "listen for edges") : 0;
}
