/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/upload/upload.h"
#include "cayd/core/handlers.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "cayd/core/deferred-reply.h"
#include "cayd/core/list.h"
#include "cayd/sandbox/sandbox.h"
#include "cayd/tenant/quota.h"
#include "cayd/tenant/tenant.h"
#include "cayd/upload/upload-internal.h"
#include "text/hex.h"

#define PIECE_MAX MIB(1)
#define FRESH "new"

/* Hex makes any group name one path component, distinct from all others. */
static struct upload_location upload_location_create(struct cayd *c, const struct id *tenant,
						     const char *group, const char *name)
{
	struct upload_location at = { .all = c->uploads, .tenant = *tenant };
	struct slice g = slice_of(group ? group : ""), n = slice_of(name ? name : "");

	assert(g.n <= UPLOAD_GROUP_MAX && n.n <= UPLOAD_NAME_MAX);
	hex_encode((const uint8_t *)g.p, g.n, at.group);
	for (size_t i = 0; i < n.n; i++)
		at.name[i] = n.p[i] == '/' ? UPLOAD_SLASH : n.p[i];
	return at;
}

/* Receive */

struct upload_receive {
	struct upload_receive *next;
	struct cayd *cayd;
	struct request *rq; /* NULL: answered, or the client left */
	struct upload_location at;
	struct upload_put_query want;
	char sha256[FILE_HASH_HEX + 1];
	uint64_t quota;
	uint64_t began_ns, received;
	struct buf piece;
	struct upload_file file;
	struct upload row;
	uv_work_t work;
	bool working, ended;
	bool waiting; /* for another upload of the tenant to get its name or to be removed */
	bool recount; /* another one got its name since `file.room` was counted */
	struct cay_err err;
};

static void upload_receive_queue_work(struct upload_receive *p, uv_work_cb work,
				      uv_after_work_cb then)
{
	p->working = true;
	p->work.data = p;
	(void)uv_queue_work(&p->cayd->loop, &p->work, work, then);
}

static void upload_receive_cleanup_work(uv_work_t *work)
{
	struct upload_receive *p = work->data;

	upload_file_fini(&p->file, &p->at);
}

static void upload_receive_store_piece(struct upload_receive *p);

static void on_upload_cleaned_up(uv_work_t *work, int)
{
	struct upload_receive *p = work->data;

	LIST_UNLINK(p->at.all->receives, p, next);
	for (struct upload_receive *o = p->at.all->receives; o; o = o->next) {
		if (!o->waiting || !id_eq(&o->at.tenant, &p->at.tenant))
			continue;
		o->waiting = false;
		upload_receive_store_piece(o);
	}
	buf_fini(&p->piece);
	free(p);
}

static void upload_receive_finish(struct upload_receive *p)
{
	upload_receive_queue_work(p, upload_receive_cleanup_work, on_upload_cleaned_up);
}

static void upload_receive_fail(struct upload_receive *p, const struct cay_err *err)
{
	struct request *rq = cay_take(p->rq);

	if (rq)
		request_fail(rq, err);
	upload_receive_finish(p);
}

/* After a worker: whether to continue. */
static bool upload_receive_can_continue(struct upload_receive *p)
{
	p->working = false;
	if (p->err.code)
		upload_receive_fail(p, &p->err);
	else if (!p->rq)
		upload_receive_finish(p);
	return p->rq;
}

static void upload_receive_commit_work(uv_work_t *work)
{
	struct upload_receive *p = work->data;

	(void)upload_file_commit(&p->file, &p->at, &p->want, p->quota, &p->row, &p->err);
}

/* The room of the tenant's other uploads is another one now. */
static void upload_receives_recount(const struct upload_receive *named)
{
	for (struct upload_receive *o = named->at.all->receives; o; o = o->next)
		o->recount |= id_eq(&o->at.tenant, &named->at.tenant);
}

static void on_upload_committed(uv_work_t *work, int)
{
	struct upload_receive *p = work->data;
	struct upload_info made = { p->row.name, p->file.sha256, p->row.size, p->row.created_ns };
	struct request *rq;

	/* named or not: what has its name is counted by its size from now on */
	if (!p->file.temp[0]) {
		p->received = 0;
		upload_receives_recount(p);
	}
	if (!upload_receive_can_continue(p))
		return;
	rq = cay_take(p->rq);
	request_reply_json(rq, &upload_info_table, &made);
	upload_receive_finish(p);
}

