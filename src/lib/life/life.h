/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_LIFE_LIFE_H
#define CAY_LIFE_LIFE_H
/* life - the life cycle of a sandbox, as a pure function
 *
 * life_step() takes a sandbox and an event, and returns the sandbox's next state and the one effect
 * to carry out.  No I/O, no clock, no allocation: the simulator (tests/sim) and cayd call the same
 * function.
 *
 *	pending --prepare, start, claim--> running <--freeze, thaw--> paused
 *	   |                                  |                          |
 *	   +----------------------------------+--------------------------+
 *	                                      v
 *	                                   ending --remove--> terminated | failed
 *
 *	running|paused -> stopping --stop--> stopped -> starting --restore, start, claim--> running
 *	                      ^                            |
 *	                      +-------- any failure -------+       each of them also --> ending
 *
 * The caller guarantees exactly-once behaviour by these rules:
 *
 *	- `next` replaces the sandbox at once; later events see it.
 *	- If `sync` is set, `next` must be durable before the effect begins and before any
 *	  client is notified.  If only `journal` is set, it may be written later: a lost
 *	  write is detected by observing the machine (life_observation).
 *	- Nothing of a sandbox overtakes a write it waits for: the effects and notifications
 *	  of later steps wait for that write as well.  Otherwise a second pause would be
 *	  answered "paused" before the first is durable, and an end that had to wait for a
 *	  freeze would remove a sandbox that the journal has as running.
 *	- The end of PID 1 is reported once, by its pidfd (LIFE_GONE); after a restart also
 *	  that of an entrypoint that ended in the meantime (LIFE_EXITED).
 *	- An effect is requested once and ends in one LIFE_DONE, however late; its outcome
 *	  may be LIFE_UNKNOWN.  Effects may be repeated: each is idempotent by id and
 *	  generation.
 *	- There is no undo.  Failure, cancel and crash all lead to `ending`, and the remains
 *	  of the sandbox are found by kernel facts and removed.
 *
 * A warm sandbox is created before it is requested: it stays pending, with PID 1 running and
 * without an owner, until LIFE_CLAIM gives it one.  The owner is journaled once, when the sandbox
 * runs.  A failure before that recreates it under the next generation.  After a crash the journal
 * still has it as warm; if its PID 1 was already claimed, it can only lose its owner by being
 * recreated.
 *
 * A stopped sandbox has its files and no process.  `stopping` is durable before anything is killed,
 * and `starting` before anything runs, so a crash in between is never taken for the loss of a
 * running sandbox.  A start has one way back: whatever fails or is cut off leads to `stopping`, and
 * the files stay.  Its time stands still while it is stopped: expires_ns and ceiling_ns are then
 * what is left, which holds in any boot.  The time of a start counts, also of one that fails.
 *
 * At the end of its time, or idle, a sandbox ends or stops.  With expire_stops each run has all of
 * its time.  With idle_is_work PID 1 is asked first, and no answer counts as work: what stops a
 * sandbox by mistake costs more than one that is awake until its time is over.  The time at rest
 * is counted while the machine is on, in parts that are journaled: neither a reboot nor a wall
 * clock that jumps removes a sandbox early.
 *
 * One that is idle may doze first: it is paused, and a request, a hold or a resume thaws it.  Its
 * idle time goes on.  Nothing of that waits for the journal.  After a crash the machine decides:
 * one that dozes and is not frozen was woken, and one that is frozen and should run is thawed.
 * Where it is not known whether a wake has happened, the thaw is repeated: only an asked pause
 * freezes again.  A pause of one that dozes makes the doze an asked pause.  Whoever asks for one
 * that is being copied or frozen is remembered until it runs, however long that takes.
 *
 * A snapshot changes no state.  The keeper freezes the sandbox while it copies; where the outcome
 * is a failure or unknown, the effect of the state follows, which thaws a running one.  After a
 * crash the machine is found frozen and the state says running, which leads to the same.
 *
 * A sandbox that is rolled back has no files of its own from then on, whatever is still on the
 * disk, and is stopped.  Its start removes that and prepares a disk of the next generation.  Until
 * it runs there is nothing to keep, so that it is stopped by a removal too.
 *
 * A sandbox whose creation was cut off (the keeper or cayd died) is removed and recreated under the
 * next generation, at most LIFE_GENERATIONS times: an accepted create succeeds rather than fail
 * through a fault of ours. */
