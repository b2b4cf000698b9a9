/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/upload.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/tree.h"
#include "cayd/admit.h"
#include "cayd/tenant.h"
#include "cayd/upload-internal.h"
#include "text/hex.h"

#define PIECE_MAX MIB(1)
#define FRESH "new"

/* Whatever a group is called, this is one component and no other's. */
static struct upload_place place_of(struct cayd *c, const struct id *tenant, const char *group,
				    const char *name)
{
	struct upload_place at = { .all = c->uploads, .tenant = *tenant };
	struct slice g = slice_of(group ? group : ""), n = slice_of(name ? name : "");

	assert(g.n <= UPLOAD_GROUP_MAX && n.n <= UPLOAD_NAME_MAX);
	hex_write((const uint8_t *)g.p, g.n, at.group);
	memcpy(at.name, n.p, n.n);
	return at;
}

/* One that comes */

struct putting {
	struct putting *next;
	struct cayd *cayd;
	struct request *rq; /* NULL once it is answered or gone */
	struct upload_place at;
	struct upload_put_query want;
	char sha256[FILE_HASH_HEX + 1];
	uint64_t quota;
	uint64_t began_ns, came;
	struct buf piece;
	struct upload_file file;
	struct upload_row row;
	uv_work_t work;
	bool working, ended;
	struct cay_err err;
};

static void run(struct putting *p, uv_work_cb work, uv_after_work_cb then)
{
	p->working = true;
	p->work.data = p;
	(void)uv_queue_work(&p->cayd->loop, &p->work, work, then);
}

static void do_fini(uv_work_t *work)
{
	struct putting *p = work->data;

	upload_fini(&p->file, &p->at);
}

static void on_over(uv_work_t *work, int)
{
	struct putting *p = work->data, **at = &p->at.all->puts;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	buf_fini(&p->piece);
	free(p);
}

static void finish(struct putting *p)
{
	run(p, do_fini, on_over);
}

static void fail(struct putting *p, const struct cay_err *err)
{
	struct request *rq = cay_take(p->rq);

	if (rq)
		request_fail(rq, err);
	finish(p);
}

/* A worker is done: whether to go on. */
static bool goes_on(struct putting *p)
{
	p->working = false;
	if (p->err.code)
		fail(p, &p->err);
	else if (!p->rq)
		finish(p);
	return p->rq;
}

static void do_commit(uv_work_t *work)
{
	struct putting *p = work->data;

	(void)upload_commit(&p->file, &p->at, &p->want, p->quota, &p->row, &p->err);
}

static void on_committed(uv_work_t *work, int)
{
	struct putting *p = work->data;
	struct upload made = { p->row.name, p->file.sha256, p->row.size, p->row.created_ns };
	struct request *rq;

	if (!goes_on(p))
		return;
	rq = cay_take(p->rq);
	request_reply_json(rq, &upload_table, &made);
	finish(p);
}

static void do_write(uv_work_t *work)
{
	struct putting *p = work->data;

	(void)upload_add(&p->file, (struct slice){ p->piece.data, p->piece.len }, &p->err);
}

static void on_written(uv_work_t *work, int)
{
	struct putting *p = work->data;

	if (!goes_on(p))
		return;
	buf_clear(&p->piece);
	if (p->ended)
		run(p, do_commit, on_committed);
	else
		request_resume(p->rq);
}

/* What comes for the tenant now, all of it. */
static uint64_t coming(const struct putting *p)
{
	uint64_t sum = 0;

	for (const struct putting *o = p->at.all->puts; o; o = o->next)
		sum += o->rq && id_eq(&o->at.tenant, &p->at.tenant) ? o->came : 0;
	return sum;
}

