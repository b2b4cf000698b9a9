/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/snapshot/pack.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/failpoint.h"
#include "base/path.h"
#include "cayd/core/keeper-link.h"
#include "cayd/core/node-space.h"
#include "cayd/image/image.h"
#include "cayd/sandbox/disk-watch.h"
#include "cayd/snapshot/change-page.h"
#include "cayd/snapshot/snapshot.h"

#define PIECE KIB(60)

enum pack_stage { PACK_OPENS, PACK_WAITS, PACK_WRITES, PACK_READS, PACK_SENDS, PACK_CLOSES };

struct pack {
	struct pack *next;
	struct cayd *cayd;
	struct request *rq; /* NULL: the client left */
	struct pack_job job;
	struct actor by;
	enum pack_stage stage;
	bool working; /* a worker, or the keeper */
	bool hashes;  /* and has not read all of a layer */
	uint64_t until_ns, end_ns;
	uint64_t max; /* bytes that the keeper may write */
	uint64_t size, at;
	int fd;
	uv_work_t work;
	struct cay_err err;
	struct oci_image image;
	struct buf texts; /* the end of an image */
	struct change_page page;
	struct slice after;
	size_t limit, n;
	char cursor[CHANGE_ROW_MAX];
	char piece[PIECE];
};

static void packs_start_waiting(struct cayd *c);
static void on_pack_piece_read(uv_work_t *work, int);

static void pack_queue_work(struct pack *p, uv_work_cb work, uv_after_work_cb then)
{
	p->working = true;
	p->work.data = p;
	(void)uv_queue_work(&p->cayd->loop, &p->work, work, then);
}

/* In a worker: closing the file frees its blocks. */
static void pack_close_work(uv_work_t *work)
{
	struct pack *p = work->data;

	cay_closep(&p->fd);
	buf_fini(&p->texts);
	change_page_fini(&p->page);
}

static void on_pack_closed(uv_work_t *work, int)
{
	struct pack *p = work->data, **at = &p->cayd->packs;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	free(p);
}

static void pack_finish(struct pack *p)
{
	if (p->rq)
		p->rq->events = NULL;
	p->stage = PACK_CLOSES;
	pack_queue_work(p, pack_close_work, on_pack_closed);
}

static void pack_fail(struct pack *p, const struct cay_err *err)
{
	struct request *rq = p->rq;

	if (rq && cay_error_row(err->code)->retryable)
		(void)request_add_reply_header(rq, "Retry-After", "1");
	pack_finish(p);
	p->rq = NULL;
	if (rq)
		request_fail(rq, err);
}

/* After a worker: whether to continue. */
static bool pack_can_continue(struct pack *p)
{
	p->working = false;
	if (!p->rq)
		pack_finish(p);
	else if (p->err.code)
		pack_fail(p, &p->err);
	return p->rq && !p->working;
}

/* Send */

static void pack_send_work(uv_work_t *work)
{
	struct pack *p = work->data;
	ssize_t n;

	do
		n = pread(p->fd, p->piece, sizeof(p->piece), (off_t)p->at);
	while (n < 0 && errno == EINTR);
	p->n = n < 0 ? 0 : (size_t)n;
}

static void pack_send_piece(struct pack *p)
{
	uint64_t until = clk_boot_ns(p->cayd->clk) + PACK_STALL_NS;

	p->until_ns = until < p->end_ns ? until : p->end_ns;
	pack_queue_work(p, pack_send_work, on_pack_piece_read);
}

static void on_pack_piece_read(uv_work_t *work, int)
{
	struct pack *p = work->data;
	bool full;

	if (!pack_can_continue(p))
		return;
	if (!p->n || p->n > p->size - p->at) { /* no reply that can be told from a whole one */
		request_abort(cay_take(p->rq));
		pack_finish(p);
		return;
	}
	p->at += p->n;
	full = request_write_stream(p->rq, p->piece, p->n);
	if (p->at == p->size) {
		struct request *rq = p->rq;

		pack_finish(p);
		p->rq = NULL;
		request_end_stream(rq);
	} else if (!full) {
		pack_send_piece(p);
	}
}

static void pack_send(struct pack *p)
{
	p->stage = PACK_SENDS;
	p->end_ns = clk_boot_ns(p->cayd->clk) + PACK_SEND_NS;
	request_start_stream(p->rq, 200, "application/x-tar", p->size);
	pack_send_piece(p);
}

/* List */

static void pack_read_work(uv_work_t *work)
{
	struct pack *p = work->data;

	(void)change_page_read(&p->page, p->fd, p->after, p->limit, &p->err);
}

static void on_pack_rows_read(uv_work_t *work, int)
{
	struct pack *p = work->data;
	struct request *rq;

	if (!pack_can_continue(p))
		return;
	rq = p->rq;
	p->rq->events = NULL;
	p->rq = NULL;
	p->stage = PACK_CLOSES; /* the reply may start the next request */
	change_page_reply(&p->page, rq);
	pack_finish(p);
}

/* A whole image */

static void pack_write_or_wait(struct pack *p, uint64_t now);