#include "base/id.h"
#include "ops/types.h"

#define LIFE_GENERATIONS 4
#define LIFE_NEVER UINT64_MAX

enum life_effect {
	DO_NOTHING,
	DO_PREPARE,    /* keeper: directory, ids, cgroups */
	DO_START,      /* keeper: the runtime; LIFE_DONE has PID 1's start */
	DO_CLAIM,      /* PID 1: settings of its owner */
	DO_ENTRYPOINT, /* PID 1: run the entrypoint */
	DO_FREEZE,     /* keeper */
	DO_THAW,       /* keeper */
	DO_REMOVE,     /* keeper: everything of this generation */
	DO_STOP,       /* keeper: end every process, keep and sync the files */
	DO_RESTORE,    /* keeper: cgroups for the files that were kept */
	DO_LOOK,       /* PID 1: whether clients' work is under way; beside any other effect */
	DO_SNAPSHOT,   /* keeper: a copy of its files; frozen meanwhile */
	DO_NUM
};

/* A sandbox as in the journal.  Times are CLOCK_BOOTTIME of the boot they are stored
 * with; LIFE_NEVER for none. */
struct life {
	struct id id;
	uint64_t generation;
	uint64_t born_ns;
	uint64_t expires_ns; /* ends then with reason `ttl`; at rest: how long after its start */
	uint64_t ceiling_ns; /* upper bound of expires_ns, and the same */
	uint64_t idle_ns;    /* idle timeout: it ends with reason `idle`, or stops; or LIFE_NEVER */
	uint64_t active_ns;  /* time of the last request, or until when it is held; while it starts:
			      * when that began; stopped: up to when rest_left_ns is counted */
	uint64_t lease_ns;   /* ends with reason `lease` if not renewed for so long; LIFE_NEVER */
	uint64_t renewed_ns; /* not in the journal, nor the one above, which is in the record */
	uint64_t saved_ns;   /* active_ns as in the journal */
	uint64_t started_ns; /* start time of PID 1, which identifies it; 0: not started */
	uint8_t state;       /* enum sandbox_state */
	uint8_t reason;      /* enum end_reason, from `ending` on */
	bool failed;         /* its end is a failure */
	bool entry;          /* has an entrypoint */
	uint8_t on_exit;     /* enum on_exit: effect of the entrypoint's end */
	bool warm;           /* without an owner yet */
	/* in the record, not in the row */
	bool rolled_back; /* its files on the disk are void */
	bool dozes;       /* it is paused, or being paused, because it was idle */
	/* the same; set by life_set_rest() */
	bool expire_stops, idle_stops; /* it does not end then */
	bool idle_is_work;             /* idle is who has neither a request nor work of a client */
	uint64_t doze_ns;              /* it is paused after being idle this long; or LIFE_NEVER */
	uint64_t ttl_ns;               /* with expire_stops: of each run */
	uint64_t rest_ns;              /* a stopped one ends after this time; or LIFE_NEVER */
	uint64_t rest_left_ns;         /* of it */
	/* not in the journal; set by life_reset_transient() */
	bool claimed;           /* was warm; its owner is journaled when it runs */
	uint8_t pending_effect; /* effect whose outcome is outstanding */
	uint8_t tries;          /* attempts to remove it, or to restore its state */
	uint64_t retry_ns;      /* time of the next attempt; LIFE_NEVER */
	uint64_t n_requests;    /* requests inside; not idle while there are any */
	bool looking;           /* PID 1 was asked, and has not answered */
	bool look_is_void;      /* it was the PID 1 of a run before */
	bool wake_due;          /* a client asked for it since it dozes, or is about to */
};

