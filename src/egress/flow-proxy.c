/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow-proxy - a connection that goes through the proxy of the node
 *
 * The proxy is dialled instead of the host, and asked for the host by CONNECT: for an address that
 * was checked here, or, if the operator says that the proxy resolves names, for the name that was
 * judged.  Bytes after its reply stay in the socket, for the program or cay-broker.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/daemon.h"
#include "egress/flow.h"
#include "egress/proxy-dialogue.h"
#include "egress/special-net.h"

#define REPLY_MS 15000 /* in which the proxy dials the host */

/* Waits for the reply at a descriptor of its own; frees itself after its flow has left it. */
struct proxy_wait {
	struct flow *flow;
	uv_poll_t poll;
	int fd;
};

struct flow_proxy {
	struct resolved at; /* the proxy's own */
	unsigned n_tried;   /* of them */
	struct http_parser reply;
	struct proxy_wait *wait; /* or NULL */
};

static const struct host_name *egress_dialled_name(const struct egress *e,
						   const struct host_name *name)
{
	const struct name_mirror *mirror = name_map_find(&e->map, name);

	return mirror ? &mirror->to : name;
}

bool egress_leaves_name_to_proxy(const struct egress *e, const struct host_name *name)
{
	return e->settings.egress_proxy_resolves &&
	       upstream_proxy_has_name(&e->proxy, egress_dialled_name(e, name));
}

bool flow_goes_through_proxy(const struct flow *f)
{
	const struct egress *e = f->sandbox->egress;

	return f->name.n ? upstream_proxy_has_name(&e->proxy, egress_dialled_name(e, &f->name))
			 : upstream_proxy_has_address(&e->proxy, f->address);
}

static bool flow_has_address(const struct flow *f, const uint8_t address[EGRESS_ADDRESS_LEN])
{
	uint8_t reached[EGRESS_ADDRESS_LEN];

	for (unsigned i = 0; i < f->to.n; i++) {
		address_unmap(f->to.addresses[i], reached);
		if (memcmp(reached, address, sizeof(reached)) == 0)
			return true;
	}
	return false;
}

/* Who talks to the proxy itself can ask it for any host. */
bool flow_is_to_proxy(const struct flow *f)
{
	const struct egress *e = f->sandbox->egress;
	const struct egress_target *at = &e->proxy.at;
	uint8_t address[EGRESS_ADDRESS_LEN];

	if (!e->proxy.set)
		return false;
	if (at->kind == EGRESS_TO_NAME)
		return f->name.n && host_name_eq(egress_dialled_name(e, &f->name),
						 (struct slice){ at->name.text, at->name.n });
	address_from_v4(at->net, address);
	return flow_has_address(f, address);
}

static void on_proxy_wait_closed(uv_handle_t *h)
{
	struct proxy_wait *w = h->data;
	struct flow *f = w->flow;

	cay_closep(&w->fd);
	free(w);
	flow_release(f);
}

void flow_proxy_leave(struct flow *f)
{
	if (!f->proxy || !f->proxy->wait)
		return;
	uv_close((uv_handle_t *)&f->proxy->wait->poll, on_proxy_wait_closed);
	f->proxy->wait = NULL;
}

void flow_proxy_free(struct flow *f)
{
	if (f->proxy)
		http_parser_fini(&f->proxy->reply);
	free(f->proxy);
	f->proxy = NULL;
}

/* The proxy, which has another address perhaps. */
void flow_proxy_dial(struct flow *f)
{
	struct flow_proxy *p = f->proxy;

	f->state = EGRESS_FLOW_CONNECTING;
	while (p->n_tried < p->at.n && p->n_tried < DIALS_MAX)
		if (flow_dial_open(f, p->at.addresses[p->n_tried++],
				   f->sandbox->egress->proxy.port) >= 0)
			return;
	flow_cut(f, "proxy_unreachable");
}

