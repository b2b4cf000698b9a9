/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SIGN_H
#define CAY_CAYD_SIGN_H
/*
 * sign - tokens for one sandbox (auth/token.h), and the key they are signed with
 *
 * The key is db/token.key below paths.state, made when it is not there; edges are told
 * of it and check tokens by themselves.  Who removes the file and restarts cayd ends
 * every token there is.
 */
#include "cayd/cayd.h"

#define SIGN_EPOCH 1
#define SIGN_NUMBER 1 /* of auth/token.h; 0 is no key */

[[nodiscard]] int sign_open(struct cayd *c, struct cay_err *err);

/* The operation. */
void sandbox_token(struct cayd *c, struct request *rq);
#endif
