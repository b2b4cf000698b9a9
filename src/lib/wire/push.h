/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_PUSH_H
#define CAY_WIRE_PUSH_H
/*
 * push - what control tells an edge, and the little an edge tells control
 *
 * A unix stream of records of one size.  The edge dials and says HELLO; control says
 * HELLO, all there is between ALL and END, and from then on what changes.  At END the
 * edge forgets what was not said since ALL.  So an edge needs nobody once it has been
 * told, and a restarted control makes it whole again without asking.
 *
 *	 0  u8   kind
 *	 1  u8   value
 *	 2  u16  0
 *	 4  u32  number
 *	 8  u64  time
 *	16  u8[16] id
 *	32  u8[16] tenant
 *	48  u8[32] secret
 *
 *	kind     value            number     time           id       tenant   secret
 *	HELLO                     PUSH_ABI                                    build, 0-padded
 *	ALL
 *	SANDBOX  enum             app_port   epoch          sandbox  its
 *	         sandbox_state
 *	REVOKED  which place                                sandbox           8 bytes of a token
 *	KEY      enum op_scope               until, unix ms key      its      SHA-256 of it
 *	NO_KEY                                              key
 *	SIGN     key number       epoch      until, unix ms                   HMAC key of tokens
 *	END
 *	TICK                                                                  it lives
 *	BUSY                      under way                 sandbox           edge to control
 *	USED                                                key               edge to control
 *	REFUSED  enum             how often                 key or   from where (16 bytes),
 *	         push_refusal                               none              edge to control
 *	COUNT                     which      how many                         edge to control
 *
 * A SIGN takes the place of one whose number is as even or odd as its own: the key that
 * signs and the one before it have numbers in a row, and one that is two ago is gone.
 * A sandbox whose state is TERMINATED or FAILED is forgotten.  Tokens of it that are older
 * than its epoch are void, and those whose 8 random bytes (auth/token.h) a REVOKED has put
 * into one of its PUSH_REVOKED_MAX places; what is not said of a place leaves it.  BUSY is said
 *when the number of requests inside a sandbox has changed, and for one that came and went in
 * between with 0: that is how control knows what is idle.  USED is said of a key that
 * somebody was let in with, now and then.  REFUSED is summed up: so many from one peer
 * since the last time.  The peer is an IPv6 address, or IPv4 mapped into one, of an IPv6
 * network the first 64 bits; all zero are several.  COUNT is a cell of
 * daemon/metrics.h's table, said when it has changed; what a cell is depends on the
 * build, so control takes them only of its own.
 */
#include "base/id.h"

#define PUSH_SIZE 80
#define PUSH_ABI 4
#define PUSH_SOCKET "push.sock"
#define PUSH_NEVER UINT64_MAX /* of time: no end */
#define PUSH_STATES 7         /* values of a sandbox's state */
#define PUSH_SCOPES 5         /* of a key's scope; 0 is none */
#define PUSH_REVOKED_MAX 16   /* places of a sandbox */

enum push_kind {
	PUSH_NONE,
	PUSH_HELLO,
	PUSH_ALL,
	PUSH_SANDBOX,
	PUSH_KEY,
	PUSH_KEY_REMOVED,
	PUSH_TOKEN_KEY,
	PUSH_END,
	PUSH_HEARTBEAT,
	PUSH_BUSY,
	PUSH_KEY_USED,
	PUSH_REFUSED,
	PUSH_COUNT,
	PUSH_REVOKED,
	PUSH_KINDS
};

/* For its credential, for its scope, for how often it was. */
enum push_refusal { PUSH_NO_CREDENTIAL, PUSH_NO_SCOPE, PUSH_TOO_OFTEN, PUSH_REFUSALS };

struct push {
	enum push_kind kind;
	uint8_t value;
	uint32_t number;
	uint64_t time;
	struct id id, tenant; /* all zero where the kind has none */
	uint8_t secret[32];
};

void push_encode(const struct push *p, uint8_t out[static PUSH_SIZE]);
/* -EPROTO for anything push_encode() would not write of a record that makes sense. */
[[nodiscard]] int push_decode(const uint8_t in[static PUSH_SIZE], struct push *ret);
#endif
