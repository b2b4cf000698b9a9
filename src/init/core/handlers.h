/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_HANDLERS_H
#define CAY_INIT_CORE_HANDLERS_H
/*
 * handlers - everything cay-init serves
 *
 * The handler of operation x.y is op_x_y(), for every row of ops.def that is done
 * inside; its arg is the struct init.  One that names an
 * exec, shell or service replies not_found itself when there is none.
 */
#include "net/server.h"

/* Routes of the host, which no client of the API reaches. */
extern const struct server_route init_routes[];
extern const size_t init_n_routes;

void init_handle_operation(struct request *rq, void *arg);

#define HANDLER_CONTROL(noun, verb)
#define HANDLER_INSIDE(noun, verb) request_fn op_##noun##_##verb;
#define CAY_OP(sym, noun, verb, where, ...) HANDLER_##where(noun, verb)
#include "ops/ops.def"
#undef CAY_OP
#undef HANDLER_CONTROL
#undef HANDLER_INSIDE
#endif
