/* SPDX-License-Identifier: Apache-2.0 */
#include "life/life.h"

#include <assert.h>

#define TO(s) (1u << (s))

/* Every change of state there is; step() asserts it, a test walks it. */
static const unsigned life_allowed_states[SB_NUM_STATES] = {
	[SB_PENDING] = TO(SB_RUNNING) | TO(SB_ENDING),
	[SB_RUNNING] = TO(SB_PAUSED) | TO(SB_STOPPING) | TO(SB_ENDING),
	[SB_PAUSED] = TO(SB_RUNNING) | TO(SB_STOPPING) | TO(SB_ENDING),
	[SB_SUSPENDED] = TO(SB_ENDING),
	[SB_STOPPING] = TO(SB_STOPPED) | TO(SB_ENDING),
	[SB_STOPPED] = TO(SB_STARTING) | TO(SB_ENDING),
	[SB_STARTING] = TO(SB_RUNNING) | TO(SB_STOPPING) | TO(SB_ENDING),
	[SB_ENDING] = TO(SB_TERMINATED) | TO(SB_FAILED),
	[SB_TERMINATED] = 0,
	[SB_FAILED] = 0,
};

#define RETRY_FIRST_NS (UINT64_C(100) * 1000000)
#define RETRY_SHIFT_MAX 8 /* 25 s */
/* Idleness is written down at most so often: a tenth of it. */
#define IDLE_PARTS 10
/* And so is the time at rest; a machine that is on for an hour at a time counts too. */
#define REST_PARTS 10
#define REST_PART_MAX_NS (UINT64_C(3600) * 1000000000)

static uint64_t life_time_add(uint64_t from, uint64_t by)
{
	return by >= LIFE_NEVER - from ? LIFE_NEVER : from + by;
}

static uint64_t life_time_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Deadlines count from when the current owner received it. */
static void life_set_deadlines(struct life *l, uint64_t now, uint64_t ttl, uint64_t idle,
			       uint64_t max)
{
	l->born_ns = l->active_ns = l->saved_ns = now;
	l->ceiling_ns = life_time_add(now, max);
	l->expires_ns = life_time_min(life_time_add(now, ttl), l->ceiling_ns);
	l->idle_ns = idle;
	l->lease_ns = LIFE_NEVER;
	l->renewed_ns = now;
}

void life_set_lease(struct life *l, uint64_t now, uint64_t lease)
{
	l->lease_ns = lease ? lease : LIFE_NEVER;
	l->renewed_ns = now;
}

void life_set_rest(struct life *l, const struct life_terms *t)
{
	l->expire_stops = t->expire_stops;
	l->idle_stops = t->idle_stops;
	l->idle_is_work = t->idle_is_work;
	l->ttl_ns = t->ttl_ns;
	l->rest_ns = l->rest_left_ns = t->rest_ns ? t->rest_ns : LIFE_NEVER;
	l->doze_ns = t->doze_ns ? t->doze_ns : LIFE_NEVER;
}

struct life life_new(const struct id *id, uint64_t now, uint64_t ttl, uint64_t idle, uint64_t max)
{
	struct life l = { .id = *id, .generation = 1, .state = SB_PENDING, .retry_ns = LIFE_NEVER };

	life_set_deadlines(&l, now, ttl, idle, max);
	life_set_rest(&l, &(struct life_terms){ .ttl_ns = ttl });
	return l;
}

void life_reset_transient(struct life *l)
{
	l->claimed = false;
	l->pending_effect = DO_NOTHING;
	l->tries = 0;
	l->retry_ns = LIFE_NEVER;
	l->n_requests = 0;
	l->looking = l->look_is_void = l->wake_due = false;
}

/* A hold reaches into the future. */
static void life_touch(struct life *l, uint64_t now)
{
	if (l->active_ns < now)
		l->active_ns = now;
	l->saved_ns = l->active_ns;
}

static bool life_is_up(const struct life *l)
{
	return l->state == SB_RUNNING || l->state == SB_PAUSED;
}

static void life_forget_doze(struct life *l)
{
	l->dozes = l->wake_due = false;
}

/* Nothing is done to it, nor waits to be repeated. */
static bool life_is_still(const struct life *l)
{
	return l->pending_effect == DO_NOTHING && l->retry_ns == LIFE_NEVER;
}

bool life_is_used_up(const struct life *l)
{
	return l->state == SB_STOPPED && !l->expire_stops &&
	       !life_time_min(l->expires_ns, l->ceiling_ns);
}

