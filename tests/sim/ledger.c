/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "sim.h"

static const char *const effect_names[DO_NUM] = {
	[DO_NOTHING] = "",        [DO_PREPARE] = "prepare",  [DO_START] = "start",
	[DO_CLAIM] = "claim",     [DO_ENTRYPOINT] = "entry", [DO_FREEZE] = "freeze",
	[DO_THAW] = "thaw",       [DO_REMOVE] = "remove",    [DO_STOP] = "stop",
	[DO_RESTORE] = "restore", [DO_LOOK] = "look",        [DO_SNAPSHOT] = "snapshot",
};
static const char *const kind_names[LIFE_KINDS] = {
	[LIFE_ACCEPTED] = "accepted", [LIFE_DONE] = "done",      [LIFE_END] = "end",
	[LIFE_GONE] = "gone",         [LIFE_EXITED] = "exited",  [LIFE_PAUSE] = "pause",
	[LIFE_RESUME] = "resume",     [LIFE_EXTEND] = "extend",  [LIFE_RENEW] = "renew",
	[LIFE_ENTER] = "enter",       [LIFE_LEAVE] = "leave",    [LIFE_CLAIM] = "take",
	[LIFE_DEADLINE] = "due",      [LIFE_OBSERVED] = "facts", [LIFE_STOP] = "stop",
	[LIFE_START] = "start",       [LIFE_HOLD] = "hold",      [LIFE_SNAPSHOT] = "snapshot",
	[LIFE_ROLLBACK] = "rollback",
};
static const char *const state_names[SB_NUM_STATES] = {
	[SB_PENDING] = "pending",     [SB_RUNNING] = "running",   [SB_PAUSED] = "paused",
	[SB_SUSPENDED] = "suspended", [SB_ENDING] = "ending",     [SB_TERMINATED] = "terminated",
	[SB_FAILED] = "failed",       [SB_STOPPING] = "stopping", [SB_STOPPED] = "stopped",
	[SB_STARTING] = "starting",
};

static uint64_t on_write(void *arg, const struct runner_row *row)
{
	struct sim *s = arg;

	return world_write(&s->w, row);
}

static bool is_at_rest(const struct life *l)
{
	return l->state == SB_STOPPING || l->state == SB_STOPPED || l->state == SB_STARTING;
}

/* What may be begun in which state. */
static bool may_begin(const struct life *l, enum life_effect effect)
{
	static const unsigned may[SB_NUM_STATES] = {
		[SB_PENDING] = 1 << DO_PREPARE | 1 << DO_START | 1 << DO_CLAIM | 1 << DO_REMOVE,
		[SB_RUNNING] = 1 << DO_ENTRYPOINT | 1 << DO_FREEZE | 1 << DO_THAW | 1 << DO_LOOK |
			       1 << DO_SNAPSHOT,
		[SB_PAUSED] = 1 << DO_FREEZE | 1 << DO_THAW | 1 << DO_SNAPSHOT,
		[SB_STOPPING] = 1 << DO_STOP,
		[SB_STOPPED] = 1 << DO_STOP | 1 << DO_SNAPSHOT,
		[SB_STARTING] = 1 << DO_RESTORE | 1 << DO_START | 1 << DO_CLAIM,
		[SB_ENDING] = 1 << DO_REMOVE,
	};

	if (effect == DO_CLAIM && l->warm)
		return false;
	if (is_at_rest(l) && l->rolled_back) /* there is nothing to keep, and nothing to restore */
		return effect == DO_NOTHING || effect == DO_REMOVE ||
		       (l->state == SB_STARTING &&
			(effect == DO_PREPARE || effect == DO_START || effect == DO_CLAIM));
	return effect == DO_NOTHING || may[l->state] & 1u << effect;
}

