/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled policy: bytes that are one judge any name, address and request.  A stricter default
 * never makes a verdict milder, and a request has no milder one than its connection. */
#include "egress/policy.h"
#include "fuzz.h"

#define OTHERWISE 26 /* the default of the first layer, after the head */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct slice policy = { in, size };
	struct host_name n;

	CHECK(host_name_parse(SLICE("api.example.com"), &n) == 0);
	if (egress_policy_check(policy) == 0) {
		struct egress_request get = { SLICE("GET"), SLICE("/v1/a"), false };
		struct slice credential;
		struct egress_verdict by_name = egress_judge_name(policy, &n, 443);
		struct egress_verdict by_address = egress_judge_address(policy, 0xc0000201, 443);

		CHECK(by_name.action < EGRESS_ACTION_NUM && by_name.layer < EGRESS_LAYERS_MAX);
		CHECK(by_address.action < EGRESS_ACTION_NUM && by_address.rule < EGRESS_RULES_MAX);
		CHECK(egress_judge_request(policy, &n, 443, &get, &credential).action >=
		      by_name.action);
		CHECK(by_name.inspect <= egress_policy_inspects(policy));
		get.path = (struct slice){};
		CHECK(egress_judge_request(policy, &n, 443, &get, &credential).action >=
		      by_name.action);
		CHECK(!egress_allows_every_name(policy, 443) || by_name.action == EGRESS_ALLOW);
		in[OTHERWISE] = EGRESS_DENY;
		in[OTHERWISE + 1] = 0; /* a layer that is there */
		CHECK(egress_policy_check(policy) == 0);
		CHECK(egress_judge_name(policy, &n, 443).action >= by_name.action);
		CHECK(egress_judge_address(policy, 0xc0000201, 443).action >= by_address.action);
	}
	free(in);
	return 0;
}
