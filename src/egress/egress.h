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
 *	answer-tcp.c  those over TCP
 *	name-file.c, name-lines.c  the names it has addresses for, over a restart
 *	resolve.c     the addresses of a name, asked of the host's name servers
 *	address.c     which addresses may be dialled
 *	accept.c      new connections
 *	flow.c        one connection: judged, resolved, dialled, copied
 *	flow-dial.c   its name becomes addresses; one that may be dialled is
 *	flow-peer.c   one to another sandbox of the group
 *	flow-proxy.c, proxy-dialogue.c  one that goes through the proxy of the node
 *	flow-inspect.c, inspection.c  one with requests that are read: TLS ends here
 *	request-head.c  the heads of its requests, and replies to those that are refused
 *	ca.c          certificates for it, by a CA of the sandbox
 *	broker-link.c  gives its socket to cay-broker, which does TLS with the host
 *	ask.c         connections that wait for an answer
 *	webhook.c     events for the operator's server
 *	host-guard.c  requests on port 80 are for the host that was dialled
 *	decision-log.c  a chained record of each decision
 *	recent.c      the last decisions about each sandbox, for cayd
 *	meter.c       how many bytes a sandbox may move, and how fast
 *	flow-list.c   the connections of a sandbox, listed and cut for cayd
 *	count.c       what each sandbox uses; cayd gets it once a second
 *
 * A program inside a sandbox gets an address of its own for each name (egress/name-table.h).  A
 * connection to such an address is one to that name, on any port: it is judged by name and port,
 * and the name is resolved here.  What a program sends never chooses where it is connected to.
 *
 * This process reads hostile bytes.  Its secrets are the seed of these CAs, the credentials of the
 * proxy and what signs webhooks.  It opens connections and nothing else (daemon/confine.h).
 * Without cayd it goes on by the last policies; when it ends, connections of sandboxes are refused.
 */
#include <uv.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "egress/name-map.h"
#include "egress/name-table.h"
#include "egress/policy.h"
#include "egress/upstream-proxy.h"
#include "net/conn.h"
#include "ops/settings.h"
#include "steer/steer.h"
#include "wire/egress-message.h"

#define EGRESS_ADDRESS_LEN 16 /* IPv4 as ::ffff:a.b.c.d */
#define SANDBOX_BUCKETS 1024
#define SANDBOX_QUESTIONS_PER_S 200
#define SANDBOX_QUESTIONS_BURST 400
#define SANDBOX_QUESTIONS_MAX 64 /* that wait for a name server */
#define SANDBOX_DENIALS_PER_S 10 /* records; others are counted in the next one */
#define SANDBOX_DENIALS_BURST 100
#define TENANT_SLOTS 1024 /* tenants with the same hash share what one may have */
#define QUERIES_MAX 4096
#define QUERIES_OF_TENANT_MAX 256

struct ca;
struct counter;
struct decision_log;
struct feed;
struct name_file;
struct sandbox_listeners;
struct flow;
struct resolver;
struct sandbox_meter;
struct tunnel;
struct webhook;

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
	struct upstream_proxy proxy;
	char proxy_login[512]; /* a value of Proxy-Authorization; "": none */
	struct feed *feed;
	struct resolver *resolver;
	struct decision_log *decisions;
	struct counter *counter;
	struct name_file *name_file;
	struct ca *ca;
	struct webhook *webhook; /* NULL: none is set */
	int broker_fd;           /* -EBADF: not connected */
	struct egress_sandbox *sandboxes[SANDBOX_BUCKETS];
	unsigned flows_max; /* as descriptors allow; a tenant has a quarter of them */
	unsigned n_flows, n_queries;
	uint64_t n_peer_questions;
	bool may_splice;
	size_t recent_bytes; /* memory of the decisions that are remembered */
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
	struct egress_limits limits;
	struct sandbox_meter *meter; /* NULL: it may move any number of bytes */
	struct name_table names;
	struct sandbox_listeners *listeners; /* NULL: connections are refused */
	unsigned holds;                      /* flows, questions and listeners that refer to it */
	bool gone;
	struct flow *flows;
	unsigned n_flows, n_asking, n_questions, n_question_conns;
	struct pace flow_pace, question_pace, denial_pace;
	uint64_t denials_skipped; /* since the last record of one */
	struct {
		struct buf rows;
		uint64_t first, next; /* numbers of the first row ever, and of the next one */
	} recent;
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
/* A hello that hides its name may be for any: only if every name is allowed on this port. */
bool egress_sandbox_may_hide_names(const struct egress_sandbox *sb, uint16_t port);
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
/* Whether a reason of the log is no verdict about the connection. */
bool reason_is_failure(const char *why);
/* A connection was refused before it was connected, for this reason of the log. */
void egress_sandbox_count_refusal(struct egress_sandbox *sb, const char *why);
/* cayd is about to forget it, and may attach it again: tell it the rest now. */
void egress_sandbox_counts_send(struct egress_sandbox *sb);
/* It is freed; the counts of the node keep its share. */
void egress_sandbox_counts_end(struct egress_sandbox *sb);

