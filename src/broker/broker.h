/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BROKER_BROKER_H
#define CAY_BROKER_BROKER_H
/*
 * broker - does TLS with the hosts of inspected connections
 *
 *	main.c          start; certificates; then serve
 *	flow-feed.c     the records of cay-egress
 *	broker-flow.c   one connection: requests to the host, replies back
 *	message-head.c  heads of requests and replies, written again
 *	credential-feed.c  the credentials of cayd
 *	credential.c    the credentials, and what they set in a request
 *	sigv4.c         requests signed as AWS has them
 *	mask.c          secrets in what hosts send back
 *	broker-key.c    the key that opens the values
 *
 * cay-egress judges a connection, resolves the name and dials; this process gets the connected
 * socket and opens none (ADR 0094).  The certificate of the host must be for the name in the
 * record, so a connection that leads elsewhere carries nothing.  Requests are read from cay-egress,
 * replies from hosts; neither is trusted.
 */
#include <uv.h>

#include "base/log.h"
#include "broker/credential.h"
#include "net/conn.h"
#include "ops/settings.h"
#include "wire/broker-message.h"

#define BROKER_TENANT_SLOTS 1024 /* tenants with the same hash share what one may have */

struct broker_flow;
struct credential_feed;
struct flow_feed;

struct broker {
	struct settings settings;
	struct log log;
	uv_loop_t loop;
	uid_t egress_uid, control_uid;
	struct credentials credentials;
	struct envelope_key public_key;
	struct credential_feed *credential_feed;
	struct conn_shared *room;
	struct conn_layer *tls; /* of no host: each connection derives its own */
	struct flow_feed *feed;
	unsigned flows_max; /* as descriptors allow; a tenant has a quarter of them */
	unsigned n_flows;
	unsigned tenant_flows[BROKER_TENANT_SLOTS];
};

/* broker-key.c: read the key in paths.state, or create one. */
[[nodiscard]] int broker_key_open(struct broker *b, struct cay_err *err);

/* credential-feed.c */
[[nodiscard]] int credential_feed_open(struct broker *b, struct cay_err *err);

/* flow-feed.c */
[[nodiscard]] int flow_feed_open(struct broker *b, struct cay_err *err);

/* broker-flow.c: takes both descriptors, also on failure; family is that of the host's. */
void broker_flow_start(struct broker *b, const struct broker_record *record, int pair, int host,
		       int family);
#endif
