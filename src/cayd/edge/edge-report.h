/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EDGE_EDGE_REPORT_H
#define CAY_CAYD_EDGE_EDGE_REPORT_H
/*
 * edge-report - refusals and counters that edges report
 *
 * Refusals go into the audit log as edge.refused.  Unauthenticated peers cause these records,
 * and in a full log each one displaces an older record.  So there are at most REPORT_BURST at
 * once and then one per REPORT_EVERY_MS; the others are summed up in one record.
 *
 * Counters are part of cayd's metrics.  An edge has the lowest free number while it is
 * connected; at most REPORT_EDGES edges have one, and only edges of cayd's own build.
 */
#include "cayd/core/cayd.h"
#include "wire/push.h"

#define REPORT_BURST 30
#define REPORT_EVERY_MS 2000
#define REPORT_EDGES 16

struct edge_report {
	char name[8]; /* its number */
	struct metrics_edge counts;
};

struct edge_reports {
	struct edge_report *rows[REPORT_EDGES]; /* by the number of the edge */
	uint64_t refused_full_ns;               /* when the whole REPORT_BURST is available again */
	uint64_t refused_more[PUSH_REFUSALS];   /* refusals not recorded yet, by reason */
};

[[nodiscard]] int edge_reports_open(struct cayd *c, struct cay_err *err);
/* An edge of that build (of its HELLO) has connected; NULL: its counters are not used. */
[[nodiscard]] struct edge_report *edge_report_create(struct cayd *c,
						     const uint8_t build[static 32]);
/* NULL is fine. */
void edge_report_free(struct cayd *c, struct edge_report *r);
/* False if there is no such counter. */
[[nodiscard]] bool edge_report_set_count(struct edge_report *r, const struct push *p);

void edge_refusal_record(struct cayd *c, const struct push *p);
/* Record sums that fit the budget now. */
void edge_refusals_flush(struct cayd *c);
#endif
