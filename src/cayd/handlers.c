/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/core/handlers.h"
#include "cayd/core/cursor.h"
#include "cayd/core/deferred-reply.h"
#include "cayd/core/keeper-link.h"
#include "cayd/core/list-page.h"
#include "cayd/create/create.h"
#include "cayd/image/image.h"
#include "cayd/image/prune.h"
#include "cayd/observe/audit-log.h"
#include "cayd/sandbox/disk-watch.h"
#include "cayd/sandbox/sandbox.h"
#include "cayd/template/pool.h"
#include "cayd/template/template.h"
#include "cayd/tenant/api-key.h"
#include "cayd/tenant/tenant.h"
#include "cayd/upload/upload.h"
#include "net/relay.h"
#include "text/label-selector.h"
#include "webdocs/webdocs.h"

#define GROUP_ROWS 1000
#define LABELLED_ROWS 200
#define ROW_MAX KIB(64) /* of a sandbox, as JSON */

void op_system_health(struct cayd *c, struct request *rq)
{
	const char *passed[RUNTIME_NUM];
	struct health h = { .version = CAY_VERSION, .runtimes.v = passed };

	for (unsigned i = 0; i < RUNTIME_NUM; i++)
		if (keeper_runtimes(c->keeper) & 1u << i)
			passed[h.runtimes.n++] = runtime_names[i];
	h.has_runtimes = h.runtimes.n > 0;
	h.disk = keeper_disk_kind(c->keeper);
	h.has_disk = true;
	h.has_pools = pools_has_any(c);
	h.pools = pools_count(c, NULL);
	request_reply_json(rq, &health_table, &h);
}

void op_system_openapi(struct cayd *c, struct request *rq)
{
	auto_buf body = BUF_INIT(MIB(4));
	struct jw w = jw_to(&body);

	(void)c;
	openapi_write(&w);
	if (jw_finish(&w) < 0)
		request_refuse(rq, CAY_E_INTERNAL, "write the interface");
	else
		request_reply(rq, 200, "application/json", &body);
}

static void static_page_reply(struct request *rq, const struct page *p, const char *media)
{
	auto_buf body = BUF_INIT(MIB(4));

	if (buf_append(&body, p->data, p->n) < 0)
		request_no_memory(rq);
	else
		request_reply(rq, 200, media, &body);
}

void op_system_docs(struct cayd *c, struct request *rq)
{
	(void)c;
	static_page_reply(rq, &page_reference, "text/html; charset=utf-8");
}

void op_system_llms(struct cayd *c, struct request *rq)
{
	(void)c;
	static_page_reply(rq, &page_llms, "text/plain; charset=utf-8");
}

void op_system_tools(struct cayd *c, struct request *rq)
{
	(void)c;
	static_page_reply(rq, &page_tools, "application/json");
}

/* The caller's own sandbox; an operator's may be of any tenant. */
static struct sandbox *sandbox_find_to_administer(struct cayd *c, struct request *rq)
{
	const struct actor *who = &rq->actor;
	struct sandbox *sb = sandbox_find(c->sandboxes, &rq->match.params[0]);

	if (sb && who->scope == SCOPE_OPERATOR && !who->group[0] && !who->one_sandbox &&
	    tenant_get_info(c, &sb->info.tenant)) /* not a warm one, nor one of a build */
		return sb;
	return sandbox_find_of_request(c, rq);
}

void op_sandbox_get(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_to_administer(c, rq);

	if (sb) /* the reply must hold after a crash */
		sandbox_reply_when(sb, rq, WAIT_SAVED);
}

void op_sandbox_delete(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_to_administer(c, rq);

	if (!sb)
		return;
	sandbox_end(sb, END_KILLED,
		    id_eq(&sb->info.tenant, &rq->actor.tenant) ? "deleted by a client"
							       : "deleted by an operator");
	sandbox_reply_when(sb, rq, keeper_is_up(c->keeper) ? WAIT_ENDED : WAIT_ENDING);
}

static void sandbox_apply_for_request(struct cayd *c, struct request *rq,
				      const struct life_event *ev, enum sandbox_wait until)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	enum cay_code refused = sb ? sandbox_apply_event(sb, ev) : CAY_OK;

	if (!sb)
		return;
	if (refused == CAY_E_INVALID)
		request_refuse(rq, refused, "the new deadline is later than this node allows");
	else if (refused && sb->life.state >= SB_ENDING)
		sandbox_refuse_state(rq, sb);
	else if (refused)
		request_refuse(
			rq, refused,
			"the sandbox's state does not allow that, or another change is under way");
	else
		sandbox_reply_when(sb, rq, until);
}

