/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/pour.h"

#include <assert.h>
#include <stdio.h>
#include <sys/socket.h>

#include "cayd/box.h"
#include "cayd/upload.h"
#include "file/tar.h"
#include "net/dial.h"
#include "text/percent.h"

#define OUT_MAX (POUR_MARK + KIB(128))
#define IN_MAX (2 * CONN_READ)
#define CHUNK_HEAD_MAX 20
#define MEDIA_MAX 64
#define ANSWER_MS 30000
/* A path as it may be in a target: each byte encoded. */
#define TARGET_MAX (3 * KIB(4) + 256)

/* One of the two. */
struct side {
	struct pour *pour;
	struct box *box;
	struct conn *conn; /* NULL before it is there and after it is closed */
	struct buf in;     /* read and not passed on */
	bool used;         /* there was one: in and http are */
	struct http_parser http;
};

struct pour {
	struct pour *next;
	struct cayd *cayd;
	struct id tenant;
	struct request *rq; /* NULL once it is answered or gone */
	struct buf target;  /* what the second is asked */
	uv_timer_t timer;
	unsigned open; /* connections and the timer */
	bool closing, whole;
	struct side *answers; /* whose answer it is, once that is known */
	struct buf answer;
	struct side from, to;
	/* instead of from, which is nobody then: an upload, as a tar of one file */
	struct upload_read *upload;
	bool reading, stuck; /* a piece is on its way; nobody takes any more */
	struct tar_writer tar;
};

static const char *name(const struct side *s)
{
	return s == &s->pour->to ? "the sandbox they go to"
	       : s->pour->upload ? "the upload"
				 : "the sandbox they come from";
}

static void leave(struct side *s)
{
	if (s->used) {
		http_fini(&s->http);
		buf_fini(&s->in);
	}
	if (!s->box)
		return;
	(void)box_happens(s->box, &(struct life_event){ .kind = LIFE_LEAVE });
	box_unhold(s->box);
}

static void unref(struct pour *p)
{
	struct pour **at = &p->cayd->pours;

	if (--p->open)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	leave(&p->from);
	leave(&p->to);
	upload_read_end(p->upload);
	tar_writer_fini(&p->tar);
	buf_fini(&p->target);
	buf_fini(&p->answer);
	free(p);
}

static void on_timer_closed(uv_handle_t *h)
{
	unref(h->data);
}

static void on_conn_closed(struct conn *conn)
{
	struct side *s = conn_data(conn);

	s->conn = NULL;
	unref(s->pour);
}

static void drop(struct side *s)
{
	if (s->conn && !conn_closing(s->conn))
		conn_close(s->conn);
}

static void shut(struct pour *p)
{
	if (p->closing)
		return;
	p->closing = true;
	drop(&p->from);
	drop(&p->to);
	uv_close((uv_handle_t *)&p->timer, on_timer_closed);
}

static void fail(struct pour *p, enum cay_code code, const char *who, const char *what)
{
	struct request *rq = cay_take(p->rq);
	struct cay_err err = {};

	shut(p);
	(void)cay_fail(&err, code, "%s %s", who, what);
	if (rq)
		request_fail(rq, &err);
}

static bool held_up(const struct side *s)
{
	const struct pour *p = s->pour;

	return s == &p->from && p->to.conn && conn_queued(p->to.conn) > POUR_MARK;
}

static void on_timeout(uv_timer_t *t)
{
	struct pour *p = t->data;

	fail(p, CAY_E_TIMEOUT, name(p->whole || held_up(&p->from) ? &p->to : &p->from),
	     "did not answer in time");
}

/* Either may be paused, or play dead, and has a place until the next piece. */
static void moved(struct pour *p)
{
	if (!p->closing)
		(void)uv_timer_start(&p->timer, on_timeout, p->whole ? ANSWER_MS : POUR_STILL_MS,
				     0);
}

static void on_gone(struct request *rq)
{
	struct pour *p = rq->data;

	p->rq = NULL;
	shut(p);
}

/* All that is asked of a side, and its connection. */
static int connect_and_ask(struct side *s, const struct buf *head);

static int ask_to(struct pour *p)
{
	auto_buf head = BUF_INIT(TARGET_MAX + 256);

	if (buf_printf(&head,
		       "PUT %s HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\n"
		       "Content-Type: application/x-tar\r\nTransfer-Encoding: chunked\r\n\r\n",
		       buf_str(&p->target)) < 0)
		return -ENOMEM;
	return connect_and_ask(&p->to, &head);
}