bool life_is_warm_and_ready(const struct life *l)
{
	return l->warm && l->state == SB_PENDING && l->pending_effect == DO_NOTHING &&
	       l->started_ns;
}

/* Whether its deadlines count. */
static bool life_has_deadlines(const struct life *l)
{
	return l->state < SB_ENDING && !life_is_at_rest(l);
}

/* When it has been idle for too long. */
static uint64_t life_idle_end(const struct life *l)
{
	return (l->state == SB_RUNNING || life_is_dozing(l)) && !l->n_requests && !l->wake_due &&
			       l->pending_effect != DO_SNAPSHOT
		       ? life_time_add(l->active_ns, l->idle_ns)
		       : LIFE_NEVER;
}

/* When it has been idle for long enough to doze. */
static uint64_t life_doze_time(const struct life *l)
{
	return l->state == SB_RUNNING && !l->n_requests && life_is_still(l)
		       ? life_time_add(l->active_ns, l->doze_ns)
		       : LIFE_NEVER;
}

/* The first of both. */
static uint64_t life_idle_due(const struct life *l)
{
	return life_time_min(life_idle_end(l), life_doze_time(l));
}

/* When its time at rest is to be counted, or over. */
static uint64_t life_rest_tick(const struct life *l)
{
	return l->state == SB_STOPPED && l->rest_ns != LIFE_NEVER
		       ? l->active_ns + life_time_min(l->rest_left_ns,
						      life_time_min(l->rest_ns / REST_PARTS,
								    REST_PART_MAX_NS))
		       : LIFE_NEVER;
}

/* While it starts, expires_ns is what was left when that began. */
static uint64_t life_expiry(const struct life *l)
{
	return l->state == SB_STARTING ? life_time_add(l->active_ns, l->expires_ns)
	       : life_has_deadlines(l) ? l->expires_ns
				       : LIFE_NEVER;
}

uint64_t life_next_deadline(const struct life *l)
{
	uint64_t at = life_time_min(l->retry_ns, life_expiry(l));

	if (life_has_deadlines(l))
		at = life_time_min(at, life_time_add(l->renewed_ns, l->lease_ns));
	if (!l->looking)
		at = life_time_min(at, life_idle_due(l));
	return life_time_min(at, life_rest_tick(l));
}

static void life_set_state(struct life_out *out, enum sandbox_state state)
{
	out->next.state = (uint8_t)state;
	out->journal = true;
	out->notify = true;
}

static void life_begin_effect(struct life_out *out, enum life_effect effect)
{
	out->next.pending_effect = (uint8_t)effect;
	out->next.retry_ns = LIFE_NEVER;
	out->effect = effect;
}

/* The keeper is at it, or PID 1 may be: removing waits for the outcome. */
static bool life_is_effect_running(const struct life *l)
{
	return l->pending_effect != DO_NOTHING && l->pending_effect != DO_CLAIM &&
	       l->pending_effect != DO_ENTRYPOINT;
}

/* The effect that restores a state, where an effect may or may not have happened. */
static enum life_effect life_effect_of_state(const struct life *l)
{
	static const enum life_effect effects[SB_NUM_STATES] = {
		[SB_PENDING] = DO_REMOVE, [SB_RUNNING] = DO_THAW, [SB_PAUSED] = DO_FREEZE,
		[SB_STOPPING] = DO_STOP,  [SB_STOPPED] = DO_STOP, [SB_ENDING] = DO_REMOVE,
	};

	if (life_is_dozing(l)) /* a wake may have happened, and requests may be inside */
		return DO_THAW;
	return effects[l->state] == DO_STOP && l->rolled_back ? DO_REMOVE : effects[l->state];
}

static void life_begin_ending(struct life_out *out, unsigned reason, bool failed)
{
	if (out->next.state >= SB_ENDING)
		return;
	if (life_is_at_rest(&out->next)) /* they are no times */
		out->next.expires_ns = out->next.ceiling_ns = LIFE_NEVER;
	out->next.reason = (uint8_t)reason;
	out->next.failed = failed;
	life_set_state(out, SB_ENDING);
	out->sync = true; /* or it comes back to life after a crash */
	out->next.claimed = false;
	if (!life_is_effect_running(&out->next))
		life_begin_effect(out, DO_REMOVE);
}

