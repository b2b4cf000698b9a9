/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_BOX_H
#define CAY_CAYD_BOX_H
/*
 * box - a sandbox as control has it: the table of all of them, and who waits
 *
 * What becomes of a sandbox is life's to say (src/life), step.c carries it out.  A
 * client that leaves stops waiting; the work goes on.  Ended ones are remembered for
 * limits.record_ttl.
 */
#include "cayd/cayd.h"
#include "life/life.h"

struct box {
	struct life life;
	struct sandbox info; /* texts live in the pool */
	struct field_map env;
	struct field_texts entrypoint;
	struct field_list services; /* struct service_spec */
	struct limits wanted;       /* limits it is to have; resize.c's */
	bool has_wanted, resizing;  /* and the keeper is at it */
	const char *key, *key_body; /* idempotency key, and what it was used for */
	struct cay_err failure;     /* why it failed, for who waits for it */
	uint64_t seq;
	uint32_t range;
	uint8_t image[32];
	uint32_t epoch;              /* older tokens of it are void */
	struct box_revoked *revoked; /* REVOKED_MAX of them, or NULL; revoke.c's */
	struct id home; /* the tenant in whose cgroup it is: who is taken does not move */
	/* the rest is box.c's, wait.c's and step.c's */
	struct cayd *cayd;
	struct box *next_by_id, *next_by_name, *next_by_key, *newer, *older;
	const char *why;              /* the detail of the end that is about to be */
	uint64_t changed_boot;        /* when its state changed last */
	uint64_t forget_boot;         /* when nobody need remember it */
	unsigned holds;               /* calls under way that have this pointer */
	unsigned unsaved;             /* of them, writes somebody waits for */
	struct cay_err unsaid;        /* why the journal has not what it is; it is written again */
	bool entry_asked, entry_over; /* entry.c's */
	bool unnoted;                 /* an event about it could not be written */
	bool other_boot;              /* the journal has it from before the machine started */
	uv_poll_t *watch;
	int pidfd;
	struct turn *turn;   /* while it is made; create.c's */
	struct stock *stock; /* warm, and of this one; stock.c's, as is the next */
	struct box *next_warm;
	unsigned relimit; /* which limits are not known to be those it was started with */
	unsigned tallied; /* what it is counted as; tally.c's */
	struct waiter *waiters;
	bool looked_at; /* the keeper is asked for its disk; usage.c's */
	struct pool pool;
};

/* What a request waits for. */
enum box_wait {
	WAIT_STARTED, /* it runs, or will not */
	WAIT_ENDED,
	WAIT_SAVED,   /* what was asked is durable */
	WAIT_SETTLED, /* and nothing is under way */
};

struct box_key {
	struct slice key; /* empty: none */
	char body[17];    /* a hash of the request */
};

[[nodiscard]] int boxes_open(struct cayd *c, struct cay_err *err);
/* Whoever's it is: for cayd itself. */
struct box *box_find(struct boxes *all, const struct id *id);
/* For a request: another tenant's is not there. */
struct box *box_of(struct boxes *all, const struct id *tenant, const struct id *id);
/* The tenant's newest whose seq is below `before` (0: any), and the next one. */
struct box *box_before(struct boxes *all, const struct id *tenant, uint64_t before);
struct box *box_older(const struct box *b);
/* Whether it could be; *ret is the one of the tenant that has this key or name. */
[[nodiscard]] int box_check(struct boxes *all, const struct id *tenant,
			    const struct sandbox_create *spec, const struct box_key *key,
			    struct box **ret, struct cay_err *err);
/* Accept a sandbox and begin; or return the one of the tenant that has this key or name. */
[[nodiscard]] int box_create(struct boxes *all, const struct id *tenant,
			     const struct sandbox_create *spec, const struct box_key *key,
			     struct box **ret, struct cay_err *err);
/* One for nobody yet; begun by LIFE_ACCEPTED. */
[[nodiscard]] int box_warm(struct boxes *all, const struct sandbox_create *spec, struct box **ret,
			   struct cay_err *err);
/* And it is somebody's.  Without memory for that it can only be ended. */
[[nodiscard]] int box_take(struct box *b, const struct id *tenant,
			   const struct sandbox_create *spec, const struct box_key *key);
struct life_terms box_terms(const struct cayd *c, const struct sandbox_create *spec);
/* One that the journal knows; its texts are copied. */
[[nodiscard]] int box_restore(struct boxes *all, const struct life *life,
			      const struct sandbox_record *record, uint64_t seq, struct box **ret,
			      struct cay_err *err);
/* Answer a request with the sandbox once it has come so far. */
void box_answer(struct box *b, struct request *rq, enum box_wait until);
/* Answer with what was told of several; `unsaved` says that the journal has not all of it. */
void boxes_answer(struct cayd *c, struct request *rq, const struct sandbox_list *list,
		  bool unsaved);
/* As clients see it now. */
const struct sandbox *box_look(struct box *b);
/* Something has changed that somebody may be waiting for. */
void box_tell(struct box *b);
/* The same, but the journal has yet to have it. */
void box_foretell(struct box *b);
/* A copy of a text that lives as long as the box; NULL when it has no more room. */
const char *box_text(struct box *b, const char *text);
[[nodiscard]] int box_keep_texts(struct box *b, const struct field_texts *in,
				 struct field_texts *ret);
[[nodiscard]] int box_keep_map(struct box *b, const struct field_map *in, struct field_map *ret);
/* Whether all of them are a client's to set. */
[[nodiscard]] int labels_check(const struct field_map *labels, struct cay_err *err);
/* Set and remove labels. */
[[nodiscard]] int box_label(struct box *b, const struct field_map *patch, struct cay_err *err);

/* What step.c tells the table: its state is another; nothing has its pointer any more. */
void box_changed(struct box *b, unsigned before);
void box_unhold(struct box *b);
/* Forget those nobody need remember. */
void boxes_forget(struct boxes *all, uint64_t now);
/* The keeper is back: what waits to be tried again need not wait longer. */
void boxes_hurry(struct boxes *all);
struct box *boxes_newest(struct boxes *all);
unsigned boxes_live(const struct boxes *all);
/* Those that are not ending either. */
unsigned boxes_placed(const struct boxes *all);
unsigned boxes_live_of(const struct boxes *all, const struct id *tenant);
const struct tally *boxes_tally(const struct boxes *all);
void boxes_keep_range(struct boxes *all, uint32_t range);
/* Another one; what it had is somebody's whom the journal does not know, and stays taken. */
[[nodiscard]] int box_range_anew(struct box *b);

/* step.c: something happens to it; the code is why it is refused. */
enum cay_code box_happens(struct box *b, const struct life_event *ev);
void box_end(struct box *b, unsigned reason, const char *why);
void box_claimed(struct box *b, const struct cay_err *outcome);
void box_save(struct box *b, bool wait);
/* Watch PID 1 by its pidfd, which becomes the box's. */
[[nodiscard]] int box_watch(struct box *b, int pidfd);
[[nodiscard]] int boxes_sweep(struct cayd *c, struct cay_err *err);
#endif
