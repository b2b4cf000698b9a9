/* SPDX-License-Identifier: Apache-2.0 */
/* The queue and its writer.  A record goes loop -> queue -> writer -> outcome list -> loop.  The
 * mutex guards the lists, the durable head and `stopping`, and is never held during disk I/O.  The
 * chains and their files belong to the writer. */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "audit/audit-internal.h"

#define BATCH_MAX 256
#define TENANT_SLOTS 1024 /* tenants with the same hash share what one may have */
#define RETRY_NS (NS_PER_S / 4)

struct audit_entry {
	struct audit_entry *next;
	struct audit_record rec;
	audit_fn *fn;
	void *arg;
	enum cay_code code;
	int sys;
	unsigned slot; /* of its tenant */
};

struct audit_entries {
	struct audit_entry *first, **end;
};

struct audit {
	int dirfd;
	struct audit_conf conf;
	/* the writer's */
	struct audit_chain chain;    /* if there is one for all */
	struct audit_shares *shares; /* else */
	uv_thread_t writer;
	uv_sem_t started; /* the writer is confined, or not: */
	int start_failure;
	/* the loop's */
	uv_async_t async;
	size_t pending, reserved;
	uint16_t pending_of[TENANT_SLOTS];
	uint64_t missed, missed_reported;
	struct audit_entries notifying; /* entries whose fn is due */
	bool closing;
	uv_mutex_t lock;
	uv_cond_t wake;
	/* with the lock */
	struct audit_entries queue, completed;
	struct audit_anchor durable;
	uint64_t failed;
	bool urgent; /* do not wait for more records */
	bool stopping;
};

static void audit_entries_init(struct audit_entries *list)
{
	*list = (struct audit_entries){ .end = &list->first };
}

static void audit_entries_append(struct audit_entries *list, struct audit_entry *e)
{
	e->next = NULL;
	*list->end = e;
	list->end = &e->next;
}

static struct audit_entry *audit_entries_pop(struct audit_entries *list)
{
	struct audit_entry *e = list->first;

	if (!e)
		return NULL;
	list->first = e->next;
	if (!list->first)
		list->end = &list->first;
	return e;
}

static void audit_entries_move(struct audit_entries *to, struct audit_entries *from)
{
	if (!from->first)
		return;
	*to->end = from->first;
	to->end = from->end;
	audit_entries_init(from);
}

static void audit_record_set_torn(struct audit_record *note, uint64_t torn)
{
	int n = snprintf(note->detail, sizeof(note->detail),
			 "%llu bytes of a record that was never acknowledged",
			 (unsigned long long)torn);

	assert(n > 0 && (size_t)n < sizeof(note->detail));
}

/* The writer. */

static int audit_writer_begin_segment(struct audit *a, struct audit_chain *c)
{
	int r = audit_chain_begin_segment(c, c->number + 1);

	if (r >= 0 && !a->shares)
		(void)audit_chain_drop_old(c, a->conf.keep, clk_wall_ns(a->conf.clk));
	return r < 0 ? r : audit_chain_trim_torn(c);
}

/* Whether it goes to the same chain. */
static bool audit_entry_is_beside(const struct audit *a, const struct audit_entry *e,
				  const struct audit_entry *first)
{
	return !a->shares || str_eq(e->rec.tenant, first->rec.tenant);
}

/* Take from the queue what fits into the file; the rest goes into the next one. */
static int audit_writer_write_to(struct audit *a, struct audit_chain *c,
				 struct audit_entries *batch, struct audit_entries *ret_done)
{
	auto_buf lines = BUF_INIT(BATCH_MAX * AUDIT_LINE_MAX);
	struct audit_entries mine, others;
	struct audit_anchor end;
	struct audit_entry *e, *first = batch->first;
	size_t n = 0;
	int r = audit_chain_trim_torn(c);

