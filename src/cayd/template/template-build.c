/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template-build - templates that need a build
 *
 * A new template is in the journal as `building`; a restart makes that `failed`.  A template
 * that is replaced stays as it was until the new layer exists, also if the build fails.
 */
#include "base/str.h"
#include "cayd/core/handlers.h"
#include "cayd/egress/policy.h"
#include "cayd/template/template.h"

#define TEXT_MAX KIB(128)
#define LOG_PIECE KIB(32)
#define AGAIN_MS 50
#define TRIES 200 /* 10 s: the journal is slow, or another change is under way */

struct template_build {
	struct cayd *cayd;
	struct template *row; /* the new version */
	const char *error;
	uv_timer_t *retry_timer;
	unsigned tries;
};

static void template_build_free(struct template_build *m)
{
	if (!m)
		return;
	if (m->retry_timer)
		uv_close((uv_handle_t *)m->retry_timer, on_handle_closed);
	template_free(m->row);
	free(m);
}

/* The row after the build; if that failed, a previous version stays. */
static struct template_info template_build_result(const struct template_build *m,
						  const struct template *now)
{
	struct template_info want = m->row->info;

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

static void on_template_build_timer(uv_timer_t *t)
{
	struct template_build *m = t->data;
	struct template *now = template_find_by_id(m->cayd, &m->row->info.id);
	struct cay_err err = {};
	struct template_info want;

	if (!now || now->deleting) { /* deleted meanwhile; the layer stays for the next create */
		template_build_free(m);
		return;
	}
	want = template_build_result(m, now);
	if (!template_save(m->cayd, NULL, &want, &err) && ++m->tries < TRIES) {
		(void)uv_timer_start(t, on_template_build_timer, AGAIN_MS, 0);
		return;
	}
	if (err.code) {
		log_error(&m->cayd->log, "cannot save a template that was built: %s", err.msg);
		now->building_hash[0] = 0;
	}
	template_build_free(m);
}

static const char *template_build_copy_text(struct template_build *m, const char *text)
{
	return arena_strndup(&m->row->arena, text, strlen(text));
}

static void on_template_layer_built(void *arg, const struct image *layer, const struct cay_err *err)
{
	struct template_build *m = arg;

	if (layer)
		m->row->info.layer = template_build_copy_text(m, layer->info.digest);
	else
		m->error = template_build_copy_text(m, err->msg);
	if (!m->error && !m->row->info.layer)
		m->error = "out of memory";
	(void)uv_timer_start(m->retry_timer, on_template_build_timer, 0, 0);
}

static struct template_build *template_build_create(struct cayd *c,
						    const struct template_info *want,
						    struct cay_err *err)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct jw w = jw_to(&text);
	struct template_build *m = calloc(1, sizeof(*m));

	field_encode(&template_info_table, NULL, want, &w);
	if (m && jw_finish(&w) >= 0)
		m->row = template_parse((struct slice){ buf_str(&text), text.len }, err);
	if (m && m->row)
		m->retry_timer = calloc(1, sizeof(*m->retry_timer));
	if (!m || !m->row || !m->retry_timer) {
		if (m)
			template_free(m->row);
		free(m);
		if (!err->code)
			(void)cay_no_memory(err);
		return NULL;
	}
	m->cayd = c;
	m->retry_timer->data = m;
	(void)uv_timer_init(&c->loop, m->retry_timer);
	return m;
}

/* The layer exists, or it is being built: the reply says which. */
static void template_build_save_and_reply(struct cayd *c, struct request *rq,
					  struct template_build *m, struct build *b,
					  const struct image *layer, struct cay_err *err)
{
	struct template_info *want = &m->row->info;
	struct template *now = template_find_any_state(c, want->name), *t = now;
	struct template_info shown;

	want->build = template_build_copy_text(m, layer ? layer->layer : build_hash(b));
	want->state = layer ? TEMPLATE_READY : TEMPLATE_BUILDING;
	want->layer = layer ? template_build_copy_text(m, layer->info.digest) : NULL;
	if (layer || !now || now->info.state != TEMPLATE_READY)
		t = template_save(c, rq, want, err);
	if (!t || layer) {
		if (b)
			build_remove_waiter(b, m);
		template_build_free(m);
		if (t)
			rq->target = t->info.id;
		else if (err->code)
			request_fail(rq, err);
		return;
	}
	want->id = t->info.id;
	rq->target = t->info.id;
	memcpy(t->building_hash, want->build, BUILD_HASH_LEN + 1);
	if (now) /* until the journal has the new version */
		memcpy(now->building_hash, want->build, BUILD_HASH_LEN + 1);
	if (now && now->info.state == TEMPLATE_READY) {
		c->hooks->template_changed(c, template_describe(now, &shown), TEMPLATE_BEGUN);
		request_reply_json(rq, &template_info_table, &shown);
	}
}

