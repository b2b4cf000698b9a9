/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/upload/tree-import.h"
#include "cayd/core/handlers.h"

#include <assert.h>
#include <stdio.h>
#include <sys/socket.h>

#include "archive/tar.h"
#include "cayd/core/init-call.h"
#include "cayd/core/list.h"
#include "cayd/sandbox/sandbox.h"
#include "cayd/upload/upload.h"
#include "net/dial.h"

#define OUT_MAX (TREE_IMPORT_HIGH_WATER + KIB(128))
#define IN_MAX (2 * CONN_READ)
#define CHUNK_HEAD_MAX 20
#define MEDIA_MAX 64
#define ANSWER_MS 30000
/* A path in a target: each byte may be percent-encoded. */
#define TARGET_MAX (3 * KIB(4) + 256)

/* One of the two sandboxes. */
struct tree_import_side {
	struct tree_import_job *import;
	struct sandbox *sandbox;
	struct conn *conn; /* NULL before it is open and after it is closed */
	struct buf in;     /* read and not passed on */
	bool used;         /* `in` and `http` are initialized */
	struct http_parser http;
};

struct tree_import_job {
	struct tree_import_job *next;
	struct cayd *cayd;
	struct id tenant;
	struct request *rq; /* NULL: answered, or the client left */
	struct buf target;  /* request target of the destination */
	uv_timer_t timer;
	unsigned open; /* connections and the timer */
	bool closing, complete;
	struct tree_import_side
		*reply_side; /* the side whose reply goes to the client, once that is decided */
	struct buf reply;
	struct tree_import_side from, to;
	/* instead of `from`: an upload, sent as a tar of one file */
	struct upload_read *upload;
	bool reading, write_failed; /* a piece is being read; the destination takes no more */
	struct tar_writer tar;
};

static const char *tree_import_side_name(const struct tree_import_side *s)
{
	return s == &s->import->to ? "the destination sandbox"
	       : s->import->upload ? "the upload"
				   : "the source sandbox";
}

static void tree_import_side_release(struct tree_import_side *s)
{
	if (s->used) {
		http_parser_fini(&s->http);
		buf_fini(&s->in);
	}
	if (!s->sandbox)
		return;
	(void)sandbox_apply_event(s->sandbox, &(struct life_event){ .kind = LIFE_LEAVE });
	sandbox_release(s->sandbox);
}

static void tree_import_unref(struct tree_import_job *p)
{
	if (--p->open)
		return;
	LIST_UNLINK(p->cayd->tree_imports, p, next);
	tree_import_side_release(&p->from);
	tree_import_side_release(&p->to);
	upload_read_free(p->upload);
	tar_writer_fini(&p->tar);
	buf_fini(&p->target);
	buf_fini(&p->reply);
	free(p);
}

static void on_tree_import_timer_closed(uv_handle_t *h)
{
	tree_import_unref(h->data);
}

static void on_tree_import_conn_closed(struct conn *conn)
{
	struct tree_import_side *s = conn_data(conn);

	s->conn = NULL;
	tree_import_unref(s->import);
}

static void tree_import_side_close(struct tree_import_side *s)
{
	if (s->conn && !conn_is_closing(s->conn))
		conn_close(s->conn);
}

static void tree_import_close(struct tree_import_job *p)
{
	if (p->closing)
		return;
	p->closing = true;
	tree_import_side_close(&p->from);
	tree_import_side_close(&p->to);
	uv_close((uv_handle_t *)&p->timer, on_tree_import_timer_closed);
}

static void tree_import_fail(struct tree_import_job *p, enum cay_code code, const char *who,
			     const char *what)
{
	struct request *rq = cay_take(p->rq);
	struct cay_err err = {};

	tree_import_close(p);
	(void)cay_fail(&err, code, "%s %s", who, what);
	if (rq)
		request_fail(rq, &err);
}

static bool tree_import_side_is_blocked(const struct tree_import_side *s)
{
	const struct tree_import_job *p = s->import;

	return s == &p->from && p->to.conn &&
	       conn_queued_bytes(p->to.conn) > TREE_IMPORT_HIGH_WATER;
}

