/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "e2b/e2b.h"

/* A reply may come from a sandbox. */
static const struct json_limits e2b_answer_limits = { E2B_ANSWER_MAX, 24, 65536 };

static bool on_e2b_sent(void *arg, size_t held)
{
	struct e2b_request *v = arg;

	return face_hold(v->rq, &v->memory, E2B_MEM_SENT, held);
}

static bool on_e2b_received(void *arg, size_t held)
{
	struct e2b_request *v = arg;

	return face_hold(v->rq, &v->memory, E2B_MEM_RECEIVED, held);
}

int e2b_transfer(struct e2b_request *v, enum op_id op, json_t *members,
		 const struct e2b_transfer *how, struct cay_err *err)
{
	const struct face_caller who = { .face = &v->door->face,
					 .shared = request_conn_shared(v->rq),
					 .edge = v->edge,
					 .host = v->host,
					 .auth = v->auth,
					 .sandbox = v->sandbox,
					 .group = v->actor.group };
	const struct face_operation what = {
		.op = op,
		.members = members,
		.accept = how->accept,
		.range = how->range,
		.body = how->body,
		.upload = how->upload,
		.ends_with_caller = how->ends_with_caller,
		.answer_max = E2B_ANSWER_MAX,
		.sent = how->arg ? NULL : on_e2b_sent,
		.received = how->arg ? NULL : on_e2b_received,
		.piece = how->piece,
		.drain = how->drain,
		.done = how->done ? how->done : e2b_take_answer,
		.arg = how->arg ? how->arg : v,
	};

	v->op = op;
	return face_operation_start(&who, &what, how->call ? how->call : &v->call, err);
}

void e2b_call(struct e2b_request *v, enum op_id op, e2b_step *then, const char *fmt, ...)
{
	static const struct e2b_transfer plain = {};
	struct cay_err err = {};
	json_t *members;
	va_list ap;

	va_start(ap, fmt);
	members = json_vpack_ex(NULL, 0, fmt, ap);
	va_end(ap);
	v->then = then;
	if (e2b_transfer(v, op, members, &plain, &err) < 0)
		e2b_fail(v, &err);
}

const char *e2b_answer_text(const struct e2b_request *v, const char *name)
{
	const char *s = json_string_value(json_object_get(v->answer, name));

	return s ? s : "";
}

/* The error of an operation. */
static void e2b_read_failure(struct e2b_request *v)
{
	const json_t *error = json_object_get(v->answer, "error");
	const char *says = json_string_value(json_object_get(error, "message"));
	const char *field = json_string_value(json_object_get(error, "field"));
	enum cay_code code = face_code_named(json_string_value(json_object_get(error, "code")));

	v->failure = (struct cay_err){};
	/* a process that ended a moment ago is none */
	if (code == CAY_E_STATE &&
	    (v->op == OP_EXEC_SIGNAL || v->op == OP_EXEC_STDIN || v->op == OP_EXEC_RESIZE))
		code = CAY_E_NOT_FOUND;
	/* envd says so of a user that the sandbox does not have */
	if (field && str_eq(field, "user"))
		code = CAY_E_UNAUTHENTICATED;
	(void)cay_fail(&v->failure, code, "%s", says ? says : "the request failed");
}

static void on_e2b_state_known(struct e2b_request *v)
{
	if (v->status == 200 && e2b_answer_is_running(v))
		e2b_fail(v, &v->failure);
	else
		e2b_fail_gone(v);
}

static void e2b_continue(struct e2b_request *v)
{
	bool failed = v->status >= 400;

	if (!failed || v->accepts_failure) {
		if (failed)
			e2b_read_failure(v);
		v->accepts_failure = false;
		v->then(v);
		return;
	}
	e2b_read_failure(v);
	/* a file that is absent, or its sandbox? */
	if (v->route->plane != E2B_CONTROL && v->rq && !v->begun &&
	    (v->failure.code == CAY_E_NOT_FOUND || v->failure.code == CAY_E_STATE ||
	     v->failure.code == CAY_E_UNAVAILABLE)) {
		v->accepts_failure = true;
		e2b_call(v, OP_SANDBOX_GET, on_e2b_state_known, "{}");
	} else {
		e2b_fail(v, &v->failure);
	}
}

/* The answer before, unless a handler keeps it or a part of it. */
static void e2b_drop_answer(struct e2b_request *v)
{
	size_t *held = v->memory.kinds;

	if (v->kept && held[E2B_MEM_KEPT] < held[E2B_MEM_ANSWER])
		held[E2B_MEM_KEPT] = held[E2B_MEM_ANSWER];
	held[E2B_MEM_SENT] = held[E2B_MEM_RECEIVED] = 0;
	json_decref(v->answer);
	v->answer = NULL;
	(void)face_hold(v->rq, &v->memory, E2B_MEM_ANSWER, 0);
}

void e2b_take_answer(void *arg, const struct http_head *head, struct slice body,
		     const struct cay_err *err)
{
	struct e2b_request *v = arg;
	struct slice kind = head ? http_header_find(head, "content-type") : (struct slice){};
	struct cay_err too_much = {};

	v->call = NULL;
	v->uploading = false;
	e2b_drop_answer(v);
	if (!head) {
		e2b_fail(v, err);
		return;
	}
	v->status = head->status;
	if (body.n && http_equals_nocase(slice_trim(slice_cut(&kind, ';')), "application/json") &&
	    json_parse(body, &e2b_answer_limits, &v->answer, NULL) < 0)
		e2b_refuse(v, CAY_E_MISBEHAVED, "the reply is not valid JSON");
	else if (v->answer && !e2b_hold(v, E2B_MEM_ANSWER, json_estimate_bytes(body), &too_much))
		e2b_fail(v, &too_much);
	else
		e2b_continue(v);
}