static void pass(struct pour *p, struct slice bytes)
{
	char head[CHUNK_HEAD_MAX], tail[] = "\r\n", end[] = "0\r\n\r\n";
	uv_buf_t v[3] = { {}, uv_buf_init((char *)(uintptr_t)bytes.p, (unsigned)bytes.n), {} };
	int n = snprintf(head, sizeof(head), "%zx\r\n", bytes.n), e;

	assert(n > 0 && (size_t)n < sizeof(head));
	v[0] = bytes.n ? uv_buf_init(head, (unsigned)n) : uv_buf_init(end, sizeof(end) - 1);
	v[2] = uv_buf_init(tail, 2);
	e = p->to.conn ? conn_write(p->to.conn, v, bytes.n ? 3 : 1) : -EPIPE;
	/* who answers without reading all of it closes; its answer is what counts */
	if (e == -ENOMEM || e == -ENOBUFS)
		fail(p, CAY_E_NO_MEMORY, "control", "has no memory to pass files on");
	else if (e < 0)
		p->stuck = true;
	else if (p->to.conn && conn_queued(p->to.conn) > POUR_MARK && p->from.conn)
		conn_read(p->from.conn, false);
}

/* The head of an answer.  Of the first only a 200 is files; anything else is for the
 * client, as is all that the second says, even before it has everything. */
static void on_head(struct side *s)
{
	struct pour *p = s->pour;

	moved(p);
	if (s == &p->from && s->http.head.status == 200) {
		if (ask_to(p) < 0)
			fail(p, CAY_E_UNAVAILABLE, name(&p->to), "cannot be reached");
		return;
	}
	p->answers = s;
	drop(s == &p->from ? &p->to : &p->from);
}

static void on_body(struct side *s, struct slice bytes)
{
	struct pour *p = s->pour;

	moved(p);
	if (p->answers != s)
		pass(p, bytes);
	else if (buf_add(&p->answer, bytes.p, bytes.n) < 0)
		fail(p, CAY_E_MISBEHAVED, name(s), "says too much");
}

static void on_answer_end(struct side *s)
{
	struct pour *p = s->pour;
	struct slice media = http_header(&s->http.head, "content-type");
	char text[MEDIA_MAX + 1];
	struct request *rq;

	if (p->answers != s) {
		p->whole = !p->stuck;
		drop(s);
		moved(p);
		pass(p, (struct slice){});
		return;
	}
	if (media.n > MEDIA_MAX)
		media.n = 0;
	memcpy(text, media.p ? media.p : "", media.n);
	text[media.n] = 0;
	rq = cay_take(p->rq);
	shut(p);
	/* a stranger's word: it may say that it is done only when all of it was sent */
	if (rq && s->http.head.status < 300 && !p->whole)
		request_refuse(rq, CAY_E_MISBEHAVED, "it says that it is done before it can be");
	else if (rq)
		request_reply(rq, (int)s->http.head.status, media.n ? text : NULL, &p->answer);
}

/* One event; false when there is no more to do now. */
static bool step(struct side *s, struct slice *in)
{
	struct slice body;
	int e = http_next(&s->http, in, &body, NULL);

	if (e < 0) {
		fail(s->pour, CAY_E_MISBEHAVED, name(s), "does not speak HTTP");
		return false;
	}
	switch ((enum http_event)e) {
	case HTTP_MORE:
		return false;
	case HTTP_HEAD_DONE:
		on_head(s);
		return true;
	case HTTP_BODY:
		on_body(s, body);
		return true;
	case HTTP_END:
		on_answer_end(s);
		return false;
	}
	return false;
}

static bool over(const struct side *s)
{
	return s->pour->closing || !s->conn || conn_closing(s->conn);
}

static void pass_on(struct side *s, struct slice fresh)
{
	struct slice in;

	if (buf_add(&s->in, fresh.p, fresh.n) < 0) {
		fail(s->pour, CAY_E_NO_MEMORY, "control", "has no memory to pass files on");
		return;
	}
	in = (struct slice){ s->in.data, s->in.len };
	while (!over(s) && !held_up(s) && step(s, &in))
		;
	if (!over(s))
		buf_consume(&s->in, s->in.len - in.n);
}

static void on_read(struct conn *conn, struct slice bytes)
{
	pass_on(conn_data(conn), bytes);
}

static void on_end(struct conn *conn, const struct cay_err *)
{
	struct side *s = conn_data(conn);

	fail(s->pour, CAY_E_MISBEHAVED, name(s), "closed the connection in the middle");
}

/* The next piece of the upload, if there is somebody to take it. */
static void read_on(struct pour *p)
{
	if (!p->upload || p->reading || p->stuck || p->whole || p->answers || over(&p->to) ||
	    held_up(&p->from))
		return;
	p->reading = true;
	p->open++;
	upload_read_more(p->upload);
}

