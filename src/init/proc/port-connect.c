/* SPDX-License-Identifier: Apache-2.0 */
/* A request that becomes a connection to a port inside: once connected the reply is 101, and the
 * bytes are passed on unread, both ways. */
#include <sys/socket.h>

#include "init/core/handlers.h"
#include "init/proc/port-dial.h"
#include "net/tunnel.h"
#include "wire/hello.h"

/* At once, so that previews leave connections for commands. */
#define PORT_CONNECTIONS_MAX 128
#define PORT_CONNECT_MS 5000
#define EARLY_MAX (2 * CONN_READ)

static void on_port_tunnel_done(void *arg)
{
	struct init *in = arg;

	in->n_port_connections--;
}

static void on_port_dialled(struct init *in, struct request *rq, uint16_t, int fd,
			    const struct cay_err *err)
{
	static const struct conn_events no_events = {};
	struct conn_conf conf = { .events = &no_events };
	auto_buf early = BUF_INIT(EARLY_MAX);
	struct conn *client = NULL, *there = NULL;
	struct tunnel *t;

	if (fd < 0) {
		in->n_port_connections--;
		if (rq)
			request_fail(rq, err);
		return;
	}
	t = tunnel_new(&in->loop, on_port_tunnel_done, in);
	if (conn_open_fd(request_conn_shared(rq), fd, AF_INET, &conf, &there) < 0 || !t)
		request_no_memory(rq);
	else
		client = request_upgrade(rq, &early);
	if (client) {
		tunnel_start(t, client, (struct slice){ early.data, early.len }, there,
			     (struct slice){});
		return;
	}
	in->n_port_connections--;
	if (there)
		conn_close(there);
	if (t)
		tunnel_free(t);
}

void op_port_connect(struct request *rq, void *arg)
{
	struct init *in = arg;
	uint64_t port;

	if (str_parse_u64(rq->match.name, 1, UINT16_MAX, &port) < 0) {
		request_refuse(rq, CAY_E_NOT_FOUND, "a port is a number from 1 to 65535");
	} else if (!http_equals_nocase(rq->head->upgrade, HELLO_PORT_PROTOCOL)) {
		(void)request_add_reply_header(rq, "Upgrade", HELLO_PORT_PROTOCOL);
		request_refuse(rq, CAY_E_UPGRADE,
			       "this endpoint needs 'Upgrade: " HELLO_PORT_PROTOCOL "'");
	} else if (in->n_port_connections >= PORT_CONNECTIONS_MAX) {
		request_refuse(rq, CAY_E_LIMIT, "too many connections to ports are open");
	} else {
		in->n_port_connections++;
		port_dial_start(in, rq, (uint16_t)port, PORT_CONNECT_MS, on_port_dialled);
	}
}

/* Requests to an app arrive as op_port_connect(): the host speaks HTTP to it. */
void op_port_proxy(struct request *rq, void *)
{
	request_refuse(rq, CAY_E_NOT_FOUND, "no such endpoint in a sandbox");
}

void op_port_app(struct request *rq, void *arg)
{
	op_port_proxy(rq, arg);
}
