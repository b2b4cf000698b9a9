/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd-events - events of sandboxes, one a line
 *
 * --follow resumes by number: an event is printed once it is complete, and a broken
 * connection is reopened after the last printed event, until the server refuses or stdout
 * is closed.
 */
#include <poll.h>
#include <signal.h>

#include "base/clock.h"
#include "cli/client/sse.h"
#include "cli/print/list.h"
#include "cli/print/pager.h"
#include "cli/print/reason.h"

#define PAGE 1000
#define BACKOFF_MS 100
#define BACKOFF_MAX_MS 5000

#define AT(m) offsetof(struct event_query, m)

static const struct opt rows[] = {
	{ "follow", 'f', OPT_FLAG, AT(follow), .help = "Follow new events until Ctrl-C" },
	{ "group", 0, OPT_TEXT, AT(group), .operand = OPERAND_GROUP, .arg = "NAME",
	  .help = "Only this group" },
	{ "after", 0, OPT_U64, AT(after), .max = INT64_MAX, .arg = "N",
	  .help = "Only events after this number" },
};

/* Fixed columns: the width of later lines is unknown. */
#define LINE_FORMAT "%-8s  %-24s  %-26s  %-10s  "

struct event_tail {
	struct api *api;
	struct event_query query; /* after: the last printed event */
	bool json;
	bool connected;        /* once; the heading is printed */
	bool output_closed;    /* stdout got EPIPE */
	unsigned tries;        /* since the last event */
	struct buf *page_text; /* collects the list for the pager, or NULL */
};

static int cmd_events_format_line(const struct event_tail *t, const struct event *e,
				  struct buf *out, struct cay_err *err)
{
	auto_buf why = BUF_INIT(KIB(4)), seq = BUF_INIT(32);
	char id[ID_TEXT_LEN + 1], at[CLK_TEXT_LEN + 1];
	int r;

	if (t->json) {
		r = api_json_encode(&event_table, e, out, err);
		return r < 0 ? r : buf_putc(out, '\n');
	}
	id_format(&e->sandbox, id);
	clk_format_rfc3339(e->at_ns, at);
	r = buf_printf(&seq, "%llu", (unsigned long long)e->seq);
	if (r >= 0)
		r = buf_printf(out, LINE_FORMAT, buf_str(&seq), at, id,
			       field_choice_name(&event_table, "state", e->state));
	if (r >= 0)
		r = e->has_end ? reason_format_line(&e->end, &why) : buf_putc(&why, '-');
	if (r >= 0)
		r = print_append_escaped(out, (struct slice){ buf_str(&why), why.len });
	return r < 0 ? r : buf_putc(out, '\n');
}

static int cmd_events_print(struct event_tail *t, const struct buf *text, struct cay_err *err)
{
	if (t->page_text)
		return buf_append(t->page_text, text->data, text->len) < 0 ? cay_no_memory(err) : 0;
	return print_stdout(text, err);
}

static int cmd_events_print_event(struct event_tail *t, const struct event *e, struct cay_err *err)
{
	auto_buf line = BUF_INIT(KIB(64));
	int r;

	if (e->seq <= t->query.after)
		return 0; /* already printed */
	if (cmd_events_format_line(t, e, &line, err) < 0)
		return cay_no_memory(err);
	r = cmd_events_print(t, &line, err);
	t->output_closed = r == -EPIPE;
	t->query.after = e->seq;
	return r;
}

/* Printed once, after the daemon has accepted the request. */
static int cmd_events_print_heading(struct event_tail *t, struct cay_err *err)
{
	auto_buf line = BUF_INIT(256);
	bool again = t->connected;

	t->connected = true;
	if (t->json || again)
		return 0;
	if (buf_printf(&line, LINE_FORMAT "%s\n", "SEQ", "AT", "SANDBOX", "STATE", "WHY") < 0)
		return cay_no_memory(err);
	return cmd_events_print(t, &line, err);
}

static int cmd_events_list_pages(struct event_tail *t, struct cay_err *err)
{
	size_t n;

	t->query.limit = PAGE;
	do {
		struct event_list page = {};
		const struct event *rows_;
		int r = api_call(t->api,
				 &(struct api_call){ .op = OP_EVENT_LIST, .query = &t->query },
				 &page, err);

		if (r >= 0)
			r = cmd_events_print_heading(t, err);
		rows_ = page.events.v;
		n = page.events.n;
		for (size_t i = 0; r >= 0 && i < n; i++)
			r = cmd_events_print_event(t, &rows_[i], err);
		if (r < 0)
			return r;
	} while (n == PAGE);
	return 0;
}

static int cmd_events_fail_malformed(const struct cay_err *why, struct cay_err *err)
{
	return cay_fail(err, CAY_E_MISBEHAVED, "the server sent an invalid event: %s", why->msg);
}

static int cmd_events_handle_event(struct event_tail *t, const json_t *tree, struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(KIB(32));
	struct cay_err why = {};
	struct event e = {};

	if (field_decode(&event_table, tree, &arena, &e, &why) < 0)
		return cmd_events_fail_malformed(&why, err);
	t->tries = 0;
	return cmd_events_print_event(t, &e, err);
}

