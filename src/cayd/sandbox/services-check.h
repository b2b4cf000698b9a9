/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_SERVICES_CHECK_H
#define CAY_CAYD_SANDBOX_SERVICES_CHECK_H
/*
 * services - programs a create wants kept running
 *
 * PID 1 is told them with the claim and reads them as it reads those of service.put; here
 * is refused what can be seen to be wrong before a sandbox is made for it.
 */
#include "cayd/core/cayd.h"

/* All of one sandbox together, as JSON: the row of the journal has them. */
#define SERVICES_TEXT_MAX KIB(64)
#define SERVICES_WORDS_MAX 2048 /* of all of them, with variables */

/* field: what the list is called in the request. */
[[nodiscard]] int services_check(const struct field_list *services, const char *field,
				 struct cay_err *err);
#endif
