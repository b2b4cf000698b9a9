/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim [SEED] - everything that can go wrong around src/life, in an order a seed decides
 *
 * Without an argument: many seeds, two lines of TAP.  With one: that seed alone, every
 * step printed.  CAY_FULL=1 tries twenty times as many.
 */
#include "sim.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define SEEDS 1500
#define STEPS 1000
#define LIVE_MAX 6
#define SETTLE_MAX 20000
#define YEAR_NS (UINT64_C(31536000) * NS_PER_S)

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

static bool one_in(struct sim *s, uint64_t n)
{
	return world_random(&s->w, n) == 0;
}

/* A sandbox cayd knows and that is not over; NULL. */
static struct runner_box *pick(struct sim *s)
{
	unsigned from = s->r.n_boxes ? (unsigned)world_random(&s->w, s->r.n_boxes) : 0;

	for (unsigned i = 0; s->up && i < s->r.n_boxes; i++) {
		struct runner_box *b = &s->r.boxes[(from + i) % s->r.n_boxes];

		if (!life_over(&b->row.life))
			return b;
	}
	return NULL;
}

static enum cay_code say(struct sim *s, const struct runner_box *b, struct life_event ev)
{
	struct id id = b->row.life.id;

	return runner_event(&s->r, &id, &ev);
}

static uint64_t span(struct sim *s)
{
	static const uint64_t seconds[] = { 1, 5, 30, 300, 3600, 86400 };

	return seconds[world_random(&s->w, ARRAY_SIZE(seconds))] * NS_PER_S +
	       world_random(&s->w, NS_PER_S);
}

static bool create(struct sim *s)
{
	unsigned slot = s->n_created, live = 0;
	struct id id = world_id(slot);
	uint64_t max = one_in(s, 2) ? LIFE_NEVER : span(s);
	struct life l;

	for (unsigned i = 0; i < s->r.n_boxes; i++)
		live += !life_over(&s->r.boxes[i].row.life);
	if (!s->up || slot == RUNNER_BOXES || live >= LIVE_MAX)
		return false;
	l = life_new(&id, s->w.clk.boot, one_in(s, 3) ? LIFE_NEVER : span(s),
		     one_in(s, 2) ? LIFE_NEVER : span(s), max);
	l.entry = one_in(s, 2);
	l.on_exit = one_in(s, 2) ? ON_EXIT_END : ON_EXIT_KEEP;
	s->ledger[slot].ceiling_ns = max == LIFE_NEVER ? LIFE_NEVER : s->w.clk.boot + max;
	s->n_created++;
	return runner_create(&s->r, &l) == 0;
}

static bool end(struct sim *s)
{
	const struct runner_box *b = pick(s);

	return b && !say(s, b, (struct life_event){ .kind = LIFE_END, .reason = END_EVICTED });
}

static bool turn(struct sim *s)
{
	const struct runner_box *b = pick(s);
	bool pause = one_in(s, 2);

	return b && !say(s, b, (struct life_event){ .kind = pause ? LIFE_PAUSE : LIFE_RESUME });
}

static bool extend(struct sim *s)
{
	const struct runner_box *b = pick(s);
	uint64_t now = s->w.clk.boot, until = one_in(s, 8) ? now : now + span(s);
	struct life before;
	bool fine;

	if (!b)
		return false;
	before = b->row.life;
	fine = until > now && until <= s->ledger[world_slot(&before.id)].ceiling_ns &&
	       before.state < SB_ENDING;
	if (fine != !say(s, b, (struct life_event){ .kind = LIFE_EXTEND, .until_ns = until }))
		world_break(&s->w, world_slot(&before.id),
			    fine ? "may be extended, and was not" : "was extended, and may not be");
	return true;
}

static bool enter(struct sim *s)
{
	const struct runner_box *b = pick(s);

	return b && b->row.life.state == SB_RUNNING &&
	       !say(s, b, (struct life_event){ .kind = LIFE_ENTER });
}