/* The policy of the build: its own, that of the defaults, or the node's. */
static int template_build_choose_egress(struct cayd *c, struct request *rq,
					struct sandbox_create *like, struct cay_err *err)
{
	const struct template_create *q = rq->body;

	if (q->has_build_egress) {
		like->egress = q->build_egress;
		like->has_egress = true;
	}
	if (egress_apply_default(c, &default_tenant, like, &rq->arena) < 0)
		return cay_no_memory(err);
	if (!like->has_egress)
		return 0;
	return egress_policy_check_spec(
		c, &like->egress, q->has_build_egress ? "build_egress" : "defaults.egress", err);
}

void template_build_start(struct cayd *c, struct request *rq, const struct layer_spec *spec)
{
	const struct template_create *q = rq->body;
	struct template_info want = template_from_request(c, q);
	const struct image *layer = NULL;
	struct sandbox_create like = q->defaults;
	struct build_request order = { .spec = *spec, .sandbox = &like };
	struct cay_err err = {};
	struct template_build *m = NULL;
	struct build *b = NULL;

	want.id = (struct id){ .noun = ID_TEMPLATE }; /* until the row has an id */
	if (template_check_defaults(c, &q->defaults, &err) >= 0 &&
	    template_build_choose_egress(c, rq, &like, &err) >= 0)
		m = template_build_create(c, &want, &err);
	if (!m) {
		request_fail(rq, &err);
		return;
	}
	order.spec.tenant = default_tenant;
	order.spec.image = image_find(c->images, &image_owner_node, q->defaults.image)->info.digest;
	order.spec.env = q->defaults.env;
	if (build_start_or_join(c, &order, on_template_layer_built, m, &layer, &b, &err) < 0) {
		template_build_free(m);
		request_fail(rq, &err);
		return;
	}
	template_build_save_and_reply(c, rq, m, b, layer, &err);
}

const struct template_info *template_describe(const struct template *t, struct template_info *ret)
{
	*ret = t->info;
	if (t->building_hash[0]) {
		ret->state = TEMPLATE_BUILDING;
		ret->build = t->building_hash;
	}
	return ret;
}

/* The end of a piece: an incomplete UTF-8 sequence waits for the next. */
static size_t utf8_complete_len(struct slice s)
{
	for (size_t k = 0; k < 4 && k < s.n; k++)
		if (utf8_is_valid(s.p, s.n - k))
			return s.n - k;
	return s.n;
}

/* Output of a build is untrusted: replace bytes that are not text by '?'. */
static char *build_log_sanitize(struct arena *arena, struct slice s)
{
	char *text = arena_strndup(arena, s.p, s.n);
	bool valid = text && utf8_is_valid(text, s.n);

	for (size_t i = 0; text && i < s.n; i++) {
		unsigned char c = (unsigned char)text[i];

		if ((c < ' ' && c != '\n' && c != '\t' && c != '\r') || c == 127 ||
		    (c > 127 && !valid))
			text[i] = '?';
	}
	return text;
}

void op_template_log(struct cayd *c, struct request *rq)
{
	const struct template_log_query *q = rq->query;
	const struct template *t = template_find_by_id(c, &rq->match.params[0]);
	struct template_log told = {};
	struct template_info info = {};
	const struct build *b = NULL;
	struct slice bytes;

	if (t && t->saved && !t->deleting)
		b = template_describe(t, &info)->build ? build_find(c, info.build) : NULL;
	if (!b) {
		request_refuse(rq, CAY_E_NOT_FOUND,
			       "there is no such template, or nothing was built for it since the "
			       "daemon started");
		return;
	}
	bytes = build_log_read(b, q->offset, &told.offset);
	if (bytes.n > LOG_PIECE)
		bytes.n = LOG_PIECE;
	bytes.n = utf8_complete_len(bytes);
	told.text = build_log_sanitize(&rq->arena, bytes);
	told.next = told.offset + bytes.n;
	told.state = info.state;
	if (told.text)
		request_reply_json(rq, &template_log_table, &told);
	else
		request_no_memory(rq);
}