enum life_kind {
	LIFE_ACCEPTED, /* a new sandbox: begin */
	LIFE_DONE,     /* an effect has ended: effect, generation, outcome, started_ns, busy */
	LIFE_END,      /* a request to end it: reason */
	LIFE_GONE,     /* PID 1 has died: generation, reason */
	LIFE_EXITED,   /* the entrypoint has ended: code, reason */
	LIFE_PAUSE,
	LIFE_RESUME,
	LIFE_STOP,
	LIFE_START,    /* a stopped one: max_ns */
	LIFE_SNAPSHOT, /* of one that runs, is paused or stopped */
	LIFE_ROLLBACK, /* its files are void; one that runs or is paused is stopped */
	LIFE_EXTEND,   /* until_ns */
	LIFE_RENEW,    /* the lease: lease_ns */
	LIFE_HOLD,     /* it is not idle until until_ns */
	LIFE_ENTER,    /* a request enters the sandbox; one that dozes is woken */
	LIFE_LEAVE,    /* a request leaves it */
	LIFE_CLAIM,    /* a warm sandbox gets its owner: terms */
	LIFE_DEADLINE, /* life_next_deadline() is reached */
	LIFE_OBSERVED, /* after a restart: state of the machine */
	LIFE_KINDS
};

enum life_outcome {
	LIFE_OK,
	LIFE_FAILED,
	LIFE_UNKNOWN, /* the connection to the keeper was lost: it may have happened or not */
};

/* The parts of a sandbox found on the machine when cayd starts. */
struct life_observation {
	bool same_boot;          /* the journal's times are of this boot */
	bool exists;             /* the keeper has this id in this generation */
	bool claimed;            /* PID 1 reports that it is claimed */
	bool entrypoint_started; /* PID 1 reports that its entrypoint was started */
	bool frozen;             /* by the keeper; then PID 1 cannot report anything */
	uint64_t started_ns;
	uint32_t processes;
	bool unclaimed; /* PID 1 reports that it is not claimed, as opposed to no report */
};

/* The owner's terms; durations, LIFE_NEVER for none. */
struct life_terms {
	uint64_t ttl_ns, idle_ns, max_ns;
	uint64_t lease_ns; /* 0: none */
	bool entry;
	uint8_t on_exit;
	bool expire_stops, idle_stops, idle_is_work;
	uint64_t rest_ns; /* 0: none */
	uint64_t doze_ns; /* the same */
};

struct life_event {
	enum life_kind kind;
	enum life_effect effect;
	enum life_outcome outcome;
	uint64_t generation;
	uint64_t started_ns, until_ns, lease_ns;
	uint64_t max_ns; /* how long it may run at most from now on; 0: as it was */
	unsigned reason, code;
	bool busy;     /* DO_LOOK: work is under way */
	bool may_stop; /* by itself: its tenant may have one more that is stopped */
	struct life_observation observed;
	struct life_terms terms;
};

struct life_out {
	struct life next;
	enum life_effect effect; /* to begin now, or DO_NOTHING */
	bool journal, sync;      /* write `next`; wait for the write */
	bool notify;             /* check requests that wait for this sandbox */
	enum cay_code refused;   /* the event does not fit the state; nothing changed */
};

/* A new sandbox at `now`; ttl, idle and max are durations, LIFE_NEVER for none. */
struct life life_new(const struct id *id, uint64_t now, uint64_t ttl, uint64_t idle, uint64_t max);
/* It is stopped and none of its time is left, so that a start is refused. */
bool life_is_used_up(const struct life *l);
/* A lease from `now` on, for one that life_new() has made or the journal has; 0: none. */
void life_set_lease(struct life *l, uint64_t now, uint64_t lease);
/* What becomes of it at the end of its time, and of the time at rest. */
void life_set_rest(struct life *l, const struct life_terms *t);
void life_step(const struct life *l, const struct life_event *ev, uint64_t now,
	       struct life_out *out);
/* Time of the next LIFE_DEADLINE; LIFE_NEVER. */
uint64_t life_next_deadline(const struct life *l);
/* Warm, and ready to be claimed. */
bool life_is_warm_and_ready(const struct life *l);
/* The state after reading it from the journal: no effect is pending. */
void life_reset_transient(struct life *l);
/* Stopped, or on the way there or back: its time stands still. */
static inline bool life_is_at_rest(const struct life *l)
{
	return l->state == SB_STOPPING || l->state == SB_STOPPED || l->state == SB_STARTING;
}
/* Paused by itself: a request runs it again. */
static inline bool life_is_dozing(const struct life *l)
{
	return l->state == SB_PAUSED && l->dozes;
}
/* Whether LIFE_SNAPSHOT fits: it runs, is paused or stopped, has files of its own, and nothing is
 * done to it now. */
bool life_can_be_copied(const struct life *l);
static inline bool life_is_finished(const struct life *l)
{
	return l->state == SB_TERMINATED || l->state == SB_FAILED;
}
#endif
