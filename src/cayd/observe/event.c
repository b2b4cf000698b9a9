/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/observe/event.h"
#include "cayd/core/handlers.h"

#include <stdio.h>

#include "cayd/core/list-page.h"
#include "cayd/observe/event-history.h"
#include "cayd/snapshot/snapshot.h"
#include "cayd/tenant/api-key.h"
#include "cayd/tenant/tenant.h"

#define TEXT_MAX KIB(8)
#define GROUP_MAX 64
#define RETRY_NS NS_PER_S
/* Dropped together: rows of a tenant share pages of the journal. */
#define DROP_BATCH 256

struct event_follower {
	struct event_follower *next, **prev;
	struct cayd *cayd;
	struct event_history *history;
	struct request *rq;
	uint64_t after;    /* the last event that was considered */
	struct id sandbox; /* ID_NONE: all sandboxes */
	char group[GROUP_MAX];
	bool full;
};

/* An event that is being written to the journal. */
struct event_write {
	struct cayd *cayd;
	struct id tenant;
	struct event_slot *slot;
};

struct events {
	struct event_histories histories;
	uint64_t retry_ns; /* when events that could not be written are tried again */
};

int events_open(struct cayd *c, struct cay_err *err)
{
	c->events = calloc(1, sizeof(*c->events));
	return c->events ? 0 : cay_no_memory(err);
}

/* Only the operator changes it, by the number of tenants. */
static size_t events_kept_of_tenant(const struct cayd *c)
{
	size_t share = EVENTS_KEPT_ALL / tenants_count(c);

	return share > EVENTS_KEPT       ? EVENTS_KEPT
	       : share < EVENTS_KEPT_MIN ? EVENTS_KEPT_MIN
					 : share;
}

static void event_history_drop_oldest(struct cayd *c, struct event_history *h)
{
	struct event_slot *k = event_history_pop_oldest(h);

	db_event_delete(c->db, k->number);
	free(k);
}

static void event_history_trim(struct cayd *c, struct event_history *h)
{
	size_t kept = events_kept_of_tenant(c);

	if (h->n >= kept + (kept < DROP_BATCH ? kept : DROP_BATCH))
		while (h->n > kept)
			event_history_drop_oldest(c, h);
}

static void event_history_remove_if_unused(struct cayd *c, struct event_history *h)
{
	if (!h->last && !h->followers)
		event_history_remove(&c->events->histories, h);
}

static void event_history_forget(struct cayd *c, struct event_history *h)
{
	while (h->oldest)
		event_history_drop_oldest(c, h);
	h->last = 0;
	event_history_remove_if_unused(c, h);
}

void events_forget_tenant(struct cayd *c, const struct id *tenant)
{
	struct event_history *h = event_history_find(&c->events->histories, tenant);

	if (h)
		event_history_forget(c, h);
}

/* A crash may have come between a tenant's row and its events. */
int events_recover(struct cayd *c, struct cay_err *)
{
	for (size_t i = 0; i < EVENT_BUCKETS; i++)
		for (struct event_history *h = c->events->histories.by_tenant[i], *next; h;
		     h = next) {
			next = h->next;
			if (!tenant_exists(c, &h->tenant))
				event_history_forget(c, h);
		}
	return 0;
}

int event_restore(struct cayd *c, const struct db_event *e, struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(KIB(16));
	struct event event = {};
	struct event_history *h;
	struct event_slot *slot;
	int r = field_decode_text(&event_table, e->text, &json_control_limits, &arena, &event, err);

	if (r < 0)
		return r;
	event.sandbox = e->sandbox;
	if (!event.tenant.noun) /* it was written before tenants existed */
		event.tenant = default_tenant;
	h = event_history_find_or_create(&c->events->histories, &event.tenant);
	if (!h)
		return cay_no_memory(err);
	if (event.seq <= h->last)
		return cay_fail(err, CAY_E_INVALID, "the journal has an event out of order");
	slot = event_slot_new(&event, e->seq, e->text);
	if (!slot)
		return cay_no_memory(err);
	event_history_append(h, slot);
	return 0;
}