/* Start over under the next generation, after removing the remains. */
static void life_create_again(struct life_out *out)
{
	if (out->next.generation >= LIFE_GENERATIONS)
		life_begin_ending(out, END_START_FAILED, true);
	else
		life_begin_effect(out, DO_REMOVE);
	out->next.started_ns = 0; /* its death is ours and no news */
	out->next.claimed = false;
}

static void life_schedule_retry(struct life *l, uint64_t now)
{
	unsigned shift = l->tries < RETRY_SHIFT_MAX ? l->tries : RETRY_SHIFT_MAX;

	l->tries = (uint8_t)(l->tries + (l->tries < UINT8_MAX));
	l->retry_ns = life_time_add(now, RETRY_FIRST_NS << shift);
}

static uint64_t life_time_left(uint64_t at, uint64_t now)
{
	return at == LIFE_NEVER ? LIFE_NEVER : at > now ? at - now : 0;
}

/* Effects under way are waited for: a late outcome must not be taken for one of the next run. */
static void life_begin_stopping(struct life_out *out, uint64_t now)
{
	struct life *l = &out->next;

	if (l->state == SB_STARTING) { /* what ran meanwhile counts */
		l->expires_ns = life_time_left(l->expires_ns, now - l->active_ns);
		l->ceiling_ns = life_time_left(l->ceiling_ns, now - l->active_ns);
	} else if (!life_is_at_rest(l)) {
		l->expires_ns = life_time_left(l->expires_ns, now);
		l->ceiling_ns = life_time_left(l->ceiling_ns, now);
	}
	l->started_ns = 0; /* its death is ours and no news */
	l->look_is_void = l->looking;
	life_forget_doze(l);
	l->tries = 0;
	l->retry_ns = LIFE_NEVER;
	life_set_state(out, SB_STOPPING);
	out->sync = true; /* or a crash finds it dead and removes its files */
	if (l->pending_effect == DO_NOTHING)
		life_begin_effect(out, life_effect_of_state(l));
}

static void life_on_stopped(struct life_out *out, enum life_outcome outcome, uint64_t now)
{
	if (outcome != LIFE_OK) {
		life_schedule_retry(&out->next, now);
		return;
	}
	out->next.tries = 0;
	if (out->next.state == SB_STOPPED)
		return;
	out->next.active_ns = out->next.saved_ns = now;
	out->next.rest_left_ns = out->next.rest_ns;
	life_set_state(out, SB_STOPPED);
	out->sync = true; /* a client that sees it also finds it after a crash */
}

static void life_prepare_next(struct life_out *out)
{
	out->next.generation++;
	out->journal = out->sync = true;
	life_begin_effect(out, DO_PREPARE);
}

static void life_on_removed(struct life_out *out, enum life_outcome outcome, uint64_t now)
{
	struct life *l = &out->next;

	if (l->state == SB_STARTING && outcome == LIFE_OK) {
		life_prepare_next(out);
	} else if (l->state == SB_STARTING) {
		life_begin_stopping(out, now);
	} else if (l->state == SB_STOPPING || l->state == SB_STOPPED) {
		life_on_stopped(out, outcome, now);
	} else if (outcome != LIFE_OK) {
		life_schedule_retry(l, now);
	} else if (l->state == SB_ENDING) {
		life_set_state(out, l->failed ? SB_FAILED : SB_TERMINATED);
		out->sync = true; /* a client that sees the end also finds its event */
	} else if (l->state == SB_PENDING) {
		l->tries = 0;
		life_prepare_next(out);
	}
}

/* Its time goes on, from when its start began. */
static void life_run_again(struct life_out *out, uint64_t now)
{
	struct life *l = &out->next;

	l->ceiling_ns = life_time_add(l->active_ns, l->ceiling_ns);
	l->expires_ns = life_time_min(life_time_add(l->active_ns, l->expires_ns), l->ceiling_ns);
	l->active_ns = l->saved_ns = l->renewed_ns = now;
	l->rolled_back = false;
	l->tries = 0;
	life_set_state(out, SB_RUNNING);
	out->sync = true;
}

