/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "opensandbox/opensandbox.h"

/* A reply may come from a sandbox. */
static const struct json_limits osb_answer_limits = { OSB_ANSWER_MAX, 24, 400000 };

static bool on_osb_sent(void *arg, size_t held)
{
	struct osb_request *v = arg;

	v->memory.kinds[OSB_MEM_TEXTS] = arena_get_size(&v->arena);
	return face_hold(v->rq, &v->memory, OSB_MEM_SENT, held);
}

static bool on_osb_received(void *arg, size_t held)
{
	struct osb_request *v = arg;

	return face_hold(v->rq, &v->memory, OSB_MEM_RECEIVED, held);
}

int osb_transfer(struct osb_request *v, enum op_id op, json_t *members, struct face_operation how,
		 struct cay_err *err)
{
	struct face_caller who = { .face = &v->door->face,
				   .shared = request_conn_shared(v->rq),
				   .edge = v->edge,
				   .host = v->host,
				   .auth = v->auth,
				   .sandbox = v->sandbox,
				   .group = v->actor.group };

	how.op = op;
	how.members = members;
	how.answer_max = OSB_ANSWER_MAX;
	how.sent = on_osb_sent;
	how.received = on_osb_received;
	how.arg = v;
	if (!how.done)
		how.done = osb_take_answer;
	return face_operation_start(&who, &how, &v->call, err);
}

void osb_call_with(struct osb_request *v, enum op_id op, osb_step *then, json_t *members)
{
	struct cay_err err = {};

	v->then = then;
	if (osb_transfer(v, op, members, (struct face_operation){}, &err) < 0)
		osb_fail(v, &err);
}

void osb_call(struct osb_request *v, enum op_id op, osb_step *then, const char *fmt, ...)
{
	json_t *members;
	va_list ap;

	va_start(ap, fmt);
	members = json_vpack_ex(NULL, 0, fmt, ap);
	va_end(ap);
	osb_call_with(v, op, then, members);
}

const char *osb_text(const json_t *j, const char *name)
{
	const char *s = json_string_value(json_object_get(j, name));

	return s ? s : "";
}

const char *osb_answer_text(const struct osb_request *v, const char *name)
{
	return osb_text(v->answer, name);
}

static void osb_continue(struct osb_request *v)
{
	bool failed = v->status >= 400, accepted = v->accepts_failure;

	v->accepts_failure = false;
	if (failed) {
		const json_t *error = json_object_get(v->answer, "error");
		const char *says = osb_text(error, "message");

		v->failure = (struct cay_err){};
		(void)cay_fail(&v->failure, face_code_named(osb_text(error, "code")), "%s",
			       says[0] ? says : "the request failed");
	}
	if (failed && !accepted)
		osb_fail(v, &v->failure);
	else
		v->then(v);
}

/* The answer before, unless a handler keeps it or a part of it. */
static void osb_drop_answer(struct osb_request *v)
{
	size_t *held = v->memory.kinds;

	if ((v->kept || v->rows) && held[OSB_MEM_KEPT] < held[OSB_MEM_ANSWER])
		held[OSB_MEM_KEPT] = held[OSB_MEM_ANSWER];
	held[OSB_MEM_SENT] = held[OSB_MEM_RECEIVED] = 0;
	json_decref(v->answer);
	v->answer = NULL;
	(void)face_hold(v->rq, &v->memory, OSB_MEM_ANSWER, 0);
}

void osb_take_answer(void *arg, const struct http_head *head, struct slice body,
		     const struct cay_err *err)
{
	struct osb_request *v = arg;
	struct slice kind = head ? http_header_find(head, "content-type") : (struct slice){};
	struct cay_err too_much = {};

	v->call = NULL;
	v->uploading = false;
	osb_drop_answer(v);
	if (!head) {
		osb_fail(v, err);
		return;
	}
	v->status = head->status;
	if (body.n && http_equals_nocase(slice_trim(slice_cut(&kind, ';')), "application/json") &&
	    json_parse(body, &osb_answer_limits, &v->answer, NULL) < 0)
		osb_refuse(v, CAY_E_MISBEHAVED, "the reply is not valid JSON");
	else if (v->answer && !osb_hold(v, OSB_MEM_ANSWER, json_estimate_bytes(body), &too_much))
		osb_fail(v, &too_much);
	else
		osb_continue(v);
}
