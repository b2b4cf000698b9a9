/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/observe/event.h"
#include "cayd/core/handlers.h"

#include <stdio.h>

#include "cayd/tenant/api-key.h"

#define TEXT_MAX KIB(8)
#define GROUP_MAX 64
#define RETRY_NS NS_PER_S

struct event_slot {
	uint64_t seq;
	struct id tenant, sandbox;
	char group[GROUP_MAX]; /* "": none */
	char *text;            /* JSON, one line */
};

struct event_follower {
	struct event_follower *next, **prev;
	struct cayd *cayd;
	struct request *rq;
	uint64_t after;
	uint64_t at; /* next position to consider, as events.n counts */
	struct id tenant;
	struct id sandbox; /* ID_NONE: all sandboxes */
	char group[GROUP_MAX];
	bool full;
};

/* An event that is being written to the journal. */
struct event_write {
	struct cayd *cayd;
	struct event_slot slot;
};

struct events {
	struct event_slot ring[EVENTS_KEPT];
	uint64_t n; /* events ever added */
	struct event_follower *followers;
	uint64_t retry_ns; /* when events that could not be written are tried again */
};

int events_open(struct cayd *c, struct cay_err *err)
{
	c->events = calloc(1, sizeof(*c->events));
	return c->events ? 0 : cay_no_memory(err);
}

static struct event_slot event_slot_create(const struct event *e, struct slice text)
{
	struct event_slot k = { e->seq, e->tenant, e->sandbox, "", strndup(text.p, text.n) };

	if (e->group && snprintf(k.group, sizeof(k.group), "%s", e->group) < 0)
		k.group[0] = 0;
	return k;
}

/* The ring owns the text from now on. */
static void event_ring_append(struct events *e, const struct event_slot *slot)
{
	struct event_slot *k = &e->ring[e->n % EVENTS_KEPT];

	if (!slot->text)
		return; /* out of memory: followers see a gap in seq */
	free(k->text);
	*k = *slot;
	e->n++;
}

int event_restore(struct cayd *c, const struct db_event *e, struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(KIB(16));
	struct event event = {};
	struct event_slot slot;
	int r = field_decode_text(&event_table, e->text, &json_control_limits, &arena, &event, err);

	if (r < 0)
		return r;
	event.seq = e->seq;
	event.sandbox = e->sandbox;
	if (!event.tenant.noun) /* it was written before tenants existed */
		event.tenant = default_tenant;
	slot = event_slot_create(&event, e->text);
	event_ring_append(c->events, &slot);
	return r;
}

static bool event_follower_matches(const struct event_follower *f, const struct event_slot *k)
{
	return id_eq(&f->tenant, &k->tenant) && k->seq > f->after &&
	       (!f->sandbox.noun || id_eq(&f->sandbox, &k->sandbox)) &&
	       (!f->group[0] || str_eq(f->group, k->group));
}

static uint64_t event_ring_oldest(const struct events *e)
{
	return e->n > EVENTS_KEPT ? e->n - EVENTS_KEPT : 0;
}

/* The first kept event if some after `after` are lost; else 0. */
static uint64_t event_missed_until(const struct events *e, uint64_t after)
{
	uint64_t first = e->n ? e->ring[event_ring_oldest(e) % EVENTS_KEPT].seq : 0;

	return after + 1 < first ? first : 0;
}

