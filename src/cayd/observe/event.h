/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_OBSERVE_EVENT_H
#define CAY_CAYD_OBSERVE_EVENT_H
/*
 * event - changes of sandboxes, in order, for clients that follow them
 *
 * Every change of state has a seq, which grows by one with each event of the tenant, and is in the
 * journal with it; a seq is left out only where the journal could not be written.  The last
 * EVENTS_KEPT of each tenant are in memory; a client that asks for older ones gets the first seq
 * that is left.  A slow follower does not hold up others: it continues where it was.
 */
#include "cayd/sandbox/sandbox.h"

#define EVENTS_KEPT 8192 /* of a tenant */
/* With many tenants each keeps an equal part of this, and at least EVENTS_KEPT_MIN. */
#define EVENTS_KEPT_ALL 65536
#define EVENTS_KEPT_MIN 16

[[nodiscard]] int events_open(struct cayd *c, struct cay_err *err);
/* Observer: record the new state of a sandbox; a warm one has no events. */
void event_record_sandbox(struct sandbox *sb);
/* Once a second, record the present state where an event could not be written. */
void events_retry_unwritten(struct cayd *c, uint64_t now);
/* Progress of a pull, for the tenant's followers without a filter. */
void event_send_image_progress(struct cayd *c, const struct id *tenant,
			       const struct image_progress *now);
/* A sandbox of any tenant is held or goes on, for the operator's followers without a filter. */
void event_send_hold(struct cayd *c, const struct hold_event *e);
/* A sandbox asks to connect to something, or that was answered: for those of its tenant's followers
 * that follow it. */
void event_send_ask(struct cayd *c, const struct id *tenant, const struct ask_info *ask,
		    bool answered);
/* A change of a template, for all followers without a filter. */
void event_send_template(struct cayd *c, const struct template_info *t, unsigned change);
/* A snapshot is ready, or was deleted: for all followers of its tenant without a filter. */
void event_send_snapshot(struct cayd *c, const struct snapshot_info *s);
/* End the streams of followers whose key or tenant is not valid any more. */
void events_drop_unauthorized(struct cayd *c);
/* A tenant is deleted; and at start, forget those of tenants that are. */
void events_forget_tenant(struct cayd *c, const struct id *tenant);
[[nodiscard]] int events_recover(struct cayd *c, struct cay_err *err);
[[nodiscard]] int event_restore(struct cayd *c, const struct db_event *e, struct cay_err *err);
#endif
