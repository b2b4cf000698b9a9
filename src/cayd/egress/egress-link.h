/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EGRESS_EGRESS_LINK_H
#define CAY_CAYD_EGRESS_EGRESS_LINK_H
/*
 * egress-link - the connection to cay-egress, which carries the connections of sandboxes
 *
 * A sandbox is attached when the keeper steers its connections to listeners that cay-egress holds,
 * together with its compiled policy.  The listeners end with cay-egress, so after each reconnect
 * all sandboxes with a policy are attached again; until then their connections are refused.
 *
 * It reconnects every 200 ms, and never waits.
 */
#include "cayd/core/cayd.h"
#include "wire/egress-message.h"

struct sandbox;

/* Called once, from the loop or at once. */
typedef void egress_link_fn(void *arg, const struct cay_err *outcome);

[[nodiscard]] int egress_link_open(struct cayd *c, struct cay_err *err);
bool egress_link_is_ready(const struct cayd *c);
/* Attach a sandbox that runs, with the policy it has now. */
void egress_link_attach(struct sandbox *sb, egress_link_fn *fn, void *arg);
/* Whether cay-egress carries its connections now. */
bool egress_link_has(const struct sandbox *sb);
/* A policy of its layers has changed in memory and in the journal.  fn, which may be NULL, is
 * called when cay-egress has judged its open connections again. */
void egress_policy_changed(struct sandbox *sb, egress_link_fn *fn, void *arg);
/* Ask cay-egress about a sandbox that it has; kind is LIST_FLOWS, or LIST_LOG, CUT or
 * ANSWER with its body.  EXPOSE is for any sandbox.  Called once with the body of the reply, or
 * with why there is none. */
typedef void egress_answer_fn(void *arg, const struct cay_err *outcome, struct slice body);
void egress_link_ask(struct sandbox *sb, enum egress_kind kind, struct slice body,
		     egress_answer_fn *fn, void *arg);
/* Reply to a question about a peer of this sandbox; takes fd. */
void egress_link_send_peer(struct cayd *c, const struct id *from, uint64_t number,
			   const struct egress_peer_done *done, int fd);
/* An event for the webhook, at most EGRESS_EVENT_MAX bytes of JSON; false: it is dropped, because
 * cay-egress is not there or does not read. */
[[nodiscard]] bool egress_link_send_event(const struct cayd *c, struct slice json);
/* An observer of sandboxes: one that ends is forgotten. */
void egress_link_forget_ended(struct sandbox *sb);
#endif