static void on_act(void *arg, const struct runner_row *row, enum life_effect effect, uint64_t call)
{
	struct sim *s = arg;
	unsigned slot = world_slot(&row->life.id);

	sim_note(s, slot, "  begin", effect_names[effect], row->life.generation);
	s->tally->effects[effect]++;
	for (unsigned i = 0; i < s->w.n_calls; i++)
		if (s->w.calls[i].slot == slot && !s->w.calls[i].answered &&
		    (s->w.calls[i].effect == effect ||
		     (world_is_keepers(effect) && world_is_keepers(s->w.calls[i].effect))))
			world_break(&s->w, slot, "two effects at once");
	if (effect == DO_STOP || effect == DO_REMOVE)
		s->ledger[slot].watched = 0;
	world_call(&s->w, row, effect, call);
}

static void on_tell(void *arg, const struct life *l, uint64_t step)
{
	struct sim *s = arg;
	unsigned slot = world_slot(&l->id);
	struct ledger *g = &s->ledger[slot];
	const struct fact *f = &s->w.facts[slot];

	sim_note(s, slot, "  tell", state_names[l->state], l->reason);
	if (s->must[step % SIM_STEPS_KEPT] > s->w.committed)
		world_break(&s->w, slot, "told before it was durable");
	g->accepted = true;
	g->known = g->known || l->state == SB_RUNNING;
	if (l->state == SB_RUNNING && f->alive && f->birth == g->birth)
		s->w.promised[slot] = true;
	if (l->state == SB_STOPPED && !f->alien &&
	    (f->alive || (!l->rolled_back && (f->files != g->files || !f->synced))))
		world_break(&s->w, slot, "told as stopped, and is not");
	if (l->state == SB_STOPPED && l->rolled_back)
		g->rolled_back = true;
	/* a start may have been accepted since */
	g->stopped =
		l->state == SB_STOPPED && runner_find(&s->r, &l->id)->row.life.state == SB_STOPPED;
	if (l->state < SB_ENDING)
		return;
	if (g->ended && g->reason != l->reason)
		world_break(&s->w, slot, "told another reason than before");
	g->ended = true;
	g->reason = l->reason;
}

static void on_ask(void *arg, const struct id *id, struct life_observation *ret)
{
	struct sim *s = arg;
	const struct fact *f = &s->w.facts[world_slot(id)];

	ret->claimed = f->claimed;
	ret->unclaimed = !f->claimed;
	ret->entrypoint_started = f->entered;
}

static bool lives(const struct sim *s, unsigned slot, uint64_t generation)
{
	const struct fact *f = &s->w.facts[slot];

	return f->alive && !f->alien && f->generation == generation &&
	       f->birth == s->ledger[slot].birth;
}

static uint64_t left(uint64_t at, uint64_t now)
{
	return at == LIFE_NEVER ? LIFE_NEVER : at > now ? at - now : 0;
}

static uint64_t later(uint64_t now, uint64_t left)
{
	return left == LIFE_NEVER ? LIFE_NEVER : now + left;
}

static uint64_t latest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Neither a request, nor a hold, nor a snapshot, nor, where that counts, work. */
static bool is_idle(const struct sim *s, unsigned slot, const struct life *l,
		    const struct life_event *ev)
{
	const struct ledger *g = &s->ledger[slot];
	bool looked = ev->kind == LIFE_DONE && ev->effect == DO_LOOK;

	if (l->pending_effect == DO_SNAPSHOT || g->wanted)
		return false;
	if (l->state == SB_PAUSED && !l->dozes)
		return false;
	if (g->busy || l->idle_ns == LIFE_NEVER || s->w.clk.boot < later(g->active_ns, l->idle_ns))
		return false;
	return l->idle_is_work && l->state == SB_RUNNING
		       ? looked && ev->outcome == LIFE_OK && !ev->busy
		       : ev->kind == LIFE_DEADLINE;
}

