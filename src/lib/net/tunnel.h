/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_TUNNEL_H
#define CAY_NET_TUNNEL_H
/*
 * tunnel - copy bytes between two connections until both have ended
 *
 * The bytes are not interpreted.  A side that does not read stops the other from being read; an end
 * is passed on as an end.  When one side has ended the other may finish, but a silence of
 * TUNNEL_HALF_MS ends both: the peer may have left.  A side found to be closed in both directions
 * ends both as soon as its data is sent.
 *
 * Bounded: TUNNEL_MARK and one read each way while a side stalls; an idle tunnel holds no buffer.
 * A direction that is spliced has its bytes in a pipe instead (net/splice.h).
 */
#include "net/conn.h"

#define TUNNEL_MARK KIB(64)
#define TUNNEL_HALF_MS 60000
#define TUNNEL_SPLICE_AFTER KIB(256)

struct tunnel;

/* done is called once, last; may be NULL.  Returns NULL without memory. */
[[nodiscard]] struct tunnel *tunnel_new(uv_loop_t *loop, void (*done)(void *arg), void *arg);
/* Takes both connections; first sends the bytes each had sent already to the other. */
void tunnel_start(struct tunnel *t, struct conn *a, struct slice from_a, struct conn *b,
		  struct slice from_b);
/* Let the kernel move the bytes of a direction that has moved TUNNEL_SPLICE_AFTER.  For two sockets
 * without a filter; call before tunnel_start(). */
void tunnel_allow_splice(struct tunnel *t);
/* How much is moved.  from is 0 for the first connection. */
struct tunnel_meter {
	/* Bytes that may be taken from it now; 0: none until tunnel_go_on(). */
	size_t (*room)(void *arg, unsigned from);
	/* So many were: how many of them may go on to the other side.  The rest is lost. */
	size_t (*pass)(void *arg, unsigned from, size_t n);
};
/* Call before tunnel_start(). */
void tunnel_set_meter(struct tunnel *t, const struct tunnel_meter *meter, void *arg);
/* Ask room() again. */
void tunnel_go_on(struct tunnel *t);
/* Whether both peers have acknowledged all that was passed on to them. */
bool tunnel_is_drained(const struct tunnel *t);
/* Bytes that each side has sent; also from done. */
void tunnel_get_moved(const struct tunnel *t, uint64_t *from_a, uint64_t *from_b);
/* End it now; done is called. */
void tunnel_close(struct tunnel *t);
/* The same, but both peers see a reset. */
void tunnel_reset(struct tunnel *t);
/* For a tunnel that was not started; done is not called. */
void tunnel_free(struct tunnel *t);
#endif
