/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_SIM_WORLD_H
#define CAY_TESTS_SIM_WORLD_H
/*
 * world - what cayd does not hold in its hands: a keeper with a kernel, and a disk
 *
 * The keeper has one directory an id (src/keeper/keeper-sandbox.c).  A call to it is made, happens,
 * and is answered, and something may go wrong between any two of these; one that was cut
 * off may have happened by half.  The disk has the writes in the order they were asked
 * for and loses those that were not committed.
 *
 * What must never be asked of it ends the run: w->broken says what it was.
 */
#include "runner.h"

#define WORLD_STRANGERS 2 /* sandboxes no journal ever knew */
#define WORLD_SLOTS (RUNNER_BOXES + WORLD_STRANGERS)
#define WORLD_CALLS 256
#define WORLD_WRITES 1024
#define WORLD_NEWS 256

/* What there is of an id. */
struct fact {
	bool dir, record, has_range, cgroup;
	bool alien; /* not ours: not to be touched, not to be taken for ours */
	uint64_t generation;
	uint32_t range;
	bool alive, claimed, entered, exited, frozen;
	bool busy;           /* a command of a client runs */
	uint64_t started_ns; /* in the kernel's ticks: two may have the same */
	uint64_t birth;      /* its PID 1's: no two have the same */
	uint64_t files;      /* the birth of its directory: what a stop has to keep */
	bool synced;         /* nothing has run since its files were synced */
	unsigned code;       /* of the entrypoint */
};

struct call {
	uint64_t number, generation, started_ns, birth;
	unsigned slot;
	uint32_t range;
	enum life_effect effect;
	enum life_outcome outcome;
	bool happened, answered;
	bool busy;
};

/* What a pidfd or PID 1 has to say to a cayd that watches. */
struct news {
	unsigned slot;
	enum life_kind kind;
	uint64_t generation, birth;
	unsigned code;
};

struct pending_write {
	unsigned slot;
	struct runner_row row;
};

struct world {
	uint64_t random;
	struct clk_test clk;
	uint64_t boot;
	uint64_t births;
	struct fact facts[WORLD_SLOTS];
	struct runner_row rows[RUNNER_BOXES]; /* committed */
	bool has_row[RUNNER_BOXES];
	/* known to a client as running: only an end or a stop that is committed may kill it */
	bool promised[RUNNER_BOXES];
	struct pending_write writes[WORLD_WRITES];
	unsigned n_writes;
	uint64_t committed;
	struct call calls[WORLD_CALLS];
	unsigned n_calls;
	struct news news[WORLD_NEWS];
	unsigned n_news;
	const char *broken;
	unsigned broken_slot;
};

uint64_t world_random(struct world *w, uint64_t below);
struct id world_id(unsigned slot);
unsigned world_slot(const struct id *id);
void world_break(struct world *w, unsigned slot, const char *what);

uint64_t world_write(struct world *w, const struct runner_row *row);
void world_commit(struct world *w, unsigned n);

void world_call(struct world *w, const struct runner_row *row, enum life_effect effect,
		uint64_t number);
void world_happen(struct world *w, struct call *c, bool fail);
void world_forget_call(struct world *w, unsigned at);
/* Nobody answers any more: what is under way has happened, or by half, or not. */
void world_cut(struct world *w, struct call *c);
bool world_is_keepers(enum life_effect effect);

void world_die(struct world *w, unsigned slot);
void world_exit(struct world *w, unsigned slot, unsigned code);
void world_news(struct world *w, unsigned slot, enum life_kind kind);
/* In the place of what died, somebody else's: another generation, or another PID 1. */
uint32_t world_strange_range(unsigned slot);
void world_replace(struct world *w, unsigned slot, bool same_generation);
void world_reboot(struct world *w);
/* What must hold of it after every step. */
void world_check(struct world *w);
#endif
