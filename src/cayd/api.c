/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cayd/box.h"
#include "cayd/create.h"
#include "cayd/door.h"
#include "cayd/event.h"
#include "cayd/fsck.h"
#include "cayd/image.h"
#include "cayd/import.h"
#include "cayd/key.h"
#include "cayd/link.h"
#include "cayd/observe.h"
#include "cayd/page.h"
#include "cayd/pour.h"
#include "cayd/preview.h"
#include "cayd/prune.h"
#include "cayd/pull.h"
#include "cayd/registry.h"
#include "cayd/resize.h"
#include "cayd/revoke.h"
#include "cayd/sign.h"
#include "cayd/stock.h"
#include "cayd/template.h"
#include "cayd/tenant.h"
#include "cayd/trail.h"
#include "cayd/upload.h"
#include "cayd/usage.h"
#include "net/relay.h"
#include "pages/pages.h"
#include "wire/frame.h"

/* How long a sandbox may take to begin an answer; a command that is waited for
 * takes as long as it takes. */
#define INSIDE_MS 30000
#define GROUP_ROWS 1000

static void health(struct cayd *c, struct request *rq)
{
	const char *passed[RUNTIME_NUM];
	struct health h = { .version = CAY_VERSION, .runtimes.v = passed };

	for (unsigned i = 0; i < RUNTIME_NUM; i++)
		if (link_runtimes(c->link) & 1u << i)
			passed[h.runtimes.n++] = runtime_names[i];
	h.has_runtimes = h.runtimes.n > 0;
	h.disk = link_disk(c->link);
	h.has_pools = stock_pools(c);
	h.pools = stock_count(c, NULL);
	request_reply_json(rq, &health_table, &h);
}

static void openapi(struct cayd *c, struct request *rq)
{
	auto_buf body = BUF_INIT(MIB(4));
	struct jw w = jw_to(&body);

	(void)c;
	op_write_openapi(&w);
	if (jw_done(&w) < 0)
		request_refuse(rq, CAY_E_INTERNAL, "write the interface");
	else
		request_reply(rq, 200, "application/json", &body);
}

static void page(struct request *rq, const struct page *p, const char *media)
{
	auto_buf body = BUF_INIT(MIB(4));

	if (buf_add(&body, p->data, p->n) < 0)
		request_refuse(rq, CAY_E_NO_MEMORY, "out of memory");
	else
		request_reply(rq, 200, media, &body);
}

static void docs(struct cayd *c, struct request *rq)
{
	(void)c;
	page(rq, &page_reference, "text/html; charset=utf-8");
}

static void llms(struct cayd *c, struct request *rq)
{
	(void)c;
	page(rq, &page_llms, "text/plain; charset=utf-8");
}

static void tools(struct cayd *c, struct request *rq)
{
	(void)c;
	page(rq, &page_tools, "application/json");
}

static struct box *find(struct cayd *c, struct request *rq)
{
	struct box *b = box_of(c->boxes, &rq->actor.tenant, &rq->match.params[0]);

	if (!b)
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such sandbox");
	return b;
}

static void sandbox_get(struct cayd *c, struct request *rq)
{
	struct box *b = find(c, rq);

	if (b) /* what is told is so after a crash */
		box_answer(b, rq, WAIT_SAVED);
}

static void sandbox_delete(struct cayd *c, struct request *rq)
{
	struct box *b = find(c, rq);

	if (!b)
		return;
	box_end(b, END_KILLED, "deleted by a client");
	box_answer(b, rq, WAIT_ENDED);
}

static void happen(struct box *b, struct request *rq, const struct life_event *ev,
		   enum box_wait until)
{
	enum cay_code refused = box_happens(b, ev);

	if (refused == CAY_E_INVALID)
		request_refuse(rq, refused, "the new deadline is later than this node allows");
	else if (refused)
		request_refuse(rq, refused,
			       "the sandbox is not in a state for that, or something is under way");
	else
		box_answer(b, rq, until);
}

