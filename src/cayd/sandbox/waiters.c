/* SPDX-License-Identifier: Apache-2.0 */
/* waiters - requests that are answered when their sandbox reaches a condition */
#include "cayd/core/deferred-reply.h"
#include "cayd/core/list-page.h"
#include "cayd/core/list.h"
#include "cayd/sandbox/sandbox.h"

/* A request to answer, or a function to call. */
struct sandbox_waiter {
	struct sandbox_waiter *next;
	struct request *rq;
	struct sandbox *sandbox;
	enum sandbox_wait until;
	sandbox_wait_fn *done;
	void *arg;
};

void sandbox_resolve_name(struct cayd *c, struct request *rq)
{
	const struct sandbox *sb;

	if (!rq->match.sandbox_segment.n)
		return;
	sb = sandbox_find_named_before(c->sandboxes, &rq->actor.tenant, rq->match.sandbox_name, 0);
	if (sb)
		op_match_resolve(&rq->match, &sb->info.id);
}

bool sandbox_wakes(const struct sandbox *sb)
{
	return life_is_dozing(&sb->life) && sb->info.wake == WAKE_BY_KEY;
}

bool sandbox_takes_requests(const struct sandbox *sb)
{
	return sb->life.state == SB_RUNNING || sandbox_wakes(sb);
}

bool sandbox_pid1_replies(const struct sandbox *sb)
{
	return sb->life.state == SB_RUNNING || (life_is_dozing(&sb->life) && sb->life.wake_due);
}

void sandbox_touch(struct sandbox *sb)
{
	(void)sandbox_apply_event(sb, &(struct life_event){ .kind = LIFE_ENTER });
	(void)sandbox_apply_event(sb, &(struct life_event){ .kind = LIFE_LEAVE });
}

struct sandbox *sandbox_find_of_request(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_actor(c->sandboxes, &rq->actor, &rq->match.params[0]);

	if (!sb)
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such sandbox");
	return sb;
}

/* A client cannot know that its sandbox has ended, so the refusal is blamed as the end is. */
static int sandbox_fail_ended(const struct end *end, struct cay_err *err)
{
	int r = cay_fail(err, CAY_E_STATE, "the sandbox has ended: %s%s%.120s; create another",
			 end_reasons[end->reason], end->detail ? ", " : "",
			 end->detail ? end->detail : "");

	cay_err_set_blame(err, (enum blame)end->blame);
	if (end->blame == BLAME_INFRA)
		cay_err_hint(err, "Cay or the machine ended it, not by the caller's doing: create "
				  "another sandbox and do all of its work again");
	return r;
}

int sandbox_fail_state(const struct sandbox *sb, struct cay_err *err)
{
	const struct sandbox_info *info = &sb->info;

	int r;

	if (info->has_end)
		return sandbox_fail_ended(&info->end, err);
	r = cay_fail(err, CAY_E_STATE, "%s",
		     info->hold                  ? info->hold
		     : info->state == SB_PENDING ? "the sandbox is being created"
		     : life_is_dozing(&sb->life) ? "the sandbox is paused, and no request wakes "
						   "it; resume it first"
		     : info->state == SB_PAUSED  ? "the sandbox is paused; resume it first"
		     : sb->life.rolled_back && info->state == SB_STOPPED
			     ? "the sandbox was rolled back and has no files of its own yet; start "
			       "it first"
		     : info->state == SB_STOPPED ? "the sandbox is stopped; start it first"
		     : info->state == SB_STOPPING
			     ? "the sandbox is being stopped; start it once it is stopped"
		     : info->state == SB_STARTING ? "the sandbox is being started"
						  : "the sandbox is ending; create another");
	if (info->state == SB_STOPPED && !info->hold && !sb->life.rolled_back)
		cay_err_hint(err,
			     "'cay start' or sandbox.start starts it, with a key of its tenant "
			     "that may write; its files are there");
	return r;
}

void sandbox_refuse_state(struct request *rq, struct sandbox *sb)
{
	struct cay_err err = {};

	(void)sandbox_fail_state(sb, &err);
	request_fail(rq, &err);
}

bool request_bind_group(struct request *rq, const char **group)
{
	const char *own = rq->actor.group;

	if (own[0] && *group && !str_eq(*group, own)) {
		request_refuse_hinted(rq, CAY_E_FORBIDDEN,
				      "the credential is bound to another group",
				      "leave the group out, or use a key of that group");
		return false;
	}
	if (own[0])
		*group = own;
	return true;
}

