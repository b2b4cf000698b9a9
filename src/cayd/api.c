/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cayd/box.h"
#include "cayd/image.h"
#include "cayd/import.h"
#include "cayd/link.h"
#include "net/relay.h"
#include "wire/frame.h"

/* How long a sandbox may take to begin an answer; a command that is waited for
 * takes as long as it takes. */
#define INSIDE_MS 30000

static void fail(struct request *rq, enum cay_code code, const char *what)
{
	struct cay_err err = {};

	(void)cay_fail(&err, code, "%s", what);
	request_fail(rq, &err);
}

static void health(struct cayd *c, struct request *rq)
{
	const char *passed[RUNTIME_NUM];
	struct health h = { .version = CAY_VERSION, .runtimes.v = passed };

	for (unsigned i = 0; i < RUNTIME_NUM; i++)
		if (link_runtimes(c->link) & 1u << i)
			passed[h.runtimes.n++] = runtime_names[i];
	h.has_runtimes = h.runtimes.n > 0;
	request_reply_json(rq, &health_table, &h);
}

static void openapi(struct cayd *c, struct request *rq)
{
	auto_buf body = BUF_INIT(MIB(4));
	struct jw w = jw_to(&body);

	(void)c;
	op_write_openapi(&w);
	if (jw_done(&w) < 0)
		fail(rq, CAY_E_INTERNAL, "write the interface");
	else
		request_reply(rq, 200, "application/json", &body);
}

static void sandbox_create(struct cayd *c, struct request *rq)
{
	const struct sandbox_create *spec = rq->body;
	struct cay_err err = {};
	struct box *b;

	if (box_create(c->boxes, spec, &b, &err) < 0)
		request_fail(rq, &err);
	else if (spec->wait)
		box_answer(b, rq, WAIT_STARTED);
	else
		request_reply_json(rq, &sandbox_table, &b->info);
}

static struct box *find(struct cayd *c, struct request *rq)
{
	struct box *b = box_find(c->boxes, &rq->match.params[0]);

	if (!b)
		fail(rq, CAY_E_NOT_FOUND, "there is no such sandbox");
	return b;
}

static void sandbox_get(struct cayd *c, struct request *rq)
{
	const struct box *b = find(c, rq);

	if (b)
		request_reply_json(rq, &sandbox_table, &b->info);
}

static void sandbox_delete(struct cayd *c, struct request *rq)
{
	struct box *b = find(c, rq);

	if (!b)
		return;
	box_end(b, END_KILLED, "deleted by a client");
	box_answer(b, rq, WAIT_ENDED);
}

/* Where a page begins: a number we gave out, or nothing. */
static int read_cursor(const struct page_query *q, uint64_t *ret)
{
	*ret = 0;
	return q->cursor ? str_u64(slice_of(q->cursor), 1, INT64_MAX, ret) : 0;
}

static char *write_cursor(struct pool *pool, uint64_t at)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)at);

	return n > 0 && n < (int)sizeof(text) ? pool_strn(pool, text, (size_t)n) : NULL;
}

static void bad_cursor(struct request *rq)
{
	struct cay_err err = {};

	(void)cay_fail_field(&err, CAY_E_INVALID, "cursor", "this is not a cursor of ours");
	request_fail(rq, &err);
}

static void sandbox_list(struct cayd *c, struct request *rq)
{
	const struct page_query *q = rq->query;
	struct sandbox *rows = pool_take(&rq->pool, q->limit, sizeof(*rows));
	struct sandbox_list list = { .sandboxes = { rows, 0 } };
	const struct box *b;
	uint64_t before, last = 0;

	if (read_cursor(q, &before) < 0) {
		bad_cursor(rq);
		return;
	}
	b = box_before(c->boxes, before);
	for (; rows && b && list.sandboxes.n < q->limit; b = b->older) {
		rows[list.sandboxes.n++] = b->info;
		last = b->seq;
	}
	if (rows && b)
		list.next_cursor = write_cursor(&rq->pool, last);
	if (!rows || (b && !list.next_cursor))
		fail(rq, CAY_E_NO_MEMORY, "out of memory");
	else
		request_reply_json(rq, &sandbox_list_table, &list);
}

