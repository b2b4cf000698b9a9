/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/egress/destination.h"

#include "egress/policy.h"

int egress_destination_parse(const char *text, struct egress_destination *ret, struct cay_err *err)
{
	struct egress_target target;

	*ret = (struct egress_destination){};
	if (host_name_parse(slice_of(text), &ret->name) == 0)
		return 0;
	*ret = (struct egress_destination){};
	if (egress_target_parse(slice_of(text), &target, NULL) < 0 ||
	    target.kind != EGRESS_TO_NET || target.prefix != 32)
		return cay_fail_field(err, CAY_E_INVALID, "to",
				      "expected a name such as api.example.com, or an IPv4 "
				      "address");
	ret->address = target.net;
	return 0;
}
