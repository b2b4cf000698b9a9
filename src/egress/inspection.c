/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/inspection.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "egress/request-head.h"
#include "http/http.h"

#define HEAD_MS 10000
#define SILENCE_MS 900000
#define LEAVE_MS 30000 /* for the last bytes written */
#define LINGER_MS 2000
#define OUT_MAX (INSPECTION_MARK + 4 * CONN_READ)
#define IN_MAX (2 * CONN_READ)
#define HTTPS_PORT 443
#define NO_CREDENTIAL "\n" /* of no host; no name has this byte */

struct inspection {
	struct inspection_conf conf;
	struct conn *inside, *host; /* NULL once closed */
	uv_timer_t timer;
	unsigned open; /* handles not closed yet: connections and timer */
	bool closing;
	bool leaving;      /* the last bytes go out, others are dropped */
	bool secure;       /* TLS with the program is established, or there is none */
	bool in_head;      /* since the deadline was set */
	bool inside_ended; /* the program sends no more */
	bool asked;        /* a request is under way */
	bool waiting;      /* its head waits for a host */
	bool asked_all;    /* all of it was read */
	bool replied;      /* its reply is complete */
	bool unread;       /* the reply cannot be parsed: it ends with the connection */
	bool keep;         /* another request may follow */
	bool switched;     /* bytes pass */
	struct http_parser request, reply;
	struct buf in;   /* read, not parsed */
	struct buf head; /* of the request, for a host that is being dialled */
	char credential[EGRESS_CREDENTIAL_MAX + 1]; /* that the host was dialled for */
	uint64_t moved[2]; /* bytes that the program and the host have sent */
};

static void inspection_unref(struct inspection *i)
{
	if (--i->open)
		return;
	i->conf.done(i->conf.arg);
	http_parser_fini(&i->request);
	http_parser_fini(&i->reply);
	buf_fini(&i->in);
	buf_fini(&i->head);
	free(i);
}

static void on_inspection_timer_closed(uv_handle_t *h)
{
	inspection_unref(h->data);
}

static void inspection_close(struct inspection *i)
{
	if (i->closing)
		return;
	i->closing = true;
	if (i->inside)
		conn_close(i->inside);
	if (i->host)
		conn_close(i->host);
	uv_close((uv_handle_t *)&i->timer, on_inspection_timer_closed);
}

static void on_inspection_close_timer(uv_timer_t *t)
{
	inspection_close(t->data);
}

static void inspection_drop_host(struct inspection *i)
{
	if (i->host) {
		conn_discard(i->host);
		i->open--; /* never the last: the timer is closed later */
	}
	i->host = NULL;
	memcpy(i->credential, NO_CREDENTIAL, sizeof(NO_CREDENTIAL));
}

static void inspection_wait_for_end(struct inspection *i)
{
	if (i->inside_ended && !conn_queued_bytes(i->inside))
		inspection_close(i);
	else
		(void)uv_timer_start(&i->timer, on_inspection_close_timer,
				     conn_queued_bytes(i->inside) ? LEAVE_MS : LINGER_MS, 0);
}

/* The program gets the bytes written so far, and no more. */
static void inspection_leave(struct inspection *i)
{
	struct linger off = {};

	if (i->leaving || i->closing)
		return;
	i->leaving = true;
	inspection_drop_host(i);
	(void)setsockopt(conn_fd(i->inside), SOL_SOCKET, SO_LINGER, &off, sizeof(off));
	conn_shutdown(i->inside);
	conn_set_reading(i->inside, true);
	inspection_wait_for_end(i);
}

/* A handshake and a head have so long in all, however often a byte of them comes. */
static void inspection_set_deadline(struct inspection *i)
{
	const bool in_head = !i->secure || (!i->asked && !http_parser_is_idle(&i->request));

	if (i->closing || i->leaving || (in_head && i->in_head))
		return;
	i->in_head = in_head;
	(void)uv_timer_start(&i->timer, on_inspection_close_timer, in_head ? HEAD_MS : SILENCE_MS,
			     0);
}

