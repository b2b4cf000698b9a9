/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/pull-progress.h"

#include <poll.h>

#include "base/clock.h"
#include "cli/client/sse.h"
#include "cli/print/progress.h"
#include "text/json.h"

#define PATIENCE_MS 500
#define LOOK_MS 250

struct pull_progress {
	const char *reference;
	struct http_client events;
	struct sse sse;
	struct progress bar;
	unsigned state;
};

static void pull_progress_draw_event(struct pull_progress *w, struct slice data)
{
	auto_arena arena = ARENA_INIT(KIB(8));
	struct image_progress now = {};

	if (field_decode_text(&image_progress_table, data, &json_control_limits, &arena, &now,
			      NULL) < 0 ||
	    !str_eq(now.reference, w->reference))
		return;
	if (now.state == PULL_PULLING) {
		w->bar.total = now.has_total ? now.total : 0;
		progress_draw(&w->bar, now.bytes);
	} else if (now.state == PULL_UNPACKING && w->state != PULL_UNPACKING) {
		progress_draw_word(&w->bar, "unpacking");
	}
	w->state = now.state;
}

/* Read what has arrived; -EPIPE at the end of the stream. */
static int pull_progress_read_events(struct pull_progress *w)
{
	struct buf *body = &w->events.body;
	size_t at = 0;
	int r = http_client_flush(&w->events);

	if (r >= 0 || r == -EAGAIN)
		r = http_client_receive(&w->events, NULL);
	if (r < 0 && r != -EAGAIN)
		return -EPIPE;
	if (w->events.head_complete && w->events.status != 200)
		return -EPIPE;
	while (at < body->len) {
		struct sse_item item;
		ssize_t n = sse_read(&w->sse, body->data + at, body->len - at, &item);

		if (n < 0)
			return -EPIPE;
		at += (size_t)n;
		if (item.event && str_eq(item.event, "image"))
			pull_progress_draw_event(w, item.data);
	}
	buf_clear(body);
	return w->events.reply_complete ? -EPIPE : 0;
}

/* Until the connection of the call is readable, or the events end. */
static void pull_progress_follow_call(struct api *a, struct pull_progress *w,
				      const struct http_client *h, enum op_id op)
{
	const uint64_t deadline = api_reply_deadline(a, op);
	bool more = true;

	while (more && !http_client_has_buffered(h) && clk_boot_ns(&clk_system) < deadline) {
		struct pollfd p[] = {
			{ .fd = h->fd, .events = http_client_poll_events(h, POLLIN) },
			{ .fd = w->events.fd,
			  .events = http_client_poll_events(&w->events, POLLIN) },
		};

		if (poll(p, ARRAY_SIZE(p), LOOK_MS) < 0)
			return; /* a signal: api_call_receive_head() handles it */
		if (p[0].revents)
			return;
		more = pull_progress_read_events(w) >= 0;
	}
}

static void pull_progress_show_call(struct api *a, const struct http_client *h, enum op_id op,
				    const char *reference)
{
	struct event_query query = { .follow = true, .limit = 1, .after = INT64_MAX - 1 };
	struct api_call c = { .op = OP_EVENT_LIST, .query = &query, .accept = "text/event-stream" };
	struct pull_progress w = { .reference = reference,
				   .events = HTTP_INIT,
				   .sse = SSE_INIT,
				   .bar = progress_start(&clk_system, true, 0) };
	struct cay_err none = {};

	if (api_call_open(a, &c, &w.events, &none) >= 0)
		pull_progress_follow_call(a, &w, h, op);
	if (w.state)
		progress_draw_word(&w.bar, "");
	http_client_fini(&w.events);
	sse_fini(&w.sse);
}

int pull_progress_call(struct api *a, const struct api_call *c, const char *reference, void *ret,
		       struct cay_err *err)
{
	auto_http h = HTTP_INIT;
	struct pollfd p = { .events = POLLIN };
	int r;

	if (!reference || !isatty(STDERR_FILENO))
		return api_call(a, c, ret, err);
	r = api_call_open(a, c, &h, err);
	if (r >= 0 && http_client_flush(&h) == 0) {
		p.fd = h.fd;
		if (!http_client_has_buffered(&h) && poll(&p, 1, PATIENCE_MS) == 0)
			pull_progress_show_call(a, &h, c->op, reference);
	}
	if (r >= 0)
		r = api_call_receive_head(a, c->op, &h, err);
	if (r >= 0)
		r = api_call_finish(a, c->op, &h, ret, err);
	return r;
}
