/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EDGE_EDGE_REPORT_H
#define CAY_CAYD_EDGE_EDGE_REPORT_H
/*
 * report - what edges tell: whom they refused, and what they count of themselves
 *
 * Refusals go into the audit log, as edge.refused.  Strangers make these records, and
 * each takes the place of an older one when the log is full: so there are REPORT_BURST
 * at once and then one in REPORT_EVERY_MS, and what finds no room is summed up in one.
 *
 * Counts are told with our own metrics.  An edge has the lowest free number for as long
 * as it is connected; REPORT_EDGES of them have one, and only of our own build.
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
/* An edge of that build (of a HELLO) is there; NULL: its counts are not wanted. */
[[nodiscard]] struct edge_report *edge_report_create(struct cayd *c,
						     const uint8_t build[static 32]);
/* NULL is fine. */
void edge_report_free(struct cayd *c, struct edge_report *r);
/* False: there is no such count. */
[[nodiscard]] bool edge_report_set_count(struct edge_report *r, const struct push *p);

void edge_refusal_record(struct cayd *c, const struct push *p);
/* Time has passed: what was summed up may find room. */
void edge_refusals_flush(struct cayd *c);
#endif