/* Read from one side while the other takes it, and the meter lets it. */
static void inspection_pace(struct inspection *i)
{
	const struct egress_sandbox *sb = i->conf.sandbox;
	bool room = !i->host || conn_queued_bytes(i->host) <= INSPECTION_MARK;

	if (i->closing || i->leaving)
		return;
	room = room && !i->inside_ended && i->in.len < CONN_READ;
	conn_set_reading(i->inside, room && egress_sandbox_meter_has_room(sb, 0));
	room = conn_queued_bytes(i->inside) <= INSPECTION_MARK;
	if (i->host)
		conn_set_reading(i->host, room && egress_sandbox_meter_has_room(sb, 1));
}

void inspection_move_again(struct inspection *i)
{
	inspection_pace(i);
}

static void inspection_write(struct inspection *i, struct conn *to, struct slice bytes)
{
	uv_buf_t v = uv_buf_init((char *)(uintptr_t)bytes.p, (unsigned)bytes.n);

	if (!to || !bytes.n)
		return;
	if (conn_write(to, &v, 1) < 0 && to == i->inside)
		inspection_close(i);
	/* the end of the host is reported by its event; a reply may still come */
}

/* Bytes of the program (0) or the host (1). */
static void inspection_pass(struct inspection *i, unsigned from, struct slice bytes)
{
	if (!egress_sandbox_meter_take(i->conf.sandbox, from, bytes.n)) {
		i->conf.failed(i->conf.arg, "used_up");
		return;
	}
	i->moved[from] += bytes.n;
	inspection_write(i, from ? i->inside : i->host, bytes);
}

/* Refusing */

static void inspection_send_refusal(struct inspection *i, unsigned status,
				    const struct egress_verdict *by, const char *why)
{
	auto_buf out = BUF_INIT(KIB(8));
	char id[ID_TEXT_LEN + 1];
	struct refusal r = { .status = status,
			     .why = why,
			     .head = &i->request.head,
			     .scheme = i->conf.port == HTTPS_PORT ? "https" : "http",
			     .sandbox = id,
			     .name = i->conf.name,
			     .port = i->conf.port,
			     .by = by };

	id_format(&i->conf.sandbox->id, id);
	if (refusal_write(&r, &out) < 0) {
		inspection_close(i);
		return;
	}
	inspection_write(i, i->inside, (struct slice){ out.data, out.len });
	inspection_leave(i);
}

void inspection_refuse(struct inspection *i, const char *why)
{
	static const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };

	if (i->closing)
		return;
	if (i->waiting && !i->leaving) {
		i->waiting = false;
		inspection_send_refusal(i, 502, NULL, why);
		return;
	}
	/* at once: a close takes effect at the end of the loop's round */
	if (i->host)
		(void)shutdown(conn_fd(i->host), SHUT_RDWR);
	if (i->inside && connect(conn_fd(i->inside), &nowhere, sizeof(nowhere)) < 0)
		i->inside_ended = true; /* its peer has ended it already */
	inspection_close(i);
}

/* Requests */

static struct slice inspection_policy(const struct inspection *i)
{
	return (struct slice){ i->conf.sandbox->policy.data, i->conf.sandbox->policy.len };
}

static struct egress_verdict inspection_apply_answer(const struct inspection *i,
						     struct egress_verdict v)
{
	if (v.action == EGRESS_ASK && i->conf.approved)
		v.action = EGRESS_ALLOW;
	return v;
}

/* The head is there for as long as its request is under way. */
static struct egress_verdict inspection_judge_head(const struct inspection *i,
						   struct slice *ret_credential,
						   const char **ret_why)
{
	return inspection_apply_answer(i, request_judge_head(inspection_policy(i), i->conf.name,
							     i->conf.port, &i->request.head,
							     ret_credential, ret_why));
}

