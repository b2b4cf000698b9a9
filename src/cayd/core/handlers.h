/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CORE_HANDLERS_H
#define CAY_CAYD_CORE_HANDLERS_H
/*
 * handlers - op_x_y() carries out the operation x.y, for every row of ops.def that is control's
 *
 * A handler answers the request before it returns, or takes it over and answers later.
 */
#include "cayd/core/cayd.h"

#define HANDLER_CONTROL(noun, verb) void op_##noun##_##verb(struct cayd *c, struct request *rq);
#define HANDLER_INSIDE(noun, verb)
#define CAY_OP(sym, noun, verb, where, ...) HANDLER_##where(noun, verb)
#include "ops/ops.def"
#undef CAY_OP
#undef HANDLER_CONTROL
#undef HANDLER_INSIDE
#endif