static bool leave(struct sim *s)
{
	const struct runner_box *b = pick(s);

	return b && s->ledger[world_slot(&b->row.life.id)].busy &&
	       !say(s, b, (struct life_event){ .kind = LIFE_LEAVE });
}

static void answer(struct sim *s, unsigned at, bool keep)
{
	struct call c = s->w.calls[at];
	struct id id = world_id(c.slot);

	s->w.calls[at].answered = true;
	if (!keep)
		world_forget_call(&s->w, at);
	if (c.outcome == LIFE_FAILED && !c.answered)
		s->ledger[c.slot].failed = c.generation;
	runner_done(&s->r, &id, c.number,
		    &(struct life_event){ .kind = LIFE_DONE,
					  .effect = c.effect,
					  .outcome = c.outcome,
					  .generation = c.generation,
					  .started_ns = c.started_ns });
}

static struct call *pick_call(struct sim *s, bool happened)
{
	unsigned from = s->w.n_calls ? (unsigned)world_random(&s->w, s->w.n_calls) : 0;

	for (unsigned i = 0; i < s->w.n_calls; i++) {
		struct call *c = &s->w.calls[(from + i) % s->w.n_calls];

		if (c->happened == happened)
			return c;
	}
	return NULL;
}

static bool happens(struct sim *s)
{
	struct call *c = pick_call(s, false);

	if (c)
		world_happen(&s->w, c, false);
	return c;
}

static bool fails(struct sim *s)
{
	struct call *c = pick_call(s, false);

	if (c)
		world_happen(&s->w, c, true);
	return c;
}

static bool answered(struct sim *s)
{
	const struct call *c = pick_call(s, true);

	if (!s->up || !c)
		return false;
	answer(s, (unsigned)(c - s->w.calls), false);
	return true;
}

static bool answered_twice(struct sim *s)
{
	const struct call *c = pick_call(s, true);

	if (!s->up || !c || c->answered)
		return false;
	answer(s, (unsigned)(c - s->w.calls), true);
	return true;
}

/* PID 1 hangs up while it is claimed. */
static bool hangs_up(struct sim *s)
{
	struct call *c = pick_call(s, false);

	if (!c || c->effect != DO_CLAIM)
		return false;
	world_cut(&s->w, c);
	return true;
}

static bool commit(struct sim *s)
{
	if (!s->up || !s->w.n_writes)
		return false;
	world_commit(&s->w, 1 + (unsigned)world_random(&s->w, s->w.n_writes));
	runner_durable(&s->r, s->w.committed);
	return true;
}

static bool keeper_dies(struct sim *s)
{
	bool any = false;

	for (unsigned i = 0; i < s->w.n_calls; i++) {
		struct call *c = &s->w.calls[i];

		if (!world_is_keepers(c->effect) || c->answered)
			continue;
		world_cut(&s->w, c);
		any = true;
	}
	return any;
}

/* What is under way goes on to its end or is cut off, and then the fence is up. */
static bool crash(struct sim *s)
{
	if (!s->up)
		return false;
	for (unsigned i = 0; i < s->w.n_calls; i++)
		world_cut(&s->w, &s->w.calls[i]);
	s->w.n_calls = s->w.n_writes = s->w.n_news = 0;
	s->r = (struct runner){};
	s->up = false;
	return true;
}

static bool reboot(struct sim *s)
{
	if (!one_in(s, 16))
		return false;
	(void)crash(s);
	world_reboot(&s->w);
	return true;
}

static unsigned list(const struct world *w, struct runner_fact *ret)
{
	unsigned n = 0;

	for (unsigned i = 0; i < WORLD_SLOTS; i++) {
		const struct fact *f = &w->facts[i];

		if (f->dir)
			ret[n++] = (struct runner_fact){ world_id(i), f->generation, f->started_ns,
							 f->range,    f->alive,      f->has_range,
							 f->frozen };
	}
	return n;
}

