/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EGRESS_ASKS_H
#define CAY_CAYD_EGRESS_ASKS_H
/*
 * asks - connections that wait for an answer, and who can give it (ADR 0095)
 *
 * cay-egress holds the connections and tells of each; here are the rows (egress/ask-table.h).  A
 * decider is a client who may answer and waits for rows (ask.list with wait_ms).  Its place is kept
 * for DECIDER_GRACE_NS after each reply, in which it asks for more.  Without a decider for the
 * sandbox its connections are reset at once.
 *
 * Rows are not in the journal.  Answers that are remembered are, with the sandbox: they are rules
 * of its policy (EGRESS_ANSWERS), and rows are made of them when cayd starts.
 */
#include "cayd/sandbox/sandbox.h"
#include "egress/ask-table.h"

#define DECIDER_GRACE_NS (10 * NS_PER_S)

[[nodiscard]] int asks_open(struct cayd *c, struct cay_err *err);
/* A message of cay-egress; and it is gone, so nothing waits. */
void asks_receive(struct cayd *c, const struct id *sandbox, struct slice body);
void asks_forget_waiting(struct cayd *c);
/* Observer: the rows of a sandbox end with it. */
void asks_forget_ended(struct sandbox *sb);
/* Reply to those who have waited long enough; end those that no client can answer; forget answers
 * that end. */
void asks_sweep(struct cayd *c, uint64_t now_boot_ns);
/* Whether a client can answer this sandbox now. */
bool asks_have_decider(const struct sandbox *sb);

/* A row of a request's path; NULL if it was answered. */
struct ask *ask_find_of_request(struct cayd *c, struct request *rq);
struct ask_info ask_describe(const struct ask *a);
/* Set the state of a row, and tell those who wait for rows; and the same with its answer. */
void ask_change(struct cayd *c, struct ask *a, enum ask_state state);
void ask_set_answer(struct cayd *c, struct ask *a, enum ask_state state,
		    const struct egress_remembered *answer);
struct ask *asks_find_id(const struct cayd *c, const struct id *id);
struct ask *asks_find(const struct cayd *c, const struct id *sandbox, const char *to,
		      uint16_t port);
/* An answer was given: tell those who follow events. */
void ask_tell_answered(struct cayd *c, const struct ask *a);

/* ask-answer.c: add an answer, or replace that to the same name and port; EGRESS_SPEC_ASK removes
 * it.  The caller saves the sandbox and has the policy applied. */
[[nodiscard]] int sandbox_remember(struct sandbox *sb, const struct egress_remembered *answer,
				   struct cay_err *err);
#endif
