/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_EGRESS_MESSAGE_H
#define CAY_WIRE_EGRESS_MESSAGE_H
/* egress-message - what cayd and cay-egress send each other
 *
 * cayd connects to EGRESS_SOCKET.  Both send HELLO first.  cayd then sends ALL, a SANDBOX for each
 * sandbox with a policy, and END: cay-egress forgets the sandboxes that did not come.  Afterwards
 * it sends SANDBOX for each change and GONE for each end.
 *
 * SANDBOX has limits, the compiled policy (egress/policy.h) and, unless cay-egress has the
 * listeners already, the socket that the keeper returned for VERB_NET.  cay-egress replies APPLIED
 * when every open connection of the sandbox was judged by that policy, or REFUSED.
 *
 * cay-egress counts the use of each sandbox and sends COUNTS, at most once a second, with the
 * sandboxes that have changed.  SANDBOX has what cayd knows: a cay-egress that was restarted goes
 * on from there, and another one from its own counts, which APPLIED has.
 *
 * LIST_FLOWS, LIST_LOG, CUT and ANSWER are questions about one sandbox, numbered by cayd; the
 * reply, FLOWS, LOG, CUT_DONE or ANSWERED, has the number.
 *
 * ASK tells of a connection that waits for an answer, or that no longer waits.  After HELLO
 * cay-egress repeats those that wait.  ANSWER goes to all connections of the sandbox that wait for
 * that name and port.
 *
 * PEER asks cayd for a connection to another sandbox of the group, which cayd alone knows; it is
 * numbered by cay-egress.  PEER_DONE has the number, and a socket that is connected to that port
 * and to nothing else.  EXPOSE says which ports of a sandbox may be connected to so: connections to
 * others are reset before the reply, CUT_DONE.  It also comes between ALL and END, for each sandbox
 * that has such ports: connections to those that did not come are reset.
 *
 * SEQPACKET messages of this machine's byte order.  cayd does not trust the replies. */
#include "base/id.h"
#include "base/str.h"

#define EGRESS_DIR "egress" /* in paths.run and in paths.state */
#define EGRESS_SOCKET EGRESS_DIR "/egress.sock"
#define EGRESS_MAGIC UINT32_C(0x45594143) /* "CAYE" */
#define EGRESS_ABI 9
#define EGRESS_MESSAGE_MAX KIB(96)
#define EGRESS_CA_MAX KIB(2) /* a certificate in PEM */
#define EGRESS_EVENT_MAX KIB(4)

enum egress_kind {
	EGRESS_MSG_HELLO = 1, /* number is EGRESS_ABI */
	EGRESS_MSG_ALL,
	EGRESS_MSG_SANDBOX, /* followed by egress_counts, egress_limits and a policy; one fd or none
			     */
	EGRESS_MSG_GONE,
	EGRESS_MSG_END,
	EGRESS_MSG_APPLIED, /* followed by struct egress_counts and the sandbox's CA, or none */
	EGRESS_MSG_REFUSED, /* the sandbox has no listeners, or the message cannot be used */
	EGRESS_MSG_COUNTS,  /* followed by struct egress_node_counts and rows of sandboxes */
	EGRESS_MSG_LIST_FLOWS,
	EGRESS_MSG_FLOWS,     /* followed by rows of open connections */
	EGRESS_MSG_CUT,       /* followed by struct egress_cut */
	EGRESS_MSG_CUT_DONE,  /* they are reset; followed by their number, 64 bits */
	EGRESS_MSG_LIST_LOG,  /* followed by struct egress_log_query */
	EGRESS_MSG_LOG,       /* followed by struct egress_log_end and rows of decisions */
	EGRESS_MSG_ASK,       /* followed by struct egress_ask */
	EGRESS_MSG_ANSWER,    /* followed by struct egress_answer */
	EGRESS_MSG_ANSWERED,  /* they go on or are reset; followed by their number, 64 bits */
	EGRESS_MSG_EVENT,     /* followed by JSON for the webhook; there is no reply */
	EGRESS_MSG_PEER,      /* followed by struct egress_peer */
	EGRESS_MSG_PEER_DONE, /* followed by struct egress_peer_done; one fd if it is connected */
	EGRESS_MSG_EXPOSE,    /* followed by struct egress_exposed */
	EGRESS_MSG_NUM
};

