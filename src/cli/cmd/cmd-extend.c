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

static int time_operand_parse(const char *command, const char *word, const struct field *of,
			      uint64_t *ret, struct cay_err *err)
{
	char min[DURATION_TEXT_MAX], max[DURATION_TEXT_MAX];

	if (duration_parse(slice_of(word), ret) == -EINVAL)
		return cay_fail(err, CAY_E_INVALID, "%s: invalid duration '%s' (use 30s, 10m, 1h)",
				command, word);
	if (*ret >= of->min && *ret <= of->max)
		return 0;
	duration_format(of->min, min);
	duration_format(of->max, max);
	return cay_fail(err, CAY_E_INVALID, "%s: '%s' is out of range (%s to %s)", command, word,
			min, max);
}

static int cmd_extend_prepare(struct cli *, void *args, const struct opt_words *w,
			      struct api_call *, struct cay_err *err)
{
	struct extend_args *a = args;

	a->request.has_lease = a->lease;
	a->request.has_ttl = !a->lease;
	return time_operand_parse("extend", w->operands[1], &sandbox_extend_table.rows[0],
				  a->lease ? &a->request.lease_ms : &a->request.ttl_ms, err);
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

static int cmd_hold_prepare(struct cli *, void *args, const struct opt_words *w, struct api_call *,
			    struct cay_err *err)
{
	struct sandbox_hold *request = args;

	return time_operand_parse("hold", w->operands[1], &sandbox_hold_table.rows[0],
				  &request->for_ms, err);
}

const struct cmd cmd_hold = {
	CMD_USAGE("hold", "[--json] SANDBOX TIME"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX),
	.help = "Keep a sandbox awake: it is not idle for this time",
	.more = "TIME is a number and one of s, m, h, d, and replaces an earlier hold; 0s ends it. "
		"The deadline of the sandbox still counts.",
	.size = sizeof(struct sandbox_hold),
	.prepare = cmd_hold_prepare,
	.op = OP_SANDBOX_HOLD,
	.prints = "held_until",
};
