/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_REQUEST_TURNS_H
#define CAY_NET_REQUEST_TURNS_H
/*
 * request-turns - the requests of all servers of one loop, served by turns between tenants
 *
 * While the loop has time a request is served as soon as it is read.  When the requests of one
 * round have taken TURNS_SLICE_NS, the others wait in the queue of their tenant
 * (net/tenant-share.h), and each round serves one slice, so that new input and every other event
 * of the loop wait for one slice and no more.
 *
 * A request that waits for longer than TURNS_WAIT_NS is refused as overloaded.  Threading: loop
 * thread.
 */
#include <uv.h>

#include "base/clock.h"
#include "base/err.h"

#define TURNS_SLICE_NS (NS_PER_MS / 2)
#define TURNS_WAIT_NS (5 * NS_PER_S)

struct request_turns;

/* For server_conf.turns; lives as long as the loop. */
[[nodiscard]] int request_turns_start(uv_loop_t *loop, struct request_turns **ret,
				      struct cay_err *err);
#endif
