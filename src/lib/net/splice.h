/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_SPLICE_H
#define CAY_NET_SPLICE_H
/*
 * splice - move bytes from one socket to another inside the kernel
 *
 * The bytes go through a pipe and are never copied into this process.  A pipe is taken from a pool
 * while there are bytes in it, so a direction that is idle holds none.  It polls duplicates of both
 * sockets, because each is also a stream of the loop.
 *
 * Bounded: SPLICE_PIPE_BYTES in the pipe of a receiver that stalls, SPLICE_PIPES_MAX pipes, and
 * SPLICES_MAX directions with two descriptors each.  Threading: loop thread.
 */
#include <uv.h>

#define SPLICE_PIPE_BYTES (256u << 10)
#define SPLICE_PIPES_MAX 64
#define SPLICES_MAX 256

struct splice;

struct splice_events {
	/* So many bytes have left the first socket. */
	void (*moved)(void *arg, size_t n);
	/* The first socket has ended and all its bytes have arrived, or it failed: -errno.  Not
	 * called again, nor after splice_close(). */
	void (*end)(void *arg, int r);
	/* The last event. */
	void (*closed)(void *arg);
	/* How many bytes may be taken now; 0: none until splice_go_on().  NULL: any number. */
	size_t (*room)(void *arg);
};

/* Nothing else may read from the first or write to the second meanwhile.  -EAGAIN: there are
 * SPLICES_MAX already; -EMFILE and others; no event is called then. */
[[nodiscard]] int splice_open(uv_loop_t *loop, int from, int to, const struct splice_events *events,
			      void *arg, struct splice **ret);
/* Ask room() again. */
void splice_go_on(struct splice *s);
/* Bytes in the pipe. */
size_t splice_queued_bytes(const struct splice *s);
/* Bytes in the pipe are lost. */
void splice_close(struct splice *s);
#endif
