/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <assert.h>
#include <string.h>

#define TICK_NS (UINT64_C(10) * NS_PER_MS)

/* splitmix64 */
uint64_t world_random(struct world *w, uint64_t below)
{
	uint64_t z = w->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % below;
}

struct id world_id(unsigned slot)
{
	return (struct id){ .noun = ID_SANDBOX, .bits = { [14] = (uint8_t)slot } };
}

unsigned world_slot(const struct id *id)
{
	return id->bits[14];
}

void world_break(struct world *w, unsigned slot, const char *what)
{
	if (w->broken)
		return;
	w->broken = what;
	w->broken_slot = slot;
}

uint64_t world_write(struct world *w, const struct runner_row *row)
{
	assert(w->n_writes < WORLD_WRITES);
	w->writes[w->n_writes++] = (struct pending_write){ world_slot(&row->life.id), *row };
	return w->committed + w->n_writes;
}

static bool is_at_rest(const struct life *l)
{
	return l->state == SB_STOPPING || l->state == SB_STOPPED || l->state == SB_STARTING;
}

/* Said here again and not taken from life.c: a test that asks the tested is none. */
static bool may_follow(const struct life *a, const struct life *b)
{
	static const unsigned next[SB_NUM_STATES] = {
		[SB_PENDING] = 1 << SB_RUNNING | 1 << SB_ENDING,
		[SB_RUNNING] = 1 << SB_PAUSED | 1 << SB_STOPPING | 1 << SB_ENDING,
		[SB_PAUSED] = 1 << SB_RUNNING | 1 << SB_STOPPING | 1 << SB_ENDING,
		[SB_STOPPING] = 1 << SB_STOPPED | 1 << SB_ENDING,
		[SB_STOPPED] = 1 << SB_STARTING | 1 << SB_ENDING,
		[SB_STARTING] = 1 << SB_RUNNING | 1 << SB_STOPPING | 1 << SB_ENDING,
		[SB_ENDING] = 1 << SB_TERMINATED | 1 << SB_FAILED,
	};

	if (a->state != b->state && !(next[a->state] & 1u << b->state))
		return false;
	/* made anew: a few times before it runs, or with other files */
	if (b->generation != a->generation &&
	    !(b->generation == a->generation + 1 &&
	      ((a->state == SB_PENDING && b->generation <= LIFE_GENERATIONS) ||
	       (a->state == SB_STARTING && a->rolled_back))))
		return false;
	if (a->rolled_back && !b->rolled_back && b->state != SB_RUNNING)
		return false;
	return a->state < SB_ENDING || (a->reason == b->reason && a->failed == b->failed);
}

void world_commit(struct world *w, unsigned n)
{
	if (n > w->n_writes)
		n = w->n_writes;
	for (unsigned i = 0; i < n; i++) {
		unsigned slot = w->writes[i].slot;

		if (w->has_row[slot] && !may_follow(&w->rows[slot].life, &w->writes[i].row.life))
			world_break(w, slot, "a row cannot follow the one before it");
		w->rows[slot] = w->writes[i].row;
		w->has_row[slot] = true;
	}
	w->n_writes -= n;
	memmove(w->writes, w->writes + n, w->n_writes * sizeof(w->writes[0]));
	w->committed += n;
}

void world_call(struct world *w, const struct runner_row *row, enum life_effect effect,
		uint64_t number)
{
	assert(w->n_calls < WORLD_CALLS);
	w->calls[w->n_calls++] = (struct call){ .number = number,
						.slot = world_slot(&row->life.id),
						.generation = row->life.generation,
						.range = row->range,
						.effect = effect };
}

void world_forget_call(struct world *w, unsigned at)
{
	w->calls[at] = w->calls[--w->n_calls];
}

bool world_is_keepers(enum life_effect effect)
{
	return effect != DO_CLAIM && effect != DO_ENTRYPOINT && effect != DO_LOOK;
}

void world_news(struct world *w, unsigned slot, enum life_kind kind)
{
	const struct fact *f = &w->facts[slot];

	assert(w->n_news < WORLD_NEWS);
	w->news[w->n_news++] = (struct news){ slot, kind, f->generation, f->birth, f->code };
}

static void kill_all(struct world *w, unsigned slot)
{
	struct fact *f = &w->facts[slot];

	if (!f->alive)
		return;
	world_news(w, slot, LIFE_GONE);
	if (slot < RUNNER_BOXES)
		w->promised[slot] = false;
	f->alive = f->frozen = f->claimed = f->entered = f->exited = f->busy = false;
	f->started_ns = 0;
}

