/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/types.h"

static const unsigned char blames[END_NUM_REASONS][END_OF_NUM] = {
#define CAY_REASON(sym, name, process, pid1, sandbox, ...) \
	[END_##sym] = { [END_OF_PROCESS] = BLAME_##process, \
			[END_OF_PID1] = BLAME_##pid1, \
			[END_OF_SANDBOX] = BLAME_##sandbox },
#include "ops/reasons.def"
#undef CAY_REASON
};

void end_judge_as(struct end *end, enum blame blame)
{
	end->blame = blame;
	end->retryable = blame == BLAME_INFRA;
	end->has_blame = end->has_retryable = true;
}

void end_judge(struct end *end, enum end_of of)
{
	end_judge_as(end, end->reason < END_NUM_REASONS ? (enum blame)blames[end->reason][of]
							: BLAME_INFRA);
}

void end_judge_failure(struct end *end, enum cay_code code)
{
	const struct cay_error_row *row = cay_error_row(code == CAY_OK ? CAY_E_INTERNAL : code);

	end_judge_as(end, row->blame);
	end->retryable = row->retryable;
}
