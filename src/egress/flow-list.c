/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress.h"

#include <string.h>

size_t egress_sandbox_list_flows(const struct egress_sandbox *sb, struct egress_flow_row *ret)
{
	size_t n = 0;

	for (const struct flow *f = sb ? sb->flows : NULL; f && n < EGRESS_FLOWS_MAX;
	     f = flow_next(f))
		n += flow_describe(f, &ret[n]);
	return n;
}

static bool egress_cut_matches(const struct egress_cut *which, const struct egress_flow_row *row)
{
	uint8_t address[EGRESS_ADDRESS_LEN];

	if (which->port && which->port != row->port)
		return false;
	if (which->name[0])
		return strcmp(which->name, row->name) == 0;
	if (!which->address)
		return true;
	address_from_v4(which->address, address);
	return !row->name[0] && memcmp(address, row->address, sizeof(address)) == 0;
}

uint64_t egress_sandbox_cut_flows(struct egress_sandbox *sb, const struct egress_cut *which)
{
	struct egress_flow_row row;
	uint64_t n = 0;

	for (struct flow *f = sb ? sb->flows : NULL, *next; f; f = next) {
		next = flow_next(f);
		if (!flow_describe(f, &row) || !egress_cut_matches(which, &row))
			continue;
		flow_cut(f, "cut_by_request");
		n++;
	}
	return n;
}
