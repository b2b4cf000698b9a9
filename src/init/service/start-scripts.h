/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SERVICE_START_SCRIPTS_H
#define CAY_INIT_SERVICE_START_SCRIPTS_H
/*
 * boot - from the claim to usable: scripts, then services, then the answer
 *
 * Scripts of the image run one after the other, as root, as ordinary execs: what
 * they wrote stays readable.  The first that fails ends it all, and the answer to the
 * claim says which and how (wire/start.h).  A service that does not come up ends
 * nothing.  All of it has START_MAX_MS.  Who asked may leave; it goes on, and who asks later
 * hears how it ended.
 */
#include "init/core/init.h"

/* The claim is taken; answers the request, at once where the image has nothing of it or who
 * asks wants to ask again. */
void start_scripts_begin(struct init *in, struct request *rq);
/* How it ended, as soon as it has; one waits at a time. */
void start_scripts_wait(struct init *in, struct request *rq);
#endif
