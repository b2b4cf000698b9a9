/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_OBSERVE_EVENT_H
#define CAY_CAYD_OBSERVE_EVENT_H
/*
 * event - what happened to sandboxes, in order, for who wants to follow
 *
 * Every change of state has a number that only grows and is in the journal with it.
 * The last EVENTS_KEPT are in memory; who asks for older ones is told how many it
 * missed.  A follower that reads slowly is not waited for: it goes on where it was.
 */
#include "cayd/sandbox/sandbox.h"

#define EVENTS_KEPT 16384

[[nodiscard]] int events_open(struct cayd *c, struct cay_err *err);
/* Observer: record the new state of a sandbox; a warm one has no events. */
void event_record_sandbox(struct sandbox *sb);
/* Once a second, record the present state where an event could not be written. */
void events_retry_unwritten(struct cayd *c, uint64_t now);
/* How far a pull is, for those of a tenant who follow everything. */
void event_send_image_progress(struct cayd *c, const struct id *tenant,
			       const struct image_progress *now);
/* What became of a template, for everybody who does. */
void event_send_template(struct cayd *c, const struct template_info *t, unsigned change);
/* Who follows and may not any more is let go. */
void events_drop_unauthorized(struct cayd *c);
/* One that the journal has. */
[[nodiscard]] int event_restore(struct cayd *c, const struct db_event *e, struct cay_err *err);
/* The operation. */
void op_event_list(struct cayd *c, struct request *rq);
#endif
