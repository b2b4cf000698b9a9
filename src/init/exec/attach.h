/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_ATTACH_H
#define CAY_INIT_EXEC_ATTACH_H
/*
 * attach - a conversation with a job: its output out, its input in (wire/attach.h)
 *
 * A client that does not read stops its own output, which does to the job what the
 * output's mode says; a job that does not read its input stops its client.  Neither
 * stops the other direction.  Who leaves takes nothing with it but the conversation.
 *
 * Input goes in at the offset where it stands and nowhere else: a client that comes
 * back is told where that is, so nothing goes in twice and nothing is left out.  With
 * `acks` the same holds for output, whatever was on its way when a connection broke.
 *
 * Bounded: ATTACH_MARK and one piece out, one read in.  Takes the request.
 */
#include "init/exec/exec.h"

#define ATTACH_MARK KIB(64)

void exec_attach_start(struct exec *exec, struct request *rq, const struct exec_attach_query *q);
#endif
