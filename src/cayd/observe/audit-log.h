/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_OBSERVE_AUDIT_LOG_H
#define CAY_CAYD_OBSERVE_AUDIT_LOG_H
/*
 * trail - the audit log of control: what is recorded, and who reads it
 *
 * A control operation that changes something leaves a record, whatever its outcome, and
 * so does any request that control refused for who asked it.  It finds room for the record
 * before it does anything, or is refused; its answer goes out when the record is durable,
 * or when the disk has refused it: then it waits in memory and the log says so.
 *
 * When all that an answer waits for is the journal's write, the record is written beside
 * it, so that a change costs one wait for the disk and not two.  Should something else
 * come of it, that is a second record of the same request.
 */
#include "cayd/core/cayd.h"

[[nodiscard]] int audit_log_open(struct cayd *c, struct cay_err *err);
/* Before the operation; false: it was refused and answered. */
bool audit_log_reserve_for_request(struct cayd *c, struct request *rq);
/* It is done, as soon as the journal has it. */
void audit_log_record_early(struct cayd *c, struct request *rq);
/* conf->answered of the server. */
bool audit_log_record_reply(struct request *rq, int status, enum cay_code code, bool whole,
			    void *arg);
/* The operations. */
void op_audit_list(struct cayd *c, struct request *rq);
void op_audit_head(struct cayd *c, struct request *rq);
#endif