static void sandbox_pause(struct cayd *c, struct request *rq)
{
	struct box *b = find(c, rq);

	if (b)
		happen(b, rq, &(struct life_event){ .kind = LIFE_PAUSE }, WAIT_SETTLED);
}

static void sandbox_resume(struct cayd *c, struct request *rq)
{
	struct box *b = find(c, rq);

	if (b)
		happen(b, rq, &(struct life_event){ .kind = LIFE_RESUME }, WAIT_SETTLED);
}

static void sandbox_extend(struct cayd *c, struct request *rq)
{
	const struct sandbox_extend *q = rq->body;
	uint64_t until = clk_boot_ns(c->clk) + q->ttl_ms * NS_PER_MS;
	struct box *b = find(c, rq);

	if (b)
		happen(b, rq, &(struct life_event){ .kind = LIFE_EXTEND, .until_ns = until },
		       WAIT_SAVED);
}

static void sandbox_labels(struct cayd *c, struct request *rq)
{
	const struct sandbox_labels *q = rq->body;
	struct box *b = find(c, rq);
	struct cay_err err = {};

	if (!b)
		return;
	if (life_over(&b->life))
		(void)cay_fail(&err, CAY_E_STATE, "the sandbox has ended");
	if (err.code || box_label(b, &q->labels, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	box_save(b, true);
	box_answer(b, rq, WAIT_SAVED);
}

static bool has_label(const struct field_map *labels, const char *want)
{
	struct slice value = slice_of(want), key = slice_cut(&value, '=');

	for (size_t i = 0; i < labels->n; i++)
		if (slice_eq(slice_of(labels->keys[i]), key))
			return !value.p || slice_eq(slice_of(labels->values[i]), value);
	return false;
}

static bool known_state(const char *state)
{
	for (size_t i = 0; sandbox_state_names[i]; i++)
		if (str_eq(state, sandbox_state_names[i]))
			return true;
	return str_eq(state, "live");
}

static bool matches(const struct sandbox *s, const struct sandbox_query *q)
{
	if (q->state && str_eq(q->state, "live") && s->state >= SB_TERMINATED)
		return false;
	if (q->state && !str_eq(q->state, "live") &&
	    !str_eq(q->state, sandbox_state_names[s->state]))
		return false;
	if (q->group && (!s->group || !str_eq(s->group, q->group)))
		return false;
	if (q->name && (!s->name || !str_eq(s->name, q->name)))
		return false;
	return !q->label || has_label(&s->labels, q->label);
}

static void sandbox_list(struct cayd *c, struct request *rq)
{
	const struct sandbox_query *q = rq->query;
	struct sandbox *rows = pool_take(&rq->pool, q->limit, sizeof(*rows));
	struct sandbox_list list = { .sandboxes = { rows, 0 } };
	uint64_t before, last = 0;
	struct cay_err err = {};
	bool unsaved = false;
	struct box *b;

	if (!page_begins(rq, q->cursor, rows, &before))
		return;
	if (q->state && !known_state(q->state)) {
		(void)cay_fail_field(&err, CAY_E_INVALID, "state", "there is no state '%s'",
				     q->state);
		request_fail(rq, &err);
		return;
	}
	b = box_before(c->boxes, &rq->actor.tenant, before);
	for (; b && list.sandboxes.n < q->limit; b = box_older(b)) {
		if (matches(&b->info, q) && !b->life.taken) {
			rows[list.sandboxes.n++] = *box_look(b);
			unsaved |= b->unsaved;
		}
		last = b->seq;
	}
	if (b)
		list.next_cursor = page_cursor(rq, last);
	if (b && !list.next_cursor)
		request_refuse(rq, CAY_E_NO_MEMORY, "out of memory");
	else
		boxes_answer(c, rq, &list, unsaved);
}

struct ungrouping {
	struct cayd *cayd;
	struct request *rq; /* NULL: nobody waits any more */
	struct id *ended;   /* the request's */
	size_t n;
};

static void on_ungrouping_gone(struct request *rq)
{
	struct ungrouping *u = rq->data;

	u->rq = NULL;
}

/* The answer is what they are now. */
static void answer_group(struct ungrouping *u)
{
	struct sandbox *rows = pool_take(&u->rq->pool, u->n ? u->n : 1, sizeof(*rows));
	struct sandbox_list list = { .sandboxes = { rows, 0 } };

	if (!rows) {
		request_refuse(u->rq, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	for (size_t i = 0; i < u->n; i++) {
		struct box *b = box_of(u->cayd->boxes, &u->rq->actor.tenant, &u->ended[i]);

		if (b)
			rows[list.sandboxes.n++] = *box_look(b);
	}
	boxes_answer(u->cayd, u->rq, &list, list.sandboxes.n);
}

static void on_uploads_gone(void *arg, const struct cay_err *outcome)
{
	struct ungrouping *u = arg;

	if (u->rq)
		u->rq->events = NULL;
	if (u->rq && outcome->code)
		request_fail(u->rq, outcome);
	else if (u->rq)
		answer_group(u);
	free(u);
}

/* Every live sandbox of the group ends, at once.  It is answered when its uploads are gone,
 * too: at a start nothing tells that a group they are of was deleted. */
static void group_delete(struct cayd *c, struct request *rq)
{
	static const struct request_events events = { .gone = on_ungrouping_gone };
	const struct group_query *q = rq->query;
	struct id *ended = pool_take(&rq->pool, GROUP_ROWS, sizeof(*ended));
	struct ungrouping *u = ended ? calloc(1, sizeof(*u)) : NULL;

	if (!u) {
		request_refuse(rq, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	*u = (struct ungrouping){ .cayd = c, .rq = rq, .ended = ended };
	for (struct box *b = box_before(c->boxes, &rq->actor.tenant, 0); b; b = box_older(b)) {
		if (!b->info.group || !str_eq(b->info.group, q->group) || life_over(&b->life))
			continue;
		box_end(b, END_KILLED, "its group was deleted by a client");
		if (u->n < GROUP_ROWS)
			ended[u->n++] = b->info.id;
	}
	rq->data = u;
	rq->events = &events;
	uploads_forget(c, &rq->actor.tenant, q->group, on_uploads_gone, u);
}

static void image_list(struct cayd *c, struct request *rq)
{
	const struct page_query *q = rq->query;
	struct image *rows = pool_take(&rq->pool, q->limit, sizeof(*rows));
	struct image_list list = { .images = { rows, 0 } };
	const struct image_row *row = NULL;
	uint64_t at;

	if (!page_begins(rq, q->cursor, rows, &at))
		return;
	while (list.images.n < q->limit && (row = image_at(c->images, at))) {
		if (!row->layer)
			rows[list.images.n++] = row->info;
		at++;
	}
	if (image_at(c->images, at))
		list.next_cursor = page_cursor(rq, at);
	request_reply_json(rq, &image_list_table, &list);
}

static void image_get(struct cayd *c, struct request *rq)
{
	const struct image_row *row = image_by_id(c->images, &rq->match.params[0]);

	if (!row || image_hidden(row, &rq->actor))
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such image");
	else
		request_reply_json(rq, &image_table, &row->info);
}

struct deleting {
	struct cayd *cayd;
	struct request *rq;
	struct id id;
	struct buf told; /* what it was */
};

static void on_image_forgotten(void *arg, const struct cay_err *outcome)
{
	struct deleting *d = arg;

	if (d->rq && outcome->code)
		request_fail(d->rq, outcome);
	else if (d->rq)
		request_reply(d->rq, 200, "application/json", &d->told);
	buf_fini(&d->told);
	free(d);
}

static void on_image_removed(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct deleting *d = arg;
	const struct image_row *row = image_by_id(d->cayd->images, &d->id);
	struct cay_err err = *outcome;
	struct jw w;

	(void)reply;
	cay_closep(&fd);
	d->cayd->removing--;
	image_going(d->cayd->images, &d->id, false);
	d->told = BUF_INIT(KIB(4));
	if (!err.code && !row)
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "there is no such image");
	if (err.code) {
		on_image_forgotten(d, &err);
		return;
	}
	w = jw_to(&d->told);
	field_encode(&image_table, NULL, &row->info, &w);
	image_forget(d->cayd->images, &d->id, on_image_forgotten, d);
}

static void on_deleting_gone(struct request *rq)
{
	struct deleting *d = rq->data;

	d->rq = NULL;
}

/* Who names it would be without; the files of one with another name stay. */
static int not_of_a_template(struct cayd *c, const struct image_row *row, struct cay_err *err)
{
	bool alone = image_names(c->images, row->digest) == 1;

	for (size_t i = 0; i < templates_n(c); i++) {
		const struct template_row *t = template_at(c, i);
		const char *image = t ? t->info.defaults.image : NULL;

		if (image && image_find(c->images, image) == row &&
		    (alone || !str_eq(image, row->info.digest)))
			return cay_fail(err, CAY_E_CONFLICT, "template '%s' uses this image",
					t->info.name);
	}
	return 0;
}

static int may_go(struct cayd *c, const struct image_row *row, struct cay_err *err)
{
	if (!row)
		return cay_fail(err, CAY_E_NOT_FOUND, "there is no such image");
	if (row->going)
		return cay_fail(err, CAY_E_UNAVAILABLE, "this image is being removed");
	/* which may be the same, and the keeper would do both at once */
	if (c->adding)
		return cay_fail(err, CAY_E_UNAVAILABLE, "an image is being unpacked");
	return not_of_a_template(c, row, err);
}

static void image_delete(struct cayd *c, struct request *rq)
{
	static const struct request_events events = { .gone = on_deleting_gone };
	const struct image_row *row = image_by_id(c->images, &rq->match.params[0]);
	struct verb_image_remove q = {};
	struct cay_err none = {}, err = {};
	struct deleting *d;

	if (may_go(c, row, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	d = malloc(sizeof(*d));
	if (!d) {
		request_refuse(rq, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	*d = (struct deleting){ c, rq, row->info.id };
	rq->data = d;
	rq->events = &events;
	c->removing++;
	image_going(c->images, &row->info.id, true);
	memcpy(q.digest, row->digest, sizeof(q.digest));
	if (image_names(c->images, row->digest) > 1)
		on_image_removed(d, &none, NULL, -EBADF); /* its files are another's, too */
	else
		link_call(c->link, VERB_IMAGE_REMOVE, &q, -EBADF, on_image_removed, d);
}

static void (*const handlers[OP_NUM])(struct cayd *c, struct request *rq) = {
	[OP_HEALTH] = health,
	[OP_HEALTH_TOP] = health,
	[OP_OPENAPI] = openapi,
	[OP_OPENAPI_TOP] = openapi,
	[OP_DOCS] = docs,
	[OP_REDOC] = docs,
	[OP_LLMS] = llms,
	[OP_TOOLS] = tools,
	[OP_METRICS] = observe_metrics,
	[OP_SANDBOX_CREATE] = create_ask,
	[OP_SANDBOX_LIST] = sandbox_list,
	[OP_SANDBOX_GET] = sandbox_get,
	[OP_SANDBOX_DELETE] = sandbox_delete,
	[OP_GROUP_DELETE] = group_delete,
	[OP_UPLOAD_PUT] = upload_put,
	[OP_UPLOAD_LIST] = upload_list,
	[OP_UPLOAD_DELETE] = upload_delete,
	[OP_SANDBOX_PAUSE] = sandbox_pause,
	[OP_SANDBOX_RESUME] = sandbox_resume,
	[OP_SANDBOX_EXTEND] = sandbox_extend,
	[OP_SANDBOX_LIMITS] = resize_sandbox,
	[OP_SANDBOX_USAGE] = usage_look,
	[OP_SANDBOX_LABELS] = sandbox_labels,
	[OP_SANDBOX_TOKEN] = sandbox_token,
	[OP_SANDBOX_PREVIEW] = sandbox_preview,
	[OP_SANDBOX_REVOKE] = sandbox_revoke,
	[OP_TREE_IMPORT] = tree_import,
	[OP_TREE_LINK] = tree_link,
	[OP_EVENTS] = event_list,
	[OP_AUDIT_LIST] = trail_list,
	[OP_AUDIT_HEAD] = trail_head,
	[OP_FSCK] = fsck_run,
	[OP_FSCK_REPAIR] = fsck_run,
	[OP_IMAGE_LIST] = image_list,
	[OP_IMAGE_GET] = image_get,
	[OP_IMAGE_IMPORT] = import_start,
	[OP_IMAGE_DELETE] = image_delete,
	[OP_IMAGE_PULL] = pull_ask,
	[OP_IMAGE_PRUNE] = prune_ask,
	[OP_REGISTRY_LOGIN] = registry_login,
	[OP_REGISTRY_LIST] = registry_list,
	[OP_REGISTRY_LOGOUT] = registry_logout,
	[OP_TEMPLATE_CREATE] = template_create,
	[OP_TEMPLATE_LIST] = template_list,
	[OP_TEMPLATE_GET] = template_get,
	[OP_TEMPLATE_POOL] = template_pool,
	[OP_TEMPLATE_DELETE] = template_delete,
	[OP_TEMPLATE_LOG] = template_log,
	[OP_TENANT_CREATE] = tenant_create,
	[OP_TENANT_LIST] = tenant_list,
	[OP_TENANT_DELETE] = tenant_delete,
	[OP_KEY_CREATE] = key_create,
	[OP_KEY_LIST] = key_list,
	[OP_KEY_REVOKE] = key_revoke,
	[OP_KEY_ROTATE] = key_rotate,
};

void api_control(struct request *rq, void *arg)
{
	if (!door_still(arg, &rq->actor))
		request_refuse(rq, CAY_E_UNAUTHENTICATED, "this key is not good any more");
	else if (trail_begin(arg, rq))
		handlers[rq->match.op - ops](arg, rq);
}

static void on_left(void *arg)
{
	struct box *b = arg;

	(void)box_happens(b, &(struct life_event){ .kind = LIFE_LEAVE });
	box_unhold(b);
}

void api_inside(struct request *rq, void *arg)
{
	struct cayd *c = arg;
	auto_buf path = BUF_INIT(128);
	char name[ID_TEXT_LEN + 1];
	struct box *b = find(c, rq);
	struct relay_conf relay = {};

	if (!b)
		return;
	if (b->info.state != SB_RUNNING) {
		request_refuse(rq, CAY_E_STATE, "the sandbox is not running");
		return;
	}
	id_format(&b->info.id, name);
	if (buf_printf(&path, "%s/box/%s", c->settings.run_dir, name) < 0) {
		request_refuse(rq, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	relay.path = path.data;
	relay.upgrade = rq->match.op->reply == REPLY_SOCKET;
	/* a stream begins at once; who waits for a command waits as long as it takes */
	if (rq->match.op != &ops[OP_EXEC_RUN] || http_accepts(rq->head, FRAME_MEDIA_TYPE) ||
	    http_accepts(rq->head, "text/event-stream"))
		relay.head_timeout_ms = INSIDE_MS;
	relay.done = on_left;
	relay.arg = b;
	b->holds++;
	(void)box_happens(b, &(struct life_event){ .kind = LIFE_ENTER });
	relay_start(rq, &relay);
}
