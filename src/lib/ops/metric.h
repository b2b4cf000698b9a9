/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_METRIC_H
#define CAY_OPS_METRIC_H
/* metric - the metrics; the table is metrics.def */

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM, METRIC_NUM_TYPES };

enum metric {
#define CAY_METRIC(sym, ...) METRIC_##sym,
#include "ops/metrics.def"
#undef CAY_METRIC
	METRIC_NUM
};

struct metric_row {
	const char *name;
	enum metric_type type;
	const char *labels; /* separated by commas; "" for none */
	const char *help;
};

extern const struct metric_row metric_table[METRIC_NUM];
const char *metric_type_name(enum metric_type type);
#endif