static void upload_receive_write_work(uv_work_t *work)
{
	struct upload_receive *p = work->data;

	(void)upload_file_append(&p->file, (struct slice){ p->piece.data, p->piece.len }, &p->err);
}

static void on_upload_written(uv_work_t *work, int)
{
	struct upload_receive *p = work->data;

	if (!upload_receive_can_continue(p))
		return;
	buf_clear(&p->piece);
	if (p->ended)
		upload_receive_queue_work(p, upload_receive_commit_work, on_upload_committed);
	else
		request_resume_body(p->rq);
}

/* It will have its name soon, or be removed. */
static bool upload_receive_is_ending(const struct upload_receive *p)
{
	return !p->rq || (p->ended && !p->waiting);
}

/* Bytes of all incomplete uploads of the tenant; without those that are ending. */
static uint64_t upload_count_incoming_bytes(const struct upload_receive *p, bool ending)
{
	uint64_t sum = 0;

	for (const struct upload_receive *o = p->at.all->receives; o; o = o->next)
		if (id_eq(&o->at.tenant, &p->at.tenant) &&
		    (o == p || ending || !upload_receive_is_ending(o)))
			sum += o->received;
	return sum;
}

static void on_upload_recounted(uv_work_t *work, int);

static void upload_receive_recount_work(uv_work_t *work)
{
	struct upload_receive *p = work->data;

	(void)upload_file_recount(&p->file, &p->at, p->quota, &p->err);
}

/* Write the piece if it fits beside the tenant's other uploads. */
static void upload_receive_store_piece(struct upload_receive *p)
{
	unsigned long long room = p->file.room;
	struct cay_err err = {};

	if (p->recount) {
		p->recount = false;
		upload_receive_queue_work(p, upload_receive_recount_work, on_upload_recounted);
		return;
	}
	if (p->received > room)
		(void)cay_fail(&err, CAY_E_LIMIT,
			       "there was room for %llu bytes: delete uploads, or "
			       "groups that are not needed",
			       room);
	else if (upload_count_incoming_bytes(p, false) > room)
		(void)cay_fail(&err, CAY_E_RATE,
			       "other uploads of the tenant are under way, and there is room for "
			       "%llu bytes in all: try again when they are complete",
			       room);
	else
		p->waiting = upload_count_incoming_bytes(p, true) > room;
	if (err.code)
		upload_receive_fail(p, &err);
	else if (!p->waiting)
		upload_receive_queue_work(p, upload_receive_write_work, on_upload_written);
}

static void on_upload_recounted(uv_work_t *work, int)
{
	struct upload_receive *p = work->data;

	if (upload_receive_can_continue(p))
		upload_receive_store_piece(p);
}

static void on_upload_body(struct request *rq, struct slice bytes)
{
	struct upload_receive *p = rq->data;
	struct cay_err err = {};

	p->received += bytes.n;
	if (clk_boot_ns(p->cayd->clk) - p->began_ns > UPLOAD_NS)
		(void)cay_fail(&err, CAY_E_TIMEOUT, "the upload took longer than an hour");
	else if (p->want.has_size && p->received > p->want.size)
		(void)cay_fail_field(&err, CAY_E_INVALID, "size", "more came than that");
	else if (node_space_check_disk(p->cayd, &err) >= 0 &&
		 buf_append(&p->piece, bytes.p, bytes.n) < 0)
		(void)cay_no_memory(&err);
	if (err.code) {
		upload_receive_fail(p, &err);
		return;
	}
	request_pause_body(rq);
	upload_receive_store_piece(p);
}

static void on_upload_body_end(struct request *rq)
{
	struct upload_receive *p = rq->data;

	p->ended = true;
	if (!p->working && !p->waiting)
		upload_receive_queue_work(p, upload_receive_commit_work, on_upload_committed);
}

static void on_upload_client_gone(struct request *rq)
{
	struct upload_receive *p = rq->data;

	p->rq = NULL;
	p->waiting = false;
	if (!p->working)
		upload_receive_finish(p);
}

