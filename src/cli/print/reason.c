/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/reason.h"

#include "cli/print/list.h"

const struct reason reasons[END_NUM_REASONS] = {
#define CAY_REASON(sym, name, process, pid1, sandbox, words_, advice_) \
	[END_##sym] = { words_, advice_ },
#include "ops/reasons.def"
#undef CAY_REASON
};

int reason_format_line(const struct end *end, struct buf *out)
{
	int r = buf_puts(out, field_choice_name(&end_table, "reason", end->reason));

	if (r >= 0 && end->has_exit_code)
		r = buf_printf(out, " %llu", (unsigned long long)end->exit_code);
	if (r >= 0 && end->signal)
		r = buf_printf(out, " %s", end->signal);
	if (r >= 0 && end->detail && end->detail[0])
		r = buf_printf(out, ": %s", end->detail);
	return r;
}