static void on_tree_import_timeout(uv_timer_t *t)
{
	struct tree_import_job *p = t->data;

	tree_import_fail(p, CAY_E_TIMEOUT,
			 tree_import_side_name(p->complete || tree_import_side_is_blocked(&p->from)
						       ? &p->to
						       : &p->from),
			 "did not answer in time");
}

/* Either side may be paused or hang; each piece restarts the timeout. */
static void tree_import_timer_restart(struct tree_import_job *p)
{
	if (!p->closing)
		(void)uv_timer_start(&p->timer, on_tree_import_timeout,
				     p->complete ? ANSWER_MS : TREE_IMPORT_IDLE_MS, 0);
}

static void on_tree_import_client_gone(struct request *rq)
{
	struct tree_import_job *p = rq->data;

	p->rq = NULL;
	tree_import_close(p);
}

/* Send the request of a side on its connection. */
static int tree_import_side_send_request(struct tree_import_side *s, const struct buf *head);

static int tree_import_send_put_request(struct tree_import_job *p)
{
	auto_buf head = BUF_INIT(TARGET_MAX + 256);

	if (buf_printf(&head,
		       "PUT %s HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\n"
		       "Content-Type: application/x-tar\r\nTransfer-Encoding: chunked\r\n\r\n",
		       buf_str(&p->target)) < 0)
		return -ENOMEM;
	return tree_import_side_send_request(&p->to, &head);
}

static void tree_import_write_chunk(struct tree_import_job *p, struct slice bytes)
{
	char head[CHUNK_HEAD_MAX], tail[] = "\r\n", end[] = "0\r\n\r\n";
	uv_buf_t v[3] = { {}, uv_buf_init((char *)(uintptr_t)bytes.p, (unsigned)bytes.n), {} };
	int n = snprintf(head, sizeof(head), "%zx\r\n", bytes.n), e;

	assert(n > 0 && (size_t)n < sizeof(head));
	v[0] = bytes.n ? uv_buf_init(head, (unsigned)n) : uv_buf_init(end, sizeof(end) - 1);
	v[2] = uv_buf_init(tail, 2);
	e = p->to.conn ? conn_write(p->to.conn, v, bytes.n ? 3 : 1) : -EPIPE;
	/* a destination that replies early closes; its reply decides */
	if (e == -ENOMEM || e == -ENOBUFS)
		tree_import_fail(p, CAY_E_NO_MEMORY, "control", "is out of memory");
	else if (e < 0)
		p->write_failed = true;
	else if (p->to.conn && conn_queued_bytes(p->to.conn) > TREE_IMPORT_HIGH_WATER &&
		 p->from.conn)
		conn_set_reading(p->from.conn, false);
}

/* The head of a reply. From the source only a 200 carries files; any other reply goes to the
 * client, as does every reply of the destination, even an early one. */
static void on_tree_import_reply_head(struct tree_import_side *s)
{
	struct tree_import_job *p = s->import;

	tree_import_timer_restart(p);
	if (s == &p->from && s->http.head.status == 200) {
		if (tree_import_send_put_request(p) < 0)
			tree_import_fail(p, CAY_E_UNAVAILABLE, tree_import_side_name(&p->to),
					 "cannot be reached");
		return;
	}
	p->reply_side = s;
	tree_import_side_close(s == &p->from ? &p->to : &p->from);
}

static void on_tree_import_reply_body(struct tree_import_side *s, struct slice bytes)
{
	struct tree_import_job *p = s->import;

	tree_import_timer_restart(p);
	if (p->reply_side != s)
		tree_import_write_chunk(p, bytes);
	else if (buf_append(&p->reply, bytes.p, bytes.n) < 0)
		tree_import_fail(p, CAY_E_MISBEHAVED, tree_import_side_name(s), "sent too much");
}

static void on_tree_import_reply_end(struct tree_import_side *s)
{
	struct tree_import_job *p = s->import;
	struct slice media = http_header_find(&s->http.head, "content-type");
	char text[MEDIA_MAX + 1];
	struct request *rq;

	if (p->reply_side != s) {
		p->complete = !p->write_failed;
		tree_import_side_close(s);
		tree_import_timer_restart(p);
		tree_import_write_chunk(p, (struct slice){});
		return;
	}
	if (media.n > MEDIA_MAX)
		media.n = 0;
	memcpy(text, media.p ? media.p : "", media.n);
	text[media.n] = 0;
	rq = cay_take(p->rq);
	tree_import_close(p);
	/* untrusted: success before everything was sent is a lie */
	if (rq && s->http.head.status < 300 && !p->complete)
		request_refuse(rq, CAY_E_MISBEHAVED,
			       "the destination reported success before it had everything");
	else if (rq)
		request_reply(rq, (int)s->http.head.status, media.n ? text : NULL, &p->reply);
}