/* In memory; the journal may not have it yet. */
static bool sandbox_has_reached(const struct sandbox *sb, enum sandbox_wait until)
{
	if (sb->life.claimed) /* hidden until it runs: nothing of the claim is durable yet */
		return false;
	switch (until) {
	case WAIT_STARTED: /* a failure is reported at once, before the removal */
		return sb->life.state != SB_PENDING && sb->life.state != SB_STARTING;
	case WAIT_STOPPED:
		return sb->life.state != SB_STOPPING && sb->life.pending_effect != DO_STOP;
	case WAIT_ENDED:
		return life_is_finished(&sb->life);
	case WAIT_ENDING:
		return sb->life.state >= SB_ENDING;
	case WAIT_SETTLED:
		return sb->life.pending_effect == DO_NOTHING;
	case WAIT_SAVED:
		break;
	}
	return true;
}

static bool sandbox_has_reached_durably(const struct sandbox *sb, enum sandbox_wait until)
{
	/* no reply says what a crash could undo, or that it is over while others of its group are
	 * still connected */
	return !sb->unsaved && !sb->peers_pending && sandbox_has_reached(sb, until);
}

/* Whether the request had its effect. */
static bool sandbox_is_as_requested(const struct sandbox *sb, const struct request *rq)
{
	return !(rq->match.op == &ops[OP_SANDBOX_STOP] && sb->life.state != SB_STOPPED) &&
	       !(rq->match.op == &ops[OP_SANDBOX_START] && sb->life.state != SB_RUNNING &&
		 sb->life.state != SB_PAUSED) &&
	       !(rq->match.op == &ops[OP_SANDBOX_ROLLBACK] && sb->life.state != SB_RUNNING &&
		 sb->life.state != SB_PAUSED && sb->life.state != SB_STOPPED) &&
	       !(rq->match.op == &ops[OP_SANDBOX_PAUSE] && sb->life.state != SB_PAUSED) &&
	       !(rq->match.op == &ops[OP_SANDBOX_RESUME] && sb->life.state != SB_RUNNING);
}

const struct cay_err *sandbox_wait_failure(const struct sandbox *sb, enum sandbox_wait until)
{
	static const struct cay_err none = {};

	if (until == WAIT_STARTED && sb->failure.code)
		return &sb->failure;
	return until == WAIT_ENDED ? &none : &sb->save_error;
}

static void sandbox_reply_now(struct sandbox *sb, struct request *rq, enum sandbox_wait until)
{
	auto_buf body = BUF_INIT(KIB(64));
	struct jw w = jw_to(&body);

	(void)sandbox_describe(sb);
	if (sandbox_wait_failure(sb, until)->code &&
	    (until == WAIT_STARTED || rq->match.op != &ops[OP_SANDBOX_GET]))
		request_fail(rq, sandbox_wait_failure(sb, until));
	else if (until == WAIT_ENDING && !life_is_finished(&sb->life))
		request_refuse(rq, CAY_E_UNAVAILABLE,
			       "cay-keeper is not running; the sandbox is removed as soon as it "
			       "runs again");
	else if (!sandbox_is_as_requested(sb, rq)) {
		request_failf(rq, CAY_E_UNAVAILABLE,
			      "cay-keeper could not change the state; the sandbox is %s",
			      sandbox_state_names[sb->life.state]);
	} else if (rq->match.op == &ops[OP_SANDBOX_CREATE] && sb->life.state == SB_PENDING) {
		field_encode(&sandbox_info_table, NULL, &sb->info, &w);
		if (jw_finish(&w) < 0)
			buf_clear(&body);
		request_reply(rq, 202, "application/json", &body);
	} else
		request_reply_json(rq, &sandbox_info_table, &sb->info);
}

/* It waits only for the journal: the audit record can be written meanwhile. */
static void waiter_audit_early(struct sandbox *sb, struct request *rq, enum sandbox_wait until)
{
	if (sandbox_has_reached(sb, until) && until != WAIT_ENDING &&
	    !(until == WAIT_STARTED && sb->failure.code) && sandbox_is_as_requested(sb, rq))
		sb->cayd->hooks->reply_waits_for_journal(sb->cayd, rq);
}

void sandbox_audit_waiters_early(struct sandbox *sb)
{
	for (struct sandbox_waiter *w = sb->waiters; w; w = w->next)
		if (w->rq)
			waiter_audit_early(sb, w->rq, w->until);
}

