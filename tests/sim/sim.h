/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_SIM_SIM_H
#define CAY_TESTS_SIM_SIM_H
/*
 * sim - one seed: a world, a cayd in it, and what its clients were promised
 *
 * ledger.c looks on at every step and every word to a client, and compares them with
 * what it wrote down itself: it never asks life whether life is right.
 */
#include "world.h"

#define SIM_SWEEP_NS (100 * NS_PER_MS)
#define SIM_NOTES 40
#define SIM_STEPS_KEPT 4096

struct note {
	uint64_t step, now_ns;
	unsigned slot;
	const char *what, *word;
	uint64_t n;
};

/* What one sandbox owes, and what has happened to it. */
struct ledger {
	bool accepted;    /* told so */
	bool known;       /* as running */
	bool ended;       /* told so, with this reason */
	bool stopped;     /* told so, and since then no start was written */
	bool rolled_back; /* told so, and it has not run since then */
	uint8_t reason;
	uint64_t ceiling_ns;
	uint64_t active_ns;
	uint64_t still_ns; /* since when nothing is done to it */
	unsigned busy;
	bool wanted;         /* somebody asked for it since it dozes, or is about to */
	uint64_t must;       /* the write that must be durable before anybody hears of it */
	uint64_t birth;      /* of the PID 1 that runs */
	uint64_t watched;    /* the birth of the PID 1 whose pidfd cayd has */
	uint64_t files;      /* that it ran with first; 0: it has not run */
	uint64_t void_files; /* those it had before a rollback */
	uint64_t left_ns, ceiling_left_ns; /* of its time, when it was stopped */
	uint64_t start_ns;                 /* when its last start began */
	uint64_t ttl_ns;                   /* that it was made with */
	uint64_t stopped_real_ns;          /* when it was stopped, in time that no reboot changes */
	bool rebooted;                     /* since then */
	uint64_t died, failed; /* generation whose PID 1 died, in which an effect failed */
	bool exited;
	uint64_t taken;  /* the generation in which somebody took it, warm */
	uint64_t writes; /* since then */
};

struct tally {
	uint64_t effects[DO_NUM], kinds[LIFE_KINDS], reasons[END_NUM_REASONS];
	uint64_t anew, adopted, warm, claims, stopped, started, taken_back;
	uint64_t expired_stops, idle_stops, rested, kept_awake, rolled_back;
	uint64_t dozed, woken, kept, stopped_dozing;
};

struct sim {
	uint64_t seed, step;
	struct world w;
	struct runner r;
	bool up;
	uint64_t swept_ns;
	uint64_t real_ns; /* all the time that passed */
	unsigned n_created;
	struct ledger ledger[RUNNER_BOXES];
	uint64_t must[SIM_STEPS_KEPT]; /* ledger.must at a step of the runner */
	struct note notes[SIM_NOTES];
	uint64_t n_notes;
	bool loud;
	struct tally *tally;
};

void sim_note(struct sim *s, unsigned slot, const char *what, const char *word, uint64_t n);
void sim_print_note(const struct note *n);

extern const struct runner_ops ledger_ops; /* their arg is the sim */
/* cayd is back: does the journal have what was promised? */
void ledger_restart(struct sim *s);
void ledger_check(struct sim *s);
/* Nothing is under way and nothing goes wrong any more. */
bool ledger_is_settled(const struct sim *s);
void ledger_check_settled(struct sim *s);
void ledger_check_empty(struct sim *s);
#endif
