/* SPDX-License-Identifier: Apache-2.0 */
#include "init/stream.h"
#include "init/svc.h"

static void list(struct init *in, struct request *rq)
{
	struct service *rows = pool_take(&rq->pool, SERVICES_MAX, sizeof(*rows));
	struct service_list told = { .services.v = rows, .left_out = in->svcs.left_out };

	if (!rows) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory for the list");
		return;
	}
	for (const struct svc *s = in->svcs.first; s; s = s->next)
		svc_describe(s, &rows[told.services.n++]);
	request_reply_json(rq, &service_list_table, &told);
}

/* What runs becomes the new one; what does not is started when it starts by itself. */
static void put(struct init *in, struct request *rq)
{
	const struct service_put *q = rq->body;
	char name[OP_NAME_MAX + 1] = {};
	struct cay_err err = {};
	struct program p;
	struct svc *s;
	bool ran;
	int r;

	memcpy(name, rq->match.name.p, rq->match.name.n);
	s = svc_find(in, rq->match.name);
	ran = s && (s->job || s->state == SERVICE_BACKOFF);
	r = program_from(name, q, &p, &err);
	if (r >= 0)
		r = svc_put(in, &p, &s, &err);
	if (r >= 0 && ran)
		r = svc_restart(s, &err);
	else if (r >= 0 && s->p.autostart)
		r = svc_start(s, &err);
	if (r < 0)
		request_fail(rq, &err);
	else
		svc_answer(s, rq);
}

static void get(struct svc *s, struct request *rq)
{
	struct service told;

	svc_describe(s, &told);
	request_reply_json(rq, &service_table, &told);
}

static void start(struct svc *s, struct request *rq)
{
	struct cay_err err = {};

	if (svc_start(s, &err) < 0)
		request_fail(rq, &err);
	else
		svc_answer(s, rq);
}

static void stop(struct svc *s, struct request *rq)
{
	svc_stop(s);
	svc_answer(s, rq);
}

static void restart(struct svc *s, struct request *rq)
{
	struct cay_err err = {};

	if (svc_restart(s, &err) < 0)
		request_fail(rq, &err);
	else
		svc_answer(s, rq);
}

static void delete(struct svc *s, struct request *rq)
{
	if (!svc_idle(s)) {
		request_refuse(rq, CAY_E_STATE, "it runs, or is to: stop it first");
		return;
	}
	get(s, rq);
	svc_delete(s);
}

static void tell_log(struct svc *s, struct request *rq)
{
	stream_log(&s->log, rq, rq->query, stream_form(rq->head, STREAM_RAW));
}

static void (*const of_one[OP_NUM])(struct svc *s, struct request *rq) = {
	[OP_SERVICE_GET] = get,         [OP_SERVICE_START] = start,  [OP_SERVICE_STOP] = stop,
	[OP_SERVICE_RESTART] = restart, [OP_SERVICE_LOG] = tell_log, [OP_SERVICE_DELETE] = delete,
};

bool svc_api(struct init *in, struct request *rq)
{
	ptrdiff_t op = rq->match.op - ops;
	struct svc *s;

	if (op == OP_SERVICE_LIST)
		list(in, rq);
	else if (op == OP_SERVICE_PUT)
		put(in, rq);
	else if (!of_one[op])
		return false;
	else if (!(s = svc_find(in, rq->match.name)))
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such service");
	else
		of_one[op](s, rq);
	return true;
}