	audit_entries_init(&mine);
	audit_entries_init(&others);
	if (r >= 0 && c->size && c->size + AUDIT_LINE_MAX > a->conf.segment_bytes)
		r = audit_writer_begin_segment(a, c);
	end = c->end;
	for (e = first; r >= 0 && e; e = e->next) {
		if (!audit_entry_is_beside(a, e, first))
			continue;
		if (n == BATCH_MAX ||
		    (n && c->size + lines.len + AUDIT_LINE_MAX > a->conf.segment_bytes))
			break;
		r = audit_chain_format(&e->rec, &end, &lines);
		n++;
	}
	if (r >= 0)
		r = audit_chain_commit(c, &lines, &end);
	while (r >= 0 && (e = audit_entries_pop(batch))) {
		bool done = n && audit_entry_is_beside(a, e, first);

		n -= done;
		audit_entries_append(done ? &mine : &others, e);
	}
	if (r >= 0)
		audit_entries_move(batch, &others);
	audit_entries_move(ret_done, &mine);
	return r;
}

static void audit_writer_record_torn(struct audit_chain *c, uint64_t torn, uint64_t wall_ns)
{
	struct audit_record note = { .wall_ns = wall_ns, .op = AUDIT_CUT, .outcome = "ok" };
	struct audit_anchor end = c->end;
	auto_buf line = BUF_INIT(AUDIT_LINE_MAX);

	audit_record_set_torn(&note, torn);
	if (torn && audit_chain_format(&note, &end, &line) >= 0)
		(void)audit_chain_commit(c, &line, &end);
}

static int audit_writer_write_batch(struct audit *a, struct audit_entries *batch,
				    struct audit_entries *ret_done)
{
	struct audit_chain *c = &a->chain;
	uint64_t torn = 0;
	int r;

	if (!a->shares)
		return audit_writer_write_to(a, c, batch, ret_done);
	r = audit_shares_enter(a->shares, batch->first->rec.tenant, &c, &torn);
	if (r < 0)
		return r;
	audit_writer_record_torn(c, torn, clk_wall_ns(a->conf.clk));
	r = audit_writer_write_to(a, c, batch, ret_done);
	audit_shares_leave(a->shares);
	return r;
}

/* Report the failure once to each waiting request; its record stays queued.  With the lock held. */
static void audit_writer_report_failure(struct audit *a, const struct audit_entries *list, int r)
{
	for (struct audit_entry *e = list->first; e; e = e->next) {
		struct audit_entry *told = e->fn ? calloc(1, sizeof(*told)) : NULL;

		if (!told)
			continue;
		told->fn = e->fn;
		told->arg = e->arg;
		told->code = cay_code_from_disk_errno(r);
		told->sys = -r;
		e->fn = NULL;
		audit_entries_append(&a->completed, told);
	}
}

static bool audit_writer_next_batch(struct audit *a, struct audit_entries *batch)
{
	bool go_on;

	uv_mutex_lock(&a->lock);
	while (!batch->first && !a->queue.first && !a->stopping)
		uv_cond_wait(&a->wake, &a->lock);
	if (!batch->first && a->conf.gather_ns && !a->urgent && !a->stopping)
		(void)uv_cond_timedwait(&a->wake, &a->lock, a->conf.gather_ns);
	if (!batch->first) /* else the records that failed or did not fit come first */
		for (size_t n = 0; (n < BATCH_MAX || a->shares) && a->queue.first; n++)
			audit_entries_append(batch, audit_entries_pop(&a->queue));
	a->urgent &= a->queue.first != NULL;
	go_on = batch->first;
	uv_mutex_unlock(&a->lock);
	return go_on;
}

static void audit_writer_main(void *arg)
{
	struct audit *a = arg;
	struct audit_entries batch, done;
	struct audit_entry *e;
	bool stop = false;

	a->start_failure = a->conf.confine ? a->conf.confine(a->dirfd) : 0;
	uv_sem_post(&a->started);
	if (a->start_failure < 0)
		return;
	audit_entries_init(&batch);
	audit_entries_init(&done);
	while (!stop && audit_writer_next_batch(a, &batch)) {
		int r = audit_writer_write_batch(a, &batch, &done);

		uv_mutex_lock(&a->lock);
		if (r < 0) {
			audit_writer_report_failure(a, &batch, r);
			audit_writer_report_failure(a, &a->queue,
						    r); /* it would be queued after those */
		}
		a->durable = a->chain.end;
		audit_entries_move(&a->completed, &done);
		a->failed += r < 0;
		if (r < 0 && !a->stopping)
			(void)uv_cond_timedwait(&a->wake, &a->lock, RETRY_NS);
		stop = r < 0 && a->stopping;
		uv_mutex_unlock(&a->lock);
		(void)uv_async_send(&a->async);
	}
	while ((e = audit_entries_pop(&batch)))
		free(e);
}