/* Every reason has its evidence. */
static const char *wrong_reason(const struct sim *s, unsigned slot, const struct life *before,
				const struct life_event *ev, const struct life *next)
{
	const struct ledger *g = &s->ledger[slot];
	uint64_t now = s->w.clk.boot;

	switch ((enum end_reason)next->reason) {
	case END_TTL:
		if (before->state == SB_STARTING ||
		    (before->expire_stops && before->state != SB_PENDING))
			return "ended, and should have stopped";
		return now < before->expires_ns ? "ended before its time" : NULL;
	case END_LEASE:
		return now - before->renewed_ns < before->lease_ns ? "its lease was not over"
								   : NULL;
	case END_IDLE:
		if (before->state == SB_STOPPED)
			return s->real_ns - g->stopped_real_ns < before->rest_ns
				       ? "rested for less than it may"
				       : NULL;
		return is_idle(s, slot, before, ev) && !before->idle_stops
			       ? NULL
			       : "ended as idle, is not";
	case END_EVICTED:
		return ev->kind == LIFE_END ? NULL : "nobody wanted it ended";
	case END_KILLED:
		return ev->kind == LIFE_GONE && g->died == before->generation &&
				       (before->state != SB_PENDING || before->warm)
			       ? NULL
			       : "its PID 1 did not die by itself, once it was there";
	case END_EXIT:
		return g->exited && before->on_exit == ON_EXIT_END ? NULL
								   : "its entrypoint has not ended";
	case END_START_FAILED:
		if (ev->kind == LIFE_GONE && g->died == before->generation &&
		    before->state == SB_PENDING)
			return NULL;
		return g->failed == before->generation || before->generation == LIFE_GENERATIONS
			       ? NULL
			       : "failed, and nothing had";
	case END_NODE_LOST:
		if (is_at_rest(before)) /* its files are what counts */
			return before->rolled_back ? "taken for lost, and it had no files"
			       : s->w.facts[slot].dir && !s->w.facts[slot].alien
				       ? "taken for lost, and its files are there"
				       : NULL;
		if (ev->kind == LIFE_OBSERVED &&
		    (s->w.rows[slot].boot != s->w.boot || !lives(s, slot, before->generation)))
			return NULL;
		return "taken for lost, and it lives";
	case END_SIGNAL:
	case END_TIMEOUT:
	case END_OOM:
	case END_NODE_OOM:
	case END_QUOTA:
	case END_NUM_REASONS:
		break;
	}
	return "a reason nobody gave";
}

/* A warm one goes on only where nobody ever had it. */
static void check_warm(struct sim *s, unsigned slot, const struct life_out *out)
{
	const struct life *next = &out->next;

	if (next->state != SB_PENDING && next->state < SB_ENDING)
		world_break(&s->w, slot, "nobody's, and it runs");
	if (next->state != SB_PENDING || out->effect == DO_REMOVE)
		return;
	if (s->w.facts[slot].claimed)
		world_break(&s->w, slot, "was claimed, and is warm again");
	s->tally->warm++;
}

static void check_found(struct sim *s, unsigned slot, const struct life *before,
			const struct life *next)
{
	bool same_boot = s->w.rows[slot].boot == s->w.boot;

	if (s->w.promised[slot] && same_boot && before->state < SB_STOPPING &&
	    lives(s, slot, before->generation) && next->state != SB_RUNNING &&
	    next->state != SB_PAUSED)
		world_break(&s->w, slot, "lives, was promised, and is not taken back");
	if (before->state == SB_PENDING && next->state == SB_RUNNING)
		s->tally->adopted++;
}

/* Whether this change must be durable before it counts. */
static bool counts(const struct life *a, const struct life *b, const struct life_event *ev)
{
	/* the machine tells who dozes; what a client asked for, it does not */
	if (a->state == SB_RUNNING && b->state == SB_PAUSED && b->dozes)
		return false;
	if (a->state == SB_PAUSED && b->state == SB_RUNNING && a->dozes)
		return false;
	if (a->state == SB_PAUSED && b->state == SB_PAUSED && a->dozes != b->dozes)
		return true;
	if (ev->kind == LIFE_ACCEPTED || a->generation != b->generation ||
	    a->rolled_back != b->rolled_back || a->expires_ns != b->expires_ns ||
	    a->lease_ns != b->lease_ns || ev->kind == LIFE_HOLD ||
	    (ev->kind == LIFE_RENEW && a->state == SB_PENDING))
		return true;
	return a->state != b->state && a->state != SB_ENDING;
}

