/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_PUSH_H
#define CAY_WIRE_PUSH_H
/* push - records cayd sends to an edge, and the few an edge sends to cayd
 *
 * A unix stream of records of one size.  The edge connects and sends HELLO; cayd replies HELLO,
 * sends the complete state between ALL and END, and then every change.  At END the edge deletes
 * everything not repeated since ALL.  So an edge needs no further request once it has the state,
 * and a restarted cayd restores it.
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
 *	SANDBOX  enum             app_port,  epoch          sandbox  its      16 bytes: SHA-256
 *	         sandbox_state,   PUSH_                                       of its group,
 *	         PUSH_DOZING      PUBLIC_PORTS                                16: of its name
 *	REVOKED  slot                                       sandbox           8 bytes of a token
 *	EXPORTS  pair of slots    count                     sandbox           two tags of 16 bytes
 *	KEY      enum op_scope    1: bound   until, unix ms key      its      SHA-256 of it
 *	GROUP                                               key               group, 0-padded
 *	NO_KEY                                              key
 *	SIGN     key number       epoch      until, unix ms                   HMAC key of tokens
 *	END
 *	TICK                                                                  keep-alive
 *	BUSY                      under way                 sandbox           edge to cayd
 *	USED                                                key               edge to cayd
 *	REFUSED  enum             count                     key or   peer address (16 bytes),
 *	         push_refusal                               none              edge to cayd
 *	COUNT                     cell       value                            edge to cayd
 *
 * A SIGN replaces the one whose number has the same parity: the signing key and its predecessor
 * have consecutive numbers, and older ones are gone.  A sandbox whose state is TERMINATED or FAILED
 * is deleted.  Its tokens are void if they are older than its epoch, or if a REVOKED has put their
 * 8 random bytes (auth/token.h) into one of its PUSH_REVOKED_MAX slots; slots not mentioned keep
 * their value.
 *
 * EXPORTS fill the slots of its exports (auth/export-token.h) in order, two a record; the last
 * record sets their number, which is the same in all of them, so no export that stays is missing
 * while they arrive.  One record with the number 0 says there are none.
 *
 * BUSY is sent when the number of requests inside a sandbox has changed, and with 0
 * for a request that came and went in between, so that cayd can tell which are idle.  To one that
 * dozes a request is sent as if it ran, and waits in its socket; the BUSY is sent at once.
 * USED is sent now and then for a key that was accepted.  A bound key is refused until its GROUP
 *has come. REFUSED is a sum: refusals of one peer since the last record.  The peer is an IPv6
 *address, or IPv4 mapped into one, of an IPv6 network the first 64 bits; all zero are several.
 *COUNT is a cell of daemon/metrics.h's table, sent when it has changed; the cells depend on the
 *build, so cayd accepts them only from its own. */
#include "base/id.h"

#define PUSH_SIZE 80
#define PUSH_ABI 9
#define PUSH_SOCKET "push.sock"
#define PUSH_NEVER UINT64_MAX               /* of time: no end */
#define PUSH_STATES 11                      /* values of a sandbox's state, and the next */
#define PUSH_DOZING 10                      /* it is paused, and a BUSY wakes it */
#define PUSH_PUBLIC_PORTS UINT32_C(0x10000) /* beside app_port: its previews need no token */
#define PUSH_SCOPES 5                       /* of a key's scope; 0 is none */
#define PUSH_REVOKED_MAX 16                 /* places of a sandbox */
#define PUSH_EXPORTS_MAX 64                 /* of a sandbox */
#define PUSH_EXPORT_TAG 16                  /* bytes of the hash of an export's URL */
#define PUSH_GROUP_TAG 16                   /* bytes of the hash of a group's name; zero: none */
#define PUSH_NAME_TAG 16                    /* after them: of the sandbox's name */

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
	PUSH_KEY_GROUP,
	PUSH_EXPORTS,
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
/* -EPROTO for anything that push_encode() would not write for a valid record. */
[[nodiscard]] int push_decode(const uint8_t in[static PUSH_SIZE], struct push *ret);
#endif