/* A table without names, for the sandbox with this id. */
void egress_init_names(const struct egress *e, const struct id *id, struct name_table *ret);

/* name-file.c */
[[nodiscard]] int name_file_open(struct egress *e, struct cay_err *err);
/* The sandbox has a new name. */
void name_file_add(const struct egress_sandbox *sb, const struct host_name *name);
/* It has ended, and had these names; NULL: they are not known. */
void name_file_forget(struct egress *e, const struct id *id, const struct name_table *names);
/* The names that the sandbox had before a restart; false: none. */
bool name_file_take(struct egress *e, const struct id *id, struct name_table *ret);
/* cayd has sent all sandboxes: those that have names and did not come have ended. */
void name_file_forget_rest(struct egress *e);

/* answer.c: answer what waits at the UDP socket. */
void egress_sandbox_answer_questions(struct egress_sandbox *sb);
/* One of a connection, which gets exactly one question_conn_answer(), also at once. */
struct question_conn;
void egress_sandbox_answer_question(struct egress_sandbox *sb, struct question_conn *c,
				    const uint8_t *p, size_t n);

/* answer-tcp.c: answer what comes over a connection, which it takes. */
void egress_sandbox_answer_connection(struct egress_sandbox *sb, int fd);
/* n is 0: there is no answer, and the connection ends. */
void question_conn_answer(struct question_conn *c, const uint8_t *p, size_t n);

/* accept.c: accept a connection that waits at the listener. */
void egress_sandbox_accept_flow(struct egress_sandbox *sb);

/* flow.c.  Takes the descriptor of a connection to that address, unless it returns false. */
struct sockaddr_in;
[[nodiscard]] bool flow_start(struct egress_sandbox *sb, const struct sockaddr_in *dialled,
			      int *fd);
/* Judge all by the present policy: each is cut, or goes on. */
void egress_sandbox_judge_flows(struct egress_sandbox *sb);
/* Of one that waits: the answer, which counts only where the present policy asks. */
void flow_answer(struct flow *f, enum egress_answer_verdict verdict);
void flow_cut(struct flow *f, const char *why);
struct flow *flow_next(const struct flow *f);
/* False: it was cut, and ends. */
[[nodiscard]] bool flow_describe(const struct flow *f, struct egress_flow_row *ret);
/* Bytes so far, of one that is connected. */
void flow_get_moved(const struct flow *f, uint64_t *ret_up, uint64_t *ret_down);

/* The tunnel of one that is connected, or NULL. */
struct tunnel *flow_get_tunnel(const struct flow *f);
/* flow-inspect.c: it may move bytes now. */
void flow_move_again(struct flow *f);

/* meter.c */
[[nodiscard]] int egress_sandbox_set_limits(struct egress_sandbox *sb,
					    const struct egress_limits *limits);
/* Whether it has moved all the bytes that it may. */
bool egress_sandbox_is_used_up(const struct egress_sandbox *sb);
/* Whether one more may begin now (accept.c). */
[[nodiscard]] bool egress_sandbox_pace_flow(struct egress_sandbox *sb);
/* All that its connections move counts from now on. */
void egress_sandbox_meter_tunnel(struct egress_sandbox *sb, struct tunnel *t);
/* The same for bytes that are not moved by a tunnel: whether some may be taken from the program (0)
 * or the host (1) now, and whether so many more may go on. */
