/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template-build - templates that have something to build
 *
 * A new one is in the journal as `building` from the beginning; after a restart that is
 * `failed`.  One that is made anew stays what it was until the new layer is there, and
 * also when there will be none.
 */
#include "base/str.h"
#include "cayd/event.h"
#include "cayd/template.h"

#define TEXT_MAX KIB(128)
#define LOG_PIECE KIB(32)
#define AGAIN_MS 50
#define TRIES 200 /* 10 s: the journal is slow, or somebody changes it */

struct making {
	struct cayd *cayd;
	struct template_row *row; /* what it is to be */
	const char *error;        /* why not */
	uv_timer_t *again;
	unsigned tries;
};

static void on_closed(uv_handle_t *h)
{
	free(h);
}

static void making_free(struct making *m)
{
	if (!m)
		return;
	if (m->again)
		uv_close((uv_handle_t *)m->again, on_closed);
	template_free(m->row);
	free(m);
}

/* What the row is from now on.  The old one stays when there is one. */
static struct template outcome(const struct making *m, const struct template_row *now)
{
	struct template want = m->row->info;

	if (m->error && now->info.state != TEMPLATE_BUILDING)
		want = now->info;
	else if (m->error)
		want.state = TEMPLATE_FAILED;
	else
		want.state = TEMPLATE_READY;
	want.build = m->row->info.build;
	want.error = m->error;
	return want;
}

static void on_again(uv_timer_t *t)
{
	struct making *m = t->data;
	struct template_row *now = template_by_id(m->cayd, &m->row->info.id);
	struct cay_err err = {};
	struct template want;

	if (!now || now->leaving) { /* deleted meanwhile: the layer is there for the next */
		making_free(m);
		return;
	}
	want = outcome(m, now);
	if (!template_put(m->cayd, NULL, &want, &err) && ++m->tries < TRIES) {
		(void)uv_timer_start(t, on_again, AGAIN_MS, 0);
		return;
	}
	if (err.code) {
		log_error(&m->cayd->log, "a template that was built: %s", err.msg);
		now->building[0] = 0;
	}
	making_free(m);
}

static const char *keep(struct making *m, const char *text)
{
	return pool_strn(&m->row->pool, text, strlen(text));
}

static void on_built(void *arg, const struct image_row *layer, const struct cay_err *err)
{
	struct making *m = arg;

	if (layer)
		m->row->info.layer = keep(m, layer->info.digest);
	else
		m->error = keep(m, err->msg);
	if (!m->error && !m->row->info.layer)
		m->error = "out of memory";
	(void)uv_timer_start(m->again, on_again, 0, 0);
}

static struct making *making_new(struct cayd *c, const struct template *want, struct cay_err *err)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct jw w = jw_to(&text);
	struct making *m = calloc(1, sizeof(*m));

	field_encode(&template_table, NULL, want, &w);
	if (m && jw_done(&w) >= 0)
		m->row = template_read((struct slice){ buf_str(&text), text.len }, err);
	if (m && m->row)
		m->again = calloc(1, sizeof(*m->again));
	if (!m || !m->row || !m->again) {
		if (m)
			template_free(m->row);
		free(m);
		if (!err->code)
			(void)cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
		return NULL;
	}
	m->cayd = c;
	m->again->data = m;
	(void)uv_timer_init(&c->loop, m->again);
	return m;
}