void op_sandbox_pause(struct cayd *c, struct request *rq)
{
	sandbox_apply_for_request(c, rq, &(struct life_event){ .kind = LIFE_PAUSE }, WAIT_SETTLED);
}

void op_sandbox_resume(struct cayd *c, struct request *rq)
{
	const struct sandbox *sb =
		sandbox_find_of_actor(c->sandboxes, &rq->actor, &rq->match.params[0]);

	if (sb && sb->info.hold && disk_watch_is_short(c)) {
		request_refuse(rq, CAY_E_CAPACITY, sb->info.hold);
		return;
	}
	sandbox_apply_for_request(c, rq, &(struct life_event){ .kind = LIFE_RESUME }, WAIT_SETTLED);
}

/* Both or none: the lease is renewed only if the deadline was taken. */
void op_sandbox_extend(struct cayd *c, struct request *rq)
{
	const struct sandbox_extend *q = rq->body;
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	uint64_t now = clk_boot_ns(c->clk);
	struct life_event extend = { .kind = LIFE_EXTEND, .until_ns = now + q->ttl_ms * NS_PER_MS },
			  renew = { .kind = LIFE_RENEW, .lease_ns = q->lease_ms * NS_PER_MS };

	if (sb && !q->has_ttl && !q->has_lease) {
		struct cay_err err = {};

		(void)cay_fail_field(&err, CAY_E_INVALID, "ttl_ms",
				     "expected 'ttl_ms' or 'lease_ms'");
		request_fail(rq, &err);
	} else if (sb && !q->has_ttl) {
		sandbox_apply_for_request(c, rq, &renew, WAIT_SAVED);
	} else if (sb) {
		if (q->has_lease && now + q->ttl_ms * NS_PER_MS <= sb->life.ceiling_ns)
			(void)sandbox_apply_event(sb, &renew);
		sandbox_apply_for_request(c, rq, &extend, WAIT_SAVED);
	}
}

void op_sandbox_hold(struct cayd *c, struct request *rq)
{
	const struct sandbox_hold *q = rq->body;
	struct life_event ev = { .kind = LIFE_HOLD,
				 .until_ns = clk_boot_ns(c->clk) + q->for_ms * NS_PER_MS };

	sandbox_apply_for_request(c, rq, &ev, WAIT_SAVED);
}

