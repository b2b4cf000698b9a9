/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_STDIN_UPLOAD_H
#define CAY_INIT_EXEC_STDIN_UPLOAD_H
/*
 * feed - a request's body on its way into a job's standard input
 *
 * A full pipe pauses the body, so a program that reads slowly slows its client
 * down and nothing piles up here.  One at a time per job.  Takes the request.
 */
#include "net/server.h"

struct exec;

/* close: end of file behind the body. */
void stdin_upload_start(struct exec *exec, struct request *rq, bool close);
#endif
