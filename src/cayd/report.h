/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_REPORT_H
#define CAY_CAYD_REPORT_H
/*
 * report - what edges tell of the world: whom they refused
 *
 * It goes into the audit log, as edge.refused.  Strangers make these records, and each
 * takes the place of an older one when the log is full: so there are REPORT_BURST at
 * once and then one in REPORT_EVERY_MS, and what finds no room is summed up in one.
 */
#include "cayd/cayd.h"
#include "wire/push.h"

#define REPORT_BURST 30
#define REPORT_EVERY_MS 2000

void report_refused(struct cayd *c, const struct push *p);
/* Time has passed: what was summed up may find room. */
void report_tick(struct cayd *c);
#endif
