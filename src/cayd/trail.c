/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/trail.h"

#include <stdio.h>
#include <sys/socket.h>

#include "cayd/page.h"

#define DONE "ok"
#define LEFT "client_left"

int trail_open(struct cayd *c, struct cay_err *err)
{
	struct audit_conf conf = { c->settings.audit_size, c->settings.audit_keep, c->clk };

	return audit_open(c->audit_dir, &conf, &c->loop, &c->audit, err);
}

/* Whose request it is, as far as anybody knows. */
static void actor_of(const struct request *rq, struct audit_record *to)
{
	char text[ID_TEXT_LEN + 1];

	if (rq->actor.tenant.noun) {
		id_format(&rq->actor.tenant, text);
		audit_set(to->tenant, text);
	}
	if (rq->actor.key.noun) {
		id_format(&rq->actor.key, text);
		audit_set(to->key, text);
	}
}

static bool changes(const struct op *op)
{
	return op->where == WHERE_CONTROL && op->method != METHOD_GET &&
	       (op->scope == SCOPE_WRITE || op->scope == SCOPE_OPERATOR);
}

static bool is_recorded(const struct request *rq, enum cay_code code)
{
	return code == CAY_E_UNAUTHENTICATED || code == CAY_E_FORBIDDEN ||
	       (rq->match.op && changes(rq->match.op));
}

bool trail_begin(struct cayd *c, struct request *rq)
{
	struct cay_err err = {};

	if (!changes(rq->match.op))
		return true;
	if (audit_reserve(c->audit, &err) < 0) {
		request_fail(rq, &err);
		return false;
	}
	rq->mark = true;
	return true;
}

static int write_peer(struct request *rq, struct audit_record *to)
{
	struct ucred peer;

	if (request_peer(rq, &peer) < 0)
		return 0;
	return snprintf(to->peer, sizeof(to->peer), "uid=%u pid=%d", peer.uid, peer.pid);
}

static int write_detail(const struct request *rq, struct audit_record *to)
{
	const struct group_query *group = rq->query;
	const struct upload_query *upload = rq->query;
	const struct upload_put_query *put = rq->query;
	const struct image_import_query *image = rq->query;
	const struct image_pull *pull = rq->body;
	const struct registry_login *in = rq->body;
	const struct registry_query *out = rq->query;

	if (rq->match.op == &ops[OP_GROUP_DELETE] && group && group->group)
		return snprintf(to->detail, sizeof(to->detail), "group=%s", group->group);
	if (rq->match.op == &ops[OP_UPLOAD_PUT] && put && put->group && put->name)
		return snprintf(to->detail, sizeof(to->detail), "group=%s name=%.80s", put->group,
				put->name);
	if (rq->match.op == &ops[OP_UPLOAD_DELETE] && upload && upload->group && upload->name)
		return snprintf(to->detail, sizeof(to->detail), "group=%s name=%.80s",
				upload->group, upload->name);
	if (rq->match.op == &ops[OP_IMAGE_IMPORT] && image && image->name)
		return snprintf(to->detail, sizeof(to->detail), "name=%.140s", image->name);
	if (rq->match.op == &ops[OP_IMAGE_PULL] && pull && pull->reference)
		return snprintf(to->detail, sizeof(to->detail), "reference=%.140s",
				pull->reference);
	/* where, and nothing of who or with what */
	if (rq->match.op == &ops[OP_REGISTRY_LOGIN] && in && in->registry)
		return snprintf(to->detail, sizeof(to->detail), "registry=%.140s", in->registry);
	if (rq->match.op == &ops[OP_REGISTRY_LOGOUT] && out && out->registry)
		return snprintf(to->detail, sizeof(to->detail), "registry=%.140s", out->registry);
	return 0;
}

/* Nobody hears of it before it is written, unless it cannot be. */
static void on_recorded(struct cayd *c, const struct cay_err *outcome)
{
	if (outcome->code && !c->audit_failing)
		log_error(&c->log, "%s: records wait in memory", outcome->msg);
	else if (!outcome->code && c->audit_failing)
		log_info(&c->log, "the audit log is written again");
	c->audit_failing = outcome->code != CAY_OK;
}

/* A record on its way, and the answer that waits for it. */
struct held {
	struct cayd *cayd;
	struct request *rq; /* NULL: it has not come so far, or never will */
	bool written, alone;
};

static void on_held(void *arg, const struct cay_err *outcome)
{
	struct held *h = arg;

	on_recorded(h->cayd, outcome);
	h->written = true;
	if (h->rq)
		request_release(h->rq);
	if (h->rq || h->alone)
		free(h);
}

/* Nobody waits for it any more. */
static void leave_alone(struct held *h)
{
	h->alone = true;
	if (h->written)
		free(h);
}

static void write_record(struct request *rq, const char *outcome, struct audit_record *ret)
{
	const struct id *target = rq->target.noun          ? &rq->target
				  : rq->match.n_params > 0 ? &rq->match.params[0]
							   : NULL;
	char text[ID_TEXT_LEN + 1];

	*ret = (struct audit_record){};
	actor_of(rq, ret);
	audit_set(ret->op, rq->match.op ? rq->match.op->name : "none");
	if (target) {
		id_format(target, text);
		audit_set(ret->target, text);
	}
	audit_set(ret->outcome, outcome);
	audit_set(ret->request_id, rq->id);
	if (write_peer(rq, ret) < 0 || write_detail(rq, ret) < 0)
		ret->detail[0] = 0;
}