bool inspection_is_allowed(struct inspection *i, struct egress_verdict *ret)
{
	struct slice credential;
	const char *why;

	if (!i->asked || i->leaving || i->closing)
		return true;
	*ret = inspection_judge_head(i, &credential, &why);
	return ret->action == EGRESS_ALLOW;
}

static void inspection_expect_reply(struct inspection *i, const struct http_head *h)
{
	http_parser_fini(&i->reply);
	http_parser_init(&i->reply, HTTP_KIND_RESPONSE);
	http_parser_set_web_server(&i->reply, slice_eq(h->method, SLICE("HEAD")));
	if (http_equals_nocase(h->upgrade, "websocket"))
		http_parser_allow_upgrade(&i->reply);
}

/* It goes to the host there is, or to one that is dialled now. */
static void inspection_pass_head(struct inspection *i, struct slice credential)
{
	const struct http_head *h = &i->request.head;

	i->asked = true;
	i->asked_all = i->replied = false;
	i->keep = h->keep_alive;
	inspection_expect_reply(i, h);
	buf_clear(&i->head);
	if (inspected_head_write(h, i->conf.name, &i->head) < 0) {
		i->conf.failed(i->conf.arg, "head_too_long");
		return;
	}
	if (h->expect)
		inspection_write(i, i->inside, SLICE("HTTP/1.1 100 Continue\r\n\r\n"));
	if (i->host && slice_eq(slice_of(i->credential), credential)) {
		inspection_pass(i, 0, (struct slice){ i->head.data, i->head.len });
		return;
	}
	inspection_drop_host(i);
	memcpy(i->credential, credential.p ? credential.p : "", credential.n);
	i->credential[credential.n] = 0;
	i->waiting = true;
	i->conf.dial(i->conf.arg);
}

static void inspection_take_head(struct inspection *i)
{
	const struct http_head *h = &i->request.head;
	const char *why = request_refusal(h, i->conf.name, i->conf.port);
	struct egress_verdict v = { .action = EGRESS_DENY, .rule = -1 };
	struct slice credential = {};
	const char *by = "request_denied";

	if (!why) {
		v = inspection_judge_head(i, &credential, &by);
		why = v.action == EGRESS_ALLOW ? NULL : by;
	}
	if (!why) {
		inspection_pass_head(i, credential);
		return;
	}
	i->conf.denied(i->conf.arg, h, &v, why);
	if (!i->closing)
		inspection_send_refusal(i, 403, &v, why);
}

/* One event of the parser; false: no more can be done now. */
static bool inspection_take_request(struct inspection *i, struct slice *in)
{
	struct cay_err err = {};
	const char *from = in->p;
	const bool in_head = !i->asked;
	struct slice body;
	int e = http_parser_next(&i->request, in, &body, &err);
	struct slice taken = { from, (size_t)(in->p - from) };

	if (e < 0) {
		i->conf.failed(i->conf.arg,
			       err.code == CAY_E_HEADERS ? "head_too_long" : "not_http");
		return false;
	}
	if (!in_head)
		inspection_pass(i, 0, taken);
	if (e == HTTP_HEAD_DONE)
		inspection_take_head(i);
	else if (e == HTTP_END)
		i->asked_all = true;
	return e > HTTP_MORE;
}

/* The next request, or the end. */
static void inspection_finish_request(struct inspection *i)
{
	if (!i->asked || !i->asked_all || !i->replied || i->switched || i->closing || i->leaving)
		return;
	if (!i->keep || (i->inside_ended && !i->in.len)) {
		inspection_leave(i);
		return;
	}
	i->asked = false;
	http_parser_reset(&i->request);
}

/* A request without a body ends without a byte. */
static bool inspection_may_take(const struct inspection *i, struct slice in)
{
	return !i->closing && !i->leaving && !i->waiting && !i->switched &&
	       !(i->asked && i->asked_all) && (in.n || i->asked) &&
	       (!i->host || conn_queued_bytes(i->host) <= INSPECTION_MARK);
}