static void sandbox_reply_waiters(struct sandbox *sb)
{
	struct sandbox_waiter **at = &sb->waiters, *come = NULL, **last = &come;

	/* a reply may start the next request of its connection, which may change this list */
	while (*at) {
		struct sandbox_waiter *w = *at;

		if (!w->rq || !sandbox_has_reached_durably(sb, w->until)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = NULL;
		*last = w;
		last = &w->next;
		w->rq->events = NULL;
	}
	while (come) {
		struct sandbox_waiter *w = come;

		come = w->next;
		sandbox_reply_now(sb, w->rq, w->until);
		free(w);
	}
}

/* A function may move the sandbox on, so requests that waited for this state are replied to
 * first. */
void sandbox_notify_waiters(struct sandbox *sb)
{
	struct sandbox_waiter *w;

	sandbox_reply_waiters(sb);
	do {
		w = sb->waiters;
		while (w && (w->rq || !sandbox_has_reached_durably(sb, w->until)))
			w = w->next;
		if (w) {
			LIST_UNLINK(sb->waiters, w, next);
			w->done(w->arg, sb);
			free(w);
		}
	} while (w);
}

void sandbox_refuse_removal_waiters(struct sandbox *sb)
{
	for (struct sandbox_waiter *w = sb->waiters; w; w = w->next)
		if (w->until == WAIT_ENDED)
			w->until = WAIT_ENDING;
		else if (w->until == WAIT_STOPPED)
			w->until = WAIT_SAVED;
	sandbox_notify_waiters(sb);
}

static void on_waiter_client_gone(struct request *rq)
{
	struct sandbox_waiter *w = rq->data;

	LIST_UNLINK(w->sandbox->waiters, w, next);
	free(w);
}

void sandbox_reply_when(struct sandbox *sb, struct request *rq, enum sandbox_wait until)
{
	static const struct request_events events = { .gone = on_waiter_client_gone };
	struct sandbox_waiter *w;

	if (sandbox_has_reached_durably(sb, until)) {
		sandbox_reply_now(sb, rq, until);
		return;
	}
	w = malloc(sizeof(*w));
	if (!w) {
		request_no_memory(rq);
		return;
	}
	*w = (struct sandbox_waiter){ sb->waiters, rq, sb, until, NULL, NULL };
	sb->waiters = w;
	rq->data = w;
	rq->events = &events;
	waiter_audit_early(sb, rq, until);
}

int sandbox_wait(struct sandbox *sb, enum sandbox_wait until, sandbox_wait_fn *done, void *arg,
		 struct sandbox_waiter **ret)
{
	struct sandbox_waiter *w;

	if (sandbox_has_reached_durably(sb, until))
		return 1;
	w = malloc(sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct sandbox_waiter){ sb->waiters, NULL, sb, until, done, arg };
	sb->waiters = *ret = w;
	return 0;
}

void sandbox_wait_cancel(struct sandbox_waiter *w)
{
	LIST_UNLINK(w->sandbox->waiters, w, next);
	free(w);
}

/* A list as of the request, sent once all of it is durable. */
struct list_reply {
	struct request *rq;
	struct db *db;
	uint64_t failed; /* the journal's failed writes at that time */
	struct buf body;
};

static void on_list_reply_durable(void *arg, const struct cay_err *outcome)
{
	struct list_reply *h = arg;
	struct cay_err err = *outcome;

	/* earlier writes may have been another transaction */
	if (!err.code && db_get_stats(h->db).failed != h->failed)
		(void)cay_fail(&err, CAY_E_UNAVAILABLE, "the journal could not write all of it");
	if (h->rq && err.code)
		request_fail(h->rq, &err);
	else if (h->rq)
		request_reply(h->rq, h->rq->match.op->status, "application/json", &h->body);
	buf_fini(&h->body);
	free(h);
}

void sandboxes_reply(struct cayd *c, struct request *rq, struct list_page *page, bool unsaved)
{
	struct list_reply *h;

	if (!unsaved) {
		list_page_reply(page, rq);
		return;
	}
	h = jw_finish(&page->w) < 0 ? NULL : malloc(sizeof(*h));
	if (!h) {
		buf_fini(&page->body);
		request_no_memory(rq);
		return;
	}
	*h = (struct list_reply){ rq, c->db, db_get_stats(c->db).failed, page->body };
	request_watch_client(&h->rq);
	db_barrier(c->db, on_list_reply_durable, h);
}