/* It could not connect to this address of the host: ask it for the next one. */
static void flow_proxy_ask_next(struct flow *f)
{
	if (f->n_dials >= f->to.n || f->n_dials >= DIALS_MAX) {
		flow_cut(f, proxy_result_reason(PROXY_NO_HOST));
		return;
	}
	f->n_dials++;
	f->proxy->n_tried--;
	http_parser_fini(&f->proxy->reply);
	proxy_reply_init(&f->proxy->reply);
	flow_proxy_dial(f);
}

static void on_flow_proxy_timeout(uv_timer_t *t)
{
	flow_cut(t->data, "proxy_timeout");
}

/* What belongs to the reply is taken from the socket, and nothing else. */
static enum proxy_result flow_proxy_read(struct flow *f)
{
	char piece[KIB(4)];
	ssize_t n = recv(conn_fd(f->outside), piece, sizeof(piece), MSG_PEEK);
	struct slice in = { piece, n > 0 ? (size_t)n : 0 };
	enum proxy_result r;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return PROXY_MORE;
	if (n <= 0)
		return PROXY_CLOSED;
	r = proxy_reply_read(&f->proxy->reply, &in);
	n -= (ssize_t)in.n;
	return recv(conn_fd(f->outside), piece, (size_t)n, 0) == n ? r : PROXY_CLOSED;
}

static void on_flow_proxy_reply(uv_poll_t *poll, int, int)
{
	struct proxy_wait *w = poll->data;
	struct flow *f = w->flow;
	enum proxy_result r = flow_proxy_read(f);

	if (r == PROXY_MORE)
		return;
	(void)uv_timer_stop(&f->timer);
	if (r == PROXY_CONNECTED) {
		flow_dial_take(f);
		return;
	}
	flow_leave_dial(f);
	if (r == PROXY_NO_HOST)
		flow_proxy_ask_next(f);
	else
		flow_cut(f, proxy_result_reason(r));
}

static int flow_proxy_wait(struct flow *f)
{
	auto_close int fd = fcntl(conn_fd(f->outside), F_DUPFD_CLOEXEC, 3);
	struct proxy_wait *w = fd < 0 ? NULL : calloc(1, sizeof(*w));

	if (!w || uv_poll_init(&f->sandbox->egress->loop, &w->poll, fd) < 0) {
		free(w);
		return -ENOMEM;
	}
	w->flow = f;
	w->fd = cay_take_fd(&fd);
	w->poll.data = w;
	f->proxy->wait = w;
	f->holds++;
	return uv_poll_start(&w->poll, UV_READABLE, on_flow_proxy_reply);
}

void flow_proxy_ask(struct flow *f)
{
	const struct egress *e = f->sandbox->egress;
	auto_buf out = BUF_INIT(PROXY_REQUEST_MAX);
	char address[ADDRESS_TEXT_MAX];
	const char *host = address;
	int r;

	if (f->to.n)
		address_format(f->to.addresses[f->n_dials - 1], address);
	else
		host = egress_dialled_name(e, &f->name)->text;
	r = proxy_request_write(host, flow_dial_port(f), e->proxy_login, &out);
	/* the socket is new and has room for it */
	if (r >= 0 &&
	    send(conn_fd(f->outside), out.data, out.len, MSG_NOSIGNAL) != (ssize_t)out.len)
		r = -EPIPE;
	if (r >= 0)
		r = flow_proxy_wait(f);
	explicit_bzero(out.data, out.len);
	if (r < 0)
		flow_cut(f, "proxy_unreachable");
	else
		(void)uv_timer_start(&f->timer, on_flow_proxy_timeout, REPLY_MS, 0);
}

static void flow_cut_if_to(struct flow *f, const struct resolved *proxy)
{
	for (unsigned i = 0; i < proxy->n && !f->cut; i++)
		if (flow_has_address(f, proxy->addresses[i]))
			flow_cut(f, "address_of_proxy");
}