struct egress_message {
	uint32_t magic;
	uint16_t kind;
	uint16_t number;
	uint64_t generation; /* of the policy, or the number of the question */
	struct id sandbox;
	struct id tenant;
};
static_assert(sizeof(struct egress_message) == 48);

/* What a sandbox uses.  All but `open` only grow. */
struct egress_counts {
	uint64_t open; /* connections now */
	/* connections that have... */
	uint64_t connected;
	uint64_t denied;  /* by a policy, or because of what they dialled or sent */
	uint64_t failed;  /* no address, no host, or no room for the record */
	uint64_t limited; /* begun while there were too many */
	uint64_t names_denied;
	uint64_t up, down; /* bytes that programs inside sent, and got */
};
static_assert(sizeof(struct egress_counts) == 64);

/* What a sandbox may use.  The first two are never 0; of the others 0 is no limit. */
struct egress_limits {
	uint64_t flows;     /* connections at once */
	uint64_t new_per_s; /* that may begin in a second */
	uint64_t bytes[2];  /* up and down, of all its connections ever */
	uint64_t rate[2];   /* up and down, bytes in a second */
};
#define EGRESS_LIMIT_FLOWS_MAX 1024
#define EGRESS_LIMIT_NEW_PER_S_MAX 100

struct egress_node_counts {
	uint64_t instance; /* of cay-egress: its counts begin with it */
	struct egress_counts all;
};

struct egress_counts_row {
	struct id sandbox;
	struct egress_counts counts;
};
static_assert(sizeof(struct egress_counts_row) == 80);
#define EGRESS_COUNTS_ROWS_MAX 512

#define EGRESS_NAME_SIZE 256

/* In the order of egress_flow_states in ops/schemas.c. */
enum egress_flow_state {
	EGRESS_FLOW_CHECKING, /* waits for the first bytes of the program */
	EGRESS_FLOW_ASKING,   /* waits for an answer */
	EGRESS_FLOW_RESOLVING,
	EGRESS_FLOW_CONNECTING,
	EGRESS_FLOW_OPEN,
	EGRESS_FLOW_NUM_STATES
};

/* An open connection.  The name is "" for one to an address. */
struct egress_flow_row {
	char name[EGRESS_NAME_SIZE];
	uint8_t address[16]; /* it is connected to, or will be; IPv4 as ::ffff:a.b.c.d; or 0 */
	uint64_t since_ns;   /* wall time */
	uint64_t up, down;
	uint16_t port;
	uint16_t state; /* enum egress_flow_state */
	uint32_t zero;
};
static_assert(sizeof(struct egress_flow_row) == 304);
#define EGRESS_FLOWS_MAX 256 /* of a sandbox */

/* Which connections: all, or those to a name or an address, or to a port. */
struct egress_cut {
	char name[EGRESS_NAME_SIZE]; /* "": to any */
	uint32_t address;            /* of those without a name, in host byte order; 0: any */
	uint16_t port;               /* 0: any */
	uint16_t zero;
};

/* In the order of egress_log_verdicts in ops/schemas.c. */
enum egress_log_verdict { EGRESS_LOG_ALLOW, EGRESS_LOG_DENY, EGRESS_LOG_FAILED, EGRESS_LOG_NUM };

/* Which of the decisions that cay-egress remembers. */
struct egress_log_query {
	char name[EGRESS_NAME_SIZE]; /* "": of any name and address */
	uint64_t after;              /* only those with a higher number */
	uint16_t verdict;            /* enum egress_log_verdict, or EGRESS_LOG_NUM: any */
	uint16_t zero[3];
};

/* A decision.  The name is "" for a connection to an address. */
struct egress_log_row {
	char name[EGRESS_NAME_SIZE];
	char op[16], outcome[32]; /* words, as in the log */
	uint8_t address[16];      /* as in struct egress_flow_row */
	uint64_t seq, time_ns;    /* wall time */
	uint64_t up, down;
	uint64_t more; /* decisions like it that have no row */
	int32_t rule;  /* negative: the default of the layer */
	uint16_t port;
	uint8_t layer, verdict; /* enum egress_layer, enum egress_log_verdict */
};
static_assert(sizeof(struct egress_log_row) == 368);
#define EGRESS_LOG_ROWS_MAX 128