/* Send new events, as many as the connection takes. */
static void event_follower_send(struct event_follower *f)
{
	const struct events *e = f->cayd->events;
	auto_buf line = BUF_INIT(TEXT_MAX + 256);

	if (f->at < event_ring_oldest(e))
		f->at = event_ring_oldest(e);
	for (; f->at < e->n && !f->full; f->at++) {
		const struct event_slot *k = &e->ring[f->at % EVENTS_KEPT];

		if (!event_follower_matches(f, k))
			continue;
		buf_clear(&line);
		if (buf_printf(&line, "id: %llu\nevent: sandbox\ndata: %s\n\n",
			       (unsigned long long)k->seq, k->text) < 0)
			continue;
		f->after = k->seq;
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
	free(f);
}

static void on_event_follower_gone(struct request *rq)
{
	event_follower_free(rq->data);
}

void events_drop_unauthorized(struct cayd *c)
{
	for (struct event_follower *f = c->events->followers, *next; f; f = next) {
		struct request *rq = f->rq;

		next = f->next;
		if (actor_is_still_valid(c, &rq->actor))
			continue;
		event_follower_free(f);
		rq->events = NULL;
		request_end_stream(rq);
	}
}

/* Followers get it only when durable: after a crash another event could get its seq. */
static void on_event_durable(void *arg, const struct cay_err *outcome)
{
	struct event_write *n = arg;
	struct events *all = n->cayd->events;
	struct sandbox *sb =
		outcome->code ? sandbox_find(n->cayd->sandboxes, &n->slot.sandbox) : NULL;

	if (sb)
		sb->event.unwritten = true; /* for events_retry_unwritten() */
	if (outcome->code)
		free(n->slot.text);
	else
		event_ring_append(all, &n->slot);
	for (struct event_follower *f = all->followers, *next; f; f = next) {
		next = f->next;
		event_follower_send(f);
	}
	free(n);
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
	for (struct event_follower *f = c->events->followers, *next; f; f = next) {
		next = f->next;
		if (!f->full && !f->sandbox.noun && !f->group[0] &&
		    (!tenant || id_eq(&f->tenant, tenant)))
			f->full = request_write_stream(f->rq, line.data, line.len);
	}
}

void event_send_image_progress(struct cayd *c, const struct id *tenant,
			       const struct image_progress *now)
{
	event_broadcast(c, tenant, "image", &image_progress_table, now);
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

	event_broadcast(c, NULL, "template", &template_event_table, &e);
}

static void event_record_state(struct sandbox *sb)
{
	struct cayd *c = sb->cayd;
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct jw w = jw_to(&text);
	struct event e = { .seq = db_event_next_seq(c->db),
			   .at_ns = sb->info.changed_ns,
			   .tenant = sb->info.tenant,
			   .sandbox = sb->info.id,
			   .group = sb->info.group,
			   .state = sb->info.state,
			   .end = sb->info.end,
			   .has_end = sb->info.has_end };
	struct db_event row = { e.seq, e.at_ns, e.sandbox, {} };
	struct event_write *n = calloc(1, sizeof(*n));

	field_encode(&event_table, NULL, &e, &w);
	if (!n || jw_finish(&w) < 0) {
		free(n);
		return;
	}
	sb->event.unwritten = false;
	row.text = (struct slice){ text.data, text.len };
	*n = (struct event_write){ c, event_slot_create(&e, row.text) };
	db_event_append(c->db, &row, on_event_durable, n);
	if (e.seq > EVENTS_KEPT && e.seq % 1024 == 0)
		db_event_prune(c->db, e.seq - EVENTS_KEPT);
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

	*ret = (struct event_follower){
		.cayd = c, .rq = rq, .after = q->after, .tenant = rq->actor.tenant
	};
	if (last.n && str_parse_u64(last, 0, INT64_MAX, &ret->after) < 0)
		return cay_fail(err, CAY_E_INVALID, "Last-Event-ID is not the number of an event");
	if (q->sandbox && id_parse(ID_SANDBOX, slice_of(q->sandbox), &ret->sandbox) < 0)
		return cay_fail_field(err, CAY_E_INVALID, "sandbox", "not a sandbox id");
	if (q->group && snprintf(ret->group, sizeof(ret->group), "%s", q->group) < 0)
		return cay_fail_field(err, CAY_E_INVALID, "group", "not a valid group");
	return 0;
}

static void event_follower_start(struct cayd *c, struct request *rq,
				 const struct event_follower *like)
{
	static const struct request_events events = { .drain = on_event_follower_drain,
						      .gone = on_event_follower_gone };
	struct event_follower *f = malloc(sizeof(*f));
	uint64_t missed = event_missed_until(c->events, like->after);
	auto_buf gap = BUF_INIT(256);
	struct jw w = jw_to(&gap);

	if (!f) {
		request_no_memory(rq);
		return;
	}
	*f = *like;
	f->next = c->events->followers;
	f->prev = &c->events->followers;
	if (f->next)
		f->next->prev = &f->next;
	c->events->followers = f;
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

void op_event_list(struct cayd *c, struct request *rq)
{
	const struct event_query *q = rq->query;
	const struct events *all = c->events;
	struct event *rows = arena_alloc(&rq->arena, q->limit, sizeof(*rows));
	struct event_list list = { .events = { rows, 0 }, .next = q->after };
	struct cay_err err = {};
	struct event_follower f;

	if (event_query_parse(c, rq, &f, &err) < 0 || !rows) {
		if (!err.code)
			(void)cay_no_memory(&err);
		request_fail(rq, &err);
		return;
	}
	if (q->follow || http_accepts_media_type(rq->head, "text/event-stream")) {
		event_follower_start(c, rq, &f);
		return;
	}
	for (uint64_t i = event_ring_oldest(all); i < all->n && list.events.n < q->limit; i++) {
		const struct event_slot *k = &all->ring[i % EVENTS_KEPT];

		if (!event_follower_matches(&f, k))
			continue;
		if (field_decode_text(&event_table, slice_of(k->text), &json_control_limits,
				      &rq->arena, &rows[list.events.n], NULL) >= 0)
			list.events.n++;
		list.next = k->seq;
	}
	list.missed_until = event_missed_until(all, f.after);
	list.has_missed = list.missed_until;
	request_reply_json(rq, &event_list_table, &list);
}