/* The loop. */

static unsigned audit_tenant_slot(const char *tenant)
{
	return hash_bytes(0, tenant, strlen(tenant)) % TENANT_SLOTS;
}

static void audit_entry_uncount(struct audit *a, const struct audit_entry *e)
{
	a->pending--;
	a->pending_of[e->slot]--;
}

/* An entry that only reports a failure has no record, because its record is still queued. */
static void audit_notify_waiters(struct audit *a)
{
	struct audit_entry *e;

	uv_mutex_lock(&a->lock);
	audit_entries_move(&a->notifying, &a->completed);
	uv_mutex_unlock(&a->lock);
	while ((e = audit_entries_pop(&a->notifying))) {
		struct cay_err outcome = {};

		if (e->code)
			(void)cay_fail_sys(&outcome, e->code, e->sys, "write the audit log");
		else
			audit_entry_uncount(a, e);
		if (e->fn)
			e->fn(e->arg, &outcome);
		free(e);
	}
	if (!a->pending)
		uv_unref((uv_handle_t *)&a->async);
}

static void on_audit_async(uv_async_t *async)
{
	audit_notify_waiters(async->data);
}

int audit_slot_reserve(struct audit *a, struct cay_err *err)
{
	if (a->pending + a->reserved >= AUDIT_PENDING_MAX) {
		a->missed++;
		return cay_fail(err, CAY_E_UNAVAILABLE,
				"%u records are waiting for the audit log; the request was refused "
				"because it could not be recorded",
				(unsigned)AUDIT_PENDING_MAX);
	}
	a->reserved++;
	return 0;
}

void audit_slot_release(struct audit *a)
{
	assert(a->reserved);
	a->reserved--;
}

static bool audit_queue_append(struct audit *a, const struct audit_record *rec, audit_fn *fn,
			       void *arg)
{
	struct audit_entry *e = calloc(1, sizeof(*e));
	bool wake;

	if (!e)
		return false;
	e->rec = *rec;
	e->rec.wall_ns = clk_wall_ns(a->conf.clk);
	e->rec.wall_ns -= e->rec.wall_ns % NS_PER_MS;
	e->fn = fn;
	e->arg = arg;
	e->slot = audit_tenant_slot(rec->tenant);
	a->pending++;
	a->pending_of[e->slot]++;
	uv_ref((uv_handle_t *)&a->async);
	uv_mutex_lock(&a->lock);
	a->urgent |= fn || a->pending >= BATCH_MAX;
	wake = a->urgent || !a->queue.first; /* else the writer knows that there are records */
	audit_entries_append(&a->queue, e);
	if (wake)
		uv_cond_signal(&a->wake);
	uv_mutex_unlock(&a->lock);
	return true;
}

/* How many records there are not, as soon as one can be. */
static void audit_record_missed(struct audit *a)
{
	struct audit_record note = { .op = AUDIT_MISSED, .outcome = "unavailable" };
	uint64_t n = a->missed - a->missed_reported;

	if (!n || a->pending + a->reserved + 1 >= AUDIT_PENDING_MAX)
		return;
	if (snprintf(note.detail, sizeof(note.detail), "%llu refusals were not recorded",
		     (unsigned long long)n) > 0 &&
	    audit_queue_append(a, &note, NULL, NULL))
		a->missed_reported = a->missed;
}

/* Where each tenant has a chain, none may fill the queue of all. */
static bool audit_tenant_is_full(const struct audit *a, const char *tenant)
{
	return a->shares && a->pending_of[audit_tenant_slot(tenant)] >= AUDIT_PENDING_OF_TENANT_MAX;
}

bool audit_append(struct audit *a, const struct audit_record *rec, bool reserved, audit_fn *fn,
		  void *arg)
{
	if (reserved)
		audit_slot_release(a);
	if (a->closing || (!reserved && a->pending + a->reserved >= AUDIT_PENDING_MAX) ||
	    audit_tenant_is_full(a, rec->tenant)) {
		a->missed++;
		return false;
	}
	audit_record_missed(a);
	if (audit_queue_append(a, rec, fn, arg))
		return true;
	a->missed++;
	return false;
}

struct audit_anchor audit_get_durable_head(struct audit *a)
{
	struct audit_anchor head;