/* It is there already, or it is being made: the answer says which. */
static void settle(struct cayd *c, struct request *rq, struct making *m, struct build *b,
		   const struct image_row *layer, struct cay_err *err)
{
	struct template *want = &m->row->info;
	struct template_row *now = template_any(c, want->name), *t = now;
	struct template shown;

	want->build = keep(m, layer ? layer->layer : build_hash(b));
	want->state = layer ? TEMPLATE_READY : TEMPLATE_BUILDING;
	want->layer = layer ? keep(m, layer->info.digest) : NULL;
	if (layer || !now || now->info.state != TEMPLATE_READY)
		t = template_put(c, rq, want, err);
	if (!t || layer) {
		if (b)
			build_leave(b, m);
		making_free(m);
		if (t)
			rq->target = t->info.id;
		else if (err->code)
			request_fail(rq, err);
		return;
	}
	want->id = t->info.id;
	rq->target = t->info.id;
	memcpy(t->building, want->build, BUILD_HASH_LEN + 1);
	if (now) /* until the journal has the other */
		memcpy(now->building, want->build, BUILD_HASH_LEN + 1);
	if (now && now->info.state == TEMPLATE_READY) {
		event_template(c, template_look(now, &shown), TEMPLATE_BEGUN);
		request_reply_json(rq, &template_table, &shown);
	}
}

void template_build(struct cayd *c, struct request *rq, const struct layer_spec *spec)
{
	const struct template_create *q = rq->body;
	struct template want = template_wanted(c, q);
	const struct image_row *layer = NULL;
	struct build_order order = { .spec = *spec, .box = &q->defaults };
	struct cay_err err = {};
	struct making *m = NULL;
	struct build *b = NULL;

	want.id = (struct id){ .noun = ID_TEMPLATE }; /* until it has its own */
	if (template_check(c, &q->defaults, &err) >= 0)
		m = making_new(c, &want, &err);
	if (!m) {
		request_fail(rq, &err);
		return;
	}
	order.spec.tenant = default_tenant;
	order.spec.image = image_find(c->images, q->defaults.image)->info.digest;
	order.spec.env = q->defaults.env;
	if (build_ask(c, &order, on_built, m, &layer, &b, &err) < 0) {
		making_free(m);
		request_fail(rq, &err);
		return;
	}
	settle(c, rq, m, b, layer, &err);
}

const struct template *template_look(const struct template_row *t, struct template *ret)
{
	*ret = t->info;
	if (t->building[0]) {
		ret->state = TEMPLATE_BUILDING;
		ret->build = t->building;
	}
	return ret;
}

/* Where a piece may end: a letter that is not whole yet waits for the next. */
static size_t whole(struct slice s)
{
	for (size_t k = 0; k < 4 && k < s.n; k++)
		if (utf8_valid(s.p, s.n - k))
			return s.n - k;
	return s.n;
}

/* Bytes of a build are a stranger's: what is not text is '?'. */
static char *as_text(struct pool *pool, struct slice s)
{
	char *text = pool_strn(pool, s.p, s.n);
	bool valid = text && utf8_valid(text, s.n);

	for (size_t i = 0; text && i < s.n; i++) {
		unsigned char c = (unsigned char)text[i];

		if ((c < ' ' && c != '\n' && c != '\t' && c != '\r') || c == 127 ||
		    (c > 127 && !valid))
			text[i] = '?';
	}
	return text;
}

void template_log(struct cayd *c, struct request *rq)
{
	const struct template_log_query *q = rq->query;
	const struct template_row *t = template_by_id(c, &rq->match.params[0]);
	struct template_log told = {};
	struct template info = {};
	const struct build *b = NULL;
	struct slice bytes;

	if (t && t->saved && !t->leaving)
		b = template_look(t, &info)->build ? build_find(c, info.build) : NULL;
	if (!b) {
		request_refuse(rq, CAY_E_NOT_FOUND,
			       "there is no such template, or nothing was built for it since the "
			       "daemon started");
		return;
	}
	bytes = build_log(b, q->offset, &told.offset);
	if (bytes.n > LOG_PIECE)
		bytes.n = LOG_PIECE;
	bytes.n = whole(bytes);
	told.text = as_text(&rq->pool, bytes);
	told.next = told.offset + bytes.n;
	told.state = info.state;
	if (told.text)
		request_reply_json(rq, &template_log_table, &told);
	else
		request_refuse(rq, CAY_E_NO_MEMORY, "out of memory");
}
