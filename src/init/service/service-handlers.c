/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/output-stream.h"
#include "init/service/service.h"

static void op_service_list(struct init *in, struct request *rq)
{
	struct service_info *rows = arena_alloc(&rq->arena, SERVICES_MAX, sizeof(*rows));
	struct service_list told = { .services.v = rows, .left_out = in->services.left_out };

	if (!rows) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory for the list");
		return;
	}
	for (const struct service *s = in->services.first; s; s = s->next)
		service_describe(s, &rows[told.services.n++]);
	request_reply_json(rq, &service_list_table, &told);
}

/* What runs becomes the new one; what does not is started when it starts by itself. */
static void op_service_put(struct init *in, struct request *rq)
{
	const struct service_put *q = rq->body;
	char name[OP_NAME_MAX + 1] = {};
	struct cay_err err = {};
	struct service_config p;
	struct service *s;
	bool ran;
	int r;

	memcpy(name, rq->match.name.p, rq->match.name.n);
	s = service_find(in, rq->match.name);
	ran = s && (s->exec || s->state == SERVICE_BACKOFF);
	r = service_config_from_request(name, q, &p, &err);
	if (r >= 0)
		r = service_put(in, &p, &s, &err);
	if (r >= 0 && ran)
		r = service_restart(s, &err);
	else if (r >= 0 && s->config.autostart)
		r = service_start(s, &err);
	if (r < 0)
		request_fail(rq, &err);
	else
		service_reply_when_settled(s, rq);
}

static void op_service_get(struct service *s, struct request *rq)
{
	struct service_info told;

	service_describe(s, &told);
	request_reply_json(rq, &service_info_table, &told);
}

static void op_service_start(struct service *s, struct request *rq)
{
	struct cay_err err = {};

	if (service_start(s, &err) < 0)
		request_fail(rq, &err);
	else
		service_reply_when_settled(s, rq);
}

static void op_service_stop(struct service *s, struct request *rq)
{
	service_stop(s);
	service_reply_when_settled(s, rq);
}

static void op_service_restart(struct service *s, struct request *rq)
{
	struct cay_err err = {};

	if (service_restart(s, &err) < 0)
		request_fail(rq, &err);
	else
		service_reply_when_settled(s, rq);
}

static void op_service_delete(struct service *s, struct request *rq)
{
	if (!service_is_idle(s)) {
		request_refuse(rq, CAY_E_STATE, "it runs, or is to: stop it first");
		return;
	}
	op_service_get(s, rq);
	service_delete(s);
}

static void op_service_log(struct service *s, struct request *rq)
{
	output_stream_reply_log(&s->log, rq, rq->query,
				output_stream_choose_form(rq->head, STREAM_RAW));
}

static void (*const service_op_handlers[OP_NUM])(struct service *s, struct request *rq) = {
	[OP_SERVICE_GET] = op_service_get,   [OP_SERVICE_START] = op_service_start,
	[OP_SERVICE_STOP] = op_service_stop, [OP_SERVICE_RESTART] = op_service_restart,
	[OP_SERVICE_LOG] = op_service_log,   [OP_SERVICE_DELETE] = op_service_delete,
};

bool service_handle_operation(struct init *in, struct request *rq)
{
	ptrdiff_t op = rq->match.op - ops;
	struct service *s;

	if (op == OP_SERVICE_LIST)
		op_service_list(in, rq);
	else if (op == OP_SERVICE_PUT)
		op_service_put(in, rq);
	else if (!service_op_handlers[op])
		return false;
	else if (!(s = service_find(in, rq->match.name)))
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such service");
	else
		service_op_handlers[op](s, rq);
	return true;
}
