/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/core/command.h"
#include "cli/print/print.h"
#include "text/time.h"

static const struct opt_group options[] = { OPTS(opts_json, 0), OPTS_END };

static int cmd_extend_print_deadline(const struct sandbox_info *s, struct cay_err *err)
{
	auto_buf out = BUF_INIT(64);
	char at[CLK_TEXT_LEN + 1];

	if (!s->has_expires)
		return cay_fail(err, CAY_E_MISBEHAVED, "extend: the reply has no deadline");
	clk_format_rfc3339(s->expires_ns, at);
	if (buf_printf(&out, "%s\n", at) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return print_stdout(&out, err);
}

static int cmd_extend_parse_ttl(const char *word, uint64_t *ret_ms, struct cay_err *err)
{
	const struct field *ttl = &sandbox_extend_table.rows[0];
	char min[DURATION_TEXT_MAX], max[DURATION_TEXT_MAX];

	if (duration_parse(slice_of(word), ret_ms) == -EINVAL)
		return cay_fail(err, CAY_E_INVALID, "extend: '%s' is not a time such as 30m", word);
	if (*ret_ms >= ttl->min && *ret_ms <= ttl->max)
		return 0;
	duration_format(ttl->min, min);
	duration_format(ttl->max, max);
	return cay_fail(err, CAY_E_INVALID, "extend: '%s' is not from %s to %s", word, min, max);
}

static int cmd_extend_run(struct cli *c, const void *args, const struct opt_words *w,
			  struct cay_err *err)
{
	struct sandbox_extend request = {};
	struct sandbox_info now = {};
	struct id id;
	int r = cmd_extend_parse_ttl(w->operands[1], &request.ttl_ms, err);

	if (r >= 0)
		r = api_find_sandbox(&c->api, w->operands[0], &id, err);
	if (r >= 0)
		r = api_call(&c->api,
			     &(struct api_call){
				     .op = OP_SANDBOX_EXTEND, .ids = { id }, .request = &request },
			     &now, err);
	if (r < 0)
		return r;
	return ((const struct json_args *)args)->json ? print_json(&sandbox_info_table, &now, err)
						      : cmd_extend_print_deadline(&now, err);
}

const struct cmd cmd_extend = {
	.name = "extend",
	.args = "[--json] SANDBOX TIME",
	.operands = { OPERAND_SANDBOX },
	.min = 2,
	.max = 2,
	.options = options,
	.size = sizeof(struct json_args),
	.help = "Let a sandbox live this long from now on, and print until when",
	.more = "TIME is a number and one of s, m, h, d. A shorter one than is left brings the "
		"deadline nearer; the node's own limit stays.",
	.run = cmd_extend_run,
};