/* One that was due may go on, and then its time begins again. */
static void keep_idle_books(struct sim *s, struct ledger *g, const struct life_event *ev,
			    const struct life *next)
{
	uint64_t now = s->w.clk.boot;
	bool looked = ev->kind == LIFE_DONE && ev->effect == DO_LOOK;
	bool works = looked && (ev->busy || ev->outcome != LIFE_OK);
	bool dozes = next->state == SB_PAUSED && next->dozes;
	bool idle = now >= later(g->active_ns, next->idle_ns);

	if ((next->state != SB_RUNNING && !dozes) || g->busy)
		return;
	if (works && (idle || now >= later(g->active_ns, next->doze_ns))) {
		s->tally->kept_awake += ev->busy;
		g->active_ns = now;
	} else if (idle &&
		   (looked || (ev->kind == LIFE_DEADLINE && (dozes || !next->idle_is_work)))) {
		g->active_ns = now;
	}
}

static void keep_doze_books(struct sim *s, struct ledger *g, const struct life *before,
			    const struct life_event *ev, const struct life *next)
{
	bool dozed = before->state == SB_PAUSED && before->dozes;

	if (!next->dozes || ev->kind == LIFE_OBSERVED)
		g->wanted = false;
	else if (before->dozes &&
		 (ev->kind == LIFE_RESUME || ev->kind == LIFE_ENTER || ev->kind == LIFE_HOLD))
		g->wanted = true;
	s->tally->dozed += before->state == SB_RUNNING && next->state == SB_PAUSED && next->dozes;
	s->tally->woken += dozed && next->state == SB_RUNNING;
	s->tally->kept += dozed && next->state == SB_PAUSED && !next->dozes;
	s->tally->stopped_dozing +=
		dozed && (next->state == SB_STOPPING || next->state == SB_ENDING);
}

/* Idle or asked: by the books, and not by what life says. */
static const char *wrong_doze(const struct sim *s, unsigned slot, const struct life *before,
			      const struct life_event *ev, const struct life_out *out)
{
	const struct ledger *g = &s->ledger[slot];
	bool looked = ev->kind == LIFE_DONE && ev->effect == DO_LOOK;

	if (out->effect == DO_FREEZE && out->next.dozes) {
		if (g->busy || s->w.clk.boot < later(g->active_ns, before->doze_ns))
			return "dozes, and was not idle";
		if (before->idle_is_work && (!looked || ev->busy || ev->outcome != LIFE_OK))
			return "dozes, and nobody knows whether it works";
	}
	if (ev->kind == LIFE_ENTER && out->effect && !before->dozes)
		return "a request resumed one that was to stay paused";
	if (g->wanted && life_is_dozing(&out->next) && !out->next.pending_effect &&
	    out->next.retry_ns == LIFE_NEVER)
		return "dozes on, and somebody had asked for it";
	return NULL;
}