/* The second has taken what was queued: the first may go on. */
static void on_sent(struct conn *conn)
{
	struct side *s = conn_data(conn), *from = &s->pour->from;

	if (s == from)
		return;
	moved(s->pour);
	read_on(s->pour);
	if (over(from) || conn_queued(conn) > POUR_MARK / 2)
		return;
	conn_read(from->conn, true);
	pass_on(from, (struct slice){});
}

/* It takes no more: its answer, or its absence, says why. */
static void on_stuck(struct conn *conn)
{
	struct side *s = conn_data(conn);

	if (s != &s->pour->to)
		return;
	moved(s->pour);
	s->pour->stuck = true;
	drop(&s->pour->from);
}

static int connect_and_ask(struct side *s, const struct buf *head)
{
	static const struct conn_events events = { .read = on_read,
						   .end = on_end,
						   .sent = on_sent,
						   .stuck = on_stuck,
						   .closed = on_conn_closed };
	struct conn_conf conf = { .events = &events, .data = s, .out_max = OUT_MAX };
	uv_buf_t b = uv_buf_init(head->data, (unsigned)head->len);
	auto_buf path = BUF_INIT(128);
	char id[ID_TEXT_LEN + 1];
	int r;

	id_format(&s->box->info.id, id);
	r = buf_printf(&path, "%s/box/%s", s->pour->cayd->settings.run_dir, id);
	if (r >= 0)
		r = dial_now(path.data);
	if (r >= 0)
		r = conn_take(request_room(s->pour->rq), r, AF_UNIX, &conf, &s->conn);
	if (r < 0)
		return r;
	s->pour->open++;
	s->used = true;
	s->in = BUF_INIT(IN_MAX);
	http_init(&s->http, HTTP_KIND_RESPONSE);
	conn_read(s->conn, true);
	return conn_write(s->conn, &b, 1);
}

static int target(struct buf *b, const struct id *sandbox, const char *key, const char *path)
{
	size_t n = strlen(path);
	char id[ID_TEXT_LEN + 1];
	int r;

	id_format(sandbox, id);
	r = buf_printf(b, "/v1/sandboxes/%s/files/tree?format=tar&%s=", id, key);
	if (r >= 0)
		r = buf_reserve(b, 3 * n);
	if (r >= 0)
		b->len += percent_encode(path, n, b->data + b->len);
	if (r >= 0)
		b->data[b->len] = 0;
	return r;
}

/* An upload */

static int into_chunk(void *arg, const void *bytes, size_t n, struct cay_err *)
{
	struct pour *p = arg;

	pass(p, (struct slice){ bytes, n });
	return p->closing ? -EPIPE : 0;
}

/* Its first bytes, the next, or that there are no more. */
static int pass_piece(struct pour *p, struct cay_err *err)
{
	struct upload_read *u = p->upload;
	struct tar_entry e = { .type = TAR_FILE,
			       .name = u->at.name,
			       .mode = 0644,
			       .size = u->size,
			       .mtime = (int64_t)(u->created_ns / NS_PER_S) };
	int r;

	if (!p->to.used) {
		r = ask_to(p) < 0
			    ? cay_fail(err, CAY_E_UNAVAILABLE, "%s cannot be reached", name(&p->to))
			    : tar_put(&p->tar, &e, err);
	} else if (u->n ? u->n > p->tar.left : p->tar.left > 0) {
		r = cay_fail(err, CAY_E_INTERNAL, "an upload has another size than it had");
	} else if (u->n) {
		r = tar_put_data(&p->tar, u->piece, u->n, err);
	} else {
		r = tar_finish(&p->tar, err);
		p->whole = r >= 0 && !p->stuck;
		if (r >= 0)
			pass(p, (struct slice){});
	}
	return r;
}

static void on_piece(struct upload_read *u, const struct cay_err *outcome)
{
	struct pour *p = u->arg;
	struct request *rq;
	struct cay_err err = *outcome;

	p->reading = false;
	if (!p->closing && !p->answers && !err.code && pass_piece(p, &err) >= 0) {
		moved(p);
		read_on(p);
	}
	if (err.code && !p->closing) {
		rq = cay_take(p->rq);
		shut(p);
		if (rq)
			request_fail(rq, &err);
	}
	unref(p);
}

/* What of the second is asked, whatever it is given. */
static int aim(struct pour *p, const struct tree_import *q)
{
	static const struct request_events events = { .gone = on_gone };

	p->rq->data = p;
	p->rq->events = &events;
	return target(&p->target, &p->to.box->info.id, q->to_b64 ? "path_b64" : "path",
		      q->to_b64 ? q->to_b64
		      : q->to   ? q->to
				: ".");
}