static void inspection_go_on(struct inspection *i)
{
	struct slice in = { i->in.data, i->in.len };

	inspection_finish_request(i);
	while (inspection_may_take(i, in) && inspection_take_request(i, &in))
		inspection_finish_request(i);
	if (i->closing)
		return;
	buf_consume(&i->in, i->in.len - in.n);
	if (i->inside_ended && !i->leaving && !i->waiting && !i->in.len &&
	    !(i->asked && i->asked_all))
		inspection_close(i); /* no request, or a part of one */
	inspection_set_deadline(i);
	inspection_pace(i);
}

/* The program */

static void on_inspection_inside_ready(struct conn *c)
{
	struct inspection *i = conn_data(c);

	i->secure = true;
	inspection_set_deadline(i);
}

static void on_inspection_inside_read(struct conn *c, struct slice bytes)
{
	struct inspection *i = conn_data(c);

	if (i->leaving || i->closing)
		return;
	if (i->switched) {
		inspection_pass(i, 0, bytes);
		inspection_set_deadline(i);
		inspection_pace(i);
	} else if (buf_append(&i->in, bytes.p, bytes.n) < 0) {
		i->conf.failed(i->conf.arg, "no_memory");
	} else {
		inspection_go_on(i);
	}
}

/* Before TLS is there, most often: a program does not trust the CA. */
static void on_inspection_inside_end(struct conn *c, const struct cay_err *err)
{
	struct inspection *i = conn_data(c);

	if (i->closing)
		return;
	i->inside_ended = true;
	if (!i->secure)
		i->conf.failed(i->conf.arg, err && strstr(err->msg, "alert") ? "ca_not_trusted"
									     : "no_handshake");
	else if (i->leaving)
		inspection_wait_for_end(i);
	else if (err)
		inspection_close(i);
	else if (i->switched && i->host)
		conn_shutdown(i->host);
	else
		inspection_go_on(i);
}

static void on_inspection_sent(struct conn *c)
{
	struct inspection *i = conn_data(c);

	if (i->leaving)
		inspection_wait_for_end(i);
	else if (i->switched)
		inspection_pace(i);
	else
		inspection_go_on(i);
}

static void on_inspection_stuck(struct conn *c)
{
	struct inspection *i = conn_data(c);

	if (c == i->inside)
		inspection_close(i);
}

static void on_inspection_conn_closed(struct conn *c)
{
	struct inspection *i = conn_data(c);

	if (c == i->inside)
		i->inside = NULL;
	else if (c == i->host)
		i->host = NULL;
	inspection_unref(i);
}

/* The host */

static void inspection_take_reply(struct inspection *i, struct slice in)
{
	int e = HTTP_BODY;

	while (e > HTTP_MORE && !i->unread && !i->replied) {
		struct cay_err err = {};
		struct slice body;

		e = http_parser_next(&i->reply, &in, &body, &err);
		i->unread = e < 0;
		if (e == HTTP_HEAD_DONE && !i->reply.head.keep_alive)
			i->keep = false;
		i->replied = e == HTTP_END;
	}
	i->switched = i->replied && i->reply.head.status == 101;
	if (i->unread)
		i->keep = false;
	else if (i->replied && !i->switched && in.n)
		i->conf.failed(i->conf.arg, "reply_without_request");
}

static void inspection_switch(struct inspection *i)
{
	inspection_pass(i, 0, (struct slice){ i->in.data, i->in.len });
	buf_fini(&i->in);
	i->in = BUF_INIT(IN_MAX);
	if (i->inside_ended && i->host)
		conn_shutdown(i->host);
}

