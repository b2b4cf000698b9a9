/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"
#include "text/time.h"

static int cmd_extend_parse_ttl(const char *word, uint64_t *ret_ms, struct cay_err *err)
{
	const struct field *ttl = &sandbox_extend_table.rows[0];
	char min[DURATION_TEXT_MAX], max[DURATION_TEXT_MAX];

	if (duration_parse(slice_of(word), ret_ms) == -EINVAL)
		return cay_fail(err, CAY_E_INVALID,
				"extend: invalid duration '%s' (use 30s, 10m, 1h)", word);
	if (*ret_ms >= ttl->min && *ret_ms <= ttl->max)
		return 0;
	duration_format(ttl->min, min);
	duration_format(ttl->max, max);
	return cay_fail(err, CAY_E_INVALID, "extend: '%s' is out of range (%s to %s)", word, min,
			max);
}

static int cmd_extend_run(struct cli *c, const void *, const struct opt_words *w,
			  struct cay_err *err)
{
	struct sandbox_extend request = {};
	struct api_call call = { .op = OP_SANDBOX_EXTEND, .request = &request };
	int r = cmd_extend_parse_ttl(w->operands[1], &request.ttl_ms, err);

	if (r >= 0)
		r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);
	return r < 0 ? r : api_call_print(c, &call, "expires_at", err);
}

const struct cmd cmd_extend = {
	.name = "extend",
	.args = "[--json] SANDBOX TIME",
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX),
	.json = true,
	.help = "Set the time a sandbox has left and print its deadline",
	.more = "TIME is a number and one of s, m, h, d. A TIME shorter than the time left brings "
		"the deadline forward. The node's own limit still applies.",
	.run = cmd_extend_run,
};
