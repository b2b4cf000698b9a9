/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_DISK_WATCH_H
#define CAY_CAYD_SANDBOX_DISK_WATCH_H
/*
 * disk-watch - hold the sandboxes that fill the disk, before others notice
 *
 * Quotas may add up to more than the disk has, and a node may be without.  While less than twice
 * node.disk is free, the keeper counts what sandboxes write.  Once those of one tenant have written
 * a sixteenth of node.disk, the fastest of them are paused: the others, creates and the journal
 * keep node.disk itself.  They resume when there is space again (docs/adr/0071).
 */
#include "cayd/sandbox/sandbox.h"

extern const char disk_watch_hold_text[];

/* Every sweep: measure, and hold or resume. */
void disk_watch_sweep(struct cayd *c, uint64_t now);
/* How much has to be free of a disk with this reserve: from there on held sandboxes may resume. */
uint64_t disk_watch_enough(uint64_t reserve);
/* Whether a held sandbox has to wait. */
bool disk_watch_is_short(const struct cayd *c);
#endif
