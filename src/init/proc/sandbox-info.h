/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_PROC_SANDBOX_INFO_H
#define CAY_INIT_PROC_SANDBOX_INFO_H
/*
 * look - what a sandbox is like from inside, and whether it is well
 *
 * Facts are gathered by a child that really is the user (job_own.inside): which tools
 * it finds, and with `versions` what each says of itself, which is kept for a minute.
 */
#include "init/core/init.h"

void op_sandbox_info(struct init *in, struct request *rq);
void op_sandbox_health(struct init *in, struct request *rq);
#endif
