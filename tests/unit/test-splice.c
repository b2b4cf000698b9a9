/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "net/splice.h"
#include "unit.h"

#define FEW (SPLICE_PIPES_MAX + 8)

struct direction {
	int from[2], to[2]; /* written at 0, spliced from 1; spliced to 0, read at 1 */
	struct splice *splice;
	size_t moved;
	int end; /* 1: not yet */
	bool closed;
};

static uv_loop_t loop;

static void on_moved(void *arg, size_t n)
{
	((struct direction *)arg)->moved += n;
}

static void on_end(void *arg, int r)
{
	struct direction *d = arg;

	assert_int_equal(d->end, 1);
	d->end = r;
	splice_close(d->splice);
	d->splice = NULL;
}

static void on_closed(void *arg)
{
	((struct direction *)arg)->closed = true;
}

static const struct splice_events events = { on_moved, on_end, on_closed };

static void direction_open(struct direction *d)
{
	*d = (struct direction){ .end = 1 };
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, d->from), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, d->to),
			 0);
	assert_int_equal(splice_open(&loop, d->from[1], d->to[0], &events, d, &d->splice), 0);
}

static void direction_close(struct direction *d)
{
	if (d->splice)
		splice_close(d->splice);
	while (!d->closed)
		uv_run(&loop, UV_RUN_NOWAIT);
	for (unsigned i = 0; i < 2; i++) {
		cay_closep(&d->from[i]);
		cay_closep(&d->to[i]);
	}
}

/* Turns of the loop until nothing happens. */
static void loop_settle(void)
{
	for (unsigned i = 0; i < 50; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

/* Write until the socket takes no more, each byte the low part of its offset. */
static size_t socket_fill(int fd, size_t at)
{
	uint8_t bytes[4093];
	size_t n = 0;
	ssize_t done;

	for (;;) {
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)((at + n + i) * 7 >> 3);
		done = write(fd, bytes, sizeof(bytes));
		if (done < 0)
			return n;
		n += (size_t)done;
	}
}

static size_t socket_drain(int fd, size_t at)
{
	uint8_t bytes[5003];
	size_t n = 0;
	ssize_t done;

	while ((done = read(fd, bytes, sizeof(bytes))) > 0) {
		for (size_t i = 0; i < (size_t)done; i++)
			assert_int_equal(bytes[i], (uint8_t)((at + n + i) * 7 >> 3));
		n += (size_t)done;
	}
	return n;
}

static void all_bytes_arrive_in_order(void **)
{
	struct direction d;
	size_t sent = 0, got = 0;

	direction_open(&d);
	for (unsigned i = 0; i < 40; i++) {
		sent += socket_fill(d.from[0], sent);
		loop_settle();
		if (i % 3) /* it stalls now and then */
			got += socket_drain(d.to[1], got);
	}
	cay_closep(&d.from[0]);
	while (d.end == 1) {
		loop_settle();
		got += socket_drain(d.to[1], got);
	}
	got += socket_drain(d.to[1], got);
	assert_int_equal(d.end, 0);
	assert_int_equal(got, sent);
	assert_int_equal(d.moved, sent);
	assert_true(sent > SPLICE_PIPE_BYTES);
	direction_close(&d);
}

/* Receivers that stall hold all pipes; the others are told, and keep their bytes in their sockets.
 */
static void pipes_are_bounded(void **)
{
	static struct direction all[FEW];
	static size_t sent[FEW];
	unsigned refused = 0;

	for (unsigned i = 0; i < FEW; i++)
		direction_open(&all[i]);
	for (unsigned turn = 0; turn < 4; turn++)
		for (unsigned i = 0; i < FEW; i++) {
			sent[i] += socket_fill(all[i].from[0], sent[i]);
			loop_settle();
		}
	for (unsigned i = 0; i < FEW; i++) {
		if (all[i].end == 1)
			continue;
		assert_int_equal(all[i].end, -EAGAIN);
		assert_int_equal(all[i].moved + socket_drain(all[i].from[1], all[i].moved),
				 sent[i]);
		refused++;
	}
	assert_int_equal(refused, FEW - SPLICE_PIPES_MAX);
	for (unsigned i = 0; i < FEW; i++)
		direction_close(&all[i]);
	all_bytes_arrive_in_order(NULL); /* their pipes are free again */
}

static void directions_are_bounded(void **)
{
	static struct direction all[SPLICES_MAX];
	struct splice *more;

	for (unsigned i = 0; i < SPLICES_MAX; i++)
		direction_open(&all[i]);
	assert_int_equal(splice_open(&loop, all[0].from[1], all[0].to[0], &events, &all[0], &more),
			 -EAGAIN);
	for (unsigned i = 0; i < SPLICES_MAX; i++)
		direction_close(&all[i]);
}

static void a_reset_is_an_error(void **)
{
	struct direction d;

	direction_open(&d);
	(void)socket_fill(d.from[0], 0);
	cay_closep(&d.to[1]);
	loop_settle();
	assert_true(d.end < 0);
	direction_close(&d);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_bytes_arrive_in_order),
		cmocka_unit_test(pipes_are_bounded),
		cmocka_unit_test(directions_are_bounded),
		cmocka_unit_test(a_reset_is_an_error),
	};
	int r;

	(void)signal(SIGPIPE, SIG_IGN);
	assert_int_equal(uv_loop_init(&loop), 0);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	assert_int_equal(uv_loop_close(&loop), 0);
	return r;
}