bool egress_sandbox_meter_has_room(const struct egress_sandbox *sb, unsigned from);
[[nodiscard]] bool egress_sandbox_meter_take(const struct egress_sandbox *sb, unsigned from,
					     size_t n);
void egress_sandbox_meter_fini(struct egress_sandbox *sb);

/* webhook.c: an event of cayd, in JSON. */
[[nodiscard]] int webhook_open(struct egress *e, struct cay_err *err);
void webhook_add(struct egress *e, struct slice body);

/* flow-peer.c.  The reply about a connection of sb, which may be NULL; takes fd. */
void egress_sandbox_connect_peer(struct egress_sandbox *sb, uint64_t number,
				 const struct egress_peer_done *done, int fd);
/* Reset the connections to this sandbox that are for other ports; returns their number. */
uint64_t egress_expose(struct egress *e, const struct id *peer, const struct egress_exposed *ports,
		       uint64_t round);
/* Reset those that no EXPOSE of this round was for. */
void egress_cut_unexposed(struct egress *e, uint64_t round);

/* flow-list.c: those of sb, which may be NULL; at most EGRESS_FLOWS_MAX rows. */
size_t egress_sandbox_list_flows(const struct egress_sandbox *sb, struct egress_flow_row *ret);
/* Reset those that match before it returns their number. */
uint64_t egress_sandbox_cut_flows(struct egress_sandbox *sb, const struct egress_cut *which);

/* ask.c.  By the first byte that a program sent. */
enum egress_ask_kind ask_kind_of(char first);
/* Answer the connections of sb, which may be NULL, that wait for this; returns their number. */
uint64_t egress_sandbox_answer_asks(struct egress_sandbox *sb, const struct egress_answer *a);
/* cayd has connected and knows nothing of those that wait. */
void egress_tell_asks_again(struct egress *e);

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
/* The same for a name in the settings, which has no mirror. */
[[nodiscard]] int resolve_start_of_node(struct egress *e, const struct host_name *name,
					resolve_fn *fn, void *arg);

/* flow-proxy.c: read the settings of the proxy. */
[[nodiscard]] int proxy_open(struct egress *e, struct cay_err *err);
/* Whether its addresses are not asked for here. */
bool egress_leaves_name_to_proxy(const struct egress *e, const struct host_name *name);

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

/* ca.c */
[[nodiscard]] int ca_open(struct egress *e, struct cay_err *err);
/* Begin TLS as this host, with bytes that the program has sent. */
[[nodiscard]] int ca_attach_tls(struct egress *e, const struct id *sandbox,
				const struct host_name *name, struct conn *c, struct slice read);
/* Append the certificate of a sandbox's CA. */
[[nodiscard]] int ca_write_pem(const struct egress *e, const struct id *sandbox, struct buf *ret);

/* broker-link.c.  A descriptor on which requests to the host go and replies come, or -errno; the
 * connected socket stays the caller's. */
[[nodiscard]] int broker_give_socket(struct egress_sandbox *sb, const struct host_name *name,
				     uint16_t port, struct slice credential, int host);

/* feed.c */
[[nodiscard]] int feed_open(struct egress *e, struct cay_err *err);
/* Of ALL; each begins another. */
uint64_t feed_round(const struct egress *e);
/* Send cayd a message that it did not ask for; false: it is not there, or has no room now. */
[[nodiscard]] bool feed_push(struct egress *e, const void *msg, size_t n);

/* decision-log.c */
struct decision {
	struct egress_sandbox *sandbox;
	const char *op;      /* "connect", "name" */
	const char *outcome; /* "allow", "deny", or why it failed */
	const char *name;    /* or an address; "" for none */
	const char *request; /* "PUT /admin", of one that was denied; or NULL */
	uint16_t port;
	const uint8_t *dialled;           /* an address, or NULL */
	const struct name_mirror *mirror; /* or NULL */
	bool by_proxy;
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

/* recent.c.  A decision that has a record. */
void recent_add(struct egress_sandbox *sb, const struct decision *d);
/* The first rows that match, of sb, which may be NULL; at most EGRESS_LOG_ROWS_MAX. */
size_t recent_list(const struct egress_sandbox *sb, const struct egress_log_query *which,
		   struct egress_log_row *ret, struct egress_log_end *ret_end);
void recent_fini(struct egress_sandbox *sb);
#endif
