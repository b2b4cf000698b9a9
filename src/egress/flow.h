/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_FLOW_H
#define CAY_EGRESS_FLOW_H
/* flow - a connection of a sandbox; shared by the files flow*.c and ask.c */
#include "egress/flow-judge.h"
#include "egress/inspection.h"
#include "net/tunnel.h"

#define DIALS_MAX 3

struct flow_proxy;

struct flow {
	struct egress_sandbox *sandbox;
	struct flow *prev, *next; /* of the sandbox */
	unsigned holds;           /* handles and callbacks that refer to it */
	bool ended, cut, hides_name, by_proxy;
	bool dialled;  /* for a request that was read */
	bool approved; /* where the policy asks */
	bool guarded;  /* by host-guard.h */
	enum egress_flow_state state;
	enum egress_ask_kind kind; /* of its first bytes, while it asks */
	uint64_t since_ns;         /* wall time */
	struct host_name name;     /* n is 0 for a connection to an address */
	uint32_t address;          /* that it dialled */
	uint16_t port;
	struct egress_verdict verdict;
	struct conn *inside; /* until the tunnel has it */
	struct buf hello;
	uv_timer_t timer;
	struct resolved to;
	unsigned n_dials;
	struct conn *outside;     /* until the tunnel has it */
	struct flow_proxy *proxy; /* NULL: the host is dialled */
	struct tunnel *tunnel;
	struct inspection *inspection; /* instead of a tunnel */
	uint64_t moved;                /* bytes when its silence began */
	struct {
		uint64_t number; /* of the question to cayd */
		uint64_t round;  /* of the last EXPOSE that has this port */
		struct id id;    /* it is connected to that sandbox; no noun: to none */
	} peer;
};

/* flow.c */
void flow_release(struct flow *f);
/* Its peer sees a reset instead of an end. */
void socket_reset_on_close(int fd);
/* NULL: it is connected to the name it dialled. */
const struct name_mirror *flow_mirror(const struct flow *f);
uint16_t flow_dial_port(const struct flow *f);
/* False: it must not go on. */
[[nodiscard]] bool flow_log(const struct flow *f, const char *op, const char *outcome);
void flow_log_denial(const struct flow *f, const char *why);
/* request: "PUT /admin", or NULL */
void flow_log_denied_request(const struct flow *f, const char *why, const char *request);
/* Takes the connection to the host. */
void flow_copy(struct flow *f, struct conn *outside);
/* The last call of its tunnel or inspection. */
void on_flow_copied(void *arg);

/* flow-dial.c: the name becomes addresses, one of them is dialled, bytes are copied. */
void flow_resolve(struct flow *f);
void flow_dial_next(struct flow *f);
void flow_leave_dial(struct flow *f);
/* Dial this address; its connection or the timer follows. */
[[nodiscard]] int flow_dial_open(struct flow *f, const uint8_t *address, uint16_t port);
/* Its dial has become the connection to the host. */
void flow_dial_take(struct flow *f);

/* flow-peer.c: to another sandbox of the group */
bool flow_is_to_peer(const struct flow *f);
void flow_peer_ask(struct flow *f);

/* flow-proxy.c: through the proxy of the node */
bool flow_goes_through_proxy(const struct flow *f);
bool flow_is_to_proxy(const struct flow *f);
/* One that does not go through it: dial the host, unless one of its addresses is the proxy's. */
void flow_dial_unless_proxy(struct flow *f);
void flow_proxy_start(struct flow *f);
/* Dial it, after another of its addresses has failed; it is connected: ask it for the host. */
void flow_proxy_dial(struct flow *f);
void flow_proxy_ask(struct flow *f);
/* Its reply is no longer waited for. */
void flow_proxy_leave(struct flow *f);
void flow_proxy_free(struct flow *f);

/* ask.c: tell cayd of one that waits, or no longer does; false: cayd is not there. */
[[nodiscard]] bool flow_tell(const struct flow *f, enum egress_ask_event event);

/* flow-inspect.c: requests are read from here on. */
void flow_inspect(struct flow *f);
/* A filter or the inspection refuses to go on. */
void on_flow_refused(void *arg, const char *why);
#endif
