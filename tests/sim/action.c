/* SPDX-License-Identifier: Apache-2.0 */
#include "action.h"

#define LIVE_MAX 6

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

		if (!life_is_finished(&b->row.life))
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

static struct life_terms terms(struct sim *s)
{
	return (struct life_terms){
		.ttl_ns = one_in(s, 3) ? LIFE_NEVER : span(s),
		.idle_ns = one_in(s, 2) ? LIFE_NEVER : span(s),
		.max_ns = one_in(s, 2) ? LIFE_NEVER : span(s),
		.lease_ns = one_in(s, 3) ? span(s) : 0,
		.entry = one_in(s, 2),
		.on_exit = one_in(s, 2) ? ON_EXIT_END : ON_EXIT_KEEP,
		.expire_stops = one_in(s, 2),
		.idle_stops = one_in(s, 2),
		.idle_is_work = one_in(s, 2),
		.rest_ns = one_in(s, 2) ? span(s) : 0,
		.doze_ns = one_in(s, 2) ? NS_PER_S / 8 + world_random(&s->w, NS_PER_S) : 0
	};
}

static bool create(struct sim *s)
{
	unsigned slot = s->n_created, live = 0;
	struct id id = world_id(slot);
	struct life_terms t = terms(s);
	uint64_t max = t.max_ns;
	struct life l;

	for (unsigned i = 0; i < s->r.n_boxes; i++)
		live += !life_is_finished(&s->r.boxes[i].row.life);
	if (!s->up || slot == RUNNER_BOXES || live >= LIVE_MAX)
		return false;
	l = life_new(&id, s->w.clk.boot, t.ttl_ns, t.idle_ns, max);
	life_set_lease(&l, s->w.clk.boot, t.lease_ns);
	life_set_rest(&l, &t);
	l.entry = t.entry;
	l.on_exit = t.on_exit;
	if (one_in(s, 3)) {
		max = LIFE_NEVER;
		l = life_new(&id, s->w.clk.boot, max, max, max);
		l.warm = true;
	}
	s->ledger[slot].ceiling_ns = max == LIFE_NEVER ? LIFE_NEVER : s->w.clk.boot + max;
	s->ledger[slot].ttl_ns = t.ttl_ns;
	s->n_created++;
	return runner_create(&s->r, &l) == 0;
}

