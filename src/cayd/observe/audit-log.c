/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/observe/audit-log.h"
#include "cayd/core/handlers.h"

#include <stdio.h>
#include <sys/socket.h>

#include "cayd/core/cursor.h"
#include "cayd/core/deferred-reply.h"
#include "cayd/core/list-page.h"

#define DONE "ok"
#define LEFT "client_left"

int audit_log_open(struct cayd *c, struct cay_err *err)
{
	struct audit_conf conf = { c->settings.audit_size, c->settings.audit_keep, c->clk };

	return audit_open(c->audit_dir, &conf, &c->loop, &c->audit, err);
}

static bool audit_log_op_is_change(const struct op *op)
{
	return op->where == WHERE_CONTROL && op->method != METHOD_GET &&
	       (op->scope == SCOPE_WRITE || op->scope == SCOPE_OPERATOR);
}

static bool audit_log_request_is_recorded(const struct request *rq, enum cay_code code)
{
	return code == CAY_E_UNAUTHENTICATED || code == CAY_E_FORBIDDEN ||
	       (rq->match.op && audit_log_op_is_change(rq->match.op));
}

bool audit_log_reserve_for_request(struct cayd *c, struct request *rq)
{
	struct cay_err err = {};

	if (!audit_log_op_is_change(rq->match.op))
		return true;
	if (audit_slot_reserve(c->audit, &err) < 0) {
		request_fail(rq, &err);
		return false;
	}
	rq->mark = true;
	return true;
}

static int audit_log_fill_peer(struct request *rq, struct audit_record *to)
{
	struct ucred peer;

	if (request_peer_credentials(rq, &peer) < 0)
		return 0;
	return snprintf(to->peer, sizeof(to->peer), "uid=%u pid=%d", peer.uid, peer.pid);
}

/* The text or id of a member of a query or a body; NULL when the request has none. */
static const char *request_find_text(const struct field_table *t, const void *from,
				     struct slice name, char id_text[static ID_TEXT_LEN + 1])
{
	for (size_t i = 0; from && t && i < t->n; i++) {
		const void *at = (const char *)from + t->rows[i].offset;
		const struct id *id = at;

		if (!slice_eq(name, slice_of(t->rows[i].name)))
			continue;
		if (t->rows[i].type == FIELD_TEXT)
			return *(const char *const *)at;
		if (t->rows[i].type == FIELD_ID && id->noun != ID_NONE) {
			id_format(id, id_text);
			return id_text;
		}
	}
	return NULL;
}

/* The members that the row of the operation names, as "name=value name=value", cut to fit. */
static int audit_log_fill_detail(const struct request *rq, struct audit_record *to)
{
	const struct op *op = rq->match.op;
	struct slice names = op->audit ? slice_of(op->audit) : (struct slice){};
	size_t n = 0;

	while (names.n) {
		struct slice name = slice_cut(&names, ' ');
		char id[ID_TEXT_LEN + 1];
		const char *text = request_find_text(op->query, rq->query, name, id);
		size_t left = sizeof(to->detail) - n;
		int r;

		if (!text)
			text = request_find_text(op->request, rq->body, name, id);
		if (!text)
			return 0;
		r = snprintf(to->detail + n, left, "%s%.*s=%s", n ? " " : "", (int)name.n, name.p,
			     text);
		if (r < 0)
			return r;
		n += (size_t)r < left ? (size_t)r : left - 1;
	}
	return (int)n;
}

/* The reply is held until the record is durable or its write has failed. */
static void audit_log_report_outcome(struct cayd *c, const struct cay_err *outcome)
{
	if (outcome->code && !c->audit_failing)
		log_error(&c->log, "%s: audit records wait in memory", outcome->msg);
	else if (!outcome->code && c->audit_failing)
		log_info(&c->log, "the audit log can be written again");
	c->audit_failing = outcome->code != CAY_OK;
}

/* A record that is being written, and the reply that waits for it. */
struct audit_log_hold {
	struct cayd *cayd;
	struct request *rq; /* NULL: there is no reply yet, or there will be none */
	bool written, abandoned;
};

static void on_audit_log_record_written(void *arg, const struct cay_err *outcome)
{
	struct audit_log_hold *h = arg;

	audit_log_report_outcome(h->cayd, outcome);
	h->written = true;
	if (h->rq)
		request_release_held_reply(h->rq);
	if (h->rq || h->abandoned)
		free(h);
}

/* No reply waits for the record any more. */
static void audit_log_hold_release(struct audit_log_hold *h)
{
	h->abandoned = true;
	if (h->written)
		free(h);
}

static void audit_log_fill_record(struct request *rq, const char *outcome, struct audit_record *ret)
{
	const struct id *target = rq->target.noun ? &rq->target : op_match_target(&rq->match);

	*ret = (struct audit_record){};
	if (rq->actor.tenant.noun)
		id_format(&rq->actor.tenant, ret->tenant);
	if (rq->actor.key.noun)
		id_format(&rq->actor.key, ret->key);
	audit_set(ret->op, rq->match.op ? rq->match.op->name : "none");
	if (target)
		id_format(target, ret->target);
	audit_set(ret->outcome, outcome);
	audit_set(ret->request_id, rq->id);
	if (audit_log_fill_peer(rq, ret) < 0 || audit_log_fill_detail(rq, ret) < 0)
		ret->detail[0] = 0;
}