static void image_list(struct cayd *c, struct request *rq)
{
	const struct page_query *q = rq->query;
	struct image *rows = pool_take(&rq->pool, q->limit, sizeof(*rows));
	struct image_list list = { .images = { rows, 0 } };
	const struct image_row *row = NULL;
	uint64_t at;

	if (read_cursor(q, &at) < 0) {
		bad_cursor(rq);
		return;
	}
	while (rows && list.images.n < q->limit && (row = image_at(c->images, at))) {
		rows[list.images.n++] = row->info;
		at++;
	}
	if (rows && image_at(c->images, at))
		list.next_cursor = write_cursor(&rq->pool, at);
	if (!rows)
		fail(rq, CAY_E_NO_MEMORY, "out of memory");
	else
		request_reply_json(rq, &image_list_table, &list);
}

static void image_get(struct cayd *c, struct request *rq)
{
	const struct image_row *row = image_by_id(c->images, &rq->match.params[0]);

	if (!row)
		fail(rq, CAY_E_NOT_FOUND, "there is no such image");
	else
		request_reply_json(rq, &image_table, &row->info);
}

struct deleting {
	struct cayd *cayd;
	struct request *rq;
	struct id id;
};

static void on_image_removed(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct deleting *d = arg;
	const struct image_row *row = image_by_id(d->cayd->images, &d->id);
	struct cay_err err = *outcome;
	auto_buf body = BUF_INIT(KIB(4));
	struct jw w = jw_to(&body);

	(void)reply;
	cay_closep(&fd);
	if (!err.code && !row)
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "there is no such image");
	if (!err.code) {
		field_encode(&image_table, NULL, &row->info, &w);
		(void)image_forget(d->cayd->images, &d->id, &err);
	}
	if (d->rq && err.code)
		request_fail(d->rq, &err);
	else if (d->rq)
		request_reply(d->rq, 200, "application/json", &body);
	free(d);
}

static void on_deleting_gone(struct request *rq)
{
	struct deleting *d = rq->data;

	d->rq = NULL;
}

static void image_delete(struct cayd *c, struct request *rq)
{
	static const struct request_events events = { .gone = on_deleting_gone };
	const struct image_row *row = image_by_id(c->images, &rq->match.params[0]);
	struct verb_image_remove q = {};
	struct cay_err none = {};
	struct deleting *d;

	if (!row) {
		fail(rq, CAY_E_NOT_FOUND, "there is no such image");
		return;
	}
	d = malloc(sizeof(*d));
	if (!d) {
		fail(rq, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	*d = (struct deleting){ c, rq, row->info.id };
	rq->data = d;
	rq->events = &events;
	memcpy(q.digest, row->digest, sizeof(q.digest));
	if (image_names(c->images, row->digest) > 1)
		on_image_removed(d, &none, NULL, -EBADF); /* its files are another's, too */
	else
		link_call(c->link, VERB_IMAGE_REMOVE, &q, -EBADF, on_image_removed, d);
}

static void (*const handlers[OP_NUM])(struct cayd *c, struct request *rq) = {
	[OP_HEALTH] = health,
	[OP_OPENAPI] = openapi,
	[OP_SANDBOX_CREATE] = sandbox_create,
	[OP_SANDBOX_LIST] = sandbox_list,
	[OP_SANDBOX_GET] = sandbox_get,
	[OP_SANDBOX_DELETE] = sandbox_delete,
	[OP_IMAGE_LIST] = image_list,
	[OP_IMAGE_GET] = image_get,
	[OP_IMAGE_IMPORT] = import_start,
	[OP_IMAGE_DELETE] = image_delete,
};

void api_control(struct request *rq, void *arg)
{
	handlers[rq->match.op - ops](arg, rq);
}

void api_inside(struct request *rq, void *arg)
{
	struct cayd *c = arg;
	auto_buf path = BUF_INIT(128);
	char name[ID_TEXT_LEN + 1];
	const struct box *b = find(c, rq);
	struct relay_conf relay = {};

	if (!b)
		return;
	if (b->info.state != SB_RUNNING) {
		fail(rq, CAY_E_STATE, "the sandbox is not running");
		return;
	}
	id_format(&b->info.id, name);
	if (buf_printf(&path, "%s/box/%s", c->settings.run_dir, name) < 0) {
		fail(rq, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	relay.path = path.data;
	/* a stream begins at once; who waits for a command waits as long as it takes */
	if (rq->match.op != &ops[OP_EXEC_RUN] || http_accepts(rq->head, FRAME_MEDIA_TYPE) ||
	    http_accepts(rq->head, "text/event-stream"))
		relay.head_timeout_ms = INSIDE_MS;
	relay_start(rq, &relay);
}