static void upload_receive_create_work(uv_work_t *work)
{
	struct upload_receive *p = work->data;

	(void)upload_file_create(&p->file, &p->at, p->want.has_size ? p->want.size : 0, p->quota,
				 &p->err);
}

static void on_upload_created(uv_work_t *work, int)
{
	struct upload_receive *p = work->data;

	if (upload_receive_can_continue(p))
		request_resume_body(p->rq);
}

/* Answered ones and those whose client left are counted until they are cleaned up: a disk may take
 * long, and a tenant that only begins uploads would have the slots of all. */
static bool upload_has_slot(const struct cayd *c, const struct id *tenant)
{
	unsigned all = 0, of_it = 0, under_way = 0;

	for (const struct upload_receive *p = c->uploads->receives; p; p = p->next) {
		all++;
		if (!id_eq(&p->at.tenant, tenant))
			continue;
		of_it++;
		under_way += p->rq != NULL;
	}
	return all < UPLOADS_MAX && under_way < UPLOADS_TENANT && of_it < 2 * UPLOADS_TENANT;
}

void op_upload_put(struct cayd *c, struct request *rq)
{
	static const struct request_events events = { .body = on_upload_body,
						      .body_end = on_upload_body_end,
						      .gone = on_upload_client_gone };
	struct upload_put_query *q = rq->query;
	struct upload_receive *p;

	if (!request_bind_group(rq, &q->group))
		return;
	p = upload_has_slot(c, &rq->actor.tenant) ? calloc(1, sizeof(*p)) : NULL;
	if (!p) {
		(void)request_add_reply_header(rq, "Retry-After", "1");
		request_refuse(rq, CAY_E_RATE, "too many uploads are under way");
		return;
	}
	*p = (struct upload_receive){ .next = c->uploads->receives,
				      .cayd = c,
				      .rq = rq,
				      .at = upload_location_create(c, &rq->actor.tenant, q->group,
								   q->name),
				      .want = { .has_size = q->has_size, .size = q->size },
				      .quota = quota_get(c, &rq->actor.tenant).uploads_bytes,
				      .began_ns = clk_boot_ns(c->clk),
				      .piece = BUF_INIT(PIECE_MAX),
				      .file = { .fd = -EBADF } };
	if (q->sha256) {
		memcpy(p->sha256, q->sha256, FILE_HASH_HEX);
		p->want.sha256 = p->sha256;
	}
	c->uploads->receives = p;
	rq->data = p;
	rq->events = &events;
	request_pause_body(rq);
	upload_receive_queue_work(p, upload_receive_create_work, on_upload_created);
}

/* Tasks: list, remove */

struct upload_task {
	struct upload_task *next;
	struct request *rq; /* NULL: no client waits */
	struct upload_location at;
	struct upload *rows; /* of a list; else one row */
	size_t n;
	uploads_fn *fn;
	void *arg;
	uv_work_cb what;
	uv_after_work_cb then;
	bool working;
	uv_work_t work;
	struct cay_err err;
};

/* Tasks of a tenant; `working`: only those that a worker runs. */
static unsigned upload_tasks_count(const struct upload_location *at, bool working)
{
	unsigned n = 0;

	for (const struct upload_task *o = at->all->tasks; o; o = o->next)
		n += id_eq(&o->at.tenant, &at->tenant) && (o->working || !working);
	return n;
}

/* Start the tenant's oldest waiting task if it may: tenants share the workers. */
static void upload_task_start_next(uv_loop_t *loop, const struct upload_location *at)
{
	struct upload_task *oldest = NULL;

	if (upload_tasks_count(at, true) >= UPLOADS_TASKS)
		return;
	for (struct upload_task *t = at->all->tasks; t; t = t->next)
		if (!t->working && id_eq(&t->at.tenant, &at->tenant))
			oldest = t;
	if (!oldest)
		return;
	oldest->working = true;
	(void)uv_queue_work(loop, &oldest->work, oldest->what, oldest->then);
}

static void upload_task_schedule(struct cayd *c, struct upload_task *t, uv_work_cb what,
				 uv_after_work_cb then)
{
	t->what = what;
	t->then = then;
	upload_task_start_next(&c->loop, &t->at);
}