/* One event; false when there is nothing more to do now. */
static bool tree_import_parse_next(struct tree_import_side *s, struct slice *in)
{
	struct slice body;
	int e = http_parser_next(&s->http, in, &body, NULL);

	if (e < 0) {
		tree_import_fail(s->import, CAY_E_MISBEHAVED, tree_import_side_name(s),
				 "does not speak HTTP");
		return false;
	}
	switch ((enum http_event)e) {
	case HTTP_MORE:
		return false;
	case HTTP_HEAD_DONE:
		on_tree_import_reply_head(s);
		return true;
	case HTTP_BODY:
		on_tree_import_reply_body(s, body);
		return true;
	case HTTP_END:
		on_tree_import_reply_end(s);
		return false;
	}
	return false;
}

static bool tree_import_side_is_finished(const struct tree_import_side *s)
{
	return s->import->closing || !s->conn || conn_is_closing(s->conn);
}

static void tree_import_side_process_input(struct tree_import_side *s, struct slice fresh)
{
	struct slice in;

	if (buf_append(&s->in, fresh.p, fresh.n) < 0) {
		tree_import_fail(s->import, CAY_E_NO_MEMORY, "control", "is out of memory");
		return;
	}
	in = (struct slice){ s->in.data, s->in.len };
	while (!tree_import_side_is_finished(s) && !tree_import_side_is_blocked(s) &&
	       tree_import_parse_next(s, &in))
		;
	if (!tree_import_side_is_finished(s))
		buf_consume(&s->in, s->in.len - in.n);
}

static void on_tree_import_read(struct conn *conn, struct slice bytes)
{
	tree_import_side_process_input(conn_data(conn), bytes);
}

static void on_tree_import_conn_end(struct conn *conn, const struct cay_err *)
{
	struct tree_import_side *s = conn_data(conn);

	tree_import_fail(s->import, CAY_E_MISBEHAVED, tree_import_side_name(s),
			 "closed the connection midway");
}

/* Read the next piece of the upload if the destination can take it. */
static void tree_import_upload_read_next(struct tree_import_job *p)
{
	if (!p->upload || p->reading || p->write_failed || p->complete || p->reply_side ||
	    tree_import_side_is_finished(&p->to) || tree_import_side_is_blocked(&p->from))
		return;
	p->reading = true;
	p->open++;
	upload_read_next(p->upload);
}

/* The destination has taken the queued bytes: the source may go on. */
static void on_tree_import_sent(struct conn *conn)
{
	struct tree_import_side *s = conn_data(conn), *from = &s->import->from;

	if (s == from)
		return;
	tree_import_timer_restart(s->import);
	tree_import_upload_read_next(s->import);
	if (tree_import_side_is_finished(from) ||
	    conn_queued_bytes(conn) > TREE_IMPORT_HIGH_WATER / 2)
		return;
	conn_set_reading(from->conn, true);
	tree_import_side_process_input(from, (struct slice){});
}

/* The destination takes no more: its reply, or the lack of one, says why. */
static void on_tree_import_write_failed(struct conn *conn)
{
	struct tree_import_side *s = conn_data(conn);

	if (s != &s->import->to)
		return;
	tree_import_timer_restart(s->import);
	s->import->write_failed = true;
	tree_import_side_close(&s->import->from);
}