static void keep_books(struct sim *s, unsigned slot, const struct life *before,
		       const struct life_event *ev, const struct life *next)
{
	struct ledger *g = &s->ledger[slot];
	uint64_t now = s->w.clk.boot;

	if (is_at_rest(before) && next->state == SB_RUNNING)
		g->active_ns = now; /* a hold was of the run before */
	if (next->state == SB_RUNNING && (before->state != SB_RUNNING || ev->kind == LIFE_OBSERVED))
		g->active_ns = latest(g->active_ns, now);
	if (before->dozes &&
	    (ev->kind == LIFE_RESUME || ev->kind == LIFE_OBSERVED ||
	     (before->state == SB_RUNNING && !next->dozes && ev->kind != LIFE_PAUSE)))
		g->active_ns = latest(g->active_ns, now);
	if (ev->kind == LIFE_ENTER || ev->kind == LIFE_LEAVE) {
		g->active_ns = latest(g->active_ns, now);
		g->busy += ev->kind == LIFE_ENTER ? 1u : -1u;
	}
	if (ev->kind == LIFE_HOLD)
		g->active_ns = latest(ev->until_ns, now);
	if (before->pending_effect == DO_SNAPSHOT && next->pending_effect != DO_SNAPSHOT &&
	    !before->dozes)
		g->active_ns = latest(g->active_ns, now);
	if (before->pending_effect || next->pending_effect || next->retry_ns != LIFE_NEVER)
		g->still_ns = now;
	keep_idle_books(s, g, ev, next);
	keep_doze_books(s, g, before, ev, next);
	if (before->state != SB_STOPPED && next->state == SB_STOPPED) {
		g->stopped_real_ns = s->real_ns;
		g->rebooted = false;
	}
	if (ev->kind == LIFE_OBSERVED && s->w.rows[slot].boot != s->w.boot)
		g->rebooted = true;
	s->tally->rested +=
		before->state == SB_STOPPED && next->state == SB_ENDING && next->reason == END_IDLE;
	if ((before->state == SB_PENDING || before->state == SB_STARTING) &&
	    next->state == SB_RUNNING)
		g->birth = s->w.facts[slot].birth;
	if (before->state == SB_PENDING && next->state == SB_RUNNING)
		g->files = s->w.facts[slot].files;
	s->tally->kinds[ev->kind]++;
	if (next->generation != before->generation) {
		s->tally->anew++;
		if (before->state == SB_STARTING && before->rolled_back)
			g->known = false;
		if (g->known)
			world_break(&s->w, slot,
				    "a client knew it as running, and it is made anew");
		g->known = false;
	}
}

/* By a client, at the end of its time, or idle. */
static const char *wrong_stop(struct sim *s, unsigned slot, const struct life *before,
			      const struct life_event *ev)
{
	if (ev->kind == LIFE_STOP || ev->kind == LIFE_ROLLBACK)
		return NULL;
	if (ev->kind == LIFE_DEADLINE && before->expire_stops &&
	    s->w.clk.boot >= before->expires_ns) {
		s->tally->expired_stops++;
		return NULL;
	}
	if (!ev->may_stop)
		return "stopped, and may not";
	s->tally->idle_stops++;
	return before->idle_stops && is_idle(s, slot, before, ev)
		       ? NULL
		       : "stopped, and nobody wanted that";
}

/* Time at rest does not count, and the files are those it had. */
static const char *wrong_rest(struct sim *s, unsigned slot, const struct life *before,
			      const struct life_event *ev, const struct life *next)
{
	struct ledger *g = &s->ledger[slot];
	uint64_t now = s->w.clk.boot;

	if (ev->kind == LIFE_START)
		g->stopped = false;
	if (ev->kind == LIFE_ROLLBACK && !before->rolled_back)
		g->void_files = g->files;
	if (before->state == SB_STOPPED && next->state == SB_STARTING) {
		g->start_ns = now;
		if (next->expire_stops) {
			g->left_ns = g->ttl_ns;
			g->ceiling_left_ns = LIFE_NEVER;
		}
		g->ceiling_left_ns =
			least(g->ceiling_left_ns, ev->max_ns ? ev->max_ns : LIFE_NEVER);
		g->left_ns = least(g->left_ns, g->ceiling_left_ns);
	}
	if (!is_at_rest(before) && is_at_rest(next)) {
		s->tally->stopped++;
		g->left_ns = left(before->expires_ns, now);
		g->ceiling_left_ns = left(g->ceiling_ns, now);
		return wrong_stop(s, slot, before, ev);
	}
	if (before->state == SB_STARTING && next->state == SB_STOPPING) {
		s->tally->taken_back++;
		/* what a start of another boot took is not known; without a process, nothing */
		if (ev->kind != LIFE_OBSERVED ||
		    (s->w.rows[slot].boot == s->w.boot && ev->observed.processes)) {
			g->left_ns = left(g->left_ns, now - g->start_ns);
			g->ceiling_left_ns = left(g->ceiling_left_ns, now - g->start_ns);
		}
		if (next->expires_ns != g->left_ns)
			return "the time of a start that failed was not counted";
	}
	if (before->state != SB_STARTING || next->state != SB_RUNNING)
		return NULL;
	s->tally->started++;
	g->ceiling_ns = later(g->start_ns, g->ceiling_left_ns);
	if (next->expires_ns != later(g->start_ns, g->left_ns))
		return "its time at rest counted, or that of its start did not";
	if (before->rolled_back) {
		s->tally->rolled_back++;
		if (next->rolled_back || s->w.facts[slot].files == g->void_files)
			return "rolled back, and started with the files it had";
		g->files = s->w.facts[slot].files;
		g->rolled_back = false;
	}
	if (s->w.facts[slot].files != g->files)
		return "started, and its files are not those it had";
	return NULL;
}

