/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_PROC_INFO_CHILD_H
#define CAY_INIT_PROC_INFO_CHILD_H
/*
 * info-child - the system, user and tools of a sandbox, gathered in a child that is the user
 */
#include "ops/types.h"

#define INFO_JSON_MAX KIB(256)

/* In the child of a proc_query: write an Info as JSON to standard output.  Exit status
 * PROC_QUERY_INCOMPLETE: a tool did not report its version in time. */
int child_sandbox_info(void *arg);
#endif