static void pack_finish_image_work(uv_work_t *work)
{
	struct pack *p = work->data;

	if (lseek(p->fd, (off_t)p->image.at, SEEK_SET) < 0 ||
	    fd_write_all(p->fd, p->texts.data, p->texts.len) < 0)
		(void)cay_fail_sys(&p->err, cay_code_from_disk_errno(errno), errno,
				   "write the end of an image");
}

static void on_pack_image_finished(uv_work_t *work, int)
{
	struct pack *p = work->data;

	p->size = p->image.at + p->texts.len;
	p->max = 0;
	if (pack_can_continue(p))
		pack_send(p);
}

static void pack_hash_work(uv_work_t *work)
{
	struct pack *p = work->data;
	int r = oci_image_hash(&p->image, p->fd, &p->err);

	p->hashes = r > 0;
	if (!r)
		(void)oci_image_end_layer(&p->image, p->fd, &p->err);
}

static void on_pack_layer_ended(uv_work_t *work, int)
{
	struct pack *p = work->data;
	struct cayd *c = p->cayd;
	const struct image *image = image_by_digest(c->images, p->job.layers[0]);

	if (p->hashes) {
		if (pack_can_continue(p))
			pack_queue_work(p, pack_hash_work, on_pack_layer_ended);
		return;
	}
	if (!p->err.code && !image)
		(void)cay_fail(&p->err, CAY_E_NOT_FOUND, "there is no such image");
	if (!p->err.code && p->image.n == p->job.n_layers)
		(void)oci_image_finish(&p->image, &image->config, p->job.created_ns, &p->texts,
				       &p->err);
	if (!pack_can_continue(p))
		return;
	p->stage = PACK_READS;
	if (p->image.n == p->job.n_layers) {
		pack_queue_work(p, pack_finish_image_work, on_pack_image_finished);
		return;
	}
	p->until_ns = clk_boot_ns(c->clk) + PACK_WAIT_NS;
	pack_write_or_wait(p, clk_boot_ns(c->clk));
}

/* Write */

/* One that is written has its size in the reply, and is sent to a client that may be slow. */
static void on_pack_written(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct pack *p = arg;
	struct cayd *c = p->cayd;
	struct stat st = {};

	cay_closep(&fd);
	p->err = *outcome;
	if (outcome->code == CAY_E_TOO_LARGE && p->max < PACK_TAR_MAX && !p->job.query)
		(void)cay_fail(&p->err, CAY_E_DISK_FULL, "the node has no room for so many files");
	else if (outcome->code == CAY_E_TOO_LARGE && !p->job.query)
		(void)cay_fail(&p->err, CAY_E_TOO_LARGE,
			       "the files are larger than %llu GiB together",
			       (unsigned long long)(PACK_TAR_MAX >> 30));
	if (!p->job.n_layers)
		p->max = 0;
	if (!p->err.code && failpoint_hit(FAULT_PACK_WRITTEN) < 0)
		(void)cay_fail(&p->err, CAY_E_INTERNAL, "failpoint");
	if (!p->err.code)
		(void)p->job.check(c, &p->by, &p->job, &p->err);
	if (!p->err.code && fstat(p->fd, &st) < 0)
		(void)cay_fail_sys(&p->err, CAY_E_INTERNAL, errno, "read the size of an archive");
	p->size = (uint64_t)st.st_size;
	if (pack_can_continue(p)) {
		p->stage = PACK_READS;
		if (p->job.query)
			pack_queue_work(p, pack_read_work, on_pack_rows_read);
		else if (p->job.n_layers)
			pack_queue_work(p, pack_hash_work, on_pack_layer_ended);
		else
			pack_send(p);
	}
	packs_start_waiting(c);
}

/* How much it may write, so that all of them together leave the disk that sandboxes are not held
 * for, the next one finds room, and one tenant does not take all of it. */
static int pack_take_room(struct pack *p, struct cay_err *err)
{
	uint64_t most = p->job.query ? PACK_ROWS_MAX : PACK_TAR_MAX;
	uint64_t left = 0, reserve = 0, own = 0;

	if (!node_space_read_disk(p->cayd, &left, &reserve))
		return cay_fail(err, CAY_E_INTERNAL, "cannot read how much disk is free");
	reserve = disk_watch_enough(reserve);
	for (const struct pack *o = p->cayd->packs; o; o = o->next) {
		reserve += o->max;
		own += id_eq(&o->job.tenant, &p->job.tenant) ? o->max + o->size : 0;
	}
	left = left > reserve ? left - reserve : 0;
	if (!p->job.query)
		left /= 2;
	if (left < PACK_ROOM_MIN || (!p->job.query && own > left))
		return cay_fail(err, CAY_E_DISK_FULL, "the node has no room for the result");
	p->max = left < most ? left : most;
	return 0;
}

/* Ask for the next layer of an image, in what room there is left. */
static int pack_begin_layer(struct pack *p, struct cay_err *err)
{
	uint64_t at = oci_image_layer_at(&p->image) + OCI_IMAGE_TEXTS_MAX;

	if (p->max < at + PACK_ROOM_MIN)
		return cay_fail(err, CAY_E_DISK_FULL, "the node has no room for so many files");
	memcpy(p->job.request.layer.digest, p->job.layers[p->image.n], 32);
	p->job.request.layer.max_bytes = p->max - at;
	return oci_image_begin_layer(&p->image, p->fd, err);
}

