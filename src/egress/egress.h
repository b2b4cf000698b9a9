/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_EGRESS_H
#define CAY_EGRESS_EGRESS_H
/*
 * egress - connects sandboxes to the hosts that their policies allow
 *
 *	main.c        start; settings; then serve
 *	feed.c        what cayd sends: sandboxes, policies, listeners
 *	egress-sandbox.c  a sandbox: its listeners, policy, names and connections
 *	answer.c      its questions of DNS
 *	resolve.c     the addresses of a name, asked of the host's name servers
 *	address.c     which addresses may be dialled
 *	flow.c        one connection: judged, resolved, dialled, copied
 *	host-guard.c  requests on port 80 are for the host that was dialled
 *	decision-log.c  a chained record of each decision
 *	flow-list.c   the connections of a sandbox, listed and cut for cayd
 *	count.c       what each sandbox uses; cayd gets it once a second
 *
 * A program inside a sandbox gets an address of its own for each name (egress/name-table.h).  A
 * connection to such an address is one to that name, on any port: it is judged by name and port,
 * and the name is resolved here.  What a program sends never chooses where it is connected to.
 *
 * This process reads hostile bytes and holds no secret.  It opens connections and nothing else
 * (daemon/confine.h).  Without cayd it goes on by the last policies; when it ends, connections of
 * sandboxes are refused.
 */
#include <uv.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "egress/name-map.h"
#include "egress/name-table.h"
#include "egress/policy.h"
#include "net/conn.h"
#include "ops/settings.h"
#include "steer/steer.h"
#include "wire/egress-message.h"

#define EGRESS_ADDRESS_LEN 16 /* IPv4 as ::ffff:a.b.c.d */
#define SANDBOX_BUCKETS 1024
#define SANDBOX_FLOWS_MAX EGRESS_FLOWS_MAX
#define SANDBOX_FLOWS_PER_S 100
#define SANDBOX_FLOWS_BURST 200
#define SANDBOX_QUESTIONS_PER_S 200
#define SANDBOX_QUESTIONS_BURST 400
#define SANDBOX_QUESTIONS_MAX 64 /* that wait for a name server */
#define SANDBOX_DENIALS_PER_S 10 /* records; others are counted in the next one */
#define SANDBOX_DENIALS_BURST 100
#define TENANT_SLOTS 1024 /* tenants with the same hash share what one may have */
#define QUERIES_MAX 4096
#define QUERIES_OF_TENANT_MAX 256

struct counter;
struct decision_log;
struct feed;
struct sandbox_listeners;
struct flow;
struct resolver;

struct egress {
	struct settings settings;
	struct log log;
	const struct clk *clk;
	uv_loop_t loop;
	uid_t control_uid;
	struct conn_shared *room;
	uint32_t synthetic_net; /* in host byte order */
	unsigned synthetic_prefix;
	struct name_map map;
	struct feed *feed;
	struct resolver *resolver;
	struct decision_log *decisions;
	struct counter *counter;
	struct egress_sandbox *sandboxes[SANDBOX_BUCKETS];
	unsigned flows_max; /* as descriptors allow; a tenant has a quarter of them */
	unsigned n_flows, n_queries;
	bool may_splice;
	struct {
		unsigned n_flows, n_queries;
	} tenants[TENANT_SLOTS];
};

/* How often something may happen: a bucket that fills with time. */
struct pace {
	uint64_t at_ns;
	uint64_t owed_ns;
};
/* Whether it may happen now. */
bool pace_take(struct pace *p, uint64_t now_ns, uint64_t per_s, uint64_t burst);

/* A sandbox that cayd gave us. */
struct egress_sandbox {
	struct egress *egress;
	struct egress_sandbox *next; /* of its bucket */
	struct id id, tenant;
	uint64_t round; /* of the last ALL that named it */
	struct buf policy;
	struct name_table names;
	struct sandbox_listeners *listeners; /* NULL: connections are refused */
	unsigned holds;                      /* flows, questions and listeners that refer to it */
	bool gone;
	struct flow *flows;
	unsigned n_flows, n_questions;
	struct pace flow_pace, question_pace, denial_pace;
	uint64_t denials_skipped; /* since the last record of one */
	struct {
		struct egress_counts ended;   /* without its open connections */
		struct egress_counts settled; /* the node's counts have it */
		struct egress_counts sent;    /* cayd has it */
		struct egress_sandbox *prev, *next;
		bool listed; /* it may have changed */
	} count;
};

/* egress-sandbox.c.  A sandbox that is gone has no listeners and no policy, and is freed by its
 * last release. */
struct egress_sandbox *egress_sandbox_find(struct egress *e, const struct id *id);
[[nodiscard]] struct egress_sandbox *egress_sandbox_add(struct egress *e, const struct id *id,
							const struct id *tenant);
