/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_OBSERVE_FSCK_VOLUMES_H
#define CAY_CAYD_OBSERVE_FSCK_VOLUMES_H
/* fsck-volumes - volumes of the journal against those of the machine */
#include "cayd/core/cayd.h"
#include "wire/verb.h"

#define FSCK_FINDINGS_MAX 1000

struct fsck_findings {
	struct fsck_row rows[FSCK_FINDINGS_MAX];
	size_t n;
};

struct fsck_volumes {
	struct verb_volume_row *rows; /* of the machine, by id */
	size_t n;
	uint64_t began_ns;
	struct verb_volume_list q;
	struct cayd *cayd;
	void (*fn)(void *arg, const struct cay_err *outcome);
	void *arg;
};

struct fsck_repairs {
	bool repair;
	bool end_foreign; /* of what the journal lacks and is old enough */
};

/* Read all of them; fn is called once, maybe at once. */
void fsck_volumes_list(struct fsck_volumes *k, struct cayd *c,
		       void (*fn)(void *arg, const struct cay_err *outcome), void *arg);
void fsck_volumes_compare(const struct fsck_volumes *k, struct cayd *c,
			  const struct fsck_repairs *how, struct fsck_findings *f);
void fsck_volumes_fini(struct fsck_volumes *k);
#endif
