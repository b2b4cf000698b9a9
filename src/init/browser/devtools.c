/* SPDX-License-Identifier: Apache-2.0 */
#include "init/browser/devtools.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "http/http.h"
#include "init/exec/exec-child.h"

#define PORT_FILE "DevToolsActivePort"
#define PORT_FILE_MAX KIB(8)
#define RETRY_MS 30
#define READ_SIZE KIB(64)

void devtools_fini(struct devtools *d)
{
	buf_fini(&d->received);
	cay_closep(&d->in);
	d->in = d->out = -EBADF;
}

int devtools_fail(struct cay_err *err, const char *what)
{
	int r = cay_fail(err, CAY_E_UNAVAILABLE, "the browser of the sandbox %s", what);

	cay_err_hint(err, "restart it: `cay service restart SANDBOX browser`");
	cay_err_set_blame(err, BLAME_TASK);
	return r;
}

static int devtools_fail_late(struct cay_err *err)
{
	int r = cay_fail(err, CAY_E_TIMEOUT, "the browser did not answer in time");

	cay_err_set_blame(err, BLAME_TASK);
	return r;
}

void devtools_set_deadline(struct devtools *d, uint64_t ms)
{
	d->deadline_ns = clk_boot_ns(&clk_system) + ms * NS_PER_MS;
}

bool devtools_is_late(const struct devtools *d)
{
	return clk_boot_ns(&clk_system) >= d->deadline_ns;
}

int devtools_wait(struct devtools *d, uint64_t ms)
{
	uint64_t now = clk_boot_ns(&clk_system);
	uint64_t left = d->deadline_ns > now ? (d->deadline_ns - now) / NS_PER_MS : 0;
	struct pollfd p = { .fd = d->in, .events = POLLIN };
	int r = poll(&p, 1, (int)(ms < left ? ms : left));

	return r < 0 && errno == EINTR ? 0 : r < 0 ? -errno : r > 0;
}

