/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_SIM_RUNNER_H
#define CAY_TESTS_SIM_RUNNER_H
/*
 * runner - the rules of the caller of life_step(), and nothing else
 *
 * What cayd does around life, without a loop, a keeper or a database: those are
 * callbacks.  A runner is forgotten when cayd dies; runner_recover() fills a new one
 * from the journal and from what the keeper has.
 */
#include "base/clock.h"
#include "life/life.h"

#define RUNNER_BOXES 40
#define RUNNER_RANGES 64
#define RUNNER_WAITING 512

/* A sandbox as the journal has it. */
struct runner_row {
	struct life life;
	uint64_t boot; /* what its times are of */
	uint32_t range;
};

/* And as the keeper lists it. */
struct runner_fact {
	struct id id;
	uint64_t generation, started_ns;
	uint32_t range, processes;
	bool has_range, frozen;
};

struct runner_ops {
	/* Ask for a write; the numbers grow, and become durable in their order. */
	uint64_t (*write)(void *arg, const struct runner_row *row);
	/* Begin an effect; runner_done() with this number follows, at least once. */
	void (*act)(void *arg, const struct runner_row *row, enum life_effect effect,
		    uint64_t call);
	/* Whoever waits for it may hear this much; `step` is the one that said so. */
	void (*tell)(void *arg, const struct life *l, uint64_t step);
	/* Ask PID 1 whether it is claimed and has its entrypoint. */
	void (*ask)(void *arg, const struct id *id, struct life_observation *ret);
	/* For who looks on: called for every step, its write asked for already. */
	void (*look)(void *arg, const struct life *before, const struct life_event *ev,
		     const struct life_out *out, uint64_t step);
};

struct runner_box {
	struct runner_row row;
	uint64_t waits;        /* the last write that is waited for */
	uint64_t open[DO_NUM]; /* calls under way, by their number */
};

/* What a step asked for, until it may be done. */
struct runner_todo {
	unsigned box;
	uint64_t after; /* this write */
	uint64_t step;
	enum life_effect effect;
	bool tell;
	struct runner_row as;
};

struct runner {
	const struct runner_ops *ops;
	void *arg;
	const struct clk *clk;
	uint64_t boot;
	uint64_t durable, calls, steps;
	uint64_t ranges; /* a bit for each in use */
	struct runner_box boxes[RUNNER_BOXES];
	unsigned n_boxes;
	struct runner_todo todo[RUNNER_WAITING];
	unsigned n_todo;
	bool may_stop; /* what the caller tells with the next deadline */
};

/* Take a sandbox in, -ENOSR when there is no room; it is told when it is durable. */
[[nodiscard]] int runner_create(struct runner *r, const struct life *l);
enum cay_code runner_event(struct runner *r, const struct id *id, const struct life_event *ev);
/* An effect is over, or is said to be: a number that is not open is nobody's. */
void runner_done(struct runner *r, const struct id *id, uint64_t call, const struct life_event *ev);
/* Writes up to this number are durable. */
void runner_durable(struct runner *r, uint64_t number);
/* Every deadline that has come. */
void runner_sweep(struct runner *r);
/* The first thing of all: rows of the journal against what there is. */
void runner_recover(struct runner *r, const struct runner_row *rows, unsigned n_rows,
		    const struct runner_fact *facts, unsigned n_facts);
struct runner_box *runner_find(struct runner *r, const struct id *id);
#endif
