/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SERVICE_START_SCRIPTS_H
#define CAY_INIT_SERVICE_START_SCRIPTS_H
/*
 * start-scripts - from the claim to usable: start scripts, then services, then the reply
 *
 * Start scripts of the image run in turn, as root, as ordinary execs, so that their output
 * stays readable.  The first failure stops the start, and the reply to the claim has the script
 * and the reason (wire/start.h).  A service that fails stops nothing.  All of it may take
 * START_MAX_MS.  It continues when the client leaves; a later request gets the result.
 */
#include "init/core/init.h"

/* After the claim: replies at once if there is nothing to run, or if the client asked not to
 * wait. */
void start_scripts_begin(struct init *in, struct request *rq);
/* Reply with the result once there is one; only one request may wait. */
void start_scripts_wait(struct request *rq, void *arg);
#endif
