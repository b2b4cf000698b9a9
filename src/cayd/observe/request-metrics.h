/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_OBSERVE_REQUEST_METRICS_H
#define CAY_CAYD_OBSERVE_REQUEST_METRICS_H
/*
 * observe - what is told of every answer: counts, the access log, the audit log
 */
#include "cayd/core/cayd.h"

/* conf->answered of the server. */
bool on_control_request_answered(struct request *rq, int status, enum cay_code code, bool whole,
				 void *arg);
/* conf->broken: the client has the request's id, the log what broke. */
void on_control_request_broken(const struct request *rq, const struct cay_err *err, void *arg);
/* The operation. */
void op_system_metrics(struct cayd *c, struct request *rq);
#endif