static int tree_import_side_send_request(struct tree_import_side *s, const struct buf *head)
{
	static const struct conn_events events = { .read = on_tree_import_read,
						   .end = on_tree_import_conn_end,
						   .sent = on_tree_import_sent,
						   .stuck = on_tree_import_write_failed,
						   .closed = on_tree_import_conn_closed };
	struct conn_conf conf = { .events = &events, .data = s, .out_max = OUT_MAX };
	uv_buf_t b = uv_buf_init(head->data, (unsigned)head->len);
	auto_buf path = BUF_INIT(128);
	char id[ID_TEXT_LEN + 1];
	int r;

	id_format(&s->sandbox->info.id, id);
	r = buf_printf(&path, "%s/box/%s", s->import->cayd->settings.run_dir, id);
	if (r >= 0)
		r = dial_unix_connect(path.data);
	if (r >= 0)
		r = conn_open_fd(request_conn_shared(s->import->rq), r, AF_UNIX, &conf, &s->conn);
	if (r < 0)
		return r;
	s->import->open++;
	s->used = true;
	s->in = BUF_INIT(IN_MAX);
	http_parser_init(&s->http, HTTP_KIND_RESPONSE);
	conn_set_reading(s->conn, true);
	return conn_write(s->conn, &b, 1);
}

/* An upload */

static int on_tree_import_tar_bytes(void *arg, const void *bytes, size_t n, struct cay_err *)
{
	struct tree_import_job *p = arg;

	tree_import_write_chunk(p, (struct slice){ bytes, n });
	return p->closing ? -EPIPE : 0;
}

/* The opened upload, a piece of it, or its end. */
static int tree_import_upload_send_piece(struct tree_import_job *p, struct cay_err *err)
{
	struct upload_read *u = p->upload;
	char name[UPLOAD_NAME_MAX + 1];
	struct tar_entry e = { .type = TAR_FILE,
			       .name = name,
			       .mode = 0644,
			       .size = u->size,
			       .mtime = (int64_t)(u->created_ns / NS_PER_S) };
	int r;

	upload_name_from_disk(u->at.name, name);
	if (!p->to.used) {
		r = tree_import_send_put_request(p) < 0
			    ? cay_fail(err, CAY_E_UNAVAILABLE, "%s cannot be reached",
				       tree_import_side_name(&p->to))
			    : tar_write_entry(&p->tar, &e, err);
	} else if (u->n ? u->n > p->tar.left : p->tar.left > 0) {
		r = cay_fail(err, CAY_E_INTERNAL, "the upload's size changed while it was read");
	} else if (u->n) {
		r = tar_write_data(&p->tar, u->piece, u->n, err);
	} else {
		r = tar_write_end(&p->tar, err);
		p->complete = r >= 0 && !p->write_failed;
		if (r >= 0)
			tree_import_write_chunk(p, (struct slice){});
	}
	return r;
}

static void on_tree_import_upload_piece(struct upload_read *u, const struct cay_err *outcome)
{
	struct tree_import_job *p = u->arg;
	struct request *rq;
	struct cay_err err = *outcome;

	p->reading = false;
	if (!p->closing && !p->reply_side && !err.code &&
	    tree_import_upload_send_piece(p, &err) >= 0) {
		tree_import_timer_restart(p);
		tree_import_upload_read_next(p);
	}
	if (err.code && !p->closing) {
		rq = cay_take(p->rq);
		tree_import_close(p);
		if (rq)
			request_fail(rq, &err);
	}
	tree_import_unref(p);
}

/* The request to the destination, the same for both kinds of source. */
static int tree_import_prepare_target(struct tree_import_job *p, const struct tree_import *q)
{
	static const struct request_events events = { .gone = on_tree_import_client_gone };

	p->rq->data = p;
	p->rq->events = &events;
	return tree_target_format(&p->to.sandbox->info.id, "tar", q->to, q->to_b64, &p->target);
}

static int tree_import_start_from_upload(struct tree_import_job *p, const struct tree_import *q)
{
	int r = tree_import_prepare_target(p, q);

	if (r < 0)
		return r;
	tar_writer_init(&p->tar, on_tree_import_tar_bytes, p);
	p->upload = upload_read_start(p->cayd, &p->tenant, p->to.sandbox->info.group, q->upload,
				      on_tree_import_upload_piece, p);
	if (!p->upload)
		return -ENOMEM;
	p->reading = true;
	p->open++;
	return 0;
}

