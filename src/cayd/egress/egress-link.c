/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/egress/egress-link.h"

bool egress_link_is_ready(const struct cayd *)
{
	return false;
}
