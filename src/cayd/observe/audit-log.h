/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_OBSERVE_AUDIT_LOG_H
#define CAY_CAYD_OBSERVE_AUDIT_LOG_H
/*
 * audit-log - which requests are recorded in the audit log, and its operations
 *
 * Every control operation that changes something leaves a record, whatever its outcome, and so
 * does every request that control refuses because of its actor.  Room for the record is reserved
 * before the operation, or the operation is refused.  The reply goes out when the record is
 * durable, or when its write has failed: then the record waits in memory and the log says so.
 *
 * When a reply waits only for the journal, the record is written at the same time, so that a
 * change costs one wait for the disk and not two.  If the outcome then differs, the request
 * gets a second record.
 */
#include "cayd/core/cayd.h"

[[nodiscard]] int audit_log_open(struct cayd *c, struct cay_err *err);
/* Before the operation; false if the request was refused and answered. */
bool audit_log_reserve_for_request(struct cayd *c, struct request *rq);
/* The outcome is success once the journal has the change: record it now. */
void audit_log_record_early(struct cayd *c, struct request *rq);
/* For one of several sandboxes of a request, which has a record of its own too. */
void audit_log_record_one_of_many(struct cayd *c, struct request *rq);
/* For the start of a stopped sandbox by a request of another operation. */
void audit_log_record_wake(struct cayd *c, struct request *rq, const struct id *sandbox);
/* conf->answered of the server. */
bool audit_log_record_reply(struct request *rq, int status, enum cay_code code, bool whole,
			    void *arg);
#endif