static void on_flow_proxy_resolved(void *arg, const struct resolved *what)
{
	struct flow *f = arg;

	if (!f->ended && !f->cut) {
		f->proxy->at = *what;
		flow_cut_if_to(f, what);
		if (!f->cut)
			flow_proxy_dial(f);
	}
	flow_release(f);
}

/* Where the proxy is unknown, no host can be told from it. */
static void on_flow_proxy_found(void *arg, const struct resolved *what)
{
	struct flow *f = arg;

	if (!f->ended && !f->cut) {
		if (what->outcome != RESOLVED)
			flow_cut(f, "proxy_unreachable");
		flow_cut_if_to(f, what);
		if (!f->cut)
			flow_dial_next(f);
	}
	flow_release(f);
}

/* Resolve the name of the proxy for the flow. */
static void flow_resolve_proxy(struct flow *f, resolve_fn *found)
{
	f->holds++;
	f->state = EGRESS_FLOW_RESOLVING;
	(void)uv_timer_stop(&f->timer);
	if (resolve_start(f->sandbox, &f->sandbox->egress->proxy.at.name, found, f) < 0) {
		f->holds--;
		flow_cut(f, "proxy_unreachable");
	}
}

void flow_dial_unless_proxy(struct flow *f)
{
	const struct upstream_proxy *proxy = &f->sandbox->egress->proxy;

	if (proxy->set && proxy->at.kind == EGRESS_TO_NAME)
		flow_resolve_proxy(f, on_flow_proxy_found);
	else
		flow_dial_next(f);
}

void flow_proxy_start(struct flow *f)
{
	const struct upstream_proxy *to = &f->sandbox->egress->proxy;

	flow_proxy_free(f);
	f->proxy = calloc(1, sizeof(*f->proxy));
	if (!f->proxy) {
		flow_cut(f, "no_memory");
		return;
	}
	proxy_reply_init(&f->proxy->reply);
	f->n_dials = 1;
	if (to->at.kind == EGRESS_TO_NET) {
		address_from_v4(to->at.net, f->proxy->at.addresses[0]);
		f->proxy->at.n = 1;
		flow_proxy_dial(f);
		return;
	}
	flow_resolve_proxy(f, on_flow_proxy_resolved);
}

static int proxy_read_login(struct egress *e, struct cay_err *err)
{
	const char *path = e->settings.egress_proxy_credentials;
	auto_buf text = BUF_INIT(KIB(16)), login = BUF_INIT(sizeof(e->proxy_login) - 1);
	struct stat st;
	int r = daemon_read_file(path, &text);

	if (r < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -r, "egress.proxy_credentials: read %s",
				    path);
	r = stat(path, &st) < 0 ? -errno : 0;
	if (r >= 0 && st.st_mode & S_IRWXO)
		return cay_fail(err, CAY_E_INVALID,
				"egress.proxy_credentials: %s is accessible to all users; set its "
				"mode to 0640 and its group to that of users.egress",
				path);
	if (r >= 0)
		r = proxy_login_write((struct slice){ text.data, text.len }, &login);
	if (r >= 0)
		memcpy(e->proxy_login, login.data, login.len);
	if (text.len)
		explicit_bzero(text.data, text.len);
	if (login.len)
		explicit_bzero(login.data, login.len);
	return r < 0 ? cay_fail(err, CAY_E_INVALID,
				"egress.proxy_credentials: %s is not one line USER:PASSWORD of at "
				"most %d bytes",
				path, PROXY_LOGIN_MAX)
		     : 0;
}

int proxy_open(struct egress *e, struct cay_err *err)
{
	int r = upstream_proxy_parse(e->settings.egress_proxy, e->settings.egress_no_proxy,
				     &e->proxy, err);

	return r < 0 || !e->settings.egress_proxy_credentials[0] ? r : proxy_read_login(e, err);
}
