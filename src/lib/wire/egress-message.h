/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_EGRESS_MESSAGE_H
#define CAY_WIRE_EGRESS_MESSAGE_H
/* egress-message - what cayd and cay-egress send each other
 *
 * cayd connects to EGRESS_SOCKET.  Both send HELLO first.  cayd then sends ALL, a SANDBOX for each
 * sandbox with a policy, and END: cay-egress forgets the sandboxes that did not come.  Afterwards
 * it sends SANDBOX for each change and GONE for each end.
 *
 * SANDBOX has the compiled policy (egress/policy.h) and, unless cay-egress has the listeners
 * already, the socket that the keeper returned for VERB_NET.  cay-egress replies APPLIED when every
 * open connection of the sandbox was judged by that policy, or REFUSED.
 *
 * SEQPACKET messages of this machine's byte order.  cayd does not trust the replies. */
#include "base/id.h"

#define EGRESS_DIR "egress" /* in paths.run and in paths.state */
#define EGRESS_SOCKET EGRESS_DIR "/egress.sock"
#define EGRESS_MAGIC UINT32_C(0x45594143) /* "CAYE" */
#define EGRESS_ABI 1
#define EGRESS_MESSAGE_MAX KIB(96)

enum egress_kind {
	EGRESS_MSG_HELLO = 1, /* number is EGRESS_ABI */
	EGRESS_MSG_ALL,
	EGRESS_MSG_SANDBOX, /* followed by a policy; one fd or none */
	EGRESS_MSG_GONE,
	EGRESS_MSG_END,
	EGRESS_MSG_APPLIED,
	EGRESS_MSG_REFUSED, /* the sandbox has no listeners, or the message cannot be used */
	EGRESS_MSG_NUM
};

struct egress_message {
	uint32_t magic;
	uint16_t kind;
	uint16_t number;
	uint64_t generation; /* of the policy */
	struct id sandbox;
	struct id tenant;
};
static_assert(sizeof(struct egress_message) == 48);

/* Write the head of a message that has no policy. */
struct egress_message egress_message_init(enum egress_kind kind, const struct id *sandbox,
					  uint64_t generation);
/* n bytes and n_fds fds that came from cayd or from cay-egress: -EPROTO unless they are one valid
 * message.  The policy is not checked. */
[[nodiscard]] int egress_message_check(const void *msg, size_t n, unsigned n_fds, bool from_cayd);
#endif