static int begin_upload(struct pour *p, const struct tree_import *q)
{
	int r = aim(p, q);

	if (r < 0)
		return r;
	tar_writer_init(&p->tar, into_chunk, p);
	p->upload = upload_read(p->cayd, &p->tenant, p->to.box->info.group, q->upload, on_piece, p);
	if (!p->upload)
		return -ENOMEM;
	p->reading = true;
	p->open++;
	return 0;
}

static int begin(struct pour *p, const struct tree_import *q)
{
	auto_buf head = BUF_INIT(TARGET_MAX + 256);
	int r = buf_puts(&head, "GET ");

	if (r >= 0)
		r = target(&head, &p->from.box->info.id, q->path_b64 ? "path_b64" : "path",
			   q->path_b64 ? q->path_b64
			   : q->path   ? q->path
				       : ".");
	if (r >= 0)
		r = buf_puts(&head, " HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\n\r\n");
	if (r >= 0)
		r = aim(p, q);
	if (r >= 0)
		r = connect_and_ask(&p->from, &head);
	if (r >= 0)
		(void)uv_timer_start(&p->timer, on_timeout, ANSWER_MS, 0);
	return r;
}

static void enter(struct pour *p, struct side *s, struct box *b)
{
	*s = (struct side){ .pour = p, .box = b };
	if (!b)
		return;
	b->holds++;
	(void)box_happens(b, &(struct life_event){ .kind = LIFE_ENTER });
}

static struct box *running(struct cayd *c, struct request *rq, const struct id *id)
{
	struct box *b = box_of(c->boxes, &rq->actor.tenant, id);

	if (!b)
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such sandbox");
	else if (b->info.state != SB_RUNNING)
		request_refuse(rq, CAY_E_STATE, "the sandbox is not running");
	return b && b->info.state == SB_RUNNING ? b : NULL;
}

static bool is_room(const struct cayd *c, const struct id *tenant)
{
	unsigned all = 0, of_it = 0;

	for (const struct pour *p = c->pours; p; p = p->next) {
		all++;
		of_it += id_eq(&p->tenant, tenant);
	}
	return all < POURS_MAX && of_it < POURS_TENANT;
}

/* Whether it is one thing that is to come, and the sandbox can have it. */
static int is_clear(const struct tree_import *q, const struct box *to, struct cay_err *err)
{
	if (!q->upload == !q->from.noun)
		return cay_fail_field(err, CAY_E_INVALID, "from",
				      "say from or upload, one of them");
	if (q->upload && (q->path || q->path_b64))
		return cay_fail_field(err, CAY_E_INVALID, "path", "an upload is one file");
	if (q->upload && !to->info.group)
		return cay_fail_field(err, CAY_E_INVALID, "upload",
				      "the sandbox is of no group, and uploads are of one");
	return 0;
}

void tree_import(struct cayd *c, struct request *rq)
{
	const struct tree_import *q = rq->body;
	struct box *to, *from = NULL;
	struct cay_err err = {};
	struct pour *p;

	if (rq->actor.one_sandbox) {
		request_refuse(rq, CAY_E_FORBIDDEN, "a token is good for one sandbox");
		return;
	}
	to = running(c, rq, &rq->match.params[0]);
	if (!to)
		return;
	if (is_clear(q, to, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	from = q->upload ? NULL : running(c, rq, &q->from);
	if (!from && !q->upload)
		return;
	p = is_room(c, &rq->actor.tenant) ? calloc(1, sizeof(*p)) : NULL;
	if (!p) {
		(void)request_header(rq, "Retry-After", "1");
		request_refuse(rq, CAY_E_RATE, "too many imports are under way");
		return;
	}
	*p = (struct pour){ .next = c->pours,
			    .cayd = c,
			    .tenant = rq->actor.tenant,
			    .rq = rq,
			    .open = 1,
			    .target = BUF_INIT(TARGET_MAX),
			    .answer = BUF_INIT(POUR_ANSWER_MAX) };
	c->pours = p;
	enter(p, &p->from, from);
	enter(p, &p->to, to);
	(void)uv_timer_init(&c->loop, &p->timer);
	p->timer.data = p;
	if (!from && begin_upload(p, q) < 0)
		fail(p, CAY_E_NO_MEMORY, "control", "has no memory to pass files on");
	else if (from && begin(p, q) < 0)
		fail(p, CAY_E_UNAVAILABLE, name(&p->from), "cannot be reached");
}