/* NULL: it is not in the log, or nobody will hear when it is. */
static struct held *put(struct cayd *c, struct request *rq, const char *outcome, bool hold,
			bool reserved)
{
	struct held *h = hold ? calloc(1, sizeof(*h)) : NULL;
	struct audit_record rec;

	write_record(rq, outcome, &rec);
	if (h)
		h->cayd = c;
	if (audit_put(c->audit, &rec, reserved, h ? on_held : NULL, h))
		return h;
	free(h);
	return NULL;
}

void trail_soon(struct cayd *c, struct request *rq)
{
	struct cay_err err = {};

	/* with room of its own: that for what comes of it in the end stays */
	if (rq->mark && !rq->record && audit_reserve(c->audit, &err) >= 0)
		rq->record = put(c, rq, DONE, true, true);
}

bool trail_answered(struct request *rq, int status, enum cay_code code, bool whole, void *arg)
{
	struct cayd *c = arg;
	struct held *h = rq->record;
	bool reserved = rq->mark;

	rq->record = NULL;
	rq->mark = false;
	if (!is_recorded(rq, code))
		return false;
	if (!h || !status || code) {
		if (h)
			leave_alone(h);
		h = put(c, rq,
			!status ? LEFT
			: code  ? cay_error_row(code)->name
				: DONE,
			whole, reserved);
	} else if (reserved) {
		audit_release(c->audit);
	}
	if (h && (h->written || !whole)) {
		leave_alone(h);
		return false;
	}
	if (h)
		h->rq = rq;
	return h;
}

/* Reading is for libuv's threads: a page may be megabytes into a file. */

struct listing {
	uv_work_t work;
	struct cayd *cayd;
	struct request *rq; /* NULL: the client left */
	uint64_t from, limit;
	struct audit_record *rows; /* limit and one more */
	int n;
	struct cay_err err;
};

static void on_list_gone(struct request *rq)
{
	struct listing *l = rq->data;

	l->rq = NULL;
}

static void read_page(uv_work_t *work)
{
	struct listing *l = work->data;

	l->n = audit_page(l->cayd->audit_dir, l->from, l->rows, l->limit + 1, &l->err);
}

static const char *or_null(const char *text)
{
	return text[0] ? text : NULL;
}

static void show(const struct audit_record *r, struct audit_row *ret)
{
	*ret = (struct audit_row){
		.seq = r->seq,
		.wall_ns = r->wall_ns,
		.tenant = or_null(r->tenant),
		.key = or_null(r->key),
		.op = r->op,
		.target = or_null(r->target),
		.outcome = or_null(r->outcome),
		.request_id = or_null(r->request_id),
		.peer = or_null(r->peer),
		.detail = or_null(r->detail),
		.count = r->dropped.count,
		.has_count = r->dropped.head[0],
		.head = or_null(r->dropped.head),
		.prev = r->prev,
	};
}

static void answer_list(struct listing *l)
{
	size_t n = (uint64_t)l->n > l->limit ? l->limit : (size_t)l->n;
	struct audit_row *rows = pool_take(&l->rq->pool, n ? n : 1, sizeof(*rows));
	struct audit_list list = { .records = { rows, n } };

	for (size_t i = 0; rows && i < n; i++)
		show(&l->rows[i], &rows[i]);
	if (rows && (uint64_t)l->n > l->limit)
		list.next_cursor = page_cursor(l->rq, l->rows[n].seq);
	if (!rows || ((uint64_t)l->n > l->limit && !list.next_cursor)) {
		(void)cay_fail(&l->err, CAY_E_NO_MEMORY, "out of memory");
		request_fail(l->rq, &l->err);
	} else {
		request_reply_json(l->rq, &audit_list_table, &list);
	}
}

static void on_page(uv_work_t *work, int)
{
	struct listing *l = work->data;

	if (l->rq)
		l->rq->events = NULL;
	if (l->rq && l->n < 0) {
		log_error(&l->cayd->log, "%s", l->err.msg);
		request_fail(l->rq, &l->err);
	} else if (l->rq) {
		answer_list(l);
	}
	free(l->rows);
	free(l);
}

void trail_list(struct cayd *c, struct request *rq)
{
	static const struct request_events events = { .gone = on_list_gone };
	const struct page_query *q = rq->query;
	struct listing *l = calloc(1, sizeof(*l));
	uint64_t from;

	if (l)
		l->rows = calloc(q->limit + 1, sizeof(*l->rows));
	if (!page_begins(rq, q->cursor, l ? l->rows : NULL, &from) || !l) {
		if (l)
			free(l->rows);
		free(l);
		return;
	}
	l->from = from;
	l->work.data = l;
	l->cayd = c;
	l->rq = rq;
	l->limit = q->limit;
	rq->data = l;
	rq->events = &events;
	(void)uv_queue_work(&c->loop, &l->work, read_page, on_page);
}

void trail_head(struct cayd *c, struct request *rq)
{
	struct audit_anchor at = audit_head(c->audit);

	request_reply_json(rq, &audit_head_table, &(struct audit_head){ at.count, at.head });
}
