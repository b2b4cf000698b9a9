/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a preset: what is read allows, is a policy when compiled, and is the same when its
 * rules are written and read again. */
#include "fuzz.h"
#include "life/egress-layers.h"
#include "life/egress-preset.h"

#define RULES 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct egress_rule rules[RULES], again[RULES];
	auto_buf bytes = BUF_INIT(EGRESS_POLICY_MAX), same = BUF_INIT(EGRESS_POLICY_MAX);
	auto_buf text = BUF_INIT(EGRESS_POLICY_MAX);
	struct slice help;
	size_t n, n_again;

	if (egress_preset_read((struct slice){ in, size }, rules, RULES, &n, &help, NULL) == 0) {
		struct egress_layer layer = { EGRESS_DENY, rules, n },
				    copy = { EGRESS_DENY, again, n };

		CHECK(n <= RULES && help.n <= size);
		CHECK(egress_policy_write(&layer, 1, 1, &bytes) == 0);
		CHECK(egress_policy_check((struct slice){ bytes.data, bytes.len }) == 0);
		for (size_t i = 0; i < n; i++)
			CHECK(rules[i].action == EGRESS_ALLOW &&
			      egress_rule_write(&rules[i], &text) == 0 &&
			      buf_putc(&text, '\n') == 0);
		CHECK(egress_preset_read((struct slice){ buf_str(&text), text.len }, again, RULES,
					 &n_again, &help, NULL) == 0);
		CHECK(n_again == n && egress_policy_write(&copy, 1, 1, &same) == 0);
		CHECK(bytes.len == same.len && memcmp(bytes.data, same.data, same.len) == 0);
	}
	free(in);
	return 0;
}
