/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_OBSERVE_REQUEST_METRICS_H
#define CAY_CAYD_OBSERVE_REQUEST_METRICS_H
/*
 * request-metrics - counters, access log and audit log of every reply
 */
#include "cayd/core/cayd.h"

/* conf->answered of the server. */
bool on_control_request_answered(struct request *rq, int status, enum cay_code code, bool whole,
				 void *arg);
/* conf->broken: the client gets the request's id, the log the cause. */
void on_control_request_broken(const struct request *rq, const struct cay_err *err, void *arg);
#endif
