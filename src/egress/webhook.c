/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook - events for the operator's server
 *
 * cayd sends them and does not wait.  One is delivered at a time, in their order; one that fails is
 * tried again, later each time, and dropped after TRIES_MAX.  Bounded: EVENTS_MAX that wait; more
 * are dropped.  The address is the operator's, so it may be private.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/webhook.h"
#include "daemon/daemon.h"
#include "egress/egress.h"
#include "http/http.h"
#include "net/tls.h"
#include "text/hex.h"

#define EVENTS_MAX 256
#define TRIES_MAX 8
#define TRY_MS 10000
#define AGAIN_MS 1000
#define AGAIN_MAX_MS 60000

struct webhook_event {
	struct webhook_event *next;
	char id[WEBHOOK_ID_LEN + 1];
	size_t n;
	char body[];
};

struct webhook {
	struct egress *egress;
	struct webhook_url url;
	struct webhook_secret secret;
	struct egress_target at;
	struct conn_layer *tls; /* NULL: plain */
	uv_timer_t timer;
	struct webhook_event *first, **last;
	unsigned n, tries; /* tries of the first */
	uint64_t dropped;  /* since the last that was delivered */
	bool busy;
	struct conn *conn;
	struct http_parser reply;
};

static void on_webhook_timer(uv_timer_t *t);

static void webhook_pop(struct webhook *w)
{
	struct webhook_event *e = w->first;

	w->first = e->next;
	if (!w->first)
		w->last = &w->first;
	w->n--;
	w->tries = 0;
	free(e);
}

/* why is NULL: the server has it. */
static void webhook_finish_try(struct webhook *w, const char *why)
{
	uint64_t again_ms = 0;

	if (w->conn)
		conn_close(w->conn);
	w->conn = NULL;
	w->busy = false;
	http_parser_fini(&w->reply);
	if (why && ++w->tries < TRIES_MAX) {
		log_debug(&w->egress->log, "webhook: %s: %s", w->first->id, why);
		again_ms = UINT64_C(1) * AGAIN_MS << (w->tries - 1);
	} else {
		if (why)
			log_warn(&w->egress->log, "webhook: %s was not delivered in %u tries: %s",
				 w->first->id, w->tries, why);
		if (!why && w->dropped)
			log_warn(&w->egress->log, "webhook: %llu events were dropped",
				 (unsigned long long)w->dropped);
		if (!why)
			w->dropped = 0;
		webhook_pop(w);
	}
	if (w->first)
		(void)uv_timer_start(&w->timer, on_webhook_timer,
				     again_ms < AGAIN_MAX_MS ? again_ms : AGAIN_MAX_MS, 0);
	else
		(void)uv_timer_stop(&w->timer);
}

static void on_webhook_conn_read(struct conn *c, struct slice bytes)
{
	struct webhook *w = conn_data(c);
	struct cay_err err = {};
	struct slice body;
	int r = http_parser_next(&w->reply, &bytes, &body, &err);

	if (r < 0)
		webhook_finish_try(w, "the reply is not HTTP");
	else if (r != HTTP_MORE && w->reply.head.status / 100 == 2)
		webhook_finish_try(w, NULL);
	else if (r != HTTP_MORE)
		webhook_finish_try(w, "the server refused it");
}

static void on_webhook_conn_end(struct conn *c, const struct cay_err *err)
{
	webhook_finish_try(conn_data(c), err ? err->msg : "the server closed the connection");
}

static void webhook_write(struct webhook *w)
{
	const struct webhook_event *e = w->first;
	auto_buf request = BUF_INIT(WEBHOOK_HEAD_MAX + EGRESS_EVENT_MAX);
	int r = webhook_request_write(&w->url, &w->secret, e->id,
				      clk_wall_ns(w->egress->clk) / NS_PER_S,
				      (struct slice){ e->body, e->n }, &request);

	if (r >= 0) {
		const uv_buf_t v = uv_buf_init(request.data, (unsigned)request.len);

		r = conn_write(w->conn, &v, 1);
	}
	if (r < 0)
		webhook_finish_try(w, strerror(-r));
}

static void on_webhook_conn_ready(struct conn *c)
{
	webhook_write(conn_data(c));
}

static const struct conn_events webhook_conn_events = { .ready = on_webhook_conn_ready,
							.read = on_webhook_conn_read,
							.end = on_webhook_conn_end };

static void on_webhook_connected(struct conn *c)
{
	struct webhook *w = conn_data(c);

	conn_set_owner(c, &webhook_conn_events, w, KIB(64));
	conn_set_reading(c, true);
	if (!w->tls)
		webhook_write(w);
	else if (conn_attach_layer(c, w->tls, (struct slice){}) < 0)
		webhook_finish_try(w, "no memory");
}