struct egress_log_end {
	uint64_t next;    /* all rows up to this number were looked at */
	uint64_t dropped; /* 1: rows after the one in the question are no longer there */
};

enum egress_ask_event {
	EGRESS_ASK_BEGAN,   /* a connection waits */
	EGRESS_ASK_AGAIN,   /* the same, and it did before cayd connected */
	EGRESS_ASK_REFUSED, /* too many of the sandbox wait: this one was reset */
	EGRESS_ASK_BYTES,   /* one that waits has sent its first bytes */
	EGRESS_ASK_LEFT,    /* the program closed it, or the sandbox or its policy ended it */
	EGRESS_ASK_EXPIRED,
	EGRESS_ASK_NUM_EVENTS
};

/* What the first bytes look like.  In the order of ask_kinds in ops/schemas.c. */
enum egress_ask_kind {
	EGRESS_KIND_NONE,
	EGRESS_KIND_TLS,
	EGRESS_KIND_HTTP,
	EGRESS_KIND_OTHER,
	EGRESS_KIND_NUM
};

struct egress_ask {
	char name[EGRESS_NAME_SIZE]; /* "": an address */
	uint32_t address;            /* of one without a name, in host byte order */
	uint16_t port;
	uint8_t event; /* enum egress_ask_event */
	uint8_t kind;  /* enum egress_ask_kind; of BYTES and AGAIN */
};
static_assert(sizeof(struct egress_ask) == 264);
#define EGRESS_ASKS_MAX 16 /* connections of a sandbox that wait */

enum egress_answer_verdict {
	EGRESS_ANSWER_ALLOW, /* unless the policy denies it now */
	EGRESS_ANSWER_DENY,
	EGRESS_ANSWER_NOBODY, /* no client can answer */
	EGRESS_ANSWER_NUM
};

struct egress_answer {
	char name[EGRESS_NAME_SIZE];
	uint32_t address;
	uint16_t port;
	uint16_t verdict; /* enum egress_answer_verdict */
};

/* A connection of a sandbox to another one of its group. */
struct egress_peer {
	char name[EGRESS_NAME_SIZE]; /* NAME.group.cay.internal */
	uint16_t port;
	uint16_t zero[3];
};

enum egress_peer_outcome {
	EGRESS_PEER_CONNECTED,
	EGRESS_PEER_ABSENT,      /* the group has no such sandbox */
	EGRESS_PEER_NOT_EXPOSED, /* its policy does not expose this port */
	EGRESS_PEER_UNREACHABLE, /* it does not run, or nothing listens there */
	EGRESS_PEER_NUM
};

struct egress_peer_done {
	struct id peer; /* of CONNECTED */
	uint32_t outcome;
	uint32_t zero;
};

struct egress_port_range {
	uint16_t from, to; /* both included */
};
#define EGRESS_EXPOSED_MAX 16

struct egress_exposed {
	uint16_t n;
	uint16_t zero[3];
	struct egress_port_range ports[EGRESS_EXPOSED_MAX];
};

/* Whether one of its ranges has the port. */
bool egress_exposed_has(const struct egress_exposed *e, uint16_t port);
/* Write the head of a message that has no tenant. */
struct egress_message egress_message_init(enum egress_kind kind, const struct id *sandbox,
					  uint64_t generation);
/* n bytes and n_fds fds that came from cayd or from cay-egress: -EPROTO unless they are one valid
 * message.  The policy is not checked. */
[[nodiscard]] int egress_message_check(const void *msg, size_t n, unsigned n_fds, bool from_cayd);
/* What follows the head of a valid message. */
struct slice egress_message_body(const void *msg, size_t n);
/* Of the body of COUNTS: how many rows, and one of them. */
size_t egress_counts_count_rows(struct slice body);
struct egress_counts_row egress_counts_get_row(struct slice body, size_t i);
/* The same for FLOWS. */
size_t egress_flows_count_rows(struct slice body);
struct egress_flow_row egress_flows_get_row(struct slice body, size_t i);
/* The same for LOG, after its end. */
size_t egress_log_count_rows(struct slice body);
struct egress_log_row egress_log_get_row(struct slice body, size_t i);
/* Take over what has grown, and the present value of `open`. */
void egress_counts_raise(struct egress_counts *c, const struct egress_counts *now);
#endif
