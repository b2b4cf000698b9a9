/* SPDX-License-Identifier: Apache-2.0 */
/* The child's part of an operation that becomes a connection to a socket in the sandbox */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/file/child-op-internal.h"

/* One direction: read, and not written yet. */
struct join_way {
	int from, to;
	size_t at, n;
	char bytes[KIB(64)];
};

/* Move what moves without waiting; false: one side has ended. */
static bool join_way_move(struct join_way *y)
{
	ssize_t done;

	if (!y->n) {
		done = recv(y->from, y->bytes, sizeof(y->bytes), MSG_DONTWAIT);
		if (done <= 0)
			return done < 0 && (errno == EAGAIN || errno == EINTR);
		y->at = 0;
		y->n = (size_t)done;
	}
	done = send(y->to, y->bytes + y->at, y->n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (done < 0)
		return errno == EAGAIN || errno == EINTR;
	y->at += (size_t)done;
	y->n -= (size_t)done;
	return true;
}

/* Wait for what the two directions need next: bytes, or room for those they have. */
static bool join_wait(const struct join_way *one, const struct join_way *other)
{
	struct pollfd p[2] = {
		{ .fd = one->from,
		  .events = (short)((one->n ? 0 : POLLIN) | (other->n ? POLLOUT : 0)) },
		{ .fd = other->from,
		  .events = (short)((other->n ? 0 : POLLIN) | (one->n ? POLLOUT : 0)) },
	};

	return poll(p, 2, -1) >= 0 || errno == EINTR;
}

void child_op_join(struct child_op *w, const char *protocol, int fd)
{
	static struct join_way in, out; /* static: the process is its own */
	auto_buf head = BUF_INIT(KIB(1));

	in.from = out.to = STDIN_FILENO; /* the connection */
	in.to = out.from = fd;
	if (w->wire.rest.n > sizeof(in.bytes) ||
	    buf_printf(&head,
		       "HTTP/1.1 101 Switching Protocols\r\nCay-Request: %s\r\n"
		       "Connection: upgrade\r\nUpgrade: %s\r\n%s\r\n",
		       w->id, protocol, buf_str(&w->extra)) < 0)
		return; /* without a reply: an internal error */
	memcpy(in.bytes, w->wire.rest.p ? w->wire.rest.p : "", w->wire.rest.n);
	in.n = w->wire.rest.n;
	memcpy(out.bytes, head.data, head.len);
	out.n = head.len;
	child_op_claim_reply(w);
	w->reply_finished = true;
	child_op_wait_begin(w);
	while (join_way_move(&in) && join_way_move(&out) && join_wait(&in, &out))
		;
}