int devtools_send(struct devtools *d, const void *p, size_t n, struct cay_err *err)
{
	const char *at = p;

	while (n) {
		struct pollfd room = { .fd = d->out, .events = POLLOUT };
		uint64_t now = clk_boot_ns(&clk_system);
		ssize_t done;

		if (now >= d->deadline_ns)
			return devtools_fail_late(err);
		if (poll(&room, 1, (int)((d->deadline_ns - now) / NS_PER_MS)) <= 0)
			return devtools_fail(err, "does not read");
		done = write(d->out, at, n);
		if (done < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (done <= 0)
			return devtools_fail(err, "has ended");
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

int devtools_receive(struct devtools *d, struct cay_err *err)
{
	ssize_t n;
	int r = 0;

	while (!r && clk_boot_ns(&clk_system) < d->deadline_ns)
		r = devtools_wait(d, UINT32_MAX / 2);
	if (r <= 0)
		return devtools_fail_late(err);
	r = buf_reserve(&d->received, READ_SIZE);
	if (r < 0)
		return r == -ENOBUFS ? devtools_fail(err, "sent too much") : cay_no_memory(err);
	n = read(d->in, d->received.data + d->received.len, READ_SIZE);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0)
		return devtools_fail(err, "has ended");
	d->received.len += (size_t)n;
	d->received.data[d->received.len] = 0;
	return 0;
}

/* "34567\n/devtools/browser/UUID" */
int devtools_parse_port_file(struct slice text, uint16_t *port, char path[static DEVTOOLS_PATH_MAX])
{
	struct slice number = slice_cut(&text, '\n');
	uint64_t n;

	text = slice_cut(&text, '\n');
	if (str_parse_u64(number, 1, UINT16_MAX, &n) < 0 || !text.n || text.p[0] != '/' ||
	    text.n >= DEVTOOLS_PATH_MAX)
		return -EINVAL;
	for (size_t i = 0; i < text.n; i++)
		if (!ascii_is_alnum(text.p[i]) && !strchr("/-_", text.p[i]))
			return -EINVAL;
	*port = (uint16_t)n;
	memcpy(path, text.p, text.n);
	path[text.n] = 0;
	return 0;
}

/* Of a profile whose browser has ended, the file stays: then nothing listens. */
static int devtools_try(struct devtools *d, const char *file)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	auto_buf text = BUF_INIT(PORT_FILE_MAX);
	auto_close int fd = -EBADF;
	int on = 1;

	if (image_file_read(file, &text) < 0 ||
	    devtools_parse_port_file((struct slice){ text.data, text.len }, &d->port,
				     d->browser_path) < 0)
		return -ENOENT;
	to.sin_port = htons(d->port);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	d->in = d->out = cay_take_fd(&fd);
	return 0;
}

int devtools_open(struct devtools *d, bool is_starting, struct cay_err *err)
{
	const char *profile = getenv("BROWSER_PROFILE");
	auto_buf file = BUF_INIT(KIB(8));
	int r;

	if (!profile || !profile[0]) {
		r = cay_fail(err, CAY_E_UNSUPPORTED,
			     "the sandbox has no browser: its "
			     "environment has no BROWSER_PROFILE");
		cay_err_hint(err, "create it from an image with a browser, such as `desktop`");
		return r;
	}
	if (buf_printf(&file, "%s/" PORT_FILE, profile) < 0)
		return cay_no_memory(err);
	for (uint64_t waited = 0;; waited += RETRY_MS) {
		if (devtools_try(d, file.data) >= 0)
			return 0;
		if (!is_starting || waited >= DEVTOOLS_WAIT_MS)
			break;
		(void)poll(NULL, 0, RETRY_MS);
	}
	r = cay_fail(err, CAY_E_STATE,
		     is_starting ? "the browser of the sandbox did not start"
				 : "no browser runs in the sandbox");
	cay_err_hint(err,
		     is_starting
			     ? "`cay service logs SANDBOX browser` says why"
			     : "browser.act starts the service `browser`; if the image has no such "
			       "service, start Chromium in the sandbox");
	return r;
}

/* The head of the reply, by the parser of all replies; bytes after it stay in received. */
static int devtools_read_reply(struct devtools *d, struct http_parser *p, struct buf *body,
			       struct cay_err *err)
{
	for (;;) {
		struct slice in = { d->received.data, d->received.len }, piece = {};
		struct cay_err why = {};
		int r = HTTP_HEAD_DONE;

		while (r > HTTP_MORE && r != HTTP_END) {
			r = http_parser_next(p, &in, &piece, &why);
			if (r == HTTP_BODY && body && buf_append(body, piece.p, piece.n) < 0)
				return devtools_fail(err, "sent too much");
		}
		buf_consume(&d->received, d->received.len - in.n);
		if (r == HTTP_END)
			return 0;
		if (r < 0)
			return devtools_fail(err, "sent a reply that is not HTTP");
		r = devtools_receive(d, err);
		if (r < 0)
			return r;
	}
}

int devtools_fetch(struct devtools *d, const char *method, const char *path, struct buf *body,
		   struct cay_err *err)
{
	auto_buf head = BUF_INIT(KIB(16));
	struct http_parser p;
	int r;

	if (buf_printf(&head, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", method, path,
		       d->port) < 0)
		return cay_fail(err, CAY_E_INVALID, "the address is too long");
	http_parser_init(&p, HTTP_KIND_RESPONSE);
	r = devtools_send(d, head.data, head.len, err);
	if (r >= 0)
		r = devtools_read_reply(d, &p, body, err);
	if (r >= 0 && p.head.status != 200)
		r = cay_fail(err, CAY_E_NOT_FOUND, "the browser has no such tab");
	http_parser_fini(&p);
	return r;
}

int devtools_upgrade(struct devtools *d, const char *path, struct slice key,
		     char accept[static DEVTOOLS_ACCEPT_MAX], struct cay_err *err)
{
	auto_buf head = BUF_INIT(KIB(16));
	struct http_parser p;
	struct slice v;
	int r;

	if (buf_printf(&head,
		       "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nConnection: Upgrade\r\n"
		       "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		       "Sec-WebSocket-Key: %.*s\r\n\r\n",
		       path, d->port, (int)key.n, key.p) < 0)
		return cay_no_memory(err);
	http_parser_init(&p, HTTP_KIND_RESPONSE);
	http_parser_allow_upgrade(&p);
	r = devtools_send(d, head.data, head.len, err);
	if (r >= 0)
		r = devtools_read_reply(d, &p, NULL, err);
	v = r >= 0 ? http_header_find(&p.head, "sec-websocket-accept") : (struct slice){};
	if (r >= 0 && (p.head.status == 404 || p.head.status == 500))
		r = cay_fail(err, CAY_E_NOT_FOUND, "the browser has no such tab");
	else if (r >= 0 && (p.head.status != 101 || !v.n || v.n >= DEVTOOLS_ACCEPT_MAX))
		r = devtools_fail(err, "refused a connection");
	if (r >= 0) {
		memcpy(accept, v.p, v.n);
		accept[v.n] = 0;
	}
	http_parser_fini(&p);
	return r;
}