static void on_body(struct request *rq, struct slice bytes)
{
	struct putting *p = rq->data;
	struct cay_err err = {};

	p->came += bytes.n;
	if (clk_boot_ns(p->cayd->clk) - p->began_ns > UPLOAD_NS)
		(void)cay_fail(&err, CAY_E_TIMEOUT, "it is not here within an hour");
	else if (coming(p) > p->file.room)
		(void)cay_fail(&err, CAY_E_LIMIT,
			       "there was room for %llu bytes, and more came: delete uploads, or "
			       "groups that are over",
			       (unsigned long long)p->file.room);
	else if (p->want.has_size && p->came > p->want.size)
		(void)cay_fail_field(&err, CAY_E_INVALID, "size", "more came than that");
	else if (admit_disk(p->cayd, &err) >= 0 && buf_add(&p->piece, bytes.p, bytes.n) < 0)
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
	if (err.code) {
		fail(p, &err);
		return;
	}
	request_pause(rq);
	run(p, do_write, on_written);
}

static void on_body_end(struct request *rq)
{
	struct putting *p = rq->data;

	p->ended = true;
	if (!p->working)
		run(p, do_commit, on_committed);
}

static void on_gone(struct request *rq)
{
	struct putting *p = rq->data;

	p->rq = NULL;
	if (!p->working)
		finish(p);
}

static void do_begin(uv_work_t *work)
{
	struct putting *p = work->data;

	(void)upload_begin(&p->file, &p->at, p->want.has_size ? p->want.size : 0, p->quota,
			   &p->err);
}

static void on_begun(uv_work_t *work, int)
{
	struct putting *p = work->data;

	if (goes_on(p))
		request_resume(p->rq);
}

static bool is_turn(const struct cayd *c, const struct id *tenant)
{
	unsigned all = 0, of_it = 0;

	for (const struct putting *p = c->uploads->puts; p; p = p->next) {
		all++; /* with those that were answered and are tidied up */
		of_it += p->rq && id_eq(&p->at.tenant, tenant);
	}
	return all < UPLOADS_MAX && of_it < UPLOADS_TENANT;
}

void upload_put(struct cayd *c, struct request *rq)
{
	static const struct request_events events = { .body = on_body,
						      .body_end = on_body_end,
						      .gone = on_gone };
	const struct upload_put_query *q = rq->query;
	struct putting *p = is_turn(c, &rq->actor.tenant) ? calloc(1, sizeof(*p)) : NULL;

	if (!p) {
		(void)request_header(rq, "Retry-After", "1");
		request_refuse(rq, CAY_E_RATE, "too many uploads are under way");
		return;
	}
	*p = (struct putting){ .next = c->uploads->puts,
			       .cayd = c,
			       .rq = rq,
			       .at = place_of(c, &rq->actor.tenant, q->group, q->name),
			       .want = { .has_size = q->has_size, .size = q->size },
			       .quota = c->settings.uploads_size,
			       .began_ns = clk_boot_ns(c->clk),
			       .piece = BUF_INIT(PIECE_MAX),
			       .file = { .fd = -EBADF } };
	if (q->sha256) {
		memcpy(p->sha256, q->sha256, FILE_HASH_HEX);
		p->want.sha256 = p->sha256;
	}
	c->uploads->puts = p;
	rq->data = p;
	rq->events = &events;
	request_pause(rq);
	run(p, do_begin, on_begun);
}

/* What a worker does at once */

struct task {
	struct task *next;
	struct request *rq; /* NULL: nobody waits for it, or not any more */
	struct upload_place at;
	struct upload_row *rows; /* of a list; else one */
	size_t n;
	uploads_fn *fn;
	void *arg;
	uv_work_cb what;
	uv_after_work_cb then;
	bool working;
	uv_work_t work;
	struct cay_err err;
};

static void on_task_gone(struct request *rq)
{
	struct task *t = rq->data;

	t->rq = NULL;
}

/* How many of a tenant there are, or only of those that a worker has. */
static unsigned tasks_of(const struct upload_place *at, bool working)
{
	unsigned n = 0;

	for (const struct task *o = at->all->tasks; o; o = o->next)
		n += id_eq(&o->at.tenant, &at->tenant) && (o->working || !working);
	return n;
}

