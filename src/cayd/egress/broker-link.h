/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EGRESS_BROKER_LINK_H
#define CAY_CAYD_EGRESS_BROKER_LINK_H
/*
 * broker-link - the connection to cay-broker, which sets credentials in requests
 *
 * After each reconnect cay-broker gets all credentials again, a few at a time, and forgets the
 * others.  It reconnects every 200 ms, and never waits.
 */
#include "auth/envelope.h"
#include "cayd/core/cayd.h"

struct credential_row;

/* Called once, from the loop or at once, when cay-broker has the credential or is not there. */
typedef void broker_link_fn(void *arg);

[[nodiscard]] int broker_link_open(struct cayd *c, struct cay_err *err);
/* The key that values are sealed for; NULL while cay-broker is not connected. */
const struct envelope_key *broker_link_get_key(const struct cayd *c);
/* Whether cay-broker has opened its value. */
bool broker_link_has(const struct cayd *c, const struct credential_row *row);
/* A credential that the store has. */
void broker_link_put(struct cayd *c, struct credential_row *row, broker_link_fn *fn, void *arg);
/* One that it had: called before the row is freed. */
void broker_link_remove(struct cayd *c, const struct credential_row *row);
#endif
