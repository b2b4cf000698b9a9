/* SPDX-License-Identifier: Apache-2.0 */
/* cmd-create-many - cay create --count: outcomes are printed as they come */
#include <poll.h>
#include <stdio.h>

#include "cli/client/sse.h"
#include "cli/core/command.h"
#include "cli/print/print.h"

#define OUTCOME_MAX KIB(128)

struct create_outcomes {
	struct cli *cli;
	uint64_t created, failed;
};

static int create_outcome_print(struct create_outcomes *o, const struct sandbox_outcome *row,
				struct cay_err *err)
{
	char id[ID_TEXT_LEN + 1];

	o->created += row->has_sandbox;
	o->failed += !row->has_sandbox;
	if (o->cli->global.json)
		return print_json(&sandbox_outcome_table, row, err);
	if (!row->has_sandbox) {
		print_note("sandbox %llu of them: %s", (unsigned long long)row->index + 1,
			   row->has_error && row->error.message ? row->error.message : "failed");
		return 0;
	}
	id_format(&row->sandbox.id, id);
	return print_line(err, "%s", id);
}

static int create_outcome_handle(void *arg, const struct sse_item *item, struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(MIB(1));
	struct sandbox_outcome row = {};
	struct cay_err why = {};
	auto_json tree = NULL;

	if (json_parse(item->data, &json_control_limits, &tree, &why) < 0 ||
	    field_decode(&sandbox_outcome_table, tree, &arena, &row, &why) < 0)
		return cay_fail(err, CAY_E_MISBEHAVED, "the server sent an invalid outcome: %s",
				why.msg);
	return create_outcome_print(arg, &row, err);
}

static int create_many_receive(struct create_outcomes *o, struct http_client *h,
			       struct cay_err *err)
{
	auto_sse sse = { .line = BUF_INIT(OUTCOME_MAX), .data = BUF_INIT(OUTCOME_MAX) };
	int r = 0;

	while (r >= 0) {
		r = sse_read_body(&sse, &h->body, create_outcome_handle, o, err);
		if (r < 0 || h->reply_complete)
			break;
		r = http_client_wait(h, POLLIN, UINT64_MAX, &o->cli->api.intr);
		r = r < 0 ? r : http_client_receive(h, err);
		if (r == -EAGAIN)
			r = 0;
	}
	return r < 0 && !err->code ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "wait for outcomes") : r;
}

int create_many_send(struct cli *c, const struct sandbox_create_args *a, uint64_t count,
		     struct cay_err *err)
{
	struct sandbox_create_many request = { .sandbox = a->create, .count = count };
	struct api_call call = { .op = OP_SANDBOX_CREATE_MANY,
				 .request = &request,
				 .idempotency_key = a->idempotency_key };
	int r = create_request_apply_args(c, a, &request.sandbox, err);

	return r < 0 ? r : create_outcomes_print(c, &call, count, err);
}

int create_outcomes_print(struct cli *c, struct api_call *call, uint64_t count, struct cay_err *err)
{
	struct create_outcomes o = { .cli = c };
	auto_http h = HTTP_INIT;
	uint64_t received;
	int r;

	call->accept = "text/event-stream";
	r = api_call_open(&c->api, call, &h, err);
	if (r >= 0)
		r = api_call_receive_head(&c->api, call->op, &h, err);
	if (r >= 0 && h.status >= 400)
		r = api_call_finish(&c->api, call->op, &h, NULL, err);
	if (r >= 0)
		r = create_many_receive(&o, &h, err);
	received = o.created + o.failed;
	if (r >= 0 && received != count)
		return cay_fail(err, CAY_E_UNAVAILABLE,
				"the reply ended after %llu of %llu sandboxes",
				(unsigned long long)received, (unsigned long long)count);
	return r < 0 ? r : o.failed ? 1 : 0;
}