/* Takes the descriptors, also on failure; those it had are closed. */
[[nodiscard]] int egress_sandbox_attach(struct egress_sandbox *sb, int fds[static STEER_NUM]);
/* -EBADF when it has none. */
int egress_sandbox_fd(const struct egress_sandbox *sb, enum steer_fd which);
/* Judge all its connections by this policy and cut those that it does not allow. */
[[nodiscard]] int egress_sandbox_set_policy(struct egress_sandbox *sb, struct slice policy);
void egress_sandbox_remove(struct egress_sandbox *sb);
void egress_sandbox_remove_all_but(struct egress *e, uint64_t round);
/* Of TENANT_SLOTS. */
unsigned egress_sandbox_tenant_slot(const struct egress_sandbox *sb);
void egress_sandbox_hold(struct egress_sandbox *sb);
void egress_sandbox_release(struct egress_sandbox *sb);

/* count.c: what sandboxes use */
[[nodiscard]] int counter_open(struct egress *e, struct cay_err *err);
/* cayd has connected and knows nothing of the node's counts. */
void counter_send_again(struct egress *e);
/* The counts cayd had of it; those of the node are not raised by them. */
void egress_sandbox_set_counts(struct egress_sandbox *sb, const struct egress_counts *base);
struct egress_counts egress_sandbox_get_counts(const struct egress_sandbox *sb);
/* Its counts or its open connections may have changed. */
void egress_sandbox_counts_changed(struct egress_sandbox *sb);
/* A connection was refused before it was connected, for this reason of the log. */
void egress_sandbox_count_refusal(struct egress_sandbox *sb, const char *why);
/* It is freed; the counts of the node keep its share. */
void egress_sandbox_counts_end(struct egress_sandbox *sb);

/* answer.c: answer what waits at the UDP socket. */
void egress_sandbox_answer_questions(struct egress_sandbox *sb);

/* flow.c: accept what waits at the listener; judge a connection again. */
void egress_sandbox_accept_flows(struct egress_sandbox *sb);
void flow_judge_again(struct flow *f);
void flow_cut(struct flow *f, const char *why);
struct flow *flow_next(const struct flow *f);
/* False: it was cut, and ends. */
[[nodiscard]] bool flow_describe(const struct flow *f, struct egress_flow_row *ret);
/* Bytes so far, of one that is connected. */
void flow_get_moved(const struct flow *f, uint64_t *ret_up, uint64_t *ret_down);

/* flow-list.c: those of sb, which may be NULL; at most EGRESS_FLOWS_MAX rows. */
size_t egress_sandbox_list_flows(const struct egress_sandbox *sb, struct egress_flow_row *ret);
/* Reset those that match before it returns their number. */
uint64_t egress_sandbox_cut_flows(struct egress_sandbox *sb, const struct egress_cut *which);

/* resolve.c */
#define RESOLVE_ADDRESSES_MAX 8
enum resolve_outcome { RESOLVED, RESOLVE_NO_NAME, RESOLVE_NO_ADDRESS, RESOLVE_FAILED };
struct resolved {
	enum resolve_outcome outcome;
	unsigned n;
	uint8_t addresses[RESOLVE_ADDRESSES_MAX][EGRESS_ADDRESS_LEN];
};
/* Called once; also before resolve_start() returns. */
typedef void resolve_fn(void *arg, const struct resolved *what);
[[nodiscard]] int resolver_open(struct egress *e, struct cay_err *err);
/* Negative: too many are under way, there is no name server, or no memory; fn is not called. */
[[nodiscard]] int resolve_start(struct egress_sandbox *sb, const struct host_name *name,
				resolve_fn *fn, void *arg);

/* address.c */
[[nodiscard]] int addresses_open(struct egress *e, struct cay_err *err);
/* NULL, or why this address must not be dialled. */
const char *address_refusal(const struct egress *e, const uint8_t address[EGRESS_ADDRESS_LEN],
			    uint16_t port);
/* "192.0.2.1" or "2001:db8::1". */
#define ADDRESS_TEXT_MAX 48
void address_format(const uint8_t address[EGRESS_ADDRESS_LEN], char ret[static ADDRESS_TEXT_MAX]);
/* Of an IPv4 address in host byte order. */
void address_from_v4(uint32_t v4, uint8_t ret[static EGRESS_ADDRESS_LEN]);

/* feed.c */
[[nodiscard]] int feed_open(struct egress *e, struct cay_err *err);
/* Send cayd a message that it did not ask for; false: it is not there, or has no room now. */
[[nodiscard]] bool feed_push(struct egress *e, const void *msg, size_t n);

/* decision-log.c */
struct decision {
	const struct egress_sandbox *sandbox;
	const char *op;      /* "connect", "name" */
	const char *outcome; /* "allow", "deny", or why it failed */
	const char *name;    /* or an address; "" for none */
	uint16_t port;
	const uint8_t *dialled;           /* an address, or NULL */
	const struct name_mirror *mirror; /* or NULL */
	struct egress_verdict verdict;
	uint64_t up, down; /* bytes, of a connection that has ended */
	uint64_t more;     /* decisions like it that have no record */
};
[[nodiscard]] int decision_log_open(struct egress *e, struct cay_err *err);
/* False: the record cannot be kept, and what it allows must not happen. */
[[nodiscard]] bool decision_log_add(struct egress *e, const struct decision *d);
/* Of a refusal.  A sandbox that is refused often has one record for many. */
void decision_log_add_denial(struct egress_sandbox *sb, const struct decision *d);
/* The sandbox has ended: a record of the refusals that have none. */
void decision_log_add_skipped(struct egress_sandbox *sb);
#endif
