/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_PROC_PROC_QUERY_H
#define CAY_INIT_PROC_PROC_QUERY_H
/*
 * peek - processes and ports, as operations
 *
 * Lists are made by a child in PEEK_MS and passed on as they are; a client that leaves
 * takes its child with it.
 */
#include "init/core/init.h"

#define PROC_QUERY_MS 10000

/* False: the operation is somebody else's. */
bool proc_handle_operation(struct init *in, struct request *rq);
#endif
