/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/handlers.h"
#include "init/exec/output-stream.h"
#include "init/service/service.h"

/* NULL: replied not_found. */
static struct service *service_from_request(struct init *in, struct request *rq)
{
	struct service *s = service_find(in, rq->match.name);

	if (!s)
		request_refuse(rq, CAY_E_NOT_FOUND, "no such service");
	return s;
}

void op_service_list(struct request *rq, void *arg)
{
	const struct init *in = arg;
	struct service_info *rows = arena_alloc(&rq->arena, SERVICES_MAX, sizeof(*rows));
	struct service_list reply = { .services.v = rows, .left_out = in->services.left_out };

	if (!rows) {
		request_no_memory(rq);
		return;
	}
	for (const struct service *s = in->services.first; s; s = s->next)
		service_describe(s, &rows[reply.services.n++]);
	request_reply_json(rq, &service_list_table, &reply);
}

/* A running service is restarted with the new configuration; another one starts if autostart
 * is set. */
void op_service_put(struct request *rq, void *arg)
{
	struct init *in = arg;
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
		(void)service_restart(s, &err);
	else if (r >= 0 && s->config.autostart)
		(void)service_start(s, &err);
	service_reply_when_settled(s, rq, &err);
}

void op_service_get(struct request *rq, void *arg)
{
	const struct service *s = service_from_request(arg, rq);

	if (s)
		service_reply_info(s, rq);
}

void op_service_delete(struct request *rq, void *arg)
{
	struct service *s = service_from_request(arg, rq);

	if (s && !service_is_idle(s)) {
		request_refuse(rq, CAY_E_STATE,
			       "the service is running or about to start; stop it first");
	} else if (s) {
		service_reply_info(s, rq);
		service_delete(s);
	}
}

void op_service_start(struct request *rq, void *arg)
{
	struct service *s = service_from_request(arg, rq);
	struct cay_err err = {};

	if (!s)
		return;
	(void)service_start(s, &err);
	service_reply_when_settled(s, rq, &err);
}

void op_service_stop(struct request *rq, void *arg)
{
	struct service *s = service_from_request(arg, rq);

	if (!s)
		return;
	service_stop(s);
	service_reply_when_settled(s, rq, &(struct cay_err){});
}

void op_service_restart(struct request *rq, void *arg)
{
	struct service *s = service_from_request(arg, rq);
	struct cay_err err = {};

	if (!s)
		return;
	(void)service_restart(s, &err);
	service_reply_when_settled(s, rq, &err);
}

void op_service_log(struct request *rq, void *arg)
{
	const struct service_log_query *q = rq->query;
	struct service *s = service_from_request(arg, rq);

	if (s)
		output_stream_reply_output(NULL, &s->log, rq,
					   &(struct exec_output_query){ .offset = q->offset,
									.limit = q->limit,
									.follow = q->follow });
}
