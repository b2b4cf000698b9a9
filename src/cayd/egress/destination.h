/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EGRESS_DESTINATION_H
#define CAY_CAYD_EGRESS_DESTINATION_H
/* destination - where a connection goes, as a request names it: a name, or an IPv4 address */
#include "base/err.h"
#include "egress/host-name.h"

struct egress_destination {
	struct host_name name; /* or, with n 0, */
	uint32_t address;      /* in host byte order */
};

/* From the member `to`. */
[[nodiscard]] int egress_destination_parse(const char *text, struct egress_destination *ret,
					   struct cay_err *err);
#endif