	uv_mutex_lock(&a->lock);
	head = a->durable;
	uv_mutex_unlock(&a->lock);
	return head;
}

struct audit_stats audit_get_stats(struct audit *a)
{
	struct audit_stats s = { .pending = a->pending, .missed = a->missed };

	uv_mutex_lock(&a->lock);
	s.failed = a->failed;
	uv_mutex_unlock(&a->lock);
	return s;
}

/* Open and close. */

static void audit_append_torn(struct audit *a, uint64_t torn)
{
	struct audit_record note = { .op = AUDIT_CUT, .outcome = "ok" };

	audit_record_set_torn(&note, torn);
	if (torn)
		(void)audit_append(a, &note, false, NULL, NULL);
}

/* Signals belong to the loop thread: a new thread inherits its creator's signal mask. */
static int audit_writer_start(struct audit *a)
{
	sigset_t all, before;
	int r = uv_sem_init(&a->started, 0);

	if (r < 0)
		return r;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = uv_thread_create(&a->writer, audit_writer_main, a);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r >= 0) {
		uv_sem_wait(&a->started);
		r = a->start_failure;
		if (r < 0)
			(void)uv_thread_join(&a->writer);
	}
	uv_sem_destroy(&a->started);
	return r;
}

static struct audit *audit_new(int dirfd, const struct audit_conf *conf)
{
	struct audit *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	*a = (struct audit){ .dirfd = dirfd,
			     .conf = *conf,
			     .chain = { .dirfd = dirfd, .fd = -EBADF, .end = { 0, AUDIT_NONE } } };
	audit_entries_init(&a->queue);
	audit_entries_init(&a->completed);
	audit_entries_init(&a->notifying);
	if (uv_mutex_init(&a->lock) == 0) {
		if (uv_cond_init(&a->wake) == 0)
			return a;
		uv_mutex_destroy(&a->lock);
	}
	free(a);
	return NULL;
}

static void audit_fini(struct audit *a)
{
	audit_chain_fini(&a->chain);
	audit_shares_free(a->shares);
	uv_cond_destroy(&a->wake);
	uv_mutex_destroy(&a->lock);
}

static void on_audit_closed(uv_handle_t *handle)
{
	free(handle->data);
}

int audit_open(int dirfd, const struct audit_conf *conf, uv_loop_t *loop, struct audit **ret,
	       struct cay_err *err)
{
	struct audit *a = audit_new(dirfd, conf);
	uint64_t torn = 0;
	int r;

	assert(conf->segment_bytes >= AUDIT_SEGMENT_MIN && conf->keep >= 2);
	if (!a)
		return cay_no_memory(err);
	r = conf->total_bytes ? audit_shares_open(dirfd, &a->conf, &a->shares)
			      : audit_chain_find_end(&a->chain, &torn);
	if (r >= 0 && !a->shares)
		(void)audit_chain_drop_old(&a->chain, conf->keep, clk_wall_ns(conf->clk));
	if (r >= 0)
		r = uv_async_init(loop, &a->async, on_audit_async);
	if (r < 0) {
		audit_fini(a);
		free(a);
		return r == -EINVAL ? cay_fail(err, CAY_E_INTERNAL,
					       "the audit log's last record is damaged: look with "
					       "cay audit verify, then move the files away")
				    : cay_fail_sys(err, CAY_E_INTERNAL, -r, "open the audit log");
	}
	a->async.data = a;
	uv_unref((uv_handle_t *)&a->async);
	a->durable = a->chain.end;
	r = audit_writer_start(a);
	if (r < 0) {
		audit_fini(a);
		uv_close((uv_handle_t *)&a->async, on_audit_closed);
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "start the audit log's writer");
	}
	audit_append_torn(a, torn);
	*ret = a;
	return 0;
}

void audit_close(struct audit *a)
{
	struct audit_entry *e;

	if (!a || a->closing)
		return;
	a->closing = true;
	uv_mutex_lock(&a->lock);
	a->stopping = true;
	uv_cond_signal(&a->wake);
	uv_mutex_unlock(&a->lock);
	(void)uv_thread_join(&a->writer);
	audit_notify_waiters(a);
	while ((e = audit_entries_pop(&a->queue)))
		free(e); /* the disk failed to the end */
	audit_fini(a);
	uv_close((uv_handle_t *)&a->async, on_audit_closed);
}