/* Whose it is, is written once: with all of it, when it runs. */
static void check_taken(struct sim *s, unsigned slot, const struct life *before,
			const struct life_event *ev, const struct life_out *out)
{
	struct ledger *g = &s->ledger[slot];
	uint64_t now = s->w.clk.boot;

	if (ev->kind == LIFE_CLAIM) {
		if (!before->warm || before->state != SB_PENDING || before->pending_effect)
			world_break(&s->w, slot, "taken, and it was not there for that");
		g->taken = before->generation;
		g->writes = 0;
		g->ttl_ns = ev->terms.ttl_ns;
		g->ceiling_ns =
			ev->terms.max_ns == LIFE_NEVER ? LIFE_NEVER : now + ev->terms.max_ns;
	}
	g->writes += out->journal;
	if (before->state != SB_PENDING || out->next.state != SB_RUNNING ||
	    g->taken != before->generation || ev->kind == LIFE_OBSERVED)
		return;
	if (g->writes != 1)
		world_break(&s->w, slot, "a claim is not one write");
	s->tally->claims++;
}

static void on_look(void *arg, const struct life *before, const struct life_event *ev,
		    const struct life_out *out, uint64_t step)
{
	struct sim *s = arg;
	const struct life *next = &out->next;
	unsigned slot = world_slot(&next->id);
	struct ledger *g = &s->ledger[slot];
	const char *wrong = NULL;

	sim_note(s, slot, kind_names[ev->kind], state_names[next->state],
		 ev->kind == LIFE_DONE ? (uint64_t)ev->effect : ev->generation);
	if (!may_begin(next, out->effect))
		wrong = "an effect that is not for this state";
	if (!wrong)
		wrong = wrong_rest(s, slot, before, ev, next);
	if (!wrong)
		wrong = wrong_doze(s, slot, before, ev, out);
	if (!is_at_rest(next) && next->state < SB_ENDING && next->expires_ns > g->ceiling_ns)
		wrong = "may live longer than its ceiling";
	if (life_is_finished(before) &&
	    (next->state != before->state || out->effect || out->journal))
		wrong = "something happened to one that is over";
	if (before->state < SB_ENDING && next->state == SB_ENDING) {
		s->tally->reasons[next->reason]++;
		if (!wrong)
			wrong = wrong_reason(s, slot, before, ev, next);
	}
	if (wrong)
		world_break(&s->w, slot, wrong);
	if (ev->kind == LIFE_OBSERVED)
		check_found(s, slot, before, next);
	if (ev->kind == LIFE_OBSERVED && before->warm)
		check_warm(s, slot, out);
	check_taken(s, slot, before, ev, out);
	keep_books(s, slot, before, ev, next);
	if (counts(before, next, ev))
		g->must = out->journal ? s->w.committed + s->w.n_writes : LIFE_NEVER;
	s->must[step % SIM_STEPS_KEPT] = g->must;
}