static void cmd_events_handle_gap(struct event_tail *t, const json_t *tree)
{
	json_int_t until = json_integer_value(json_object_get(tree, "missed_until"));

	if (until > 0 && (uint64_t)until > t->query.after + 1)
		print_note("events %llu to %llu are no longer kept",
			   (unsigned long long)t->query.after + 1, (unsigned long long)until - 1);
}

static int cmd_events_handle_sse(void *arg, const struct sse_item *item, struct cay_err *err)
{
	struct event_tail *t = arg;
	struct cay_err why = {};
	auto_json tree = NULL;
	bool gap = str_eq(item->event, "gap");

	if (!gap && !str_eq(item->event, "sandbox"))
		return 0; /* from a newer server */
	if (json_parse(item->data, &json_control_limits, &tree, &why) < 0)
		return cmd_events_fail_malformed(&why, err);
	if (!gap)
		return cmd_events_handle_event(t, tree, err);
	cmd_events_handle_gap(t, tree);
	return 0;
}

/* Read one connection until it breaks; never returns 0. */
static int cmd_events_stream_once(struct event_tail *t, struct cay_err *err)
{
	auto_http h = HTTP_INIT;
	auto_sse sse = SSE_INIT;
	struct api_call c = { .op = OP_EVENT_LIST,
			      .query = &t->query,
			      .accept = "text/event-stream" };
	int r = api_call_open(t->api, &c, &h, err);

	if (r >= 0)
		r = api_call_receive_head(t->api, c.op, &h, err);
	if (r >= 0 && h.status >= 400)
		r = api_call_finish(t->api, c.op, &h, NULL, err);
	if (r >= 0 && (h.status != 200 || !str_eq(h.reply_headers.type, c.accept)))
		return cay_fail(err, CAY_E_MISBEHAVED, "%s: the reply is not an event stream",
				ops[c.op].name);
	if (r >= 0)
		r = cmd_events_print_heading(t, err);
	while (r >= 0) {
		r = sse_read_body(&sse, &h.body, cmd_events_handle_sse, t, err);
		if (r >= 0 && h.reply_complete)
			return cay_fail(err, CAY_E_UNAVAILABLE, "the event stream ended");
		if (r >= 0)
			r = http_client_wait(&h, POLLIN, UINT64_MAX, &t->api->intr);
		r = r < 0 ? r : http_client_receive(&h, err);
		if (r == -EAGAIN)
			r = 0;
	}
	return err->code ? r : cay_fail_sys(err, CAY_E_INTERNAL, -r, "wait for events");
}

static void cmd_events_backoff_sleep(unsigned tries)
{
	uint64_t ms = tries < 8 ? (uint64_t)BACKOFF_MS << tries : BACKOFF_MAX_MS;

	(void)poll(NULL, 0, (int)(ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS));
}

static int cmd_events_follow_stream(struct event_tail *t, struct cay_err *err)
{
	/* the query table allows no 0 */
	t->query.limit = PAGE;
	for (;;) {
		struct cay_err why = {};
		int r = cmd_events_stream_once(t, &why);

		if (t->output_closed)
			return 128 + SIGPIPE;
		if (!t->connected || (why.code != CAY_E_UNAVAILABLE && why.code != CAY_E_TIMEOUT)) {
			*err = why;
			return r;
		}
		if (!t->tries)
			print_note("%s; continuing after event %llu", why.msg,
				   (unsigned long long)t->query.after);
		t->api->hint[0] = 0;
		cmd_events_backoff_sleep(t->tries++);
	}
}

static int cmd_events_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	struct event_tail t = { .api = &c->api,
				.query = *(const struct event_query *)c->args,
				.json = c->global.json };
	auto_buf all = BUF_INIT(MIB(64));
	char text[ID_TEXT_LEN + 1];
	struct id id;
	int r;

	if (w->n_operands) {
		r = api_find_any_sandbox(&c->api, w->operands[0], &id, err);

		if (r < 0)
			return r;
		id_format(&id, text);
		t.query.sandbox = text;
	}
	if (t.query.follow)
		return cmd_events_follow_stream(&t, err);
	if (isatty(STDOUT_FILENO) && !t.json)
		t.page_text = &all;
	r = cmd_events_list_pages(&t, err);
	return r < 0 || !t.page_text ? r : pager_show(&c->api, &all, err);
}

const struct cmd cmd_events = {
	CMD_USAGE("events", "[OPTION...] [SANDBOX]"),
	CMD_OPERANDS(0, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(event_query, OPTS(rows, 0)),
	.help = "List events of sandboxes, oldest first",
	.more = "Every change of state has an increasing number. With --follow a broken connection "
		"is reopened and no event is repeated or lost; a gap of events the daemon no "
		"longer keeps is reported on stderr. --json prints one event a line.",
	.run = cmd_events_run,
};
