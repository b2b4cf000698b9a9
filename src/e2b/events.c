/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b.h"

static const struct json_limits event_limits = { SSE_MAX, 24, 65536 };

static bool on_e2b_events_piece(void *arg, const struct http_head *, struct slice bytes)
{
	struct e2b_request *v = arg;
	enum e2b_event_result all = E2B_EVENT_TAKEN;

	for (;;) {
		json_t *event = NULL;
		struct slice text = {};
		struct cay_err err = {};
		enum e2b_event_result one;
		int r = sse_next(&v->events, &bytes, &text, &err);

		if (r > 0)
			r = json_parse(text, &event_limits, &event, &err) < 0 ? -EINVAL : 1;
		if (r < 0) { /* of a sandbox, maybe: its stream has no end then */
			client_call_cancel(v->call);
			v->call = NULL;
			e2b_fail(v, &err);
			return false;
		}
		if (r == 0)
			return all == E2B_EVENT_FULL;
		one = v->event(v, event);
		json_decref(event);
		if (one == E2B_EVENT_LAST)
			return false; /* v is gone */
		if (one == E2B_EVENT_FULL)
			all = one;
	}
}

static void on_e2b_events_done(void *arg, const struct http_head *head, struct slice body,
			       const struct cay_err *err)
{
	struct e2b_request *v = arg;

	if (!head || head->status >= 400) {
		e2b_take_answer(v, head, body, err);
		return;
	}
	v->call = NULL;
	v->then(v);
}

void e2b_call_events(struct e2b_request *v, enum op_id op, json_t *members, e2b_event *event,
		     e2b_step *end)
{
	static const struct e2b_transfer how = { .accept = "text/event-stream",
						 .piece = on_e2b_events_piece,
						 .done = on_e2b_events_done };
	struct cay_err err = {};

	sse_fini(&v->events);
	sse_init(&v->events);
	v->event = event;
	v->then = end;
	if (e2b_transfer(v, op, members, &how, &err) < 0)
		e2b_fail(v, &err);
}
