/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_HELLO_H
#define CAY_WIRE_HELLO_H
/* hello - cay-init's reply to GET /v1/hello, the first request
 *
 * 32 bytes, little-endian, fixed: they state the protocol versions cay-init supports, so that the
 * host parses no JSON from a sandbox.
 *
 *	 0  u32  magic "CAYH"
 *	 4  u16  proto_min
 *	 6  u16  proto_max
 *	 8  u64  features and state, a bit each
 *	16  u8[16] build
 *
 * The host supports versions N-2..N and uses the highest common one. */
#include <stddef.h>
#include <stdint.h>

#define HELLO_SIZE 32
/* Upgrade protocol of a request that becomes a connection to a port inside. */
#define HELLO_PORT_PROTOCOL "cay-port"
/* The same to the VNC server of the screen. */
#define HELLO_SCREEN_PROTOCOL "cay-screen"
#define HELLO_PROTO_MIN 1
#define HELLO_PROTO_MAX 1
#define HELLO_MEDIA_TYPE "application/vnd.cay.hello"

/* Requests only the host sends to cay-init; all others are rows of ops.def. */
#define INIT_PATH_HELLO "/v1/hello" /* GET: the 32 bytes */
#define INIT_PATH_CLAIM \
	"/v1/claim" /* POST: a Claim, once, before the first exec; 204, or wire/start.h */
#define INIT_PATH_KERNELS "/v1/kernels"   /* POST: a Claim to come, to prepare kernels for; 204 */
#define INIT_PATH_RESOLVER "/v1/resolver" /* POST: names are resolved from now on; 204 */
#define INIT_PATH_IDENTITY "/v1/identity" /* POST, before the claim: its files are a copy; 204 */
#define INIT_PATH_TRUST "/v1/trust"       /* POST: a certificate in PEM to trust; 204 */
#define INIT_PATH_START "/v1/start"       /* GET: when the start is over, the claim's answer */

/* Bits of `features`: facts a restarted cayd needs. */
#define HELLO_CLAIMED UINT64_C(1)            /* claimed, and usable */
#define HELLO_ENTRYPOINT_STARTED UINT64_C(2) /* its entrypoint was started (wire/entrypoint.h) */
#define HELLO_CLAIM_RECEIVED UINT64_C(4)     /* claimed; not yet usable */
#define HELLO_NO_WORK UINT64_C(8) /* no exec, shell run or kernel run; services do not count */

struct hello {
	uint16_t proto_min, proto_max;
	uint64_t features;
	uint8_t build[16];
};

void hello_encode(const struct hello *h, uint8_t out[static HELLO_SIZE]);
/* -EPROTO for anything that is not a hello. */
[[nodiscard]] int hello_decode(const uint8_t *in, size_t n, struct hello *ret);
/* The version to speak, or -EPROTONOSUPPORT. */
[[nodiscard]] int hello_choose_version(const struct hello *theirs, uint16_t our_min,
				       uint16_t our_max);
#endif
