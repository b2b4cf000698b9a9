/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_LIFE_LIFE_H
#define CAY_LIFE_LIFE_H
/*
 * life - what a sandbox does next, as a pure function
 *
 * life_step() looks at a sandbox and at what happened, and says what it is from now
 * on and the one thing to do about it.  No I/O, no clock, no allocation: the
 * simulator (tests/sim) and cayd call the same function.
 *
 *	pending --prepare, start, claim--> running <--freeze, thaw--> paused
 *	   |                                  |                          |
 *	   +----------------------------------+--------------------------+
 *	                                      v
 *	                                   ending --remove--> terminated | failed
 *
 * Rules of the caller, which is all of exactly-once:
 *
 *	- `next` replaces the sandbox at once; what happens meanwhile sees it.
 *	- Where `sync` is set, `next` is durable before the effect begins and before
 *	  anybody is told.  Where only `journal` is, it may be written later: losing
 *	  it is found out by looking (life_facts).
 *	- Nothing of a sandbox overtakes a write it waits for: what a later step asks for
 *	  and tells, waits for it too.  Else a second pause is told "paused" before the
 *	  first is durable, and an end that had to wait for a freeze removes what the
 *	  journal has as running.
 *	- When PID 1 has ended its pidfd says so once (LIFE_GONE); after a restart also
 *	  where the entrypoint had ended meanwhile (LIFE_EXITED).
 *	- An effect is asked for once and ends in one LIFE_DONE, however late; its
 *	  outcome may be LIFE_UNKNOWN.  Effects may be repeated: each is idempotent by
 *	  id and generation.
 *	- There is no undoing.  Failure, cancel and crash all become `ending`, and what
 *	  there is of the sandbox is removed by kernel facts.
 *
 * One that is warm is made ahead of its request: it stays pending with its PID 1 up,
 * nobody's, until LIFE_TAKE gives it to somebody.  That it is somebody's is written once,
 * when it runs: whatever goes wrong before that makes it anew under the next generation,
 * and after a crash the journal has it as warm, so that one whose PID 1 was claimed is
 * nobody's again only by being made anew.
 *
 * A sandbox whose making was cut off (the keeper died, cayd died) is removed and made
 * anew under the next generation, at most LIFE_GENERATIONS times: whoever was told
 * that it was accepted gets it, and not a failure that was ours.
 */
#include "base/id.h"
#include "ops/types.h"

#define LIFE_GENERATIONS 4
#define LIFE_NEVER UINT64_MAX

enum life_effect {
	DO_NOTHING,
	DO_PREPARE,    /* keeper: directory, ids, cgroups */
	DO_START,      /* keeper: the runtime; LIFE_DONE has PID 1's start */
	DO_CLAIM,      /* PID 1: whose it is */
	DO_ENTRYPOINT, /* PID 1: run the entrypoint */
	DO_FREEZE,     /* keeper */
	DO_THAW,       /* keeper */
	DO_REMOVE,     /* keeper: all there is of this generation */
	DO_NUM
};

/* A sandbox as the journal has it.  Times are CLOCK_BOOTTIME of the boot they are
 * stored with; LIFE_NEVER for none. */
struct life {
	struct id id;
	uint64_t generation;
	uint64_t born_ns;
	uint64_t expires_ns; /* ends then with `ttl` */
	uint64_t ceiling_ns; /* expires_ns never gets past it */
	uint64_t idle_ns;    /* ends with `idle` after so long without a request; or LIFE_NEVER */
	uint64_t active_ns;  /* the last one */
	uint64_t saved_ns;   /* active_ns as the journal has it */
	uint64_t started_ns; /* PID 1's own start: what it is known by; 0 while there is none */
	uint8_t state;       /* enum sandbox_state */
	uint8_t reason;      /* enum end_reason, from `ending` on */
	bool failed;         /* its end is a failure */
	bool entry;          /* has an entrypoint */
	uint8_t on_exit;     /* enum on_exit: what the entrypoint's end means */
	bool warm;           /* made for nobody yet */
	/* not in the journal: life_reset_transient() makes them new */
	bool claimed;           /* it was warm: whose it is now is written when it runs */
	uint8_t pending_effect; /* the effect whose outcome has yet to come */
	uint8_t tries;          /* of removing, or of what the state says */
	uint64_t retry_ns;      /* when to try again; LIFE_NEVER */
	uint64_t n_requests;    /* requests inside; while there are any it is not idle */
};

enum life_kind {
	LIFE_ACCEPTED, /* it is new: begin */
	LIFE_DONE,     /* an effect is over: effect, generation, outcome, started_ns */
	LIFE_END,      /* somebody wants it ended: reason */
	LIFE_GONE,     /* PID 1 has died: generation, reason */
	LIFE_EXITED,   /* the entrypoint has ended: code, reason */
	LIFE_PAUSE,
	LIFE_RESUME,
	LIFE_EXTEND,   /* until_ns */
	LIFE_ENTER,    /* a request goes inside */
	LIFE_LEAVE,    /* and is over */
	LIFE_CLAIM,    /* one that is warm becomes somebody's: terms */
	LIFE_DEADLINE, /* life_next_deadline() has come */
	LIFE_OBSERVED, /* after a restart: what the machine has of it */
	LIFE_KINDS
};

enum life_outcome {
	LIFE_OK,
	LIFE_FAILED,
	LIFE_UNKNOWN, /* the keeper went away: it may or may not have happened */
};

/* What is found of a sandbox when cayd starts. */
struct life_observation {
	bool same_boot;          /* the journal's times are of this boot */
	bool exists;             /* the keeper has this id in this generation */
	bool claimed;            /* PID 1 says it is claimed */
	bool entrypoint_started; /* and that its entrypoint was started */
	bool frozen;             /* by the keeper; then PID 1 says nothing */
	uint64_t started_ns;
	uint32_t processes;
	bool unclaimed; /* PID 1 says it is not claimed, which is more than saying nothing */
};

/* What somebody wants of a sandbox; lengths, LIFE_NEVER for none. */
struct life_terms {
	uint64_t ttl_ns, idle_ns, max_ns;
	bool entry;
	uint8_t on_exit;
};

struct life_event {
	enum life_kind kind;
	enum life_effect effect;
	enum life_outcome outcome;
	uint64_t generation;
	uint64_t started_ns, until_ns;
	unsigned reason, code;
	struct life_observation observed;
	struct life_terms terms;
};

struct life_out {
	struct life next;
	enum life_effect effect; /* to begin now, or DO_NOTHING */
	bool journal, sync;      /* write `next`; and wait for it */
	bool notify;             /* who waits for this sandbox may have something to hear */
	enum cay_code refused;   /* the event is not for this state; nothing changed */
};

/* A new sandbox at `now`; ttl, idle and max are lengths, LIFE_NEVER for none. */
struct life life_new(const struct id *id, uint64_t now, uint64_t ttl, uint64_t idle, uint64_t max);
void life_step(const struct life *l, const struct life_event *ev, uint64_t now,
	       struct life_out *out);
/* When LIFE_DUE is next; LIFE_NEVER. */
uint64_t life_next_deadline(const struct life *l);
/* Warm, and there for the taking. */
bool life_is_warm_and_ready(const struct life *l);
/* As it comes out of the journal: nothing is under way. */
void life_reset_transient(struct life *l);
static inline bool life_is_finished(const struct life *l)
{
	return l->state == SB_TERMINATED || l->state == SB_FAILED;
}
#endif