/* By half: a directory without a record, of no generation. */
static enum life_outcome prepare(struct world *w, const struct call *c, bool half)
{
	struct fact *f = &w->facts[c->slot];

	if (f->alien)
		return LIFE_FAILED;
	if (f->dir) {
		world_break(w, c->slot, "prepared over what is left of it");
		return LIFE_FAILED;
	}
	for (unsigned i = 0; i < WORLD_SLOTS; i++)
		if (w->facts[i].has_range && w->facts[i].range == c->range)
			world_break(w, c->slot, "an id range twice");
	*f = (struct fact){ .dir = true, .files = ++w->births };
	if (half)
		return LIFE_FAILED;
	f->record = f->has_range = f->cgroup = true;
	f->generation = c->generation;
	f->range = c->range;
	return LIFE_OK;
}

static enum life_outcome start(struct world *w, struct call *c)
{
	struct fact *f = &w->facts[c->slot];

	if (!f->record || f->generation != c->generation || !f->cgroup)
		return LIFE_FAILED;
	if (f->alive)
		world_break(w, c->slot, "two PID 1s");
	if (w->rows[c->slot].life.state == SB_STOPPED)
		world_break(w, c->slot, "runs, and its start is not written");
	f->alive = true;
	f->synced = false;
	c->birth = w->births + 1;
	f->birth = ++w->births;
	f->started_ns = (w->clk.boot / TICK_NS + 1) * TICK_NS;
	c->started_ns = f->started_ns;
	return LIFE_OK;
}

static enum life_outcome remove_all(struct world *w, const struct call *c, bool half)
{
	struct fact *f = &w->facts[c->slot];

	if (!f->dir || (f->record && f->generation != c->generation))
		return LIFE_OK;
	if (f->alien)
		world_break(w, c->slot, "what is not ours was removed");
	if (f->alive && w->promised[c->slot] && w->rows[c->slot].life.state < SB_ENDING &&
	    !is_at_rest(&w->rows[c->slot].life))
		world_break(w, c->slot, "killed a running sandbox whose end is not written");
	if (is_at_rest(&w->rows[c->slot].life) && !w->rows[c->slot].life.rolled_back)
		world_break(w, c->slot, "removed the files of one that is stopped");
	kill_all(w, c->slot);
	if (half)
		return LIFE_FAILED;
	*f = (struct fact){};
	return LIFE_OK;
}

/* By half: killed, and neither synced nor without its cgroup. */
static enum life_outcome stop(struct world *w, const struct call *c, bool half)
{
	struct fact *f = &w->facts[c->slot];

	if (!f->record || f->generation != c->generation)
		return LIFE_FAILED;
	if (f->alien)
		world_break(w, c->slot, "what is not ours was stopped");
	if (f->alive && !is_at_rest(&w->rows[c->slot].life) &&
	    w->rows[c->slot].life.state < SB_ENDING)
		world_break(w, c->slot, "killed a running sandbox whose stop is not written");
	kill_all(w, c->slot);
	if (half)
		return LIFE_FAILED;
	f->synced = true;
	f->cgroup = false;
	return LIFE_OK;
}

static enum life_outcome restore(struct world *w, const struct call *c)
{
	struct fact *f = &w->facts[c->slot];

	if (!f->record || f->generation != c->generation)
		return LIFE_FAILED;
	if (f->alive || f->cgroup)
		world_break(w, c->slot, "restored, and was not stopped");
	if (!f->synced)
		world_break(w, c->slot, "restored from files that were not synced");
	f->cgroup = true;
	return LIFE_OK;
}

/* Its processes stand still meanwhile; a worker that dies leaves them so. */
static enum life_outcome snapshot(struct world *w, const struct call *c, bool half)
{
	struct fact *f = &w->facts[c->slot];

	if (!f->record || f->generation != c->generation)
		return LIFE_FAILED;
	f->frozen |= half && f->alive;
	return half ? LIFE_FAILED : LIFE_OK;
}

/* Claim, entrypoint, look, freeze, thaw: of one that lives, in this generation. */
static enum life_outcome turn(struct world *w, struct call *c)
{
	struct fact *f = &w->facts[c->slot];

