/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_SIM_ACTION_H
#define CAY_TESTS_SIM_ACTION_H
/*
 * action - what clients, the keeper, the machine and its clocks may do next
 *
 * A row each, with its chance; false says that there was nothing to do it to.
 */
#include "sim.h"

#define ACTIONS_N 31
#define YEAR_NS (UINT64_C(31536000) * NS_PER_S)

struct action {
	const char *name;
	bool (*fn)(struct sim *s);
	unsigned weight;
	bool fault; /* left out of some seeds, and of settling */
};

extern const struct action actions[ACTIONS_N];

/* cayd starts, if it is not there. */
void action_restart(struct sim *s);
/* What is under way goes on; where nothing is, time does. */
void action_quiet(struct sim *s);
/* One that is not over is told to end; false: there is none. */
bool action_end_one(struct sim *s);
#endif