static bool event_follower_matches(const struct event_follower *f, const struct event_slot *k)
{
	return (!f->sandbox.noun || id_eq(&f->sandbox, &k->sandbox)) &&
	       (!f->group[0] || str_eq(f->group, k->group));
}

/* Send new events, as many as the connection takes. */
static void event_follower_send(struct event_follower *f)
{
	const struct event_slot *k =
		f->full ? NULL : event_history_find_after(f->history, f->after);
	auto_buf line = BUF_INIT(TEXT_MAX + 256);

	for (; k && !f->full; k = k->newer) {
		f->after = k->seq;
		if (!event_follower_matches(f, k))
			continue;
		buf_clear(&line);
		if (buf_printf(&line, "id: %llu\nevent: sandbox\ndata: %s\n\n",
			       (unsigned long long)k->seq, k->text) < 0)
			continue;
		f->full = request_write_stream(f->rq, line.data, line.len);
	}
}

static void on_event_follower_drain(struct request *rq)
{
	struct event_follower *f = rq->data;

	f->full = false;
	event_follower_send(f);
}

static void event_follower_free(struct event_follower *f)
{
	*f->prev = f->next;
	if (f->next)
		f->next->prev = f->prev;
	event_history_remove_if_unused(f->cayd, f->history);
	free(f);
}

static void on_event_follower_gone(struct request *rq)
{
	event_follower_free(rq->data);
}

static void event_history_drop_unauthorized(struct cayd *c, struct event_history *h)
{
	for (struct event_follower *f = h->followers, *next; f; f = next) {
		struct request *rq = f->rq;

		next = f->next;
		if (actor_is_still_valid(c, &rq->actor))
			continue;
		event_follower_free(f);
		rq->events = NULL;
		request_end_stream(rq);
	}
}

void events_drop_unauthorized(struct cayd *c)
{
	for (size_t i = 0; i < EVENT_BUCKETS; i++)
		for (struct event_history *h = c->events->histories.by_tenant[i], *next; h;
		     h = next) {
			next = h->next;
			event_history_drop_unauthorized(c, h);
		}
}

/* Followers get it only when durable: after a crash another event could get its seq. */
static void on_event_durable(void *arg, const struct cay_err *outcome)
{
	struct event_write *n = arg;
	struct cayd *c = n->cayd;
	struct event_history *h = event_history_find(&c->events->histories, &n->tenant);
	struct sandbox *sb = outcome->code ? sandbox_find(c->sandboxes, &n->slot->sandbox) : NULL;

	if (sb)
		sb->event.unwritten = true; /* for events_retry_unwritten() */
	if (outcome->code || !h) {
		free(n->slot);
	} else {
		event_history_append(h, n->slot);
		event_history_trim(c, h);
	}
	for (struct event_follower *f = h ? h->followers : NULL, *next; f; f = next) {
		next = f->next;
		event_follower_send(f);
	}
	free(n);
}

static void event_history_broadcast(struct event_history *h, const struct buf *line)
{
	for (struct event_follower *f = h->followers, *next; f; f = next) {
		next = f->next;
		if (!f->full && !f->sandbox.noun && !f->group[0])
			f->full = request_write_stream(f->rq, line->data, line->len);
	}
}

/* Not kept and without a seq: clients can list the present state. tenant NULL: all tenants. */
static void event_broadcast(struct cayd *c, const struct id *tenant, const char *kind,
			    const struct field_table *t, const void *what)
{
	auto_buf text = BUF_INIT(TEXT_MAX), line = BUF_INIT(TEXT_MAX + 256);
	struct jw w = jw_to(&text);

	field_encode(t, NULL, what, &w);
	if (jw_finish(&w) < 0 ||
	    buf_printf(&line, "event: %s\ndata: %s\n\n", kind, buf_str(&text)) < 0)
		return;
	for (size_t i = 0; i < EVENT_BUCKETS; i++)
		for (struct event_history *h = c->events->histories.by_tenant[i]; h; h = h->next)
			if (!tenant || id_eq(&h->tenant, tenant))
				event_history_broadcast(h, &line);
}