/* The oldest of the tenant that waits, if it is its turn: workers are everybody's. */
static void next_task(uv_loop_t *loop, const struct upload_place *at)
{
	struct task *oldest = NULL;

	if (tasks_of(at, true) >= UPLOADS_TASKS)
		return;
	for (struct task *t = at->all->tasks; t; t = t->next)
		if (!t->working && id_eq(&t->at.tenant, &at->tenant))
			oldest = t;
	if (!oldest)
		return;
	oldest->working = true;
	(void)uv_queue_work(loop, &oldest->work, oldest->what, oldest->then);
}

static void begin_task(struct cayd *c, struct task *t, uv_work_cb what, uv_after_work_cb then)
{
	t->what = what;
	t->then = then;
	next_task(&c->loop, &t->at);
}

static void end_task(struct task *t)
{
	struct task **at = &t->at.all->tasks;
	struct upload_place place = t->at;
	uv_loop_t *loop = t->work.loop;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	free(t->rows);
	free(t);
	next_task(loop, &place);
}

/* With room for so many rows; NULL: there are too many, or no memory. */
static struct task *task_at(const struct upload_place *at, size_t rows, unsigned most,
			    struct cay_err *err)
{
	struct task *t = NULL;

	/* a tenant that goes does so once */
	if (tasks_of(at, false) >= most && at->group[0]) {
		(void)cay_fail(err, CAY_E_RATE, "the tenant's uploads are busy: ask again");
		return NULL;
	}
	t = calloc(1, sizeof(*t));
	if (t)
		t->rows = calloc(rows, sizeof(*t->rows));
	if (!t || !t->rows) {
		free(t);
		(void)cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
		return NULL;
	}
	t->at = *at;
	t->work.data = t;
	t->next = at->all->tasks;
	at->all->tasks = t;
	return t;
}

/* NULL, and the request was told. */
static struct task *task_of(struct cayd *c, struct request *rq, const char *group, const char *name,
			    size_t rows)
{
	static const struct request_events events = { .gone = on_task_gone };
	struct upload_place at = place_of(c, &rq->actor.tenant, group, name);
	struct cay_err err = {};
	struct task *t = task_at(&at, rows, UPLOADS_TASKS, &err);

	if (!t) {
		request_fail(rq, &err);
		return NULL;
	}
	t->rq = rq;
	rq->data = t;
	rq->events = &events;
	return t;
}

static struct upload shown(const struct upload_row *row)
{
	return (struct upload){ .name = row->name,
				.sha256 = row->sha256[0] ? row->sha256 : NULL,
				.size = row->size,
				.created_ns = row->created_ns };
}

static void do_list(uv_work_t *work)
{
	struct task *t = work->data;

	(void)upload_rows(&t->at, t->rows, &t->n, &t->err);
}

static void on_listed(uv_work_t *work, int)
{
	struct task *t = work->data;
	struct upload *rows =
		t->rq ? pool_take(&t->rq->pool, t->n ? t->n : 1, sizeof(*rows)) : NULL;
	struct upload_list list = { .uploads = { rows, t->n } };

	for (size_t i = 0; rows && i < t->n; i++)
		rows[i] = shown(&t->rows[i]);
	if (t->rq && t->err.code)
		request_fail(t->rq, &t->err);
	else if (t->rq && !rows)
		request_refuse(t->rq, CAY_E_NO_MEMORY, "out of memory");
	else if (t->rq)
		request_reply_json(t->rq, &upload_list_table, &list);
	end_task(t);
}

void upload_list(struct cayd *c, struct request *rq)
{
	const struct group_query *q = rq->query;
	struct task *t = task_of(c, rq, q->group, NULL, UPLOADS_GROUP);

	if (t)
		begin_task(c, t, do_list, on_listed);
}

static void do_remove(uv_work_t *work)
{
	struct task *t = work->data;

	(void)upload_remove(&t->at, t->rows, &t->err);
}

static void on_removed(uv_work_t *work, int)
{
	struct task *t = work->data;
	struct upload gone = shown(t->rows);

	if (t->rq && t->err.code)
		request_fail(t->rq, &t->err);
	else if (t->rq)
		request_reply_json(t->rq, &upload_table, &gone);
	end_task(t);
}