/* An outcome of restore, prepare, start or claim; PID 1 may have died during the claim. */
static void life_on_start_step(struct life_out *out, const struct life_event *ev, uint64_t now)
{
	if (ev->effect == DO_PREPARE && ev->outcome == LIFE_UNKNOWN && out->next.rolled_back &&
	    out->next.tries < LIFE_GENERATIONS) {
		out->next.tries++; /* its id range may have been in use: it has another one now */
		life_begin_effect(out, DO_REMOVE);
	} else if (ev->outcome != LIFE_OK || (ev->effect == DO_CLAIM && !out->next.started_ns)) {
		life_begin_stopping(out, now);
	} else if (ev->effect == DO_RESTORE || ev->effect == DO_PREPARE) {
		life_begin_effect(out, DO_START);
	} else if (ev->effect == DO_START) {
		out->next.started_ns = ev->started_ns;
		life_begin_effect(out, DO_CLAIM);
	} else if (ev->effect == DO_CLAIM) {
		life_run_again(out, now);
		if (out->next.entry)
			life_begin_effect(out, DO_ENTRYPOINT);
	}
}

/* An outcome of prepare, start or claim. */
static void life_on_create_step(struct life_out *out, const struct life_event *ev, uint64_t now)
{
	bool dead = ev->effect == DO_CLAIM && !out->next.started_ns;

	/* a client that claimed a warm sandbox gets one, though this one failed */
	if (ev->outcome == LIFE_UNKNOWN || dead ||
	    (ev->outcome == LIFE_FAILED && out->next.claimed)) {
		life_create_again(out);
		return;
	}
	if (ev->outcome == LIFE_FAILED) {
		life_begin_ending(out, END_START_FAILED, true);
		return;
	}
	if (ev->effect == DO_PREPARE) {
		life_begin_effect(out, DO_START);
	} else if (ev->effect == DO_START) {
		out->next.started_ns = ev->started_ns;
		if (!out->next.warm)
			life_begin_effect(out, DO_CLAIM);
	} else if (ev->effect == DO_CLAIM) {
		out->next.active_ns = out->next.saved_ns = now;
		out->next.claimed = false;
		life_set_state(out, SB_RUNNING);
		out->sync = true; /* the client now puts data into it: it is never recreated */
		if (out->next.entry)
			life_begin_effect(out, DO_ENTRYPOINT);
	}
}

/* A request is inside, or it was used since it began to doze. */
static bool life_is_wanted(const struct life *l, uint64_t now)
{
	return l->wake_due || l->n_requests || now < life_time_add(l->active_ns, l->doze_ns);
}

/* An operation that is under way comes first, and its outcome leads here again. */
static void life_wake(struct life_out *out, uint64_t now)
{
	if (life_is_dozing(&out->next) && life_is_still(&out->next) &&
	    life_is_wanted(&out->next, now))
		life_begin_effect(out, DO_THAW);
}

/* A row that is lost is found out by the machine, so nobody waits for it. */
static void life_set_paused(struct life_out *out, bool paused, uint64_t now)
{
	struct life *l = &out->next;

	if (!paused || !l->dozes) /* to doze off is no activity */
		life_touch(l, now);
	out->sync = !l->dozes; /* else a client that sees it also finds it after a crash */
	if (!paused)
		life_forget_doze(l);
	life_set_state(out, paused ? SB_PAUSED : SB_RUNNING);
}

/* The state is set only after the effect; an effect with unknown outcome is undone by
 * requesting the effect of the current state. */
static void life_on_freeze_done(struct life_out *out, const struct life_event *ev, uint64_t now)
{
	struct life *l = &out->next;
	bool paused = l->state == SB_PAUSED;
	bool turns = paused !=
		     (ev->effect == DO_FREEZE); /* false: the effect restored the current state */

	out->notify = true;
	if (turns && !paused && l->dozes && (ev->outcome != LIFE_OK || life_is_wanted(l, now))) {
		life_forget_doze(l); /* a request came, or it is tried again after as long */
		life_touch(l, now);
		life_begin_effect(out, DO_THAW);
	} else if (ev->outcome != LIFE_OK && turns && !l->dozes) {
		life_begin_effect(out, life_effect_of_state(l));
	} else if (ev->outcome != LIFE_OK) {
		/* with a delay: while the keeper is not running, a request to it fails at once */
		life_schedule_retry(l, now);
	} else {
		l->tries = 0;
		if (turns)
			life_set_paused(out, !paused, now);
	}
}

/* A start that takes too long is taken back: the files stay. */
static void life_expire(struct life_out *out, uint64_t now)
{
	if (out->next.state == SB_STARTING ||
	    (out->next.expire_stops && out->next.state != SB_PENDING))
		life_begin_stopping(out, now);
	else
		life_begin_ending(out, END_TTL, false);
}