void event_send_image_progress(struct cayd *c, const struct id *tenant,
			       const struct image_progress *now)
{
	event_broadcast(c, tenant, "image", &image_progress_table, now);
}

void event_send_hold(struct cayd *c, const struct hold_event *e)
{
	event_broadcast(c, &default_tenant, "hold", &hold_event_table, e);
}

void event_send_ask(struct cayd *c, const struct id *tenant, const struct ask_info *ask,
		    bool answered)
{
	struct event_history *h = event_history_find(&c->events->histories, tenant);
	auto_buf line = BUF_INIT(TEXT_MAX);
	struct jw w = jw_to(&line);

	if (!h || !h->followers ||
	    buf_printf(&line, "event: egress.%s\ndata: ", answered ? "answered" : "asked") < 0)
		return;
	field_encode(&ask_info_table, NULL, ask, &w);
	if (jw_finish(&w) < 0 || buf_puts(&line, "\n\n") < 0)
		return;
	for (struct event_follower *f = h->followers, *next; f; f = next) {
		next = f->next;
		if (!f->full && (!f->sandbox.noun || id_eq(&f->sandbox, &ask->sandbox)) &&
		    (!f->group[0] || (ask->group && str_eq(f->group, ask->group))))
			f->full = request_write_stream(f->rq, line.data, line.len);
	}
}

void event_send_template(struct cayd *c, const struct template_info *t, unsigned change)
{
	struct template_event e = { .id = t->id,
				    .name = t->name,
				    .change = change,
				    .state = t->state,
				    .error = t->error,
				    .pool = t->pool,
				    .has_pool = t->has_pool };
	const struct snapshot *s = snapshot_find_any(c, &t->defaults.snapshot);

	if (t->defaults.snapshot.noun == ID_NONE)
		event_broadcast(c, NULL, "template", &template_event_table, &e);
	else if (s)
		event_broadcast(c, &s->info.tenant, "template", &template_event_table, &e);
}

void event_send_snapshot(struct cayd *c, const struct snapshot_info *s)
{
	event_broadcast(c, &s->tenant, "snapshot", &snapshot_info_table, s);
}

static void event_record_state(struct sandbox *sb)
{
	struct cayd *c = sb->cayd;
	struct event_history *h =
		event_history_find_or_create(&c->events->histories, &sb->info.tenant);
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct jw w = jw_to(&text);
	struct event e = { .at_ns = sb->info.changed_ns,
			   .tenant = sb->info.tenant,
			   .sandbox = sb->info.id,
			   .group = sb->info.group,
			   .state = sb->info.state,
			   .end = sb->info.end,
			   .has_end = sb->info.has_end,
			   .dozing = life_is_dozing(&sb->life),
			   .hold = sb->info.hold };
	struct db_event row = { db_event_next_seq(c->db), e.at_ns, e.sandbox, {} };
	struct event_write *n = calloc(1, sizeof(*n));

	e.seq = h ? ++h->last : 1;
	field_encode(&event_table, NULL, &e, &w);
	row.text = (struct slice){ text.data, text.len };
	if (!h || !n || jw_finish(&w) < 0 || !(n->slot = event_slot_new(&e, row.seq, row.text))) {
		free(n);
		return;
	}
	sb->event.unwritten = false;
	n->cayd = c;
	n->tenant = e.tenant;
	db_event_append(c->db, &row, on_event_durable, n);
}

void event_record_sandbox(struct sandbox *sb)
{
	if (!sb->life.warm)
		event_record_state(sb);
}