static void webhook_connect(struct webhook *w, const uint8_t *address)
{
	static const struct conn_events events = { .ready = on_webhook_connected,
						   .end = on_webhook_conn_end };
	const struct conn_conf conf = { .events = &events, .data = w, .out_max = KIB(64) };
	const bool v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)address);
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(w->url.port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(w->url.port) };

	memcpy(&in.sin_addr, address + 12, 4);
	memcpy(&in6.sin6_addr, address, sizeof(in6.sin6_addr));
	(void)uv_timer_start(&w->timer, on_webhook_timer, TRY_MS, 0);
	if (conn_connect(w->egress->room,
			 v4 ? (const struct sockaddr *)&in : (const struct sockaddr *)&in6, &conf,
			 &w->conn) >= 0)
		return;
	w->conn = NULL;
	webhook_finish_try(w, "cannot connect to the server");
}

static void on_webhook_resolved(void *arg, const struct resolved *what)
{
	struct webhook *w = arg;

	if (what->outcome != RESOLVED)
		webhook_finish_try(w, "the name of the server has no address");
	else
		webhook_connect(w, what->addresses[w->tries % what->n]);
}

/* The resolver has deadlines of its own. */
static void webhook_try(struct webhook *w)
{
	uint8_t address[EGRESS_ADDRESS_LEN];

	w->busy = true;
	http_parser_init(&w->reply, HTTP_KIND_RESPONSE);
	http_parser_set_web_server(&w->reply, false);
	(void)uv_timer_stop(&w->timer);
	if (w->at.kind == EGRESS_TO_NET) {
		address_from_v4(w->at.net, address);
		webhook_connect(w, address);
	} else if (resolve_start_of_node(w->egress, &w->at.name, on_webhook_resolved, w) < 0) {
		webhook_finish_try(w, "no name can be resolved now");
	}
}

static void on_webhook_timer(uv_timer_t *t)
{
	struct webhook *w = t->data;

	if (w->busy)
		webhook_finish_try(w, "no reply in time");
	else
		webhook_try(w);
}

void webhook_add(struct egress *e, struct slice body)
{
	struct webhook *w = e->webhook;
	struct webhook_event *event =
		w && w->n < EVENTS_MAX ? malloc(sizeof(*event) + body.n) : NULL;
	uint8_t chance[16];

	if (!event || getrandom(chance, sizeof(chance), 0) != sizeof(chance)) {
		if (w && !w->dropped++)
			log_warn(&e->log, "webhook: %u events wait; more are dropped", w->n);
		free(event);
		return;
	}
	*event = (struct webhook_event){ .id = "evt_", .n = body.n };
	hex_encode(chance, sizeof(chance), event->id + 4);
	memcpy(event->body, body.p, body.n);
	*w->last = event;
	w->last = &event->next;
	if (!w->n++)
		(void)uv_timer_start(&w->timer, on_webhook_timer, 0, 0);
}

static int webhook_read_secret(struct webhook *w, const char *path, struct cay_err *err)
{
	auto_buf text = BUF_INIT(KIB(16));
	struct stat st;
	int r = daemon_read_file(path, &text);

	if (r >= 0)
		r = stat(path, &st) < 0 ? -errno : 0;
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -r, "webhook.secret: read %s", path);
	if (st.st_mode & S_IRWXO)
		return cay_fail(err, CAY_E_INVALID,
				"webhook.secret: %s is accessible to all users; set its mode to "
				"0640 and its group to that of users.egress",
				path);
	r = webhook_secret_parse((struct slice){ text.data, text.len }, &w->secret);
	buf_wipe(&text);
	return r < 0 ? cay_fail(err, CAY_E_INVALID,
				"webhook.secret: %s is not one line of 'whsec_' and the base64 of "
				"24 to %d bytes",
				path, WEBHOOK_SECRET_MAX)
		     : 0;
}

/* Files cannot be opened later, nor what libcrypto loads with its first signature. */
static int webhook_prepare(struct webhook *w, struct cay_err *err)
{
	const struct settings *s = &w->egress->settings;
	const struct tls_client_conf conf = {
		.ca_file = access(s->egress_roots, F_OK) < 0 ? "" : s->egress_roots,
		.more_ca_file = s->egress_ca[0] ? s->egress_ca : NULL,
		.host = w->url.host,
		.handshake_ms = TRY_MS,
	};
	auto_buf probe = BUF_INIT(WEBHOOK_HEAD_MAX);
	int r = webhook_read_secret(w, s->webhook_secret, err);

	if (r < 0)
		return r;
	if (webhook_request_write(&w->url, &w->secret, "", 0, (struct slice){}, &probe) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "libcrypto made no HMAC");
	return w->url.tls ? tls_client_new(&conf, &w->tls, err) : 0;
}

int webhook_open(struct egress *e, struct cay_err *err)
{
	static struct webhook w;

	if (!e->settings.webhook_url[0])
		return 0;
	if (webhook_url_parse(e->settings.webhook_url, &w.url) < 0 ||
	    egress_target_parse(slice_of(w.url.host), &w.at, NULL) < 0 ||
	    (w.at.kind != EGRESS_TO_NAME && w.at.kind != EGRESS_TO_NET))
		return cay_fail(err, CAY_E_INVALID,
				"webhook.url is not https://NAME[:PORT]/PATH; the secret belongs "
				"into the file webhook.secret");
	w.egress = e;
	w.last = &w.first;
	(void)uv_timer_init(&e->loop, &w.timer);
	w.timer.data = &w;
	e->webhook = &w;
	return webhook_prepare(&w, err);
}
