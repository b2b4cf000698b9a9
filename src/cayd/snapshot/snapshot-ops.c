/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/core/handlers.h"

#include "cayd/core/cursor.h"
#include "cayd/core/deferred-reply.h"
#include "cayd/core/list-page.h"
#include "cayd/snapshot/snapshot.h"

struct snapshot_request {
	struct request *rq; /* NULL: the client left */
};

static void snapshot_request_fail(struct request *rq, const struct cay_err *err)
{
	if (cay_error_row(err->code)->retryable)
		(void)request_add_reply_header(rq, "Retry-After", "1");
	request_fail(rq, err);
}

static void on_snapshot_done(void *arg, const struct snapshot *s, const struct cay_err *err)
{
	struct snapshot_request *q = arg;

	if (q->rq && s) {
		q->rq->target = s->info.id;
		request_reply_json(q->rq, &snapshot_info_table, &s->info);
	} else if (q->rq) {
		snapshot_request_fail(q->rq, err);
	}
	free(q);
}

void op_snapshot_create(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	struct snapshot_request *q;
	struct cay_err err = {};

	if (!sb)
		return;
	/* a token is given away, and what a snapshot takes is its tenant's */
	if (rq->actor.one_sandbox) {
		request_refuse_hinted(rq, CAY_E_FORBIDDEN,
				      "a token of the sandbox may not create a snapshot",
				      "use an API key of its tenant");
		return;
	}
	q = calloc(1, sizeof(*q));
	if (!q)
		(void)cay_no_memory(&err);
	if (q &&
	    snapshot_start(c, sb, rq->body, /* fork= */ false, on_snapshot_done, q, &err) >= 0) {
		q->rq = rq;
		request_watch_client(&q->rq);
		return;
	}
	free(q);
	snapshot_request_fail(rq, &err);
}

static bool snapshot_is_listed(const struct snapshot *s, const struct actor *by,
			       const struct snapshot_query *q)
{
	return snapshot_is_visible_to(s, by) && !s->fork &&
	       (!q->name || (s->info.name && str_eq(s->info.name, q->name))) &&
	       (q->sandbox.noun == ID_NONE || id_eq(&q->sandbox, &s->info.sandbox));
}

void op_snapshot_list(struct cayd *c, struct request *rq)
{
	const struct snapshot_query *q = rq->query;
	const struct snapshot *s;
	struct list_page page;
	uint64_t at;

	if (!cursor_parse(rq, q->cursor, &at))
		return;
	list_page_begin(&page, "snapshots");
	for (; (s = snapshot_at(c, at)) && page.rows < q->limit; at++)
		if (snapshot_is_listed(s, &rq->actor, q) &&
		    !list_page_add(&page, &snapshot_info_table, &s->info))
			break;
	list_page_finish(&page, s ? cursor_format(rq, at) : NULL);
	list_page_reply(&page, rq);
}

struct snapshot *snapshot_find_of_request(const struct cayd *c, struct request *rq)
{
	struct snapshot *s = snapshot_find(c, &rq->actor, &rq->match.params[0]);

	if (!s || s->fork) {
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such snapshot");
		return NULL;
	}
	return s;
}

void op_snapshot_get(struct cayd *c, struct request *rq)
{
	const struct snapshot *s = snapshot_find_of_request(c, rq);

	if (s)
		request_reply_json(rq, &snapshot_info_table, &s->info);
}

static int snapshot_check_delete(const struct snapshot *s, struct cay_err *err)
{
	const char *template = s->cayd->hooks->template_naming(s->cayd, &s->info.id);

	if (s->busy || s->info.state == SNAPSHOT_CREATING)
		return cay_fail(err, CAY_E_UNAVAILABLE,
				"another change of the snapshot is under way");
	if (!template)
		return 0;
	(void)cay_fail(err, CAY_E_CONFLICT, "template '%s' starts sandboxes from this snapshot",
		       template);
	cay_err_hint(err, "an operator deletes the template, or creates it again without it");
	return -EBUSY;
}

void op_snapshot_delete(struct cayd *c, struct request *rq)
{
	struct snapshot *s = snapshot_find_of_request(c, rq);
	struct snapshot_request *q;
	struct cay_err err = {};

	if (!s)
		return;
	if (snapshot_check_delete(s, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	q = calloc(1, sizeof(*q));
	if (!q) {
		request_no_memory(rq);
		return;
	}
	q->rq = rq;
	request_watch_client(&q->rq);
	snapshot_remove(s, on_snapshot_done, q);
}
