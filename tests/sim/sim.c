/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim [SEED] - everything that can go wrong around src/lib/life, in an order a seed decides
 *
 * Without an argument: many seeds, two lines of TAP.  With one: that seed alone, every
 * step printed.  CAY_FULL=1 tries twenty times as many.
 */
#include "action.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define SEEDS 1500
#define STEPS 1000
#define SETTLE_MAX 20000

static struct sim sim;

void sim_print_note(const struct note *n)
{
	(void)printf("# %6" PRIu64 " %14.3f s  sb%-3u %-12s %-12s %" PRIu64 "\n", n->step,
		     (double)n->now_ns / 1e9, n->slot, n->what, n->word, n->n);
}

void sim_note(struct sim *s, unsigned slot, const char *what, const char *word, uint64_t n)
{
	struct note *at = &s->notes[s->n_notes++ % SIM_NOTES];

	*at = (struct note){ s->step, s->w.clk.boot, slot, what, word, n };
	if (s->loud)
		sim_print_note(at);
}

static uint64_t done[ACTIONS_N];
static struct tally tally;

/* One seed has more of this, another none of that: what hides behind the usual mix. */
static unsigned mix(struct sim *s, unsigned weights[static ACTIONS_N])
{
	static const unsigned times[] = { 0, 1, 2, 4, 8 };
	unsigned sum = 0;

	for (size_t i = 0; i < ACTIONS_N; i++) {
		unsigned n = times[world_random(&s->w, ARRAY_SIZE(times))];

		weights[i] = actions[i].weight * (actions[i].fault ? n : n ? n : 1);
		sum += weights[i];
	}
	return sum;
}

static void act(struct sim *s, const unsigned weights[static ACTIONS_N], unsigned sum)
{
	for (;;) {
		uint64_t at = world_random(&s->w, sum);
		size_t i = 0;

		while (at >= weights[i])
			at -= weights[i++];
		if (!actions[i].fn(s))
			continue;
		sim_note(s, 99, "--", actions[i].name, 0);
		done[i]++;
		return;
	}
}

/* Nothing goes wrong any more, and time passes: everything comes to rest. */
static void settle(struct sim *s)
{
	sim_note(s, 99, "--", "settle", 0);
	action_restart(s);
	for (unsigned i = 0; i < SETTLE_MAX && !s->w.broken && !ledger_is_settled(s); i++) {
		s->step++;
		action_quiet(s);
		ledger_check(s);
	}
	if (!ledger_is_settled(s))
		world_break(&s->w, 0, "does not come to rest");
	else
		ledger_check_settled(s);
}

static void end_all(struct sim *s)
{
	while (!s->w.broken && action_end_one(s))
		settle(s);
}

static bool run(struct sim *s, uint64_t seed)
{
	unsigned weights[ACTIONS_N], sum;

	*s = (struct sim){ .seed = seed, .loud = s->loud, .tally = &tally };
	s->w.random = seed;
	s->w.clk = clk_test_create(NS_PER_S, 50 * YEAR_NS);
	for (unsigned i = RUNNER_BOXES; i < WORLD_SLOTS; i++)
		world_replace(&s->w, i, false);
	sum = mix(s, weights);
	action_restart(s);
	for (unsigned i = 0; i < STEPS && !s->w.broken; i++) {
		s->step++;
		act(s, weights, sum);
		ledger_check(s);
		if (i % (STEPS / 4) == STEPS / 4 - 1 && !s->w.broken)
			settle(s);
	}
	if (!s->w.broken)
		end_all(s);
	if (!s->w.broken)
		ledger_check_empty(s);
	return !s->w.broken;
}

static void print_end(const struct sim *s)
{
	uint64_t from = s->n_notes > SIM_NOTES ? s->n_notes - SIM_NOTES : 0;

	for (uint64_t i = from; !s->loud && i < s->n_notes; i++)
		sim_print_note(&s->notes[i % SIM_NOTES]);
	(void)printf("# seed %" PRIu64 ", step %" PRIu64 ", sb%u: %s\n", s->seed, s->step,
		     s->w.broken_slot, s->w.broken ? s->w.broken : "an assertion");
}