/* NULL: the record is not in the log, or no reply can wait for it. */
static struct audit_log_hold *audit_log_append(struct cayd *c, struct request *rq,
					       const char *outcome, bool hold, bool reserved)
{
	struct audit_log_hold *h = hold ? calloc(1, sizeof(*h)) : NULL;
	struct audit_record rec;

	audit_log_fill_record(rq, outcome, &rec);
	if (h)
		h->cayd = c;
	if (audit_append(c->audit, &rec, reserved, h ? on_audit_log_record_written : NULL, h))
		return h;
	free(h);
	return NULL;
}

void audit_log_record_early(struct cayd *c, struct request *rq)
{
	struct cay_err err = {};

	/* in a slot of its own: the reserved one stays for the final outcome */
	if (rq->mark && !rq->record && audit_slot_reserve(c->audit, &err) >= 0)
		rq->record = audit_log_append(c, rq, DONE, true, true);
}

void audit_log_record_one_of_many(struct cayd *c, struct request *rq)
{
	(void)audit_log_append(c, rq, DONE, false, false);
}

void audit_log_record_wake(struct cayd *c, struct request *rq, const struct id *sandbox)
{
	struct audit_record rec;
	int n;

	audit_log_fill_record(rq, DONE, &rec);
	audit_set(rec.op, ops[OP_SANDBOX_START].name);
	id_format(sandbox, rec.target);
	n = snprintf(rec.detail, sizeof(rec.detail), "by=%s", rq->match.op->name);
	if (n < 0 || (size_t)n >= sizeof(rec.detail))
		rec.detail[0] = 0;
	(void)audit_append(c->audit, &rec, false, NULL, NULL);
}

bool audit_log_record_reply(struct request *rq, int status, enum cay_code code, bool whole,
			    void *arg)
{
	struct cayd *c = arg;
	struct audit_log_hold *h = rq->record;
	bool reserved = rq->mark;

	rq->record = NULL;
	rq->mark = false;
	if (!audit_log_request_is_recorded(rq, code))
		return false;
	if (!h || !status || code) {
		if (h)
			audit_log_hold_release(h);
		h = audit_log_append(c, rq,
				     !status ? LEFT
				     : code  ? cay_error_row(code)->name
					     : DONE,
				     whole, reserved);
	} else if (reserved) {
		audit_slot_release(c->audit);
	}
	if (h && (h->written || !whole)) {
		audit_log_hold_release(h);
		return false;
	}
	if (h)
		h->rq = rq;
	return h;
}

/* Read by libuv's threads: a page may begin megabytes into a file. */

struct audit_list_job {
	uv_work_t work;
	struct cayd *cayd;
	struct request *rq; /* NULL: the client left */
	uint64_t from, limit;
	struct audit_record *rows; /* limit + 1 rows */
	int n;
	struct cay_err err;
};

static void audit_list_read_work(uv_work_t *work)
{
	struct audit_list_job *l = work->data;

	l->n = audit_read_page(l->cayd->audit_dir, l->from, l->rows, l->limit + 1, &l->err);
}

static const char *audit_list_text_or_null(const char *text)
{
	return text[0] ? text : NULL;
}

static void audit_list_fill_row(const struct audit_record *r, struct audit_row *ret)
{
	*ret = (struct audit_row){
		.seq = r->seq,
		.wall_ns = r->wall_ns,
		.tenant = audit_list_text_or_null(r->tenant),
		.key = audit_list_text_or_null(r->key),
		.op = r->op,
		.target = audit_list_text_or_null(r->target),
		.outcome = audit_list_text_or_null(r->outcome),
		.request_id = audit_list_text_or_null(r->request_id),
		.peer = audit_list_text_or_null(r->peer),
		.detail = audit_list_text_or_null(r->detail),
		.count = r->dropped.count,
		.has_count = r->dropped.head[0],
		.head = audit_list_text_or_null(r->dropped.head),
		.prev = r->prev,
	};
}

static void audit_list_reply(struct audit_list_job *l)
{
	uint64_t n = (uint64_t)l->n, i;
	struct audit_row row;
	struct list_page page;

	list_page_begin(&page, "records");
	for (i = 0; i < n && i < l->limit; i++) {
		audit_list_fill_row(&l->rows[i], &row);
		if (!list_page_add(&page, &audit_row_table, &row))
			break;
	}
	list_page_finish(&page, i < n ? cursor_format(l->rq, l->rows[i].seq) : NULL);
	list_page_reply(&page, l->rq);
}

static void on_audit_list_read(uv_work_t *work, int)
{
	struct audit_list_job *l = work->data;

	if (l->rq && l->n < 0) {
		log_error(&l->cayd->log, "%s", l->err.msg);
		request_fail(l->rq, &l->err);
	} else if (l->rq) {
		audit_list_reply(l);
	}
	free(l->rows);
	free(l);
}

void op_audit_list(struct cayd *c, struct request *rq)
{
	const struct page_query *q = rq->query;
	struct audit_list_job *l = calloc(1, sizeof(*l));
	uint64_t from;

	if (l)
		l->rows = calloc(q->limit + 1, sizeof(*l->rows));
	if (!l || !l->rows) {
		free(l);
		request_no_memory(rq);
		return;
	}
	if (!cursor_parse(rq, q->cursor, &from)) {
		free(l->rows);
		free(l);
		return;
	}
	l->from = from;
	l->work.data = l;
	l->cayd = c;
	l->rq = rq;
	l->limit = q->limit;
	request_watch_client(&l->rq);
	(void)uv_queue_work(&c->loop, &l->work, audit_list_read_work, on_audit_list_read);
}

void op_audit_head(struct cayd *c, struct request *rq)
{
	struct audit_anchor at = audit_get_durable_head(c->audit);

	request_reply_json(rq, &audit_head_table, &(struct audit_head){ at.count, at.head });
}