/* One that may not stop goes on: the end of an idle one is not what its owner wants. */
static void life_on_idle(struct life_out *out, bool may_stop, uint64_t now)
{
	if (now < life_idle_end(&out->next)) {
		out->next.dozes = true;
		life_begin_effect(out, DO_FREEZE);
	} else if (!out->next.idle_stops)
		life_begin_ending(out, END_IDLE, false);
	else if (may_stop)
		life_begin_stopping(out, now);
	else
		life_touch(&out->next, now);
}

/* The answer may be of a run before, or come after a request. */
static void life_on_looked(struct life_out *out, const struct life_event *ev, uint64_t now)
{
	struct life *l = &out->next;
	bool due = l->looking && !l->look_is_void && now >= life_idle_due(l);

	l->looking = l->look_is_void = false;
	if (!due)
		return;
	if (ev->outcome != LIFE_OK || ev->busy)
		life_touch(l, now);
	else
		life_on_idle(out, ev->may_stop, now);
}

/* A worker that died may have left it frozen. */
static void life_on_snapshot_done(struct life_out *out, enum life_outcome outcome, uint64_t now)
{
	out->notify = true;
	if (life_is_up(&out->next) && !out->next.dozes) /* nothing could come in meanwhile */
		life_touch(&out->next, now);
	if (outcome != LIFE_OK && life_is_up(&out->next))
		life_begin_effect(out, life_effect_of_state(&out->next));
	else
		life_wake(out, now);
}

static void life_on_effect_done(struct life_out *out, const struct life_event *ev, uint64_t now)
{
	struct life *l = &out->next;

	if (ev->effect == DO_LOOK) {
		life_on_looked(out, ev, now);
		return;
	}
	/* late or duplicate: not the outcome we are waiting for */
	if (ev->effect != l->pending_effect || ev->generation != l->generation ||
	    !l->pending_effect)
		return;
	l->pending_effect = DO_NOTHING;
	if (ev->effect == DO_REMOVE)
		life_on_removed(out, ev->outcome, now);
	else if (l->state == SB_ENDING)
		life_begin_effect(out, DO_REMOVE);
	else if (l->state == SB_STOPPING && ev->effect != life_effect_of_state(l))
		life_begin_stopping(out, now);
	else if (ev->effect == DO_SNAPSHOT)
		life_on_snapshot_done(out, ev->outcome, now);
	else if (l->state == SB_STOPPING || l->state == SB_STOPPED)
		life_on_stopped(out, ev->outcome, now);
	else if (l->state == SB_STARTING)
		life_on_start_step(out, ev, now);
	else if (l->state == SB_PENDING)
		life_on_create_step(out, ev, now);
	else if (life_is_up(l) && (ev->effect == DO_FREEZE || ev->effect == DO_THAW))
		life_on_freeze_done(out, ev, now);
	else if (ev->effect == DO_ENTRYPOINT && ev->outcome != LIFE_OK)
		life_begin_ending(out, END_START_FAILED, true);
}

static void life_begin_freeze_or_thaw(struct life_out *out, enum life_effect effect,
				      enum sandbox_state from)
{
	const struct life *l = &out->next;
	enum sandbox_state to = from == SB_RUNNING ? SB_PAUSED : SB_RUNNING;
	bool still = life_is_still(l);

	if (l->state == to && still)
		out->notify = true; /* it is so already */
	else if (l->state != from || !still)
		out->refused = CAY_E_STATE;
	else
		life_begin_effect(out, effect);
}

/* Whoever asks for it wants it to stay paused. */
static void life_pause(struct life_out *out)
{
	struct life *l = &out->next;

	if (life_is_dozing(l) ? life_is_still(l) : l->dozes && l->pending_effect == DO_FREEZE) {
		life_forget_doze(l);
		out->notify = true;
		out->journal = out->sync = l->state == SB_PAUSED;
	} else {
		life_begin_freeze_or_thaw(out, DO_FREEZE, SB_RUNNING);
	}
}

static void life_resume(struct life_out *out, uint64_t now)
{
	if (!out->next.dozes) {
		life_begin_freeze_or_thaw(out, DO_THAW, SB_PAUSED);
		return;
	}
	life_touch(&out->next, now);
	out->next.wake_due = true;
	out->notify = true;
	life_wake(out, now);
}

