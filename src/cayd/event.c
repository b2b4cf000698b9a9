/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/event.h"

#include <stdio.h>

#include "cayd/door.h"

#define TEXT_MAX KIB(8)
#define GROUP_MAX 64

struct kept {
	uint64_t seq;
	struct id tenant, sandbox;
	char group[GROUP_MAX]; /* "" for none */
	char *text;            /* JSON, one line */
};

struct follower {
	struct follower *next, **prev;
	struct cayd *cayd;
	struct request *rq;
	uint64_t after;
	uint64_t at; /* what was looked at, counted as events.n */
	struct id tenant;
	struct id sandbox; /* ID_NONE: all */
	char group[GROUP_MAX];
	bool full;
};

/* On its way into the journal. */
struct noting {
	struct cayd *cayd;
	uint64_t seq;
	struct id tenant, sandbox;
	char group[GROUP_MAX];
	char *text;
};

struct events {
	struct kept ring[EVENTS_KEPT];
	uint64_t n; /* ever put in */
	struct follower *followers;
};

int events_open(struct cayd *c, struct cay_err *err)
{
	c->events = calloc(1, sizeof(*c->events));
	return c->events ? 0 : cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
}

static void put(struct events *e, uint64_t seq, const struct id *tenant, const struct id *sandbox,
		const char *group, struct slice text)
{
	struct kept *k = &e->ring[e->n % EVENTS_KEPT];
	char *copy = strndup(text.p, text.n);

	if (!copy)
		return; /* followers see a gap in the numbers */
	free(k->text);
	*k = (struct kept){ .seq = seq, .tenant = *tenant, .sandbox = *sandbox, .text = copy };
	if (group && snprintf(k->group, sizeof(k->group), "%s", group) < 0)
		k->group[0] = 0;
	e->n++;
}

int event_restore(struct cayd *c, const struct db_event *e, struct cay_err *err)
{
	auto_pool pool = POOL_INIT(KIB(16));
	struct event event = {};
	int r = field_read(&event_table, e->text, &json_control_limits, &pool, &event, err);

	if (r >= 0) /* those without one are from before there were others */
		put(c->events, e->seq, event.tenant.noun ? &event.tenant : &default_tenant,
		    &e->sandbox, event.group, e->text);
	return r;
}

static bool wants(const struct follower *f, const struct kept *k)
{
	return id_eq(&f->tenant, &k->tenant) && k->seq > f->after &&
	       (!f->sandbox.noun || id_eq(&f->sandbox, &k->sandbox)) &&
	       (!f->group[0] || str_eq(f->group, k->group));
}

static uint64_t oldest(const struct events *e)
{
	return e->n > EVENTS_KEPT ? e->n - EVENTS_KEPT : 0;
}

/* The first that is kept when some behind `after` are not; else 0. */
static uint64_t missed_until(const struct events *e, uint64_t after)
{
	uint64_t first = e->n ? e->ring[oldest(e) % EVENTS_KEPT].seq : 0;

	return after + 1 < first ? first : 0;
}

/* All there is for this follower, as much as its connection takes. */
static void pump(struct follower *f)
{
	const struct events *e = f->cayd->events;
	auto_buf line = BUF_INIT(TEXT_MAX + 256);

	if (f->at < oldest(e))
		f->at = oldest(e);
	for (; f->at < e->n && !f->full; f->at++) {
		const struct kept *k = &e->ring[f->at % EVENTS_KEPT];

		if (!wants(f, k))
			continue;
		buf_clear(&line);
		if (buf_printf(&line, "id: %llu\nevent: sandbox\ndata: %s\n\n",
			       (unsigned long long)k->seq, k->text) < 0)
			continue;
		f->after = k->seq;
		f->full = request_write(f->rq, line.data, line.len);
	}
}

static void on_drain(struct request *rq)
{
	struct follower *f = rq->data;

	f->full = false;
	pump(f);
}

static void unfollow(struct follower *f)
{
	*f->prev = f->next;
	if (f->next)
		f->next->prev = f->prev;
	free(f);
}

static void on_gone(struct request *rq)
{
	unfollow(rq->data);
}

void events_sweep(struct cayd *c)
{
	for (struct follower *f = c->events->followers, *next; f; f = next) {
		struct request *rq = f->rq;

		next = f->next;
		if (door_still(c, &rq->actor))
			continue;
		unfollow(f);
		rq->events = NULL;
		request_end(rq);
	}
}

/* Nobody hears of it before: a crash could give its number to another one. */
static void on_durable(void *arg, const struct cay_err *outcome)
{
	struct noting *n = arg;
	struct events *all = n->cayd->events;
	struct box *b = outcome->code ? box_find(n->cayd->boxes, &n->sandbox) : NULL;

	if (b)
		b->unnoted = true; /* what it is then is told as soon as it can be */
	if (!outcome->code && n->text)
		put(all, n->seq, &n->tenant, &n->sandbox, n->group, slice_of(n->text));
	for (struct follower *f = all->followers, *next; f; f = next) {
		next = f->next;
		pump(f);
	}
	free(n->text);
	free(n);
}

