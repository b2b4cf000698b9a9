/* SPDX-License-Identifier: Apache-2.0 */
#include "life/life.h"

#include <assert.h>

#define TO(s) (1u << (s))

/* Every change of state there is; step() asserts it, a test walks it. */
static const unsigned may_become[SB_NUM_STATES] = {
	[SB_PENDING] = TO(SB_RUNNING) | TO(SB_ENDING),
	[SB_RUNNING] = TO(SB_PAUSED) | TO(SB_ENDING),
	[SB_PAUSED] = TO(SB_RUNNING) | TO(SB_ENDING),
	[SB_SUSPENDED] = TO(SB_ENDING),
	[SB_ENDING] = TO(SB_TERMINATED) | TO(SB_FAILED),
	[SB_TERMINATED] = 0,
	[SB_FAILED] = 0,
};

#define RETRY_FIRST_NS (UINT64_C(100) * 1000000)
#define RETRY_SHIFT_MAX 8 /* 25 s */
/* Idleness is written down at most so often: a tenth of it. */
#define IDLE_PARTS 10

static uint64_t later(uint64_t from, uint64_t by)
{
	return by >= LIFE_NEVER - from ? LIFE_NEVER : from + by;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* It is as old as whose it is has had it. */
static void set_deadlines(struct life *l, uint64_t now, uint64_t ttl, uint64_t idle, uint64_t max)
{
	l->born_ns = l->active_ns = l->saved_ns = now;
	l->ceiling_ns = later(now, max);
	l->expires_ns = least(later(now, ttl), l->ceiling_ns);
	l->idle_ns = idle;
}

struct life life_new(const struct id *id, uint64_t now, uint64_t ttl, uint64_t idle, uint64_t max)
{
	struct life l = { .id = *id, .generation = 1, .state = SB_PENDING, .retry_ns = LIFE_NEVER };

	set_deadlines(&l, now, ttl, idle, max);
	return l;
}

void life_wake(struct life *l)
{
	l->taken = false;
	l->doing = DO_NOTHING;
	l->tries = 0;
	l->retry_ns = LIFE_NEVER;
	l->busy = 0;
}

static bool is_up(const struct life *l)
{
	return l->state == SB_RUNNING || l->state == SB_PAUSED;
}

bool life_ready(const struct life *l)
{
	return l->warm && l->state == SB_PENDING && l->doing == DO_NOTHING && l->started_ns;
}

static bool idles(const struct life *l)
{
	return l->state == SB_RUNNING && l->idle_ns != LIFE_NEVER && !l->busy;
}

uint64_t life_due(const struct life *l)
{
	uint64_t at = l->retry_ns;

	if (l->state < SB_ENDING)
		at = least(at, l->expires_ns);
	if (idles(l))
		at = least(at, later(l->active_ns, l->idle_ns));
	return at;
}

static void become(struct life_out *out, enum sandbox_state state)
{
	out->next.state = (uint8_t)state;
	out->journal = true;
	out->tell = true;
}

static void begin(struct life_out *out, enum life_effect effect)
{
	out->next.doing = (uint8_t)effect;
	out->next.retry_ns = LIFE_NEVER;
	out->effect = effect;
}

/* The keeper is at it, or PID 1 may be: removing waits for the outcome. */
static bool is_busy(const struct life *l)
{
	return l->doing != DO_NOTHING && l->doing != DO_CLAIM && l->doing != DO_ENTRY;
}

static void end(struct life_out *out, unsigned reason, bool failed)
{
	if (out->next.state >= SB_ENDING)
		return;
	out->next.reason = (uint8_t)reason;
	out->next.failed = failed;
	become(out, SB_ENDING);
	out->sync = true; /* or it comes back to life after a crash */
	out->next.taken = false;
	if (!is_busy(&out->next))
		begin(out, DO_REMOVE);
}

/* Again from the beginning, under another name: what there is goes first. */
static void make_anew(struct life_out *out)
{
	if (out->next.generation >= LIFE_GENERATIONS)
		end(out, END_START_FAILED, true);
	else
		begin(out, DO_REMOVE);
	out->next.started_ns = 0; /* its death is ours and no news */
	out->next.taken = false;
}

static void try_later(struct life *l, uint64_t now)
{
	unsigned shift = l->tries < RETRY_SHIFT_MAX ? l->tries : RETRY_SHIFT_MAX;

	l->tries = (uint8_t)(l->tries + (l->tries < UINT8_MAX));
	l->retry_ns = later(now, RETRY_FIRST_NS << shift);
}

static void removed(struct life_out *out, enum life_outcome outcome, uint64_t now)
{
	struct life *l = &out->next;

	if (outcome != LIFE_OK) {
		try_later(l, now);
	} else if (l->state == SB_ENDING) {
		become(out, l->failed ? SB_FAILED : SB_TERMINATED);
		out->sync = true; /* who hears of the end finds the event about it */
	} else if (l->state == SB_PENDING) {
		l->generation++;
		l->tries = 0;
		out->journal = out->sync = true;
		begin(out, DO_PREPARE);
	}
}

/* One of the steps that make a sandbox. */
static void made(struct life_out *out, const struct life_event *ev, uint64_t now)
{
	bool dead = ev->effect == DO_CLAIM && !out->next.started_ns;

	/* who takes a warm one gets one, though this one has gone bad */
	if (ev->outcome == LIFE_UNKNOWN || dead ||
	    (ev->outcome == LIFE_FAILED && out->next.taken)) {
		make_anew(out);
		return;
	}
	if (ev->outcome == LIFE_FAILED) {
		end(out, END_START_FAILED, true);
		return;
	}
	if (ev->effect == DO_PREPARE) {
		begin(out, DO_START);
	} else if (ev->effect == DO_START) {
		out->next.started_ns = ev->started_ns;
		if (!out->next.warm)
			begin(out, DO_CLAIM);
	} else if (ev->effect == DO_CLAIM) {
		out->next.active_ns = out->next.saved_ns = now;
		out->next.taken = false;
		become(out, SB_RUNNING);
		out->sync = true; /* who is told puts things into it: it is never made anew */
		if (out->next.entry)
			begin(out, DO_ENTRY);
	}
}

/* What makes it so, where an act may or may not have happened. */
static const enum life_effect as_it_says[SB_NUM_STATES] = {
	[SB_PENDING] = DO_REMOVE,
	[SB_RUNNING] = DO_THAW,
	[SB_PAUSED] = DO_FREEZE,
	[SB_ENDING] = DO_REMOVE,
};

/* State is set only after the act; what may or may not have happened is undone by
 * asking for what the state says. */
static void froze(struct life_out *out, const struct life_event *ev, uint64_t now)
{
	struct life *l = &out->next;
	bool paused = l->state == SB_PAUSED;
	bool turns = paused != (ev->effect == DO_FREEZE); /* or it asked for what the state says */

	out->tell = true;
	if (ev->outcome != LIFE_OK && turns) {
		begin(out, as_it_says[l->state]);
	} else if (ev->outcome != LIFE_OK) {
		/* not at once: while there is no keeper, asking it fails at once too */
		try_later(l, now);
	} else {
		l->tries = 0;
		if (!turns)
			return;
		l->active_ns = l->saved_ns = now;
		become(out, paused ? SB_RUNNING : SB_PAUSED);
		out->sync = true; /* who hears it, finds it so after a crash */
	}
}

static void done(struct life_out *out, const struct life_event *ev, uint64_t now)
{
	struct life *l = &out->next;

	/* late, or said twice: it is not what we are waiting for */
	if (ev->effect != l->doing || ev->generation != l->generation || !l->doing)
		return;
	l->doing = DO_NOTHING;
	if (ev->effect == DO_REMOVE)
		removed(out, ev->outcome, now);
	else if (l->state == SB_ENDING)
		begin(out, DO_REMOVE);
	else if (l->state == SB_PENDING)
		made(out, ev, now);
	else if (is_up(l) && (ev->effect == DO_FREEZE || ev->effect == DO_THAW))
		froze(out, ev, now);
	else if (ev->effect == DO_ENTRY && ev->outcome != LIFE_OK)
		end(out, END_START_FAILED, true);
}

static void turn(struct life_out *out, enum life_effect effect, enum sandbox_state from)
{
	const struct life *l = &out->next;
	enum sandbox_state to = from == SB_RUNNING ? SB_PAUSED : SB_RUNNING;
	bool still = l->doing == DO_NOTHING && l->retry_ns == LIFE_NEVER;

	if (l->state == to && still)
		out->tell = true; /* it is so already */
	else if (l->state != from || !still)
		out->refused = CAY_E_STATE;
	else
		begin(out, effect);
}

static void extend(struct life_out *out, uint64_t until, uint64_t now)
{
	if (until <= now || until > out->next.ceiling_ns) {
		out->refused = CAY_E_INVALID;
		return;
	}
	out->next.expires_ns = until;
	out->tell = out->journal = out->sync = true;
}

/* Nothing is written before it runs: a crash until then is none of whose it is to be. */
static void take(struct life_out *out, const struct life_terms *t, uint64_t now)
{
	struct life *l = &out->next;

	if (!life_ready(l)) {
		out->refused = CAY_E_STATE;
		return;
	}
	set_deadlines(l, now, t->ttl_ns, t->idle_ns, t->max_ns);
	l->entry = t->entry;
	l->on_exit = t->on_exit;
	l->warm = false;
	l->taken = true;
	begin(out, DO_CLAIM);
}

static void moved(struct life_out *out, bool enter, uint64_t now)
{
	struct life *l = &out->next;

	if (enter)
		l->busy++;
	else if (l->busy)
		l->busy--;
	l->active_ns = now;
	if (l->idle_ns != LIFE_NEVER && now - l->saved_ns >= l->idle_ns / IDLE_PARTS) {
		l->saved_ns = now;
		out->journal = true;
	}
}

static void due(struct life_out *out, uint64_t now)
{
	struct life *l = &out->next;

	if (l->state < SB_ENDING && now >= l->expires_ns)
		end(out, END_TTL, false);
	else if (idles(l) && now >= later(l->active_ns, l->idle_ns))
		end(out, END_IDLE, false);
	else if (now >= l->retry_ns)
		begin(out, as_it_says[l->state]);
}

/* It lived on without us.  Where the act was done and the state was not written, the
 * state decides; who was frozen had its entrypoint before. */
static void adopted(struct life_out *out, const struct life_facts *f, uint64_t now)
{
	struct life *l = &out->next;
	bool paused = l->state == SB_PAUSED;

	l->active_ns = now; /* what went on inside meanwhile, nobody counted */
	if (f->frozen != paused)
		begin(out, as_it_says[l->state]);
	else if (!paused && l->entry && !f->entered)
		begin(out, DO_ENTRY);
}

/* After a restart.  Only what has our generation and PID 1's own start is ours. */
static void found(struct life_out *out, const struct life_facts *f, uint64_t now)
{
	struct life *l = &out->next;
	bool alive = f->there && f->processes && f->started_ns;

	if (l->doing != DO_NOTHING)
		return; /* somebody was quicker than PID 1's answer */
	if (l->state == SB_ENDING)
		begin(out, DO_REMOVE);
	else if (!f->same_boot)
		end(out, END_NODE_LOST, true);
	else if (l->state == SB_PENDING && l->warm && alive && f->unclaimed)
		l->started_ns = f->started_ns;
	else if (l->state == SB_PENDING && !l->warm && alive && (f->answers || f->frozen)) {
		/* one that is frozen cannot answer, but only who was running is frozen */
		l->started_ns = f->started_ns;
		become(out, SB_RUNNING);
		out->sync = true;
	} else if (l->state == SB_PENDING)
		make_anew(out);
	else if (!alive || f->started_ns != l->started_ns)
		end(out, END_NODE_LOST, true);
	if (is_up(l))
		adopted(out, f, now);
}

/* What somebody wants of a sandbox that goes on; END is not among them, it may always
 * be said again. */
static bool is_wish(enum life_kind kind)
{
	return kind == LIFE_PAUSE || kind == LIFE_RESUME || kind == LIFE_EXTEND ||
	       kind == LIFE_ENTER || kind == LIFE_TAKE;
}

void life_step(const struct life *l, const struct life_event *ev, uint64_t now,
	       struct life_out *out)
{
	*out = (struct life_out){ .next = *l };
	/* of one that is nobody's, or not known to be somebody's, only one thing is wanted */
	if (is_wish(ev->kind) &&
	    (l->state >= SB_ENDING || l->taken || (l->warm && ev->kind != LIFE_TAKE)))
		out->refused = CAY_E_STATE;
	if (life_over(l) || out->refused)
		return;
	switch (ev->kind) {
	case LIFE_ACCEPTED:
		if (l->state != SB_PENDING || l->doing != DO_NOTHING)
			break;
		out->journal = out->sync = out->tell = true;
		begin(out, DO_PREPARE);
		break;
	case LIFE_DONE:
		done(out, ev, now);
		break;
	case LIFE_END:
		end(out, ev->reason, false);
		break;
	case LIFE_GONE:
		if (ev->generation != l->generation || !l->started_ns)
			break;
		if (l->taken)
			out->next.started_ns = 0; /* the claim's outcome is waited for */
		else /* one that was never there has failed to start, whatever ended it */
			end(out, l->state == SB_PENDING && !l->warm ? END_START_FAILED : ev->reason,
			    true);
		break;
	case LIFE_EXITED:
		if (l->on_exit == ON_EXIT_END)
			end(out, ev->reason, ev->code != 0);
		break;
	case LIFE_PAUSE:
		turn(out, DO_FREEZE, SB_RUNNING);
		break;
	case LIFE_RESUME:
		turn(out, DO_THAW, SB_PAUSED);
		break;
	case LIFE_EXTEND:
		extend(out, ev->until_ns, now);
		break;
	case LIFE_ENTER:
	case LIFE_LEAVE:
		moved(out, ev->kind == LIFE_ENTER, now);
		break;
	case LIFE_TAKE:
		take(out, &ev->terms, now);
		break;
	case LIFE_DUE:
		due(out, now);
		break;
	case LIFE_FACTS:
		found(out, &ev->facts, now);
		break;
	case LIFE_KINDS:
		break;
	}
	assert(out->next.state == l->state || may_become[l->state] & TO(out->next.state));
}