	if (!f->alive || f->generation != c->generation)
		return LIFE_FAILED;
	if (!world_is_keepers(c->effect) && f->frozen)
		return LIFE_FAILED;
	if (c->effect == DO_CLAIM && f->claimed)
		world_break(w, c->slot, "claimed twice");
	if (c->effect == DO_CLAIM)
		f->claimed = true;
	else if (c->effect == DO_ENTRYPOINT)
		f->entered = true;
	else if (c->effect == DO_LOOK)
		c->busy = f->busy, c->birth = f->birth;
	else
		f->frozen = c->effect == DO_FREEZE;
	return LIFE_OK;
}

static enum life_outcome happen(struct world *w, struct call *c, bool half)
{
	if (!w->has_row[c->slot])
		world_break(w, c->slot, "an effect for what is not written");
	else if (w->rows[c->slot].life.generation != c->generation)
		world_break(w, c->slot, "an effect of a generation that is not written");
	if (c->effect == DO_PREPARE)
		return prepare(w, c, half);
	if (c->effect == DO_START)
		return start(w, c);
	if (c->effect == DO_REMOVE)
		return remove_all(w, c, half);
	if (c->effect == DO_STOP)
		return stop(w, c, half);
	if (c->effect == DO_RESTORE)
		return restore(w, c);
	if (c->effect == DO_SNAPSHOT)
		return snapshot(w, c, half);
	return turn(w, c);
}

void world_happen(struct world *w, struct call *c, bool fail)
{
	bool halves = c->effect == DO_PREPARE || c->effect == DO_REMOVE || c->effect == DO_STOP ||
		      c->effect == DO_SNAPSHOT;

	c->happened = true;
	c->outcome = LIFE_FAILED;
	if (!fail || (halves && world_random(w, 2)))
		c->outcome = happen(w, c, fail);
	if (fail)
		c->outcome = LIFE_FAILED;
}

void world_cut(struct world *w, struct call *c)
{
	unsigned how = (unsigned)world_random(w, 3);

	if (!c->happened && how)
		(void)happen(w, c, how == 2);
	c->happened = true;
	c->outcome = LIFE_UNKNOWN;
}

void world_die(struct world *w, unsigned slot)
{
	kill_all(w, slot);
}

void world_exit(struct world *w, unsigned slot, unsigned code)
{
	w->facts[slot].exited = true;
	w->facts[slot].code = code;
	world_news(w, slot, LIFE_EXITED);
}

/* Those that were always there are in the way of who forgets them; others are not, or
 * one that came while cayd was away would clash with what cayd has promised. */
uint32_t world_strange_range(unsigned slot)
{
	return slot < RUNNER_BOXES ? RUNNER_RANGES - 1 - slot : 1 + slot - RUNNER_BOXES;
}

void world_replace(struct world *w, unsigned slot, bool same_generation)
{
	struct fact *f = &w->facts[slot];
	struct life l = {};

	if (f->alien)
		return;
	if (slot < RUNNER_BOXES)
		l = w->rows[slot].life;
	kill_all(w, slot);
	*f = (struct fact){ .dir = true,
			    .record = true,
			    .alive = true,
			    .claimed = true,
			    .entered = true,
			    .cgroup = true,
			    .alien = !same_generation,
			    .generation = l.generation + (same_generation ? 0 : 100),
			    .has_range = true,
			    .range = world_strange_range(slot),
			    .birth = ++w->births,
			    .started_ns = l.started_ns + 7 * TICK_NS };
}

void world_reboot(struct world *w)
{
	for (unsigned i = 0; i < WORLD_SLOTS; i++) {
		kill_all(w, i);
		w->facts[i].cgroup = false;
	}
	w->n_news = 0;
	w->boot++;
	w->clk.boot = NS_PER_S + world_random(w, 100 * NS_PER_S);
}

void world_check(struct world *w)
{
	uint64_t ranges = 0;

	for (unsigned i = 0; i < WORLD_SLOTS; i++) {
		const struct fact *f = &w->facts[i];
		bool has_row = i < RUNNER_BOXES && w->has_row[i];

		if (f->has_range && ranges & UINT64_C(1) << f->range)
			world_break(w, i, "an id range is used twice");
		if (f->has_range)
			ranges |= UINT64_C(1) << f->range;
		if (f->dir && !f->alien && !has_row)
			world_break(w, i, "there is something nobody wrote down");
		if (f->dir && !f->alien && has_row && life_is_finished(&w->rows[i].life))
			world_break(w, i, "there is something left of one that is over");
		if (i >= RUNNER_BOXES && !f->alien)
			world_break(w, i, "a stranger is gone");
	}
}