static void upload_task_finish(struct upload_task *t)
{
	struct upload_location place = t->at;
	uv_loop_t *loop = t->work.loop;

	LIST_UNLINK(t->at.all->tasks, t, next);
	free(t->rows);
	free(t);
	upload_task_start_next(loop, &place);
}

/* With room for so many rows; NULL if there are too many tasks or no memory. */
static struct upload_task *upload_task_create(const struct upload_location *at, size_t rows,
					      unsigned most, struct cay_err *err)
{
	struct upload_task *t = NULL;

	/* the deletion of a tenant happens once and is always accepted */
	if (upload_tasks_count(at, false) >= most && at->group[0]) {
		(void)cay_fail(err, CAY_E_RATE,
			       "too many operations on the tenant's uploads; try again");
		return NULL;
	}
	t = calloc(1, sizeof(*t));
	if (t)
		t->rows = calloc(rows, sizeof(*t->rows));
	if (!t || !t->rows) {
		free(t);
		(void)cay_no_memory(err);
		return NULL;
	}
	t->at = *at;
	t->work.data = t;
	t->next = at->all->tasks;
	at->all->tasks = t;
	return t;
}

/* NULL if the request was answered. */
static struct upload_task *upload_task_create_for_request(struct cayd *c, struct request *rq,
							  const char *group, const char *name,
							  size_t rows)
{
	struct upload_location at;
	struct cay_err err = {};
	struct upload_task *t;

	if (!request_bind_group(rq, &group))
		return NULL;
	at = upload_location_create(c, &rq->actor.tenant, group, name);
	t = upload_task_create(&at, rows, UPLOADS_TASKS, &err);
	if (!t) {
		request_fail(rq, &err);
		return NULL;
	}
	t->rq = rq;
	request_watch_client(&t->rq);
	return t;
}

static struct upload_info upload_info_from_row(const struct upload *row)
{
	return (struct upload_info){ .name = row->name,
				     .sha256 = row->sha256[0] ? row->sha256 : NULL,
				     .size = row->size,
				     .created_ns = row->created_ns };
}

static void upload_task_list_work(uv_work_t *work)
{
	struct upload_task *t = work->data;

	(void)upload_list_rows(&t->at, t->rows, &t->n, &t->err);
}

static void on_upload_task_listed(uv_work_t *work, int)
{
	struct upload_task *t = work->data;
	struct upload_info *rows =
		t->rq ? arena_alloc(&t->rq->arena, t->n ? t->n : 1, sizeof(*rows)) : NULL;
	struct upload_list list = { .uploads = { rows, t->n } };

	for (size_t i = 0; rows && i < t->n; i++)
		rows[i] = upload_info_from_row(&t->rows[i]);
	if (!t->err.code && !rows)
		(void)cay_no_memory(&t->err);
	request_reply_outcome(t->rq, &t->err, &upload_list_table, &list);
	upload_task_finish(t);
}

void op_upload_list(struct cayd *c, struct request *rq)
{
	const struct group_query *q = rq->query;
	struct upload_task *t =
		upload_task_create_for_request(c, rq, q->group, NULL, UPLOADS_GROUP);

	if (t)
		upload_task_schedule(c, t, upload_task_list_work, on_upload_task_listed);
}

static void upload_task_remove_work(uv_work_t *work)
{
	struct upload_task *t = work->data;

	(void)upload_file_remove(&t->at, t->rows, &t->err);
}

static void on_upload_task_removed(uv_work_t *work, int)
{
	struct upload_task *t = work->data;
	struct upload_info gone = upload_info_from_row(t->rows);

	request_reply_outcome(t->rq, &t->err, &upload_info_table, &gone);
	upload_task_finish(t);
}

void op_upload_delete(struct cayd *c, struct request *rq)
{
	const struct upload_query *q = rq->query;
	struct upload_task *t = upload_task_create_for_request(c, rq, q->group, q->name, 1);

	if (t)
		upload_task_schedule(c, t, upload_task_remove_work, on_upload_task_removed);
}

static void upload_task_remove_dir_work(uv_work_t *work)
{
	struct upload_task *t = work->data;

	(void)upload_dir_remove(&t->at, &t->err);
}