static bool restart(struct sim *s)
{
	struct runner_fact facts[WORLD_SLOTS];
	struct runner_row rows[RUNNER_BOXES];
	unsigned n_facts = list(&s->w, facts), n_rows = 0;

	if (s->up)
		return false;
	ledger_restart(s);
	s->r = (struct runner){ .ops = &ledger_ops,
				.arg = s,
				.clk = &s->w.clk.clk,
				.boot = s->w.boot,
				.durable = s->w.committed };
	for (unsigned i = 0; i < s->n_created; i++)
		if (s->w.has_row[i])
			rows[n_rows++] = s->w.rows[i];
	s->up = true;
	runner_recover(&s->r, rows, n_rows, facts, n_facts);
	for (unsigned i = 0; i < n_rows; i++)
		if (s->w.facts[world_slot(&rows[i].life.id)].exited)
			world_news(&s->w, world_slot(&rows[i].life.id), LIFE_EXITED);
	runner_sweep(&s->r);
	s->swept_ns = s->w.clk.boot;
	return true;
}

static void pass(struct sim *s, uint64_t ns)
{
	clk_test_pass(&s->w.clk, ns);
	if (!s->up || s->w.clk.boot - s->swept_ns < SIM_SWEEP_NS)
		return;
	s->swept_ns = s->w.clk.boot;
	runner_sweep(&s->r);
}

static bool ticks(struct sim *s)
{
	pass(s, world_random(&s->w, SIM_SWEEP_NS));
	return true;
}

/* Quiet, or the machine slept. */
static bool leaps(struct sim *s)
{
	pass(s, one_in(s, 8) ? span(s) : world_random(&s->w, 5 * NS_PER_S));
	return true;
}

static bool wall_jumps(struct sim *s)
{
	s->w.clk.wall =
		one_in(s, 2) ? s->w.clk.wall + 10 * YEAR_NS : s->w.clk.wall % (10 * YEAR_NS);
	return true;
}

/* A sandbox of ours that has a PID 1; NULL. */
static struct fact *pick_alive(struct sim *s)
{
	unsigned from = (unsigned)world_random(&s->w, RUNNER_BOXES);

	for (unsigned i = 0; i < RUNNER_BOXES; i++) {
		struct fact *f = &s->w.facts[(from + i) % RUNNER_BOXES];

		if (f->alive && !f->alien)
			return f;
	}
	return NULL;
}

static bool dies(struct sim *s)
{
	struct fact *f = pick_alive(s);

	if (!f)
		return false;
	s->ledger[f - s->w.facts].died = f->generation;
	world_die(&s->w, (unsigned)(f - s->w.facts));
	return true;
}

static bool exits(struct sim *s)
{
	struct fact *f = pick_alive(s);

	if (!f || !f->entered || f->exited || f->frozen)
		return false;
	s->ledger[f - s->w.facts].exited = true;
	world_exit(&s->w, (unsigned)(f - s->w.facts), (unsigned)world_random(&s->w, 2));
	return true;
}

/* A pidfd comes with the answer to start: before it there is nothing to watch. */
static bool hears(struct sim *s)
{
	unsigned at = s->w.n_news ? (unsigned)world_random(&s->w, s->w.n_news) : 0;
	struct news n = s->w.news[at];
	struct id id = world_id(n.slot);
	const struct runner_box *b = runner_find(&s->r, &id);

	if (!s->up || !s->w.n_news || (b && b->open[DO_START]))
		return false;
	s->w.news[at] = s->w.news[--s->w.n_news];
	(void)runner_event(&s->r, &id,
			   &(struct life_event){ .kind = n.kind,
						 .generation = n.generation,
						 .reason = END_KILLED,
						 .code = n.code });
	return true;
}

/* While cayd is away somebody puts something else in a sandbox's place. */
static bool replaced(struct sim *s)
{
	unsigned slot = s->n_created ? (unsigned)world_random(&s->w, s->n_created) : 0;
	unsigned state = s->w.rows[slot].life.state;
	bool runs = state == SB_RUNNING || state == SB_PAUSED;

	if (s->up || !s->w.has_row[slot] || state == SB_ENDING ||
	    s->w.rows[slot].boot != s->w.boot || s->w.facts[slot].alien)
		return false;
	world_replace(&s->w, slot, runs && one_in(s, 2));
	s->w.n_news = 0;
	return true;
}