static int tree_import_start_from_sandbox(struct tree_import_job *p, const struct tree_import *q)
{
	auto_buf head = BUF_INIT(TARGET_MAX + 256);
	int r = buf_puts(&head, "GET ");

	if (r >= 0)
		r = tree_target_format(&p->from.sandbox->info.id, "tar", q->path, q->path_b64,
				       &head);
	if (r >= 0)
		r = buf_puts(&head, " HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\n\r\n");
	if (r >= 0)
		r = tree_import_prepare_target(p, q);
	if (r >= 0)
		r = tree_import_side_send_request(&p->from, &head);
	if (r >= 0)
		(void)uv_timer_start(&p->timer, on_tree_import_timeout, ANSWER_MS, 0);
	return r;
}

static void tree_import_side_init(struct tree_import_job *p, struct tree_import_side *s,
				  struct sandbox *sb)
{
	*s = (struct tree_import_side){ .import = p, .sandbox = sb };
	if (!sb)
		return;
	sb->holds++;
	(void)sandbox_apply_event(sb, &(struct life_event){ .kind = LIFE_ENTER });
}

static struct sandbox *tree_import_find_running(struct cayd *c, struct request *rq,
						const struct id *id)
{
	struct sandbox *sb = sandbox_find_of_actor(c->sandboxes, &rq->actor, id);

	if (!sb)
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such sandbox");
	else if (!sandbox_takes_requests(sb))
		sandbox_refuse_state(rq, sb);
	return sb && sandbox_takes_requests(sb) ? sb : NULL;
}

static bool tree_import_has_slot(const struct cayd *c, const struct id *tenant)
{
	unsigned all = 0, of_it = 0;

	for (const struct tree_import_job *p = c->tree_imports; p; p = p->next) {
		all++;
		of_it += id_eq(&p->tenant, tenant);
	}
	return all < TREE_IMPORTS_MAX && of_it < TREE_IMPORTS_TENANT;
}

/* Whether the request names one source that the sandbox may have. */
static int tree_import_check_query(const struct tree_import *q, const struct sandbox *to,
				   struct cay_err *err)
{
	if (!q->upload == !q->from.noun)
		return cay_fail_field(err, CAY_E_INVALID, "from", "give either from or upload");
	if (q->upload && (q->path || q->path_b64))
		return cay_fail_field(err, CAY_E_INVALID, "path", "an upload is a single file");
	if (q->upload && !to->info.group)
		return cay_fail_field(err, CAY_E_INVALID, "upload",
				      "the sandbox has no group, and uploads belong to a group");
	return 0;
}

void op_tree_import(struct cayd *c, struct request *rq)
{
	const struct tree_import *q = rq->body;
	struct sandbox *to, *from = NULL;
	struct cay_err err = {};
	struct tree_import_job *p;

	if (rq->actor.one_sandbox) {
		request_refuse(rq, CAY_E_FORBIDDEN, "a token is valid for one sandbox");
		return;
	}
	to = tree_import_find_running(c, rq, &rq->match.params[0]);
	if (!to)
		return;
	if (tree_import_check_query(q, to, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	from = q->upload ? NULL : tree_import_find_running(c, rq, &q->from);
	if (!from && !q->upload)
		return;
	p = tree_import_has_slot(c, &rq->actor.tenant) ? calloc(1, sizeof(*p)) : NULL;
	if (!p) {
		(void)request_add_reply_header(rq, "Retry-After", "1");
		request_refuse(rq, CAY_E_RATE, "too many imports are under way");
		return;
	}
	*p = (struct tree_import_job){ .next = c->tree_imports,
				       .cayd = c,
				       .tenant = rq->actor.tenant,
				       .rq = rq,
				       .open = 1,
				       .target = BUF_INIT(TARGET_MAX),
				       .reply = BUF_INIT(TREE_IMPORT_REPLY_MAX) };
	c->tree_imports = p;
	tree_import_side_init(p, &p->from, from);
	tree_import_side_init(p, &p->to, to);
	(void)uv_timer_init(&c->loop, &p->timer);
	p->timer.data = p;
	if (!from && tree_import_start_from_upload(p, q) < 0)
		tree_import_fail(p, CAY_E_NO_MEMORY, "control", "is out of memory");
	else if (from && tree_import_start_from_sandbox(p, q) < 0)
		tree_import_fail(p, CAY_E_UNAVAILABLE, tree_import_side_name(&p->from),
				 "cannot be reached");
}