void upload_delete(struct cayd *c, struct request *rq)
{
	const struct upload_query *q = rq->query;
	struct task *t = task_of(c, rq, q->group, q->name, 1);

	if (t)
		begin_task(c, t, do_remove, on_removed);
}

static void do_forget(uv_work_t *work)
{
	struct task *t = work->data;

	(void)upload_forget(&t->at, &t->err);
}

static void on_forgotten(uv_work_t *work, int)
{
	struct task *t = work->data;

	t->fn(t->arg, &t->err);
	end_task(t);
}

void uploads_forget(struct cayd *c, const struct id *tenant, const char *group, uploads_fn *fn,
		    void *arg)
{
	struct upload_place at = place_of(c, tenant, group, NULL);
	struct cay_err err = {};
	struct task *t = task_at(&at, 1, UPLOADS_FORGETS, &err);

	for (struct putting *p = c->uploads->puts; p; p = p->next)
		if (id_eq(&p->at.tenant, tenant) && (!group || str_eq(p->at.group, at.group)))
			atomic_store(&p->file.forgotten, true);
	if (!t) {
		fn(arg, &err);
		return;
	}
	t->fn = fn;
	t->arg = arg;
	begin_task(c, t, do_forget, on_forgotten);
}

/* One that is read */

static void on_read(uv_work_t *work, int)
{
	struct upload_read *r = work->data;

	r->fn(r, &r->err);
}

static void do_open(uv_work_t *work)
{
	struct upload_read *r = work->data;
	struct upload_row row = {};

	r->fd = upload_open(&r->at, &row, &r->err);
	r->size = row.size;
	r->created_ns = row.created_ns;
}

struct upload_read *upload_read(struct cayd *c, const struct id *tenant, const char *group,
				const char *name, upload_read_fn *fn, void *arg)
{
	struct upload_read *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->at = place_of(c, tenant, group, name);
	r->fd = -EBADF;
	r->fn = fn;
	r->arg = arg;
	r->work.data = r;
	(void)uv_queue_work(&c->loop, &r->work, do_open, on_read);
	return r;
}

static void do_read(uv_work_t *work)
{
	struct upload_read *r = work->data;
	ssize_t n;

	do
		n = read(r->fd, r->piece, sizeof(r->piece));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		(void)cay_fail_sys(&r->err, CAY_E_INTERNAL, errno, "read the upload");
	r->n = n < 0 ? 0 : (size_t)n;
}

void upload_read_more(struct upload_read *r)
{
	(void)uv_queue_work(r->work.loop, &r->work, do_read, on_read);
}

/* The last to have one open that was removed meanwhile gives its blocks back. */
static void do_close(uv_work_t *work)
{
	struct upload_read *r = work->data;

	cay_closep(&r->fd);
}

static void on_closed(uv_work_t *work, int)
{
	free(work->data);
}

void upload_read_end(struct upload_read *r)
{
	if (r)
		(void)uv_queue_work(r->work.loop, &r->work, do_close, on_closed);
}

/* The start */

static int sweep_one(void *arg, int dirfd, const char *name)
{
	const struct cayd *c = arg;
	struct id id;

	/* what is called otherwise, such as lost+found, is not ours */
	if (id_parse(ID_TENANT, slice_of(name), &id) < 0 || tenant_known(c, &id))
		return 0;
	return tree_remove(dirfd, name);
}

int uploads_open(struct cayd *c, struct cay_err *err)
{
	struct uploads *all = c->uploads = calloc(1, sizeof(*all));
	int r;

	if (!all || uv_mutex_init(&all->changing) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	all->root = c->uploads_dir;
	if (mkdirat(all->root, FRESH, 0700) < 0 && errno != EEXIST)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "make uploads/" FRESH);
	r = all->fresh = path_open(all->root, FRESH, O_RDONLY | O_DIRECTORY, 0);
	if (r >= 0)
		r = tree_empty(all->fresh);
	if (r >= 0)
		r = path_each(all->root, sweep_one, c);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "tidy up the uploads") : 0;
}