/* Not kept and not numbered: what there is can be asked for.  tenant NULL: everybody's. */
static void tell(struct cayd *c, const struct id *tenant, const char *kind,
		 const struct field_table *t, const void *what)
{
	auto_buf text = BUF_INIT(TEXT_MAX), line = BUF_INIT(TEXT_MAX + 256);
	struct jw w = jw_to(&text);

	field_encode(t, NULL, what, &w);
	if (jw_done(&w) < 0 ||
	    buf_printf(&line, "event: %s\ndata: %s\n\n", kind, buf_str(&text)) < 0)
		return;
	for (struct follower *f = c->events->followers, *next; f; f = next) {
		next = f->next;
		if (!f->full && !f->sandbox.noun && !f->group[0] &&
		    (!tenant || id_eq(&f->tenant, tenant)))
			f->full = request_write(f->rq, line.data, line.len);
	}
}

void event_image(struct cayd *c, const struct id *tenant, const struct image_progress *now)
{
	tell(c, tenant, "image", &image_progress_table, now);
}

void event_template(struct cayd *c, const struct template *t, unsigned change)
{
	struct template_event e = { .id = t->id,
				    .name = t->name,
				    .change = change,
				    .state = t->state,
				    .error = t->error,
				    .pool = t->pool,
				    .has_pool = t->has_pool };

	tell(c, NULL, "template", &template_event_table, &e);
}

void event_note(struct box *b)
{
	struct cayd *c = b->cayd;
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct jw w = jw_to(&text);
	struct event e = { .seq = db_event_next(c->db),
			   .at_ns = b->info.changed_ns,
			   .tenant = b->info.tenant,
			   .sandbox = b->info.id,
			   .group = b->info.group,
			   .state = b->info.state,
			   .end = b->info.end,
			   .has_end = b->info.has_end };
	struct db_event row = { e.seq, e.at_ns, e.sandbox, {} };
	struct noting *n = calloc(1, sizeof(*n));

	field_encode(&event_table, NULL, &e, &w);
	if (!n || jw_done(&w) < 0) {
		free(n);
		return;
	}
	b->unnoted = false;
	row.text = (struct slice){ text.data, text.len };
	*n = (struct noting){ .cayd = c, .seq = e.seq, .tenant = e.tenant, .sandbox = e.sandbox };
	n->text = strndup(text.data, text.len);
	if (e.group && snprintf(n->group, sizeof(n->group), "%s", e.group) < 0)
		n->group[0] = 0;
	db_event(c->db, &row, on_durable, n);
	if (e.seq > EVENTS_KEPT && e.seq % 1024 == 0)
		db_forget_events(c->db, e.seq - EVENTS_KEPT);
}

static int read_query(struct cayd *c, struct request *rq, struct follower *ret, struct cay_err *err)
{
	const struct event_query *q = rq->query;
	struct slice last = http_header(rq->head, "last-event-id");

	*ret = (struct follower){
		.cayd = c, .rq = rq, .after = q->after, .tenant = rq->actor.tenant
	};
	if (last.n && str_u64(last, 0, INT64_MAX, &ret->after) < 0)
		return cay_fail(err, CAY_E_INVALID, "Last-Event-ID is not a number of ours");
	if (q->sandbox && id_parse(ID_SANDBOX, slice_of(q->sandbox), &ret->sandbox) < 0)
		return cay_fail_field(err, CAY_E_INVALID, "sandbox", "this is not a sandbox's id");
	if (q->group && snprintf(ret->group, sizeof(ret->group), "%s", q->group) < 0)
		return cay_fail_field(err, CAY_E_INVALID, "group", "not a group");
	return 0;
}

static void follow(struct cayd *c, struct request *rq, const struct follower *like)
{
	static const struct request_events events = { .drain = on_drain, .gone = on_gone };
	struct follower *f = malloc(sizeof(*f));
	uint64_t missed = missed_until(c->events, like->after);
	struct cay_err err = {};
	auto_buf gap = BUF_INIT(256);
	struct jw w = jw_to(&gap);

	if (!f) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		request_fail(rq, &err);
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
	request_stream(rq, 200, "text/event-stream", REQUEST_LENGTH_UNKNOWN);
	/* something at once, so that a client knows it follows */
	if (!missed || buf_puts(&gap, "event: gap\ndata: ") < 0)
		buf_clear(&gap);
	if (gap.len) {
		jw_object(&w, NULL);
		jw_u64(&w, "missed_until", missed);
		jw_end(&w);
	}
	if (buf_puts(&gap, gap.len ? "\n\n" : ":\n\n") >= 0)
		f->full = request_write(rq, gap.data, gap.len);
	pump(f);
}

void event_list(struct cayd *c, struct request *rq)
{
	const struct event_query *q = rq->query;
	const struct events *all = c->events;
	struct event *rows = pool_take(&rq->pool, q->limit, sizeof(*rows));
	struct event_list list = { .events = { rows, 0 }, .next = q->after };
	struct cay_err err = {};
	struct follower f;

	if (read_query(c, rq, &f, &err) < 0 || !rows) {
		if (!err.code)
			(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		request_fail(rq, &err);
		return;
	}
	if (q->follow || http_accepts(rq->head, "text/event-stream")) {
		follow(c, rq, &f);
		return;
	}
	for (uint64_t i = oldest(all); i < all->n && list.events.n < q->limit; i++) {
		const struct kept *k = &all->ring[i % EVENTS_KEPT];

		if (!wants(&f, k))
			continue;
		if (field_read(&event_table, slice_of(k->text), &json_control_limits, &rq->pool,
			       &rows[list.events.n], NULL) >= 0)
			list.events.n++;
		list.next = k->seq;
	}
	list.missed_until = missed_until(all, f.after);
	list.has_missed = list.missed_until;
	request_reply_json(rq, &event_list_table, &list);
}