/* An assertion of life's is a finding like any other. */
static void on_abort(int)
{
	print_end(&sim);
	(void)printf("not ok 1 - seed %" PRIu64 " aborts\n", sim.seed);
	(void)fflush(stdout);
	_Exit(1);
}

static bool all_were_there(void)
{
	bool all = tally.anew && tally.adopted && tally.warm && tally.claims && tally.stopped &&
		   tally.started && tally.taken_back && tally.expired_stops && tally.idle_stops &&
		   tally.rested && tally.kept_awake && tally.rolled_back && tally.dozed &&
		   tally.woken && tally.kept && tally.stopped_dozing;

	for (size_t i = 0; i < ACTIONS_N; i++) {
		if (!done[i])
			(void)printf("# never: %s\n", actions[i].name);
		all = all && done[i];
	}
	for (unsigned i = DO_PREPARE; i < DO_NUM; i++)
		all = all && tally.effects[i];
	for (unsigned i = 0; i < LIFE_KINDS; i++)
		all = all && tally.kinds[i];
	for (unsigned i = 0; i < END_NUM_REASONS; i++)
		all = all && (tally.reasons[i] || i == END_SIGNAL || i == END_TIMEOUT ||
			      i == END_OOM || i == END_NODE_OOM || i == END_QUOTA);
	return all;
}

static uint64_t steps(void)
{
	uint64_t n = 0;

	for (size_t i = 0; i < ACTIONS_N; i++)
		n += done[i];
	return n;
}

int main(int argc, char **argv)
{
	const char *full = getenv("CAY_FULL");
	uint64_t n = full && str_eq(full, "1") ? 20 * SEEDS : SEEDS;

	(void)signal(SIGABRT, on_abort);
	if (argc > 1) {
		uint64_t seed;

		if (str_parse_u64(slice_of(argv[1]), 0, UINT64_MAX, &seed) < 0)
			return 2;
		sim.loud = true;
		if (run(&sim, seed))
			return 0;
		print_end(&sim);
		return 1;
	}
	(void)printf("1..2\n");
	for (uint64_t seed = 1; seed <= n; seed++) {
		if (run(&sim, seed))
			continue;
		print_end(&sim);
		(void)printf("not ok 1 - seed %" PRIu64 ": %s\n", seed, sim.w.broken);
		return 1;
	}
	(void)printf("ok 1 - %" PRIu64 " seeds, %" PRIu64 " steps\n", n, steps());
	for (size_t i = 0; i < ACTIONS_N; i++)
		(void)printf("# %-16s %" PRIu64 "\n", actions[i].name, done[i]);
	(void)printf("# made anew %" PRIu64 ", found running %" PRIu64 ", found warm %" PRIu64
		     ", claimed %" PRIu64 "\n",
		     tally.anew, tally.adopted, tally.warm, tally.claims);
	(void)printf("# stopped %" PRIu64 ", started %" PRIu64 ", starts taken back %" PRIu64 "\n",
		     tally.stopped, tally.started, tally.taken_back);
	(void)printf("# stopped at the end of its time %" PRIu64 ", idle %" PRIu64
		     ", kept awake by work %" PRIu64 ", ended at rest %" PRIu64 "\n",
		     tally.expired_stops, tally.idle_stops, tally.kept_awake, tally.rested);
	(void)printf("# dozed %" PRIu64 ", woken %" PRIu64 ", kept paused %" PRIu64
		     ", stopped or ended while it dozed %" PRIu64 "\n",
		     tally.dozed, tally.woken, tally.kept, tally.stopped_dozing);
	(void)printf("# started with other files %" PRIu64 "\n", tally.rolled_back);
	(void)printf("%s 2 - everything that can happen did\n", all_were_there() ? "ok" : "not ok");
	return all_were_there() ? 0 : 1;
}