static void on_inspection_host_read(struct conn *c, struct slice bytes)
{
	struct inspection *i = conn_data(c);
	const bool was_switched = i->switched;

	if (i->closing || i->leaving || c != i->host)
		return;
	if (!i->asked || (i->replied && !i->switched)) {
		inspection_drop_host(i); /* it has nothing to reply to */
		return;
	}
	inspection_pass(i, 1, bytes);
	if (i->closing)
		return;
	if (!i->switched)
		inspection_take_reply(i, bytes);
	if (i->closing || i->leaving)
		return;
	if (i->switched && !was_switched)
		inspection_switch(i);
	if (i->switched) {
		inspection_set_deadline(i);
		inspection_pace(i);
	} else {
		inspection_go_on(i);
	}
}

static void on_inspection_host_end(struct conn *c, const struct cay_err *)
{
	struct inspection *i = conn_data(c);

	if (i->closing || c != i->host)
		return;
	inspection_drop_host(i);
	if (i->asked)
		inspection_leave(i); /* its reply ends so, or has not come */
}

void inspection_set_host(struct inspection *i, struct conn *host)
{
	static const struct conn_events events = { .read = on_inspection_host_read,
						   .end = on_inspection_host_end,
						   .sent = on_inspection_sent,
						   .stuck = on_inspection_stuck,
						   .closed = on_inspection_conn_closed };
	struct conn_conf conf = { .events = &events, .data = i, .out_max = OUT_MAX };
	struct egress_sandbox *sb = i->conf.sandbox;
	int fd = 0, r = 0;

	if (i->closing || i->leaving || !i->waiting) {
		conn_discard(host);
		return;
	}
	if (i->conf.port == HTTPS_PORT) {
		fd = broker_give_socket(sb, i->conf.name, i->conf.port, slice_of(i->credential),
					conn_fd(host));
		conn_discard(host);
		r = fd < 0 ? fd : conn_open_fd(sb->egress->room, fd, AF_UNIX, &conf, &i->host);
	} else {
		conn_set_owner(host, &events, i, OUT_MAX);
		i->host = host;
	}
	if (r < 0) {
		i->conf.failed(i->conf.arg, fd < 0 ? "broker_unavailable" : "no_memory");
		return;
	}
	i->open++;
	i->waiting = false;
	inspection_pass(i, 0, (struct slice){ i->head.data, i->head.len });
	inspection_go_on(i);
}

void inspection_get_moved(const struct inspection *i, uint64_t *ret_up, uint64_t *ret_down)
{
	*ret_up = i->moved[0];
	*ret_down = i->moved[1];
}

struct inspection *inspection_new(const struct inspection_conf *conf)
{
	struct inspection *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->conf = *conf;
	i->in = BUF_INIT(IN_MAX);
	i->head = BUF_INIT(REQUEST_HEAD_MAX);
	memcpy(i->credential, NO_CREDENTIAL, sizeof(NO_CREDENTIAL));
	http_parser_init(&i->request, HTTP_KIND_REQUEST);
	http_parser_init(&i->reply, HTTP_KIND_RESPONSE);
	(void)uv_timer_init(&conf->sandbox->egress->loop, &i->timer);
	i->timer.data = i;
	i->open = 1;
	return i;
}

void inspection_start(struct inspection *i, struct conn *inside, struct slice read)
{
	static const struct conn_events events = { .ready = on_inspection_inside_ready,
						   .read = on_inspection_inside_read,
						   .end = on_inspection_inside_end,
						   .sent = on_inspection_sent,
						   .stuck = on_inspection_stuck,
						   .closed = on_inspection_conn_closed };
	const struct inspection_conf *c = &i->conf;

	i->inside = inside;
	i->open++;
	conn_set_owner(inside, &events, i, OUT_MAX);
	i->secure = c->port != HTTPS_PORT;
	inspection_set_deadline(i);
	conn_set_reading(inside, true);
	if (c->port == HTTPS_PORT &&
	    ca_attach_tls(c->sandbox->egress, &c->sandbox->id, c->name, inside, read) < 0)
		c->failed(c->arg, "no_certificate");
}