static void on_upload_task_dir_removed(uv_work_t *work, int)
{
	struct upload_task *t = work->data;

	t->fn(t->arg, &t->err);
	upload_task_finish(t);
}

void uploads_remove_group(struct cayd *c, const struct id *tenant, const char *group,
			  uploads_fn *fn, void *arg)
{
	struct upload_location at = upload_location_create(c, tenant, group, NULL);
	struct cay_err err = {};
	struct upload_task *t = upload_task_create(&at, 1, UPLOADS_FORGETS, &err);

	for (struct upload_receive *p = c->uploads->receives; p; p = p->next)
		if (id_eq(&p->at.tenant, tenant) && (!group || str_eq(p->at.group, at.group)))
			atomic_store(&p->file.group_deleted, true);
	if (!t) {
		fn(arg, &err);
		return;
	}
	t->fn = fn;
	t->arg = arg;
	upload_task_schedule(c, t, upload_task_remove_dir_work, on_upload_task_dir_removed);
}

static void on_tenant_uploads_removed(void *arg, const struct cay_err *outcome)
{
	struct cayd *c = arg;

	if (outcome->code) /* uploads_open() removes them at the next start */
		log_warn(&c->log, "cannot remove the uploads of a deleted tenant: %s",
			 outcome->msg);
}

void uploads_remove_of_tenant(struct cayd *c, const struct id *tenant)
{
	uploads_remove_group(c, tenant, NULL, on_tenant_uploads_removed, c);
}

/* Read */

static void on_upload_read(uv_work_t *work, int)
{
	struct upload_read *r = work->data;

	r->fn(r, &r->err);
}

static void upload_read_open_work(uv_work_t *work)
{
	struct upload_read *r = work->data;
	struct upload row = {};

	r->fd = upload_file_open(&r->at, &row, &r->err);
	r->size = row.size;
	r->created_ns = row.created_ns;
}

struct upload_read *upload_read_start(struct cayd *c, const struct id *tenant, const char *group,
				      const char *name, upload_read_fn *fn, void *arg)
{
	struct upload_read *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->at = upload_location_create(c, tenant, group, name);
	r->fd = -EBADF;
	r->fn = fn;
	r->arg = arg;
	r->work.data = r;
	(void)uv_queue_work(&c->loop, &r->work, upload_read_open_work, on_upload_read);
	return r;
}

static void upload_read_piece_work(uv_work_t *work)
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

void upload_read_next(struct upload_read *r)
{
	(void)uv_queue_work(r->work.loop, &r->work, upload_read_piece_work, on_upload_read);
}

/* In a worker: closing the last fd of a removed upload frees its blocks. */
static void upload_read_close_work(uv_work_t *work)
{
	struct upload_read *r = work->data;

	cay_closep(&r->fd);
}

static void on_upload_read_closed(uv_work_t *work, int)
{
	free(work->data);
}

void upload_read_free(struct upload_read *r)
{
	if (r)
		(void)uv_queue_work(r->work.loop, &r->work, upload_read_close_work,
				    on_upload_read_closed);
}

/* Start */

static int upload_leftover_remove(void *arg, int dirfd, const char *name)
{
	const struct cayd *c = arg;
	struct id id;

	/* other names, such as lost+found, are not ours */
	if (id_parse(ID_TENANT, slice_of(name), &id) < 0 || tenant_exists(c, &id))
		return 0;
	return rmtree_at(dirfd, name);
}

int uploads_open(struct cayd *c, struct cay_err *err)
{
	struct uploads *all = c->uploads = calloc(1, sizeof(*all));
	int r;

	if (!all || uv_mutex_init(&all->names_lock) < 0)
		return cay_no_memory(err);
	all->root = c->uploads_dir;
	if (mkdirat(all->root, FRESH, 0700) < 0 && errno != EEXIST)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create uploads/" FRESH);
	r = all->incoming = path_open(all->root, FRESH, O_RDONLY | O_DIRECTORY, 0);
	if (r >= 0)
		r = rmtree_contents(all->incoming);
	if (r >= 0)
		r = path_for_each_entry(all->root, upload_leftover_remove, c);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "remove incomplete uploads") : 0;
}
