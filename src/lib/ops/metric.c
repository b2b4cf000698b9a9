/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/metric.h"

#include "base/mem.h"

const struct metric_row metric_table[METRIC_NUM] = {
#define CAY_METRIC(sym, name, type, labels, help) \
	[METRIC_##sym] = { name, METRIC_##type, labels, help },
#include "ops/metrics.def"
#undef CAY_METRIC
};

static const char *const type_names[] = {
	[METRIC_COUNTER] = "counter",
	[METRIC_GAUGE] = "gauge",
	[METRIC_HISTOGRAM] = "histogram",
};
static_assert(ARRAY_SIZE(type_names) == METRIC_NUM_TYPES);

const char *metric_type_name(enum metric_type type)
{
	return type_names[type];
}
