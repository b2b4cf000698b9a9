/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/core/handlers.h"

#include "cayd/core/cursor.h"
#include "cayd/core/deferred-reply.h"
#include "cayd/core/keeper-link.h"
#include "cayd/core/list-page.h"
#include "cayd/volume/volume.h"

struct volume_request {
	struct request *rq; /* NULL: the client left */
	struct cayd *cayd;
	struct id volume; /* whose usage is read */
};

static void volume_request_fail(struct request *rq, const struct cay_err *err)
{
	if (cay_error_row(err->code)->retryable)
		(void)request_add_reply_header(rq, "Retry-After", "1");
	request_fail(rq, err);
}

static struct volume_request *volume_request_create(struct cayd *c, struct request *rq)
{
	struct volume_request *q = calloc(1, sizeof(*q));

	if (!q) {
		request_no_memory(rq);
		return NULL;
	}
	*q = (struct volume_request){ .rq = rq, .cayd = c };
	request_watch_client(&q->rq);
	return q;
}

/* It fails in the turn of the loop in which it was created. */
static void volume_request_refuse(struct volume_request *q, const struct cay_err *err)
{
	struct request *rq = q->rq;

	free(q);
	rq->events = NULL;
	volume_request_fail(rq, err);
}

static void on_volume_done(void *arg, const struct volume *v, const struct cay_err *err)
{
	struct volume_request *q = arg;

	if (q->rq && v) {
		q->rq->target = v->info.id;
		request_reply_json(q->rq, &volume_info_table, &v->info);
	} else if (q->rq) {
		volume_request_fail(q->rq, err);
	}
	free(q);
}

void op_volume_create(struct cayd *c, struct request *rq)
{
	struct volume_create *want = rq->body;
	struct volume_request *q;
	struct cay_err err = {};

	if (!request_bind_group(rq, &want->group))
		return;
	if (want->from.noun != ID_NONE && !volume_find(c, &rq->actor, &want->from)) {
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such volume");
		return;
	}
	q = volume_request_create(c, rq);
	if (q && volume_start(c, &rq->actor.tenant, want, on_volume_done, q, &err) < 0)
		volume_request_refuse(q, &err);
}

void op_volume_list(struct cayd *c, struct request *rq)
{
	const struct volume_query *q = rq->query;
	const struct volume *v;
	struct list_page page;
	uint64_t at;

	if (!cursor_parse(rq, q->cursor, &at))
		return;
	volumes_count_users(c);
	list_page_begin(&page, "volumes");
	for (; (v = volume_at(c, at)) && page.rows < q->limit; at++)
		if (volume_is_visible_to(v, &rq->actor) &&
		    (!q->name || str_eq(v->info.name, q->name)) &&
		    !list_page_add(&page, &volume_info_table, &v->info))
			break;
	list_page_finish(&page, v ? cursor_format(rq, at) : NULL);
	list_page_reply(&page, rq);
}

/* NULL: the request was answered. */
static struct volume *volume_find_of_request(struct cayd *c, struct request *rq)
{
	struct volume *v = volume_find(c, &rq->actor, &rq->match.params[0]);

	if (v)
		volumes_count_users(c);
	else
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such volume");
	return v;
}

/* It may have been deleted meanwhile.  Without an answer the reply has no usage. */
static void on_volume_usage(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct volume_request *q = arg;
	const struct volume *v = q->rq ? volume_find(q->cayd, &q->rq->actor, &q->volume) : NULL;
	struct verb_usage_reply usage = { .disk_bytes = UINT64_MAX };
	struct volume_info info;

	cay_closep(&fd);
	if (!outcome->code)
		memcpy(&usage, reply, sizeof(usage));
	if (q->rq && !v)
		request_refuse(q->rq, CAY_E_NOT_FOUND, "there is no such volume");
	if (q->rq && v) {
		info = v->info;
		info.has_used = usage.disk_bytes != UINT64_MAX;
		info.used_bytes = info.has_used ? usage.disk_bytes : 0;
		request_reply_json(q->rq, &volume_info_table, &info);
	}
	free(q);
}

void op_volume_get(struct cayd *c, struct request *rq)
{
	const struct volume *v = volume_find_of_request(c, rq);
	bool copied = v && v->n_copies; /* its usage would come after the copies */
	struct volume_request *q = v && !copied ? volume_request_create(c, rq) : NULL;
	struct verb_volume call = {};

	if (copied)
		request_reply_json(rq, &volume_info_table, &v->info);
	if (!q)
		return;
	call.volume = q->volume = v->info.id;
	keeper_call_for(c->keeper, &v->info.tenant, VERB_VOLUME_LIMIT, &call, on_volume_usage, q);
}

void op_volume_resize(struct cayd *c, struct request *rq)
{
	struct volume *v = volume_find_of_request(c, rq);
	const struct volume_resize *want = rq->body;
	struct volume_request *q = v ? volume_request_create(c, rq) : NULL;
	struct cay_err err = {};

	if (q && volume_resize(v, want->size_bytes, on_volume_done, q, &err) < 0)
		volume_request_refuse(q, &err);
}

static int volume_check_delete(const struct volume *v, struct cay_err *err)
{
	if (v->busy || v->n_copies || v->info.state == VOLUME_CREATING)
		return cay_fail(err, CAY_E_UNAVAILABLE,
				"another change of the volume is under way; try again");
	if (v->info.writer.noun != ID_NONE || v->info.readers)
		return volume_fail_used(v, err);
	return 0;
}

void op_volume_delete(struct cayd *c, struct request *rq)
{
	struct volume *v = volume_find_of_request(c, rq);
	struct volume_request *q;
	struct cay_err err = {};

	if (!v)
		return;
	if (volume_check_delete(v, &err) < 0) {
		volume_request_fail(rq, &err);
		return;
	}
	q = volume_request_create(c, rq);
	if (q)
		volume_remove(v, on_volume_done, q);
}