const struct runner_ops ledger_ops = {
	.write = on_write, .act = on_act, .tell = on_tell, .ask = on_ask, .look = on_look
};

void ledger_restart(struct sim *s)
{
	for (unsigned i = 0; i < s->n_created; i++) {
		struct ledger *g = &s->ledger[i];
		const struct life *l = &s->w.rows[i].life;

		if (g->accepted && !s->w.has_row[i])
			world_break(&s->w, i, "acknowledged, and lost");
		if (g->ended && (l->state < SB_ENDING || l->reason != g->reason))
			world_break(&s->w, i, "its end was told, and is lost");
		if (g->stopped && !is_at_rest(l) && l->state < SB_ENDING)
			world_break(&s->w, i, "told as stopped, and the journal says otherwise");
		if (g->rolled_back && !l->rolled_back && is_at_rest(l))
			world_break(&s->w, i,
				    "told as rolled back, and the journal says otherwise");
		if (l->rolled_back && l->state == SB_STARTING) /* it may run already */
			g->void_files = 0;
		if (g->known && l->warm)
			world_break(&s->w, i, "told as running, and it is nobody's");
		if (s->w.has_row[i] && l->warm)
			g->ceiling_ns = LIFE_NEVER;
		if (is_at_rest(l)) { /* a second stop may have been lost */
			g->left_ns = l->expires_ns;
			g->ceiling_left_ns = l->ceiling_ns;
			g->start_ns = l->active_ns;
		}
		g->active_ns = least(g->active_ns, l->active_ns); /* a hold may have been lost */
		g->must = 0;
		g->busy = 0;
		g->wanted = false;
		g->taken = 0;
	}
}

void ledger_check(struct sim *s)
{
	uint64_t now = s->w.clk.boot;

	world_check(&s->w);
	for (unsigned i = 0; s->up && i < s->r.n_boxes; i++) {
		const struct life *l = &s->r.boxes[i].row.life;
		unsigned slot = world_slot(&l->id);
		const struct ledger *g = &s->ledger[slot];

		if (l->state == SB_STARTING && g->left_ns != LIFE_NEVER &&
		    now > later(g->start_ns, g->left_ns) + SIM_SWEEP_NS)
			world_break(&s->w, slot, "starts past its deadline");
		if (l->state == SB_STOPPED && !g->rebooted && l->rest_ns != LIFE_NEVER &&
		    s->real_ns - g->stopped_real_ns > l->rest_ns + SIM_SWEEP_NS)
			world_break(&s->w, slot, "rests for longer than it may");
		if (is_at_rest(l))
			continue;
		if (l->state < SB_ENDING && s->r.boxes[i].row.boot != s->w.boot)
			world_break(&s->w, slot, "goes on after a reboot");
		if (l->state < SB_ENDING && l->expires_ns < LIFE_NEVER - SIM_SWEEP_NS &&
		    now > l->expires_ns + SIM_SWEEP_NS)
			world_break(&s->w, slot, "lives past its deadline");
		if (l->state < SB_ENDING && l->lease_ns != LIFE_NEVER &&
		    now - l->renewed_ns > l->lease_ns + SIM_SWEEP_NS)
			world_break(&s->w, slot, "lives without a lease");
		if (l->state == SB_RUNNING && l->doze_ns != LIFE_NEVER && !g->busy && !l->looking &&
		    !l->pending_effect && l->retry_ns == LIFE_NEVER &&
		    now > latest(later(g->active_ns, l->doze_ns), g->still_ns) + SIM_SWEEP_NS)
			world_break(&s->w, slot, "idle, and does not doze");
		if ((l->state == SB_RUNNING || (l->state == SB_PAUSED && l->dozes)) &&
		    l->idle_ns != LIFE_NEVER && !g->busy && !g->wanted && !l->looking &&
		    l->pending_effect != DO_SNAPSHOT &&
		    now > latest(g->active_ns + l->idle_ns, l->dozes ? g->still_ns : 0) +
				    SIM_SWEEP_NS)
			world_break(&s->w, slot, "idle, and still there");
	}
}

