/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_TUNNEL_H
#define CAY_NET_TUNNEL_H
/*
 * tunnel - bytes of one connection to another, and back, until both ended
 *
 * What one side sends is not looked at.  A side that does not read stops the other
 * from being read; an end is passed on as an end.  When one side has ended the other
 * may finish, but a silence of TUNNEL_HALF_MS ends both: nobody may be there.  One that
 * is seen to be gone altogether ends both as soon as what it said is out.
 *
 * Bounded: TUNNEL_MARK and one read each way while a side stalls; an idle tunnel
 * holds no buffer.
 */
#include "net/conn.h"

#define TUNNEL_MARK KIB(64)
#define TUNNEL_HALF_MS 60000

struct tunnel;

/* done is told once, last; may be NULL.  NULL when there is no memory. */
[[nodiscard]] struct tunnel *tunnel_new(uv_loop_t *loop, void (*done)(void *arg), void *arg);
/* Takes both connections, and sends what each said already (to the other one) first. */
void tunnel_start(struct tunnel *t, struct conn *a, struct slice from_a, struct conn *b,
		  struct slice from_b);
/* Over, now; done is told. */
void tunnel_close(struct tunnel *t);
/* Of one that was not started; done is not told. */
void tunnel_free(struct tunnel *t);
#endif
