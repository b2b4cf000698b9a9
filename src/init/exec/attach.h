/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_ATTACH_H
#define CAY_INIT_EXEC_ATTACH_H
/*
 * attach - a client connected to an exec's input and output (wire/attach.h)
 *
 * A client that does not read stops its own output, which affects the exec as the output's
 * mode says; an exec that does not read its input stops its client.  Neither stops the other
 * direction.  An exec goes on when a client leaves.
 *
 * A client sends input from the offset that PID 1 reports, so that after a reconnect no byte
 * is written twice or left out.  With `acks` the same holds for output.
 *
 * Bounded: ATTACH_MARK and one piece of output, one read of input.  Takes the request.
 */
#include "init/exec/exec.h"

#define ATTACH_MARK KIB(64)

void exec_attach_start(struct exec *exec, struct request *rq, const struct exec_attach_query *q);
#endif