bool ledger_is_settled(const struct sim *s)
{
	if (!s->up || s->w.n_writes || s->w.n_calls || s->w.n_news)
		return false;
	for (unsigned i = 0; i < s->r.n_boxes; i++) {
		const struct life *l = &s->r.boxes[i].row.life;

		if (l->pending_effect || l->retry_ns != LIFE_NEVER || l->state == SB_ENDING ||
		    l->state == SB_STOPPING || l->state == SB_STARTING ||
		    (l->state == SB_PENDING && !l->warm))
			return false;
	}
	return true;
}

void ledger_check_settled(struct sim *s)
{
	for (unsigned i = 0; i < s->r.n_boxes; i++) {
		const struct life *l = &s->r.boxes[i].row.life;
		unsigned slot = world_slot(&l->id);
		const struct fact *f = &s->w.facts[slot];
		const struct life *row = &s->w.rows[slot].life;
		const struct ledger *g = &s->ledger[slot];

		if (row->state != l->state || row->generation != l->generation ||
		    row->expires_ns != l->expires_ns)
			world_break(&s->w, slot, "the journal says otherwise");
		if (row->warm != l->warm)
			world_break(&s->w, slot, "the journal says it is another's");
		if (life_is_finished(l))
			continue;
		if (l->looking)
			world_break(&s->w, slot, "a look was forgotten");
		if (l->warm && (!f->alive || f->alien || f->claimed ||
				f->started_ns != l->started_ns || f->generation != l->generation))
			world_break(&s->w, slot, "said to be warm, and is not");
		if (l->warm)
			continue;
		if (row->rolled_back != l->rolled_back)
			world_break(&s->w, slot, "the journal says other files");
		if (l->state == SB_STOPPED && l->rolled_back && f->alive && !f->alien)
			world_break(&s->w, slot, "rolled back, and runs");
		if (l->state == SB_STOPPED && !l->rolled_back &&
		    (!f->record || f->alien || f->alive || f->cgroup ||
		     f->generation != l->generation || !f->synced || f->files != g->files))
			world_break(&s->w, slot, "said to be stopped, and is not");
		if (l->state == SB_STOPPED)
			continue;
		if (!lives(s, slot, l->generation) || !f->claimed)
			world_break(&s->w, slot, "said to live, and does not");
		if (f->frozen != (l->state == SB_PAUSED))
			world_break(&s->w, slot,
				    f->frozen ? "runs, and stands still" : "paused, and moves");
		if (l->state == SB_PAUSED && l->dozes && g->busy)
			world_break(&s->w, slot, "dozes, and a request is inside");
		if (l->state == SB_PAUSED && row->dozes != l->dozes)
			world_break(&s->w, slot, "the journal has another reason for its pause");
		if (l->entry && !f->entered)
			world_break(&s->w, slot, "its entrypoint was forgotten");
		if (l->entry && f->exited && l->on_exit == ON_EXIT_END)
			world_break(&s->w, slot, "its entrypoint's end was forgotten");
	}
}

void ledger_check_empty(struct sim *s)
{
	uint64_t strange = 0;

	for (unsigned i = 0; i < s->n_created; i++) {
		if (s->w.has_row[i] && !life_is_finished(&s->w.rows[i].life))
			world_break(&s->w, i, "does not end");
		if (s->w.facts[i].dir && !s->w.facts[i].alien)
			world_break(&s->w, i, "something of it is left");
	}
	for (unsigned i = 0; i < WORLD_SLOTS; i++)
		strange |= UINT64_C(1) << world_strange_range(i);
	if (s->r.ranges & ~strange)
		world_break(&s->w, 0, "an id range was not given back");
}