/* Two requests may want the same one. */
static bool take(struct sim *s)
{
	struct life_terms t = terms(s);
	const struct runner_box *b = pick(s);

	return b && !say(s, b, (struct life_event){ .kind = LIFE_CLAIM, .terms = t });
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

static bool rest(struct sim *s)
{
	const struct runner_box *b = pick(s);
	struct life_event ev = { .kind = one_in(s, 3) ? LIFE_STOP : LIFE_START,
				 .max_ns = one_in(s, 2) ? span(s) : 0 };

	return b && !say(s, b, ev);
}

static bool hold(struct sim *s)
{
	const struct runner_box *b = pick(s);

	return b && !say(s, b,
			 (struct life_event){ .kind = LIFE_HOLD,
					      .until_ns = s->w.clk.boot +
							  (one_in(s, 4) ? 0 : span(s)) });
}

static bool snapshot(struct sim *s)
{
	const struct runner_box *b = pick(s);

	return b && !say(s, b, (struct life_event){ .kind = LIFE_SNAPSHOT });
}

static void pass(struct sim *s, uint64_t ns);

/* A copy of one that dozes takes longer than the time after which it dozes, and meanwhile somebody
 * wants it. */
static bool disturb(struct sim *s)
{
	const struct runner_box *b = pick(s);
	bool asks = one_in(s, 2);

	if (!b || !life_is_dozing(&b->row.life) ||
	    say(s, b, (struct life_event){ .kind = LIFE_SNAPSHOT }))
		return false;
	if (say(s, b, (struct life_event){ .kind = asks ? LIFE_RESUME : LIFE_ENTER }))
		return false;
	if (!asks)
		(void)say(s, b, (struct life_event){ .kind = LIFE_LEAVE });
	pass(s, 2 * NS_PER_S);
	return true;
}

static bool rollback(struct sim *s)
{
	const struct runner_box *b = pick(s);

	return b && !say(s, b, (struct life_event){ .kind = LIFE_ROLLBACK });
}

static bool extend(struct sim *s)
{
	const struct runner_box *b = pick(s);
	uint64_t now = s->w.clk.boot, until = one_in(s, 8) ? now : now + span(s);
	struct ledger *g;
	struct life before;
	bool fine;

	if (!b)
		return false;
	before = b->row.life;
	g = &s->ledger[world_slot(&before.id)];
	fine = until > now && !before.warm && !before.claimed &&
	       (before.state == SB_STOPPED   ? until - now <= g->ceiling_left_ns
		: before.state < SB_STOPPING ? until <= g->ceiling_ns
					     : false);
	if (fine && before.state == SB_STOPPED)
		g->left_ns = until - now;
	if (fine != !say(s, b, (struct life_event){ .kind = LIFE_EXTEND, .until_ns = until }))
		world_break(&s->w, world_slot(&before.id),
			    fine ? "may be extended, and was not" : "was extended, and may not be");
	return true;
}

static bool renew(struct sim *s)
{
	const struct runner_box *b = pick(s);

	return b && b->row.life.lease_ns != LIFE_NEVER &&
	       !say(s, b,
		    (struct life_event){ .kind = LIFE_RENEW,
					 .lease_ns =
						 one_in(s, 2) ? b->row.life.lease_ns : span(s) });
}

static bool enter(struct sim *s)
{
	const struct runner_box *b = pick(s);

	return b && (b->row.life.state == SB_RUNNING || b->row.life.state == SB_PAUSED) &&
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
	if (c.effect == DO_START && !c.answered && c.outcome == LIFE_OK)
		s->ledger[c.slot].watched = c.birth;
	if (c.outcome == LIFE_FAILED && !c.answered)
		s->ledger[c.slot].failed = c.generation;
	runner_done(&s->r, &id, c.number,
		    &(struct life_event){ .kind = LIFE_DONE,
					  .effect = c.effect,
					  .outcome = c.outcome,
					  .generation = c.generation,
					  .started_ns = c.started_ns,
					  .busy = c.busy,
					  .may_stop = !one_in(s, 8) });
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
	for (unsigned i = 0; i < RUNNER_BOXES; i++)
		s->ledger[i].watched = s->w.facts[i].alive ? s->w.facts[i].birth : 0;
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
	clk_test_advance(&s->w.clk, ns);
	s->real_ns += ns;
	s->r.may_stop = !one_in(s, 8);
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

static bool works(struct sim *s)
{
	struct fact *f = pick_alive(s);

	if (f)
		f->busy = !f->busy;
	return f;
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
	if (b && n.generation == b->row.life.generation && n.birth != s->ledger[n.slot].watched)
		return true; /* of an earlier run: its pidfd was closed before the stop */
	(void)runner_event(
		&s->r, &id,
		&(struct life_event){ .kind = n.kind,
				      .generation = n.generation,
				      .reason = n.kind == LIFE_EXITED ? END_EXIT : END_KILLED,
				      .code = n.code });
	return true;
}

/* While cayd is away somebody puts something else in a sandbox's place. */
static bool replaced(struct sim *s)
{
	unsigned slot = s->n_created ? (unsigned)world_random(&s->w, s->n_created) : 0;
	unsigned state = s->w.rows[slot].life.state;
	bool runs = state == SB_RUNNING || state == SB_PAUSED;

	/* nobody puts something into a directory of the same generation at rest */
	if (s->up || !s->w.has_row[slot] || state == SB_ENDING ||
	    s->w.rows[slot].boot != s->w.boot || s->w.facts[slot].alien)
		return false;
	world_replace(&s->w, slot, runs && one_in(s, 2));
	s->w.n_news = 0;
	return true;
}

const struct action actions[] = {
	{ "create", create, 3, false },
	{ "take", take, 6, false },
	{ "end", end, 1, false },
	{ "turn", turn, 10, false },
	{ "rest", rest, 8, false },
	{ "hold", hold, 2, false },
	{ "works", works, 5, false },
	{ "snapshot", snapshot, 6, false },
	{ "disturb", disturb, 12, false },
	{ "rollback", rollback, 4, false },
	{ "extend", extend, 3, false },
	{ "renew", renew, 3, false },
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
static_assert(ARRAY_SIZE(actions) == ACTIONS_N);

void action_restart(struct sim *s)
{
	(void)restart(s);
}

void action_quiet(struct sim *s)
{
	if (!commit(s) && !answered(s) && !happens(s) && !hears(s))
		pass(s, SIM_SWEEP_NS);
}

bool action_end_one(struct sim *s)
{
	const struct runner_box *b = pick(s);

	if (b)
		(void)say(s, b, (struct life_event){ .kind = LIFE_END, .reason = END_EVICTED });
	return b;
}