static void life_stop(struct life_out *out, uint64_t now)
{
	if (out->next.state == SB_STOPPING || out->next.state == SB_STOPPED)
		out->notify = true; /* it is so already */
	else if (!life_is_up(&out->next))
		out->refused = CAY_E_STATE;
	else
		life_begin_stopping(out, now);
}

static void life_start(struct life_out *out, uint64_t max, uint64_t now)
{
	struct life *l = &out->next;

	if (life_is_up(l) || l->state == SB_STARTING) {
		out->notify = true; /* it is so already */
	} else if (l->state != SB_STOPPED || !life_is_still(l) || life_is_used_up(l)) {
		out->refused = CAY_E_STATE;
	} else {
		l->active_ns = l->saved_ns = now;
		if (l->expire_stops) {
			l->ceiling_ns = LIFE_NEVER;
			l->expires_ns = l->ttl_ns;
		}
		l->ceiling_ns = life_time_min(l->ceiling_ns, max ? max : LIFE_NEVER);
		l->expires_ns = life_time_min(l->expires_ns, l->ceiling_ns);
		life_set_state(out, SB_STARTING);
		out->sync = true; /* or a crash finds processes of one that is stopped */
		life_begin_effect(out, l->rolled_back ? DO_REMOVE : DO_RESTORE);
	}
}

bool life_can_be_copied(const struct life *l)
{
	return (life_is_up(l) || (l->state == SB_STOPPED && !l->rolled_back)) && life_is_still(l);
}

static void life_snapshot(struct life_out *out)
{
	if (!life_can_be_copied(&out->next))
		out->refused = CAY_E_STATE;
	else
		life_begin_effect(out, DO_SNAPSHOT);
}

static void life_roll_back(struct life_out *out, uint64_t now)
{
	struct life *l = &out->next;

	if (life_is_up(l)) {
		l->rolled_back = true;
		life_begin_stopping(out, now);
	} else if (l->state == SB_STOPPED && life_is_still(l)) {
		l->rolled_back = true;
		out->notify = out->journal = out->sync = true;
	} else {
		out->refused = CAY_E_STATE;
	}
}

/* While it is stopped, its times are durations. */
static void life_extend_ttl(struct life_out *out, uint64_t until, uint64_t now)
{
	if (out->next.state == SB_STOPPED) {
		until = life_time_left(until, now);
		now = 0;
	}
	if (until <= now || until > out->next.ceiling_ns) {
		out->refused = CAY_E_INVALID;
		return;
	}
	out->next.expires_ns = until;
	out->notify = out->journal = out->sync = true;
}

/* The time of a renewal is not journaled: a restart renews a lease, because no client could
 * renew it meanwhile. */
static void life_renew_lease(struct life_out *out, uint64_t lease, uint64_t now)
{
	/* of one that does not run yet even its owner may not be journaled */
	bool changed = lease != out->next.lease_ns || out->next.state == SB_PENDING;

	out->next.lease_ns = lease;
	out->next.renewed_ns = now;
	out->notify = true;
	out->journal = out->sync = changed;
}

/* A shorter hold replaces a longer one. */
static void life_hold(struct life_out *out, uint64_t until, uint64_t now)
{
	if (!life_is_up(&out->next)) {
		out->refused = CAY_E_STATE;
		return;
	}
	out->next.active_ns = out->next.saved_ns = until > now ? until : now;
	out->next.wake_due = out->next.dozes;
	out->notify = out->journal = out->sync = true;
	life_wake(out, now);
}

/* Ownership is journaled only once it runs; after an earlier crash it is still warm. */
static void life_claim_warm(struct life_out *out, const struct life_terms *t, uint64_t now)
{
	struct life *l = &out->next;

	if (!life_is_warm_and_ready(l)) {
		out->refused = CAY_E_STATE;
		return;
	}
	life_set_deadlines(l, now, t->ttl_ns, t->idle_ns, t->max_ns);
	life_set_lease(l, now, t->lease_ns);
	life_set_rest(l, t);
	l->entry = t->entry;
	l->on_exit = t->on_exit;
	l->warm = false;
	l->claimed = true;
	life_begin_effect(out, DO_CLAIM);
}

static void life_count_request(struct life_out *out, bool enter, uint64_t now)
{
	struct life *l = &out->next;

	if (enter)
		l->n_requests++;
	else if (l->n_requests)
		l->n_requests--;
	if (enter && l->dozes)
		l->wake_due = true;
	if (life_is_at_rest(l)) /* a late one, of the run before */
		return;
	if (l->active_ns < now)
		l->active_ns = now;
	if (l->idle_ns != LIFE_NEVER &&
	    now >= life_time_add(l->saved_ns, l->idle_ns / IDLE_PARTS)) {
		l->saved_ns = now;
		out->journal = true;
	}
	life_wake(out, now);
}

