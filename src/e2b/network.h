/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_E2B_NETWORK_H
#define CAY_E2B_NETWORK_H
/*
 * network - E2B's options of network access as an egress policy of Cay
 *
 * With everything denied (denyOut has 0.0.0.0/0, or there is no internet access) allowOut is a list
 * of rules.  Whatever else E2B can say is refused: Cay knows destinations by their names, so that
 * a denied address is not enforced for a name that leads there.
 */
#include <jansson.h>

#include "base/err.h"

/* network and internet may be NULL.  *ret is a policy, or NULL where nothing is restricted. */
[[nodiscard]] int network_to_egress(const json_t *network, const json_t *internet, json_t **ret,
				    struct cay_err *err);
#endif