static void pack_write(struct pack *p)
{
	struct cay_err err = {};

	if (p->job.check(p->cayd, &p->by, &p->job, &err) < 0 ||
	    (!p->max && pack_take_room(p, &err) < 0) ||
	    (p->job.n_layers && pack_begin_layer(p, &err) < 0)) {
		pack_fail(p, &err);
		return;
	}
	if (p->job.verb == VERB_PACK)
		p->job.request.sandbox.max_bytes = p->max;
	else if (!p->job.n_layers)
		p->job.request.layer.max_bytes = p->max;
	p->stage = PACK_WRITES;
	p->working = true;
	keeper_call_for_with_fd(p->cayd->keeper, &p->job.tenant, p->job.verb, &p->job.request.head,
				p->fd, on_pack_written, p);
}

/* Snapshots have the same workers, and a call that waits in the link would keep them waiting. */
static void pack_write_or_wait(struct pack *p, uint64_t now)
{
	struct cay_err err = {};

	p->stage = PACK_WAITS;
	if (keeper_can_copy_now(p->cayd->keeper, &p->job.tenant)) {
		pack_write(p);
	} else if (now >= p->until_ns) {
		(void)cay_fail(&err, CAY_E_OVERLOADED, "too many files are being copied");
		pack_fail(p, &err);
	}
}

static void packs_start_waiting(struct cayd *c)
{
	uint64_t now = clk_boot_ns(c->clk);

	snapshots_copy_waiting(c); /* first: they are to have the files of now */
	for (struct pack *p = c->packs; p; p = p->next)
		if (p->stage == PACK_WAITS && !p->working)
			pack_write_or_wait(p, now);
}

void packs_sweep(struct cayd *c, uint64_t now)
{
	packs_start_waiting(c);
	for (struct pack *p = c->packs; p; p = p->next)
		if (p->stage == PACK_SENDS && p->rq && now >= p->until_ns) {
			request_abort(cay_take(p->rq));
			if (!p->working)
				pack_finish(p);
		}
}

/* Begin */

static void pack_open_work(uv_work_t *work)
{
	struct pack *p = work->data;

	p->fd = openat(p->cayd->tmp, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (p->fd < 0)
		(void)cay_fail_sys(&p->err, cay_code_from_disk_errno(errno), errno,
				   "create a file for the result");
}

static void on_pack_opened(uv_work_t *work, int)
{
	struct pack *p = work->data;

	if (pack_can_continue(p))
		pack_write_or_wait(p, clk_boot_ns(p->cayd->clk));
}

static void on_pack_client_gone(struct request *rq)
{
	struct pack *p = rq->data;

	p->rq = NULL;
	if (!p->working)
		pack_finish(p);
}

static void on_pack_drain(struct request *rq)
{
	struct pack *p = rq->data;

	if (!p->working)
		pack_send_piece(p);
}

/* A token is given away, and the workers are its tenant's. */
static struct pack *pack_create(struct cayd *c, const struct actor *by, const struct pack_job *job)
{
	unsigned all = 0, own = 0, by_token = 0;
	struct pack **at = &c->packs;

	for (; *at; at = &(*at)->next) {
		all++;
		own += id_eq(&(*at)->job.tenant, &job->tenant);
		by_token += (*at)->by.one_sandbox && (*at)->stage != PACK_CLOSES &&
			    id_eq(&(*at)->job.of, &job->of);
	}
	if (all >= PACKS_MAX || own >= PACKS_MAX - all || (by->one_sandbox && by_token))
		return NULL;
	*at = calloc(1, sizeof(**at));
	return *at;
}

void pack_start(struct cayd *c, struct request *rq, const struct pack_job *job)
{
	static const struct request_events events = { .drain = on_pack_drain,
						      .gone = on_pack_client_gone };
	struct pack *p = pack_create(c, &rq->actor, job);

	if (!p) {
		(void)request_add_reply_header(rq, "Retry-After", "1");
		request_refuse(rq, CAY_E_RATE, "too many files are being packed");
		return;
	}
	p->cayd = c;
	p->rq = rq;
	p->job = *job;
	p->by = rq->actor;
	p->fd = -EBADF;
	p->texts = BUF_INIT(OCI_IMAGE_TEXTS_MAX);
	p->until_ns = clk_boot_ns(c->clk) + PACK_WAIT_NS;
	if (job->query) {
		p->limit = job->query->limit;
		if (job->query->cursor &&
		    !change_cursor_parse(job->query->cursor, p->cursor, &p->after))
			(void)cay_fail_field(&p->err, CAY_E_INVALID, "cursor",
					     "not a valid cursor");
	}
	rq->data = p;
	rq->events = &events;
	if (p->err.code)
		pack_fail(p, &p->err);
	else
		pack_queue_work(p, pack_open_work, on_pack_opened);
}