static void life_count_rest(struct life_out *out, uint64_t now)
{
	struct life *l = &out->next;

	l->rest_left_ns = life_time_left(l->rest_left_ns, now - l->active_ns);
	l->active_ns = l->saved_ns = now;
	out->journal = true;
	if (!l->rest_left_ns)
		life_begin_ending(out, END_IDLE, false);
}

static void life_on_deadline(struct life_out *out, bool may_stop, uint64_t now)
{
	struct life *l = &out->next;

	if (now >= life_expiry(l))
		life_expire(out, now);
	else if (life_has_deadlines(l) && now >= life_time_add(l->renewed_ns, l->lease_ns))
		life_begin_ending(out, END_LEASE, false);
	else if (!l->looking && now >= life_idle_due(l) && l->idle_is_work &&
		 l->state == SB_RUNNING) {
		l->looking = true;
		out->effect = DO_LOOK;
	} else if (!l->looking && now >= life_idle_due(l))
		life_on_idle(out, may_stop, now);
	else if (now >= life_rest_tick(l))
		life_count_rest(out, now);
	else if (now >= l->retry_ns) {
		/* the write may be what failed */
		out->journal = out->sync = l->state == SB_STOPPING;
		life_begin_effect(out, life_effect_of_state(l));
	}
}

/* It ran on while cayd was down.  If an effect was done but the state not written, the state
 * decides; a frozen sandbox had its entrypoint before. */
static void life_adopt_running(struct life_out *out, const struct life_observation *f, uint64_t now)
{
	struct life *l = &out->next;
	bool paused = l->state == SB_PAUSED;

	life_touch(l, now);                   /* activity in the meantime was not counted */
	l->dozes = l->dozes && paused;        /* it was about to, or that was called off */
	if (paused && l->dozes && !f->frozen) /* it was woken, which was not written */
		life_set_paused(out, false, now);
	else if (f->frozen != paused)
		life_begin_effect(out, life_effect_of_state(l));
	else if (!paused && l->entry && !f->entrypoint_started)
		life_begin_effect(out, DO_ENTRYPOINT);
}

/* Its files were synced when it stopped, so another boot does not matter.  Only a start of this
 * boot goes on, and only if PID 1 has its settings. */
static void life_on_observed_at_rest(struct life_out *out, const struct life_observation *f,
				     uint64_t now)
{
	struct life *l = &out->next;
	bool alive = f->same_boot && f->processes && f->started_ns;

	/* of another clock, or of a start that has not begun to run */
	if (!f->same_boot || (l->state == SB_STARTING && !f->processes)) {
		l->active_ns = l->saved_ns = now;
		out->journal = true;
	}
	if (!f->exists && !l->rolled_back) {
		life_begin_ending(out, END_NODE_LOST, true);
	} else if (l->state == SB_STARTING && alive && f->claimed) {
		l->started_ns = f->started_ns;
		life_run_again(out, now);
	} else if (l->state == SB_STARTING) {
		life_begin_stopping(out, now);
	} else if (l->state == SB_STOPPING || f->processes) {
		life_begin_effect(out, life_effect_of_state(l));
	}
}

/* After a restart.  Only a sandbox with our generation and the same start of PID 1 is ours. */
static void life_on_observed(struct life_out *out, const struct life_observation *f, uint64_t now)
{
	struct life *l = &out->next;
	bool alive = f->exists && f->processes && f->started_ns;

	l->renewed_ns = now; /* no client could renew a lease while control was down */
	if (l->pending_effect != DO_NOTHING)
		return; /* another event came before PID 1's reply */
	if (l->state == SB_ENDING)
		life_begin_effect(out, DO_REMOVE);
	else if (life_is_at_rest(l))
		life_on_observed_at_rest(out, f, now);
	else if (!f->same_boot)
		life_begin_ending(out, END_NODE_LOST, true);
	else if (l->state == SB_PENDING && l->warm && alive && f->unclaimed)
		l->started_ns = f->started_ns;
	else if (l->state == SB_PENDING && !l->warm && alive && (f->claimed || f->frozen)) {
		/* a frozen PID 1 cannot answer, but only running sandboxes are frozen */
		l->started_ns = f->started_ns;
		life_set_state(out, SB_RUNNING);
		out->sync = true;
	} else if (l->state == SB_PENDING)
		life_create_again(out);
	else if (!alive || f->started_ns != l->started_ns)
		life_begin_ending(out, END_NODE_LOST, true);
	if (life_is_up(l))
		life_adopt_running(out, f, now);
}

