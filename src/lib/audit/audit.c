/* SPDX-License-Identifier: Apache-2.0 */
/* The queue and its writer.  A record goes loop -> queue -> writer -> outcome list -> loop.  The
 * mutex guards the lists, the durable head and `stopping`, and is never held during disk I/O.  The
 * chain, the file and its size belong to the writer. */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "audit/audit-internal.h"
#include "base/failpoint.h"
#include "base/path.h"

#define BATCH_MAX 256
#define RETRY_NS (NS_PER_S / 4)

struct audit_entry {
	struct audit_entry *next;
	struct audit_record rec;
	audit_fn *fn;
	void *arg;
	enum cay_code code;
	int sys;
};

struct audit_entries {
	struct audit_entry *first, **end;
};

struct audit {
	int dirfd;
	struct audit_conf conf;
	/* the writer's */
	int fd;
	uint32_t number;
	uint64_t size;
	bool dirty; /* the file is longer than that */
	struct audit_anchor chain;
	uv_thread_t writer;
	uv_sem_t started; /* the writer is confined, or not: */
	int start_failure;
	/* the loop's */
	uv_async_t async;
	size_t pending, reserved;
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

/* The writer. */

static int audit_chain_append(struct audit_record *rec, struct audit_anchor *chain, struct buf *out)
{
	auto_buf line = BUF_INIT(AUDIT_LINE_MAX);
	int r;

	rec->seq = chain->count + 1;
	memcpy(rec->prev, chain->head, sizeof(rec->prev));
	r = audit_record_format(rec, &line);
	if (r >= 0)
		r = buf_putc(&line, '\n');
	if (r >= 0)
		r = audit_line_hash(line.data, line.len, chain->head);
	if (r >= 0)
		r = buf_append(out, line.data, line.len);
	chain->count++;
	return r;
}

/* Remove the remains of a failed attempt after the last record before writing anything else. */
static int audit_segment_trim_torn(struct audit *a)
{
	if (a->dirty && ftruncate(a->fd, (off_t)a->size) < 0)
		return -errno;
	a->dirty = false;
	return 0;
}

/* All of it is durable, or none of it is in the file. */
static int audit_segment_commit(struct audit *a, const struct buf *lines,
				const struct audit_anchor *chain)
{
	int r = fd_write_all(a->fd, lines->data, lines->len);

	if (r >= 0)
		r = failpoint_hit(FAULT_AUDIT_WRITTEN);
	if (r >= 0 && fdatasync(a->fd) < 0)
		r = -errno;
	if (r >= 0)
		r = failpoint_hit(FAULT_AUDIT_SYNCED);
	if (r < 0) {
		a->dirty = true;
		(void)audit_segment_trim_torn(a);
		return r;
	}
	a->size += lines->len;
	a->chain = *chain;
	return 0;
}

/* The file of a number, which is empty or was. */
static int audit_segment_begin(struct audit *a, uint32_t number)
{
	char name[SEGMENT_NAME_LEN + 1];
	int fd;

	if (number > SEGMENT_LAST)
		return -EOVERFLOW;
	audit_segment_format_name(number, name);
	fd = path_open(a->dirfd, name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fd;
	if (fsync(a->dirfd) < 0) {
		int r = -errno;

		(void)close(fd);
		return r;
	}
	cay_closep(&a->fd);
	a->fd = fd;
	a->number = number;
	a->size = 0;
	return 0;
}

/* Remove files beyond those to keep, after a record of their last one.  A failure is retried
 * when the next file is begun. */
static int audit_segments_drop_old(struct audit *a)
{
	struct audit_record note = { .wall_ns = clk_wall_ns(a->conf.clk),
				     .op = AUDIT_DROPPED,
				     .outcome = "ok" };
	struct audit_anchor chain = a->chain;
	auto_buf line = BUF_INIT(AUDIT_LINE_MAX);
	char name[SEGMENT_NAME_LEN + 1];
	struct audit_record first;
	auto_audit_segments all = {};
	size_t gone;
	int r = audit_segments_list(a->dirfd, &all);

	if (r < 0 || all.n <= a->conf.keep)
		return r;
	gone = all.n - a->conf.keep;
	r = audit_segment_read_first(a->dirfd, all.v[gone], &first);
	if (r <= 0)
		return r;
	note.dropped.count = first.seq - 1;
	memcpy(note.dropped.head, first.prev, sizeof(note.dropped.head));
	r = audit_chain_append(&note, &chain, &line);
	if (r >= 0)
		r = audit_segment_commit(a, &line, &chain);
	for (size_t i = 0; r >= 0 && i < gone; i++) {
		audit_segment_format_name(all.v[i], name);
		if (unlinkat(a->dirfd, name, 0) < 0)
			r = -errno;
	}
	return r >= 0 && fsync(a->dirfd) < 0 ? -errno : r;
}

/* Take from the queue what fits into the file; the rest goes into the next one. */
static int audit_writer_write_batch(struct audit *a, struct audit_entries *batch,
				    struct audit_entries *ret_done)
{
	auto_buf lines = BUF_INIT(BATCH_MAX * AUDIT_LINE_MAX);
	struct audit_anchor chain = a->chain;
	struct audit_entry *e;
	size_t n = 0;
	int r = audit_segment_trim_torn(a);

	if (r >= 0 && a->size && a->size + AUDIT_LINE_MAX > a->conf.segment_bytes) {
		r = audit_segment_begin(a, a->number + 1);
		if (r >= 0)
			(void)audit_segments_drop_old(a);
		chain = a->chain;
		r = r < 0 ? r : audit_segment_trim_torn(a);
	}
	for (e = batch->first; r >= 0 && e; e = e->next, n++) {
		if (n && a->size + lines.len + AUDIT_LINE_MAX > a->conf.segment_bytes)
			break;
		r = audit_chain_append(&e->rec, &chain, &lines);
	}
	if (r >= 0)
		r = audit_segment_commit(a, &lines, &chain);
	while (r >= 0 && n--)
		audit_entries_append(ret_done, audit_entries_pop(batch));
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
		for (size_t n = 0; n < BATCH_MAX && a->queue.first; n++)
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
		a->durable = a->chain;
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
			a->pending--;
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
	a->pending++;
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

bool audit_append(struct audit *a, const struct audit_record *rec, bool reserved, audit_fn *fn,
		  void *arg)
{
	if (reserved)
		audit_slot_release(a);
	if (a->closing || (!reserved && a->pending + a->reserved >= AUDIT_PENDING_MAX)) {
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

/* The last record of a file and its end; *ret_torn bytes follow it. */
static int audit_segment_read_last(struct audit *a, uint32_t number, uint64_t *ret_torn)
{
	int fd = audit_segment_open(a->dirfd, number), r;
	auto_buf last = BUF_INIT(AUDIT_LINE_MAX);
	auto_lines l = audit_line_reader_open(fd);
	struct audit_record rec;
	struct slice text;
	struct stat st;

	if (fd < 0)
		return fd;
	while ((r = audit_line_reader_next(&l, &text)) > 0) {
		buf_clear(&last);
		if (buf_append(&last, text.p, text.n) < 0)
			return -ENOMEM;
	}
	if (r < 0)
		return r == -EMSGSIZE ? -EINVAL : r;
	if (fstat(fd, &st) < 0)
		return -errno;
	a->size = l.size;
	*ret_torn = (uint64_t)st.st_size - l.size;
	if (!last.len)
		return 0;
	if (audit_record_parse(last.data, last.len - 1, &rec) < 0)
		return -EINVAL;
	a->chain.count = rec.seq;
	r = audit_line_hash(last.data, last.len, a->chain.head);
	return r < 0 ? r : 1;
}

static int audit_chain_find_end(struct audit *a, uint64_t *ret_torn)
{
	auto_audit_segments all = {};
	uint64_t ignored, size;
	uint32_t last;
	int r = audit_segments_list(a->dirfd, &all);

	if (r < 0 || !all.n)
		return r < 0 ? r : audit_segment_begin(a, 1);
	last = all.v[all.n - 1];
	r = audit_segment_read_last(a, last, ret_torn);
	size = a->size;
	/* a crash between a new file and its first record */
	if (r == 0 && last > 1)
		r = all.n > 1 && audit_segment_read_last(a, all.v[all.n - 2], &ignored) > 0
			    ? 1
			    : -EINVAL;
	if (r >= 0)
		r = audit_segment_begin(a, last);
	a->size = size;
	if (r >= 0 && *ret_torn && (ftruncate(a->fd, (off_t)size) < 0 || fsync(a->fd) < 0))
		r = -errno;
	return r;
}

static void audit_record_torn(struct audit *a, uint64_t torn)
{
	struct audit_record note = { .op = AUDIT_CUT, .outcome = "ok" };

	if (torn && snprintf(note.detail, sizeof(note.detail),
			     "%llu bytes of a record that was never acknowledged",
			     (unsigned long long)torn) > 0)
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
	*a = (struct audit){
		.dirfd = dirfd, .conf = *conf, .fd = -EBADF, .chain = { 0, AUDIT_NONE }
	};
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
	cay_closep(&a->fd);
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
	r = audit_chain_find_end(a, &torn);
	a->durable = a->chain;
	if (r >= 0)
		(void)audit_segments_drop_old(a);
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
	a->durable = a->chain;
	r = audit_writer_start(a);
	if (r < 0) {
		audit_fini(a);
		uv_close((uv_handle_t *)&a->async, on_audit_closed);
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "start the audit log's writer");
	}
	audit_record_torn(a, torn);
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
