/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"
#include "text/time.h"

struct extend_args {
	struct sandbox_extend request; /* first: what is sent */
	bool lease;
};

static const struct opt rows[] = {
	{ "lease", 0, OPT_FLAG, offsetof(struct extend_args, lease),
	  .help = "Renew its lease for TIME instead" },
};

static int cmd_extend_prepare(struct cli *, void *args, const struct opt_words *w,
			      struct api_call *, struct cay_err *err)
{
	const struct field *ttl = &sandbox_extend_table.rows[0];
	char min[DURATION_TEXT_MAX], max[DURATION_TEXT_MAX];
	struct extend_args *a = args;
	uint64_t *ms = a->lease ? &a->request.lease_ms : &a->request.ttl_ms;
	const char *word = w->operands[1];

	a->request.has_lease = a->lease;
	a->request.has_ttl = !a->lease;

	if (duration_parse(slice_of(word), ms) == -EINVAL)
		return cay_fail(err, CAY_E_INVALID,
				"extend: invalid duration '%s' (use 30s, 10m, 1h)", word);
	if (*ms >= ttl->min && *ms <= ttl->max)
		return 0;
	duration_format(ttl->min, min);
	duration_format(ttl->max, max);
	return cay_fail(err, CAY_E_INVALID, "extend: '%s' is out of range (%s to %s)", word, min,
			max);
}

const struct cmd cmd_extend = {
	CMD_USAGE("extend", "[--lease] [--json] SANDBOX TIME"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX),
	.help = "Set the time a sandbox has left and print its deadline",
	.more = "TIME is a number and one of s, m, h, d. A TIME shorter than the time left brings "
		"the deadline forward. The node's own limit still applies.",
	CMD_OPTIONS(extend_args, OPTS(rows, 0)),
	.prepare = cmd_extend_prepare,
	.op = OP_SANDBOX_EXTEND,
	.prints = "expires_at",
};
