/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_STDIN_UPLOAD_H
#define CAY_INIT_EXEC_STDIN_UPLOAD_H
/*
 * stdin-upload - a request's body, written to an exec's standard input
 *
 * A full pipe pauses the body, so a slow program slows its client and nothing is queued.  One
 * at a time per exec.  Takes the request.
 */
#include "net/server.h"

struct exec;

/* close: end of file after the body. */
void stdin_upload_start(struct exec *exec, struct request *rq, bool close);
#endif
