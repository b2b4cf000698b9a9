/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_SERVICES_CHECK_H
#define CAY_CAYD_SANDBOX_SERVICES_CHECK_H
/*
 * services-check - the services and kernels of a create or a template
 *
 * PID 1 gets them with the claim and checks them as it checks service.put.  This check refuses
 * early a visible mistake, before a sandbox is created for it.
 */
#include "cayd/core/cayd.h"

/* All services of a sandbox as JSON, which is in its row. */
#define SERVICES_TEXT_MAX KIB(64)
#define SERVICES_WORDS_MAX 2048 /* arguments and variables of all services */

/* field: the name of the list in the request. */
[[nodiscard]] int services_check(const struct field_list *services, const char *field,
				 struct cay_err *err);
[[nodiscard]] int warm_kernels_check(const struct field_list *kernels, const char *field,
				     struct cay_err *err);
#endif