/* Requests for a sandbox that goes on.  END is not one of them: it may always be repeated. */
static bool life_event_is_request(enum life_kind kind)
{
	return kind == LIFE_PAUSE || kind == LIFE_RESUME || kind == LIFE_EXTEND ||
	       kind == LIFE_RENEW || kind == LIFE_HOLD || kind == LIFE_ENTER ||
	       kind == LIFE_CLAIM || kind == LIFE_STOP || kind == LIFE_START ||
	       kind == LIFE_SNAPSHOT || kind == LIFE_ROLLBACK;
}

static bool life_refuses_request(const struct life *l, enum life_kind kind)
{
	/* a warm sandbox takes only LIFE_CLAIM; one whose owner is not yet journaled, no request */
	if (l->state >= SB_ENDING || l->claimed || (l->warm && kind != LIFE_CLAIM))
		return true;
	return life_is_at_rest(l) && kind != LIFE_STOP && kind != LIFE_START &&
	       kind != LIFE_SNAPSHOT && kind != LIFE_ROLLBACK &&
	       (kind != LIFE_EXTEND || l->state != SB_STOPPED);
}

static void life_on_gone(struct life_out *out, const struct life_event *ev)
{
	const struct life *l = &out->next;

	if (ev->generation != l->generation || !l->started_ns)
		return;
	if (l->claimed || l->state == SB_STARTING)
		out->next.started_ns = 0; /* the claim's outcome is waited for */
	else                              /* one that was never there has failed to start */
		life_begin_ending(
			out, l->state == SB_PENDING && !l->warm ? END_START_FAILED : ev->reason,
			true);
}

void life_step(const struct life *l, const struct life_event *ev, uint64_t now,
	       struct life_out *out)
{
	*out = (struct life_out){ .next = *l };
	if (life_event_is_request(ev->kind) && life_refuses_request(l, ev->kind))
		out->refused = CAY_E_STATE;
	if (life_is_finished(l) || out->refused)
		return;
	switch (ev->kind) {
	case LIFE_ACCEPTED:
		if (l->state != SB_PENDING || l->pending_effect != DO_NOTHING)
			break;
		out->journal = out->sync = out->notify = true;
		life_begin_effect(out, DO_PREPARE);
		break;
	case LIFE_DONE:
		life_on_effect_done(out, ev, now);
		break;
	case LIFE_END:
		life_begin_ending(out, ev->reason, false);
		break;
	case LIFE_GONE:
		life_on_gone(out, ev);
		break;
	case LIFE_EXITED:
		if (l->on_exit == ON_EXIT_END && !life_is_at_rest(l))
			life_begin_ending(out, ev->reason, ev->code != 0);
		break;
	case LIFE_PAUSE:
		life_pause(out);
		break;
	case LIFE_RESUME:
		life_resume(out, now);
		break;
	case LIFE_STOP:
		life_stop(out, now);
		break;
	case LIFE_START:
		life_start(out, ev->max_ns, now);
		break;
	case LIFE_SNAPSHOT:
		life_snapshot(out);
		break;
	case LIFE_ROLLBACK:
		life_roll_back(out, now);
		break;
	case LIFE_EXTEND:
		life_extend_ttl(out, ev->until_ns, now);
		break;
	case LIFE_RENEW:
		life_renew_lease(out, ev->lease_ns, now);
		break;
	case LIFE_HOLD:
		life_hold(out, ev->until_ns, now);
		break;
	case LIFE_ENTER:
	case LIFE_LEAVE:
		life_count_request(out, ev->kind == LIFE_ENTER, now);
		break;
	case LIFE_CLAIM:
		life_claim_warm(out, &ev->terms, now);
		break;
	case LIFE_DEADLINE:
		life_on_deadline(out, ev->may_stop, now);
		break;
	case LIFE_OBSERVED:
		life_on_observed(out, &ev->observed, now);
		break;
	case LIFE_KINDS:
		break;
	}
	assert(out->next.state == l->state || life_allowed_states[l->state] & TO(out->next.state));
}