struct action {
	const char *name;
	bool (*fn)(struct sim *s);
	unsigned weight;
	bool fault; /* left out of some seeds, and of settling */
};

static const struct action actions[] = {
	{ "create", create, 3, false },
	{ "end", end, 1, false },
	{ "turn", turn, 10, false },
	{ "extend", extend, 3, false },
	{ "enter", enter, 5, false },
	{ "leave", leave, 5, false },
	{ "happens", happens, 50, false },
	{ "answered", answered, 40, false },
	{ "commit", commit, 30, false },
	{ "ticks", ticks, 20, false },
	{ "hears", hears, 20, false },
	{ "restart", restart, 60, false },
	{ "leaps", leaps, 1, true },
	{ "fails", fails, 1, true },
	{ "answered twice", answered_twice, 4, true },
	{ "hangs up", hangs_up, 2, true },
	{ "keeper dies", keeper_dies, 4, true },
	{ "crash", crash, 3, true },
	{ "reboot", reboot, 1, true },
	{ "wall jumps", wall_jumps, 2, true },
	{ "dies", dies, 1, true },
	{ "exits", exits, 3, true },
	{ "replaced", replaced, 2, true },
};

static uint64_t done[ARRAY_SIZE(actions)];
static struct tally tally;

/* One seed has more of this, another none of that: what hides behind the usual mix. */
static unsigned mix(struct sim *s, unsigned weights[static ARRAY_SIZE(actions)])
{
	static const unsigned times[] = { 0, 1, 2, 4, 8 };
	unsigned sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		unsigned n = times[world_random(&s->w, ARRAY_SIZE(times))];

		weights[i] = actions[i].weight * (actions[i].fault ? n : n ? n : 1);
		sum += weights[i];
	}
	return sum;
}

static void act(struct sim *s, const unsigned weights[static ARRAY_SIZE(actions)], unsigned sum)
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
	(void)restart(s);
	for (unsigned i = 0; i < SETTLE_MAX && !s->w.broken && !ledger_is_settled(s); i++) {
		s->step++;
		if (!commit(s) && !answered(s) && !happens(s) && !hears(s))
			pass(s, SIM_SWEEP_NS);
		ledger_check(s);
	}
	if (!ledger_is_settled(s))
		world_break(&s->w, 0, "does not come to rest");
	else
		ledger_check_settled(s);
}

static void end_all(struct sim *s)
{
	for (const struct runner_box *b = pick(s); b && !s->w.broken; b = pick(s)) {
		(void)say(s, b, (struct life_event){ .kind = LIFE_END, .reason = END_EVICTED });
		settle(s);
	}
}

static bool run(struct sim *s, uint64_t seed)
{
	unsigned weights[ARRAY_SIZE(actions)], sum;

	*s = (struct sim){ .seed = seed, .loud = s->loud, .tally = &tally };
	s->w.random = seed;
	s->w.clk = clk_test_at(NS_PER_S, 50 * YEAR_NS);
	for (unsigned i = RUNNER_BOXES; i < WORLD_SLOTS; i++)
		world_replace(&s->w, i, false);
	sum = mix(s, weights);
	(void)restart(s);
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
	bool all = tally.anew && tally.adopted;

	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
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
			      i == END_OOM || i == END_QUOTA);
	return all;
}

static uint64_t steps(void)
{
	uint64_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
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

		if (str_u64(slice_of(argv[1]), 0, UINT64_MAX, &seed) < 0)
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
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
		(void)printf("# %-16s %" PRIu64 "\n", actions[i].name, done[i]);
	(void)printf("# made anew %" PRIu64 ", found running %" PRIu64 "\n", tally.anew,
		     tally.adopted);
	(void)printf("%s 2 - everything that can happen did\n", all_were_there() ? "ok" : "not ok");
	return all_were_there() ? 0 : 1;
}