void events_retry_unwritten(struct cayd *c, uint64_t now)
{
	if (now < c->events->retry_ns)
		return;
	c->events->retry_ns = now + RETRY_NS;
	for (struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older)
		if (sb->event.unwritten && !sb->holds)
			event_record_state(sb);
}

static int event_query_parse(struct cayd *c, struct request *rq, struct event_follower *ret,
			     struct cay_err *err)
{
	const struct event_query *q = rq->query;
	struct slice last = http_header_find(rq->head, "last-event-id");

	*ret = (struct event_follower){ .cayd = c, .rq = rq, .after = q->after };
	if (last.n && str_parse_u64(last, 0, INT64_MAX, &ret->after) < 0)
		return cay_fail(err, CAY_E_INVALID, "Last-Event-ID is not the number of an event");
	if (q->sandbox && id_parse(ID_SANDBOX, slice_of(q->sandbox), &ret->sandbox) < 0)
		return cay_fail_field(err, CAY_E_INVALID, "sandbox", "not a sandbox id");
	if (q->group && snprintf(ret->group, sizeof(ret->group), "%s", q->group) < 0)
		return cay_fail_field(err, CAY_E_INVALID, "group", "not a valid group");
	ret->history = event_history_find_or_create(&c->events->histories, &rq->actor.tenant);
	return ret->history ? 0 : cay_no_memory(err);
}

static void event_follower_start(struct request *rq, const struct event_follower *like)
{
	static const struct request_events events = { .drain = on_event_follower_drain,
						      .gone = on_event_follower_gone };
	struct event_follower *f = malloc(sizeof(*f));
	struct event_history *h = like->history;
	auto_buf gap = BUF_INIT(256);
	struct jw w = jw_to(&gap);
	uint64_t missed;

	if (!f) {
		request_no_memory(rq);
		return;
	}
	*f = *like;
	f->after = event_history_resume(h, like->after, &missed);
	f->next = h->followers;
	f->prev = &h->followers;
	if (f->next)
		f->next->prev = &f->next;
	h->followers = f;
	rq->data = f;
	rq->events = &events;
	request_start_stream(rq, 200, "text/event-stream", REQUEST_LENGTH_UNKNOWN);
	/* send something at once, so that the client knows that it follows */
	if (!missed || buf_puts(&gap, "event: gap\ndata: ") < 0)
		buf_clear(&gap);
	if (gap.len) {
		jw_object_begin(&w, NULL);
		jw_u64(&w, "missed_until", missed);
		jw_end(&w);
	}
	if (buf_puts(&gap, gap.len ? "\n\n" : ":\n\n") >= 0)
		f->full = request_write_stream(rq, gap.data, gap.len);
	event_follower_send(f);
}

/* Kept text was written by event_record_state(), or decoded once when it was restored. */
static void event_list_reply(struct request *rq, const struct event_follower *f)
{
	const struct event_query *q = rq->query;
	uint64_t missed, next = event_history_resume(f->history, f->after, &missed);
	const struct event_slot *k = event_history_find_after(f->history, next);
	struct list_page page;

	list_page_begin(&page, "events");
	for (; k && page.rows < q->limit; k = k->newer) {
		if (!event_follower_matches(f, k))
			continue;
		if (!list_page_add_text(&page, slice_of(k->text)))
			break;
		next = k->seq;
	}
	jw_end(&page.w);
	jw_u64(&page.w, "next", next);
	if (missed)
		jw_u64(&page.w, "missed_until", missed);
	jw_end(&page.w);
	list_page_reply(&page, rq);
}

void op_event_list(struct cayd *c, struct request *rq)
{
	struct event_query *q = rq->query;
	struct cay_err err = {};
	struct event_follower f;

	if (!request_bind_group(rq, &q->group))
		return;
	if (event_query_parse(c, rq, &f, &err) < 0)
		request_fail(rq, &err);
	else if (q->follow || http_accepts_media_type(rq->head, "text/event-stream"))
		event_follower_start(rq, &f);
	else
		event_list_reply(rq, &f);
}