void op_sandbox_labels(struct cayd *c, struct request *rq)
{
	const struct sandbox_labels *q = rq->body;
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	struct cay_err err = {};

	if (!sb)
		return;
	if (life_is_finished(&sb->life))
		(void)sandbox_fail_state(sb, &err);
	if (err.code || sandbox_patch_labels(sb, &q->labels, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	sandbox_save(sb, true);
	sandbox_reply_when(sb, rq, WAIT_SAVED);
}

static bool labels_match(const struct field_map *labels, const char *selector)
{
	return label_selector_matches(slice_of(selector), labels->keys, labels->values, labels->n);
}

static bool sandbox_state_is_known(const char *state)
{
	for (size_t i = 0; sandbox_state_names[i]; i++)
		if (str_eq(state, sandbox_state_names[i]))
			return true;
	return str_eq(state, "live");
}

static bool sandbox_matches_query(const struct sandbox_info *s, const struct sandbox_query *q)
{
	if (q->state && str_eq(q->state, "live") && s->state >= SB_TERMINATED)
		return false;
	if (q->state && !str_eq(q->state, "live") &&
	    !str_eq(q->state, sandbox_state_names[s->state]))
		return false;
	if (q->group && (!s->group || !str_eq(s->group, q->group)))
		return false;
	if (q->name && (!s->name || !str_eq(s->name, q->name)))
		return false;
	return !q->label || labels_match(&s->labels, q->label);
}

void op_sandbox_list(struct cayd *c, struct request *rq)
{
	struct sandbox_query *q = rq->query;
	const struct id *tenant = q->tenant.noun ? &q->tenant : &rq->actor.tenant;
	uint64_t before, last = 0;
	struct cay_err err = {};
	bool unsaved = false;
	struct sandbox *sb;
	struct list_page page;

	if (!request_bind_group(rq, &q->group) || !cursor_parse(rq, q->cursor, &before))
		return;
	if (!id_eq(tenant, &rq->actor.tenant) &&
	    (rq->actor.scope != SCOPE_OPERATOR || rq->actor.group[0]))
		(void)cay_fail_field(&err, CAY_E_FORBIDDEN, "tenant",
				     "only an operator may list sandboxes of another tenant");
	else if (!tenant_get_info(c, tenant))
		(void)cay_fail_field(&err, CAY_E_NOT_FOUND, "tenant", "there is no such tenant");
	else if (q->state && !sandbox_state_is_known(q->state))
		(void)cay_fail_field(&err, CAY_E_INVALID, "state", "there is no state '%s'",
				     q->state);
	if (err.code || (q->label && label_selector_check(slice_of(q->label), &err) < 0)) {
		request_fail(rq, &err);
		return;
	}
	list_page_begin(&page, "sandboxes");
	sb = q->name ? sandbox_find_named_before(c->sandboxes, tenant, q->name, before)
		     : sandbox_find_before(c->sandboxes, tenant, before);
	for (; sb && page.rows < q->limit;
	     sb = q->name ? sandbox_next_of_name(sb) : sandbox_next_of_tenant(sb)) {
		if (sandbox_matches_query(&sb->info, q) && !sb->life.claimed) {
			if (!list_page_add(&page, &sandbox_info_table, sandbox_describe(sb)))
				break;
			unsaved |= sb->unsaved;
		}
		last = sb->seq;
	}
	list_page_finish(&page, sb ? cursor_format(rq, last) : NULL);
	sandboxes_reply(c, rq, &page, unsaved);
}

/* A sandbox that is ending already is not ended again, and a warm one has no owner. */
static bool sandbox_matches_deletion(const struct sandbox *sb, const struct delete_query *q)
{
	const struct sandbox_info *s = &sb->info;

	return sb->life.state < SB_ENDING && !sb->life.warm &&
	       (!q->group || (s->group && str_eq(s->group, q->group))) &&
	       (!q->label || labels_match(&s->labels, q->label));
}

struct group_deletion {
	struct cayd *cayd;
	struct request *rq; /* NULL: the client left */
	struct id *ended;   /* owned by the request */
	size_t n;
};

/* Reply with their present state. */
static void group_delete_reply(struct group_deletion *u)
{
	struct list_page page;

	list_page_begin(&page, "sandboxes");
	for (size_t i = 0; i < u->n; i++) {
		struct sandbox *sb =
			sandbox_find_of_actor(u->cayd->sandboxes, &u->rq->actor, &u->ended[i]);

		if (sb && !list_page_add(&page, &sandbox_info_table, sandbox_describe(sb)))
			break;
	}
	list_page_finish(&page, NULL);
	sandboxes_reply(u->cayd, u->rq, &page, page.rows);
}

static void on_group_uploads_removed(void *arg, const struct cay_err *outcome)
{
	struct group_deletion *u = arg;

	if (u->rq && outcome->code)
		request_fail(u->rq, outcome);
	else if (u->rq)
		group_delete_reply(u);
	free(u);
}

/* Ends every live sandbox of the group at once.  The reply waits until the uploads are removed:
 * after a restart nothing would show that their group was deleted. */
static void group_delete_start(struct cayd *c, struct request *rq)
{
	const struct delete_query *q = rq->query;
	struct id *ended = arena_alloc(&rq->arena, GROUP_ROWS, sizeof(*ended));
	struct group_deletion *u;

	u = ended ? calloc(1, sizeof(*u)) : NULL;
	if (!u) {
		request_no_memory(rq);
		return;
	}
	*u = (struct group_deletion){ .cayd = c, .rq = rq, .ended = ended };
	for (struct sandbox *sb = sandbox_find_before(c->sandboxes, &rq->actor.tenant, 0); sb;
	     sb = sandbox_next_of_tenant(sb)) {
		if (!sandbox_matches_deletion(sb, q))
			continue;
		sandbox_end(sb, END_KILLED, "its group was deleted by a client");
		if (u->n < GROUP_ROWS)
			ended[u->n++] = sb->info.id;
	}
	request_watch_client(&u->rq);
	uploads_remove_group(c, &rq->actor.tenant, q->group, on_group_uploads_removed, u);
}

/* Ends no sandbox that the reply has no room for: each is reported, and the cursor leads to the
 * others.  So a request costs at most what a page of a list and `limit` deletes do. */
static void labelled_delete_start(struct cayd *c, struct request *rq)
{
	const struct delete_query *q = rq->query;
	uint64_t before, last = 0, limit = q->has_limit ? q->limit : LABELLED_ROWS;
	struct list_page page;
	struct sandbox *sb;

	if (!cursor_parse(rq, q->cursor, &before))
		return;
	list_page_begin(&page, "sandboxes");
	sb = sandbox_find_before(c->sandboxes, &rq->actor.tenant, before);
	for (; sb && page.rows < limit && page.body.len < PAGE_BYTES - ROW_MAX;
	     sb = sandbox_next_of_tenant(sb)) {
		last = sb->seq;
		if (!sandbox_matches_deletion(sb, q))
			continue;
		sandbox_end(sb, END_KILLED, "deleted by its labels");
		(void)list_page_add(&page, &sandbox_info_table, sandbox_describe(sb));
	}
	while (sb && !sandbox_matches_deletion(sb, q))
		sb = sandbox_next_of_tenant(sb);
	list_page_finish(&page, sb ? cursor_format(rq, last) : NULL);
	sandboxes_reply(c, rq, &page, page.rows);
}

void op_group_delete(struct cayd *c, struct request *rq)
{
	struct delete_query *q = rq->query;
	struct cay_err err = {};

	if (!q->group && !q->label)
		(void)cay_fail_field(&err, CAY_E_INVALID, "label", "expected 'label' or 'group'");
	else if (q->label)
		(void)label_selector_check(slice_of(q->label), &err);
	if (err.code)
		request_fail(rq, &err);
	else if (!request_bind_group(rq, &q->group))
		return;
	else if (q->label)
		labelled_delete_start(c, rq);
	else
		group_delete_start(c, rq);
}

static bool image_is_listed(const struct image *row, const struct actor *who)
{
	return !row->layer && !image_is_hidden(row, who);
}

void op_image_list(struct cayd *c, struct request *rq)
{
	const struct page_query *q = rq->query;
	const struct image *row = NULL;
	struct list_page page;
	uint64_t at;

	if (!cursor_parse(rq, q->cursor, &at))
		return;
	list_page_begin(&page, "images");
	for (; page.rows < q->limit && (row = image_at(c->images, at)); at++)
		if (image_is_listed(row, &rq->actor) &&
		    !list_page_add(&page, &image_info_table, &row->info))
			break;
	/* whether there are rows of others is not the caller's to know */
	while ((row = image_at(c->images, at)) && !image_is_listed(row, &rq->actor))
		at++;
	list_page_finish(&page, row ? cursor_format(rq, at) : NULL);
	list_page_reply(&page, rq);
}

void op_image_get(struct cayd *c, struct request *rq)
{
	const struct image *row = image_by_id(c->images, &rq->match.params[0]);

	if (!row || image_is_hidden(row, &rq->actor))
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such image");
	else
		request_reply_json(rq, &image_info_table, &row->info);
}

struct image_deletion {
	struct cayd *cayd;
	struct request *rq;
	struct id id;
	struct buf reply; /* its row before the removal */
};

static void on_image_delete_saved(void *arg, const struct cay_err *outcome)
{
	struct image_deletion *d = arg;

	if (d->rq && outcome->code)
		request_fail(d->rq, outcome);
	else if (d->rq)
		request_reply(d->rq, 200, "application/json", &d->reply);
	buf_fini(&d->reply);
	free(d);
}

static void on_image_delete_files_removed(void *arg, const struct cay_err *outcome,
					  const void *reply, int fd)
{
	struct image_deletion *d = arg;
	const struct image *row = image_by_id(d->cayd->images, &d->id);
	struct cay_err err = *outcome;
	struct jw w;

	(void)reply;
	cay_closep(&fd);
	d->cayd->images_removing--;
	image_set_removing(d->cayd->images, &d->id, false);
	d->reply = BUF_INIT(KIB(4));
	if (!err.code && !row)
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "there is no such image");
	if (err.code) {
		on_image_delete_saved(d, &err);
		return;
	}
	w = jw_to(&d->reply);
	field_encode(&image_info_table, NULL, &row->info, &w);
	image_unregister(d->cayd->images, &d->id, on_image_delete_saved, d);
}

/* Refuse if a template would lose its image; an image with another name keeps its files. */
static int image_check_no_template_uses(struct cayd *c, const struct image *row,
					struct cay_err *err)
{
	bool alone = image_count_names(c->images, row->digest) == 1;

	for (size_t i = 0; i < templates_count(c); i++) {
		const struct template *t = template_at(c, i);
		const char *image = t ? t->info.defaults.image : NULL;

		if (image && image_find(c->images, &image_owner_node, image) == row &&
		    (alone || !str_eq(image, row->info.digest)))
			return cay_fail(err, CAY_E_CONFLICT, "template '%s' uses this image",
					t->info.name);
	}
	return 0;
}

static int image_check_delete(struct cayd *c, const struct image *row, struct cay_err *err)
{
	if (!row)
		return cay_fail(err, CAY_E_NOT_FOUND, "there is no such image");
	if (row->removing)
		return cay_fail(err, CAY_E_UNAVAILABLE, "this image is being removed");
	/* it may be the same image, and the keeper would run both at once */
	if (c->images_unpacking)
		return cay_fail(err, CAY_E_UNAVAILABLE, "an image is being unpacked; try again");
	return image_check_no_template_uses(c, row, err);
}

void op_image_delete(struct cayd *c, struct request *rq)
{
	const struct image *row = image_by_id(c->images, &rq->match.params[0]);
	struct cay_err err = {};
	struct image_deletion *d;

	if (image_check_delete(c, row, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	d = malloc(sizeof(*d));
	if (!d) {
		request_no_memory(rq);
		return;
	}
	*d = (struct image_deletion){ c, rq, row->info.id };
	request_watch_client(&d->rq);
	c->images_removing++;
	image_remove_files(c, row, on_image_delete_files_removed, d);
}

/* An operation of control without op_x_y() does not link. */
static void (*const op_handlers[OP_NUM])(struct cayd *c, struct request *rq) = {
#define HANDLER_CONTROL(sym, noun, verb) [OP_##sym] = op_##noun##_##verb,
#define HANDLER_INSIDE(sym, noun, verb)
#define CAY_OP(sym, noun, verb, where, ...) HANDLER_##where(sym, noun, verb)
#include "ops/ops.def"
#undef CAY_OP
};

void control_request_handle(struct request *rq, void *arg)
{
	if (!actor_is_still_valid(arg, &rq->actor))
		request_refuse(rq, CAY_E_UNAUTHENTICATED, "the key has expired or was revoked");
	else if (audit_log_reserve_for_request(arg, rq))
		op_handlers[rq->match.op - ops](arg, rq);
}

static void on_sandbox_relay_done(void *arg)
{
	struct sandbox *sb = arg;

	(void)sandbox_apply_event(sb, &(struct life_event){ .kind = LIFE_LEAVE });
	sandbox_release(sb);
}

void sandbox_relay_start(struct cayd *c, struct request *rq, struct sandbox *sb, bool paused)
{
	auto_buf path = BUF_INIT(128);
	char name[ID_TEXT_LEN + 1];
	struct relay_conf relay = { .body_is_paused = paused };

	id_format(&sb->info.id, name);
	if (buf_printf(&path, "%s/box/%s", c->settings.run_dir, name) < 0) {
		request_no_memory(rq);
		return;
	}
	relay.path = path.data;
	relay.upgrade = rq->match.op->reply == REPLY_SOCKET;
	relay.head_timeout_ms = op_deadline_ms(rq->match.op, request_is_streamed(rq));
	relay.done = on_sandbox_relay_done;
	relay.arg = sb;
	sb->holds++;
	(void)sandbox_apply_event(sb, &(struct life_event){ .kind = LIFE_ENTER });
	relay_start(rq, &relay);
}

void sandbox_request_relay(struct request *rq, void *arg)
{
	struct cayd *c = arg;
	struct sandbox *sb = sandbox_find_of_request(c, rq);

	if (sb && sandbox_takes_requests(sb))
		sandbox_relay_start(c, rq, sb, false);
	else if (sb && !wake_for_request(c, rq, sb))
		sandbox_refuse_state(rq, sb);
}
