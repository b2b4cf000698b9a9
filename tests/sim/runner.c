/* SPDX-License-Identifier: Apache-2.0 */
#include "runner.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

struct runner_box *runner_find(struct runner *r, const struct id *id)
{
	for (unsigned i = 0; i < r->n_boxes; i++)
		if (id_eq(&r->boxes[i].row.life.id, id))
			return &r->boxes[i];
	return NULL;
}

static void carry_out(struct runner *r, const struct runner_todo *t)
{
	struct runner_box *b = &r->boxes[t->box];

	if (t->tell)
		r->ops->tell(r->arg, &t->as.life, t->step);
	if (t->effect == DO_NOTHING)
		return;
	b->open[t->effect] = ++r->calls;
	r->ops->act(r->arg, &t->as, t->effect, r->calls);
}

/* `next` replaces the sandbox at once.  What it asks for waits for the write, where it
 * is one to wait for, and for those before it. */
static enum cay_code step(struct runner *r, struct runner_box *b, const struct life_event *ev)
{
	struct life before = b->row.life;
	struct runner_todo t;
	struct life_out out;

	life_step(&before, ev, clk_boot_ns(r->clk), &out);
	if (out.refused)
		return out.refused;
	b->row.life = out.next;
	if (out.journal) {
		b->row.boot = r->boot;
		uint64_t number = r->ops->write(r->arg, &b->row);

		if (out.sync)
			b->waits = number;
	}
	if (life_is_finished(&out.next) && !life_is_finished(&before))
		r->ranges &= ~(UINT64_C(1) << b->row.range);
	r->ops->look(r->arg, &before, ev, &out, ++r->steps);
	t = (struct runner_todo){ .box = (unsigned)(b - r->boxes),
				  .after = b->waits,
				  .step = r->steps,
				  .effect = out.effect,
				  .tell = out.notify,
				  .as = b->row };
	if (t.after <= r->durable) {
		carry_out(r, &t);
	} else if (t.tell || t.effect != DO_NOTHING) {
		assert(r->n_todo < RUNNER_WAITING);
		r->todo[r->n_todo++] = t;
	}
	return CAY_OK;
}

void runner_durable(struct runner *r, uint64_t number)
{
	struct runner_todo ready[RUNNER_WAITING];
	unsigned n = 0, kept = 0;

	/* carrying out may step again: the list is whole before */
	r->durable = number;
	for (unsigned i = 0; i < r->n_todo; i++) {
		if (r->todo[i].after <= number)
			ready[n++] = r->todo[i];
		else
			r->todo[kept++] = r->todo[i];
	}
	r->n_todo = kept;
	for (unsigned i = 0; i < n; i++)
		carry_out(r, &ready[i]);
}

static int take_range(struct runner *r, uint32_t *ret)
{
	for (uint32_t i = 0; i < RUNNER_RANGES; i++) {
		if (r->ranges & UINT64_C(1) << i)
			continue;
		r->ranges |= UINT64_C(1) << i;
		*ret = i;
		return 0;
	}
	return -ENOSR;
}

int runner_create(struct runner *r, const struct life *l)
{
	struct runner_box *b = &r->boxes[r->n_boxes];

	if (r->n_boxes == RUNNER_BOXES)
		return -ENOSR;
	*b = (struct runner_box){ .row = { .life = *l, .boot = r->boot } };
	if (take_range(r, &b->row.range) < 0)
		return -ENOSR;
	r->n_boxes++;
	(void)step(r, b, &(struct life_event){ .kind = LIFE_ACCEPTED });
	return 0;
}

enum cay_code runner_event(struct runner *r, const struct id *id, const struct life_event *ev)
{
	struct runner_box *b = runner_find(r, id);

	return b ? step(r, b, ev) : CAY_E_NOT_FOUND;
}

void runner_done(struct runner *r, const struct id *id, uint64_t call, const struct life_event *ev)
{
	struct runner_box *b = runner_find(r, id);

	if (!b || b->open[ev->effect] != call)
		return;
	b->open[ev->effect] = 0;
	(void)step(r, b, ev);
}

void runner_sweep(struct runner *r)
{
	uint64_t now = clk_boot_ns(r->clk);

	for (unsigned i = 0; i < r->n_boxes; i++)
		if (life_next_deadline(&r->boxes[i].row.life) <= now)
			(void)step(r, &r->boxes[i],
				   &(struct life_event){ .kind = LIFE_DEADLINE,
							 .may_stop = r->may_stop });
}

static struct life_observation facts_of(const struct runner *r, const struct runner_row *row,
					const struct runner_fact *f)
{
	struct life_observation ret = { .same_boot = row->boot == r->boot };

	if (!f)
		return ret;
	ret.exists = f->generation == row->life.generation;
	ret.started_ns = f->started_ns;
	ret.processes = f->processes;
	ret.frozen = f->frozen;
	if (ret.exists && ret.processes && !ret.frozen)
		r->ops->ask(r->arg, &f->id, &ret);
	return ret;
}

void runner_recover(struct runner *r, const struct runner_row *rows, unsigned n_rows,
		    const struct runner_fact *facts, unsigned n_facts)
{
	assert(n_rows <= RUNNER_BOXES);
	for (unsigned i = 0; i < n_rows; i++) {
		r->boxes[i] = (struct runner_box){ .row = rows[i] };
		life_reset_transient(&r->boxes[i].row.life);
		if (!life_is_finished(&rows[i].life))
			r->ranges |= UINT64_C(1) << rows[i].range;
	}
	r->n_boxes = n_rows;
	/* what is not ours stays, and keeps its ids */
	for (unsigned i = 0; i < n_facts; i++)
		if (facts[i].has_range)
			r->ranges |= UINT64_C(1) << facts[i].range;
	for (unsigned i = 0; i < n_rows; i++) {
		const struct runner_fact *f = NULL;

		for (unsigned k = 0; k < n_facts && !f; k++)
			f = id_eq(&facts[k].id, &rows[i].life.id) ? &facts[k] : NULL;
		(void)step(r, &r->boxes[i],
			   &(struct life_event){ .kind = LIFE_OBSERVED,
						 .observed = facts_of(r, &rows[i], f) });
	}
}
