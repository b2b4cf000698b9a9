/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/image/pull.h"
#include "cayd/core/handlers.h"

#include <sys/stat.h>

#include "cayd/core/keeper-link.h"
#include "cayd/core/list.h"
#include "cayd/image/image-import.h"
#include "cayd/image/puller-link.h"
#include "cayd/image/registry.h"
#include "text/reference.h"

#define LONG_REFERENCE KIB(1) /* images.short and a name */
#define PULLS_MAX 8
#define PULLS_TENANT_MAX 2 /* started by creates of one tenant */
#define TICK_MS 250

/* A waiting request: of image.pull, or of a create that is then run again. */
struct pull_waiter {
	struct pull_waiter *next;
	struct pull *pull;
	struct request *rq;
	void (*retry)(struct cayd *c, struct request *rq);
};

/* The image to pull, for which owner, and how the request goes on. */
struct pull_order {
	const char *reference, *name;
	struct id owner;                  /* of the image; none: the node */
	const struct registry_auth *auth; /* given with the request, or NULL */
	bool pinned;
	void (*again)(struct cayd *c, struct request *rq);
};

struct pull {
	struct cayd *cayd;
	struct pull *next;
	struct pull_waiter *waits;
	char *reference, *name;
	struct id tenant;          /* the tenant whose create started it; none: an operator */
	struct id owner;           /* of the image; none: the node */
	char *username, *password; /* given with the request, or NULL; wiped at the end */
	bool pinned; /* started by image.pull: the image stays, and the pull goes on without a
			client */
	enum pull_state state;
	uint64_t bytes, total, deadline_ns;
	int conn_fd;    /* to cay-pull; closing it ends the pull there */
	int archive_fd; /* complete, and waits to be unpacked */
	uv_timer_t timer;
	uv_poll_t *poll; /* of conn_fd */
};

static void pull_notify_progress(const struct pull *p)
{
	const struct image_progress now = { p->reference, p->state,
					    p->total && p->bytes > p->total ? p->total : p->bytes,
					    p->total, p->total > 0 };

	/* each waiting tenant gets it once */
	for (const struct pull_waiter *w = p->waits; w; w = w->next) {
		const struct pull_waiter *seen = p->waits;

		while (seen != w && !id_eq(&seen->rq->actor.tenant, &w->rq->actor.tenant))
			seen = seen->next;
		if (seen == w)
			p->cayd->hooks->pull_progressed(p->cayd, &w->rq->actor.tenant, &now);
	}
}

static void pull_free(struct pull *p)
{
	str_wipe(p->password);
	free(p->username);
	free(p->password);
	free(p->reference);
	free(p->name);
	free(p);
}

static void on_pull_timer_closed(uv_handle_t *h)
{
	struct pull *p = h->data;

	cay_closep(&p->archive_fd);
	pull_free(p);
}

static void pull_disconnect(struct pull *p)
{
	if (p->poll) {
		(void)uv_poll_stop(p->poll);
		uv_close((uv_handle_t *)cay_take(p->poll), on_handle_closed);
	}
	cay_closep(&p->conn_fd);
}

/* Answer every waiter; a reply may start the same pull again. */
static void pull_finish(struct pull *p, const struct image *row, const struct cay_err *err)
{
	struct pull_waiter *w;

	p->state = row ? PULL_DONE : PULL_FAILED;
	pull_disconnect(p);
	pull_notify_progress(p);
	LIST_UNLINK(p->cayd->pulls, p, next);
	if (row)
		log_info(&p->cayd->log, "pulled '%s'", p->reference);
	else
		log_info(&p->cayd->log, "cannot pull: %s", err->msg);
	while ((w = p->waits)) {
		struct request *rq = w->rq;
		struct cay_err mine = *err;

		p->waits = w->next;
		rq->events = NULL;
		if (row && w->retry) {
			w->retry(p->cayd, rq);
		} else if (row) {
			rq->target = row->info.id;
			request_reply_json(rq, &image_info_table, &row->info);
		} else {
			cay_err_prefix_field(&mine, w->retry ? "image" : "reference");
			request_fail(rq, &mine);
		}
		free(w);
	}
	uv_close((uv_handle_t *)&p->timer, on_pull_timer_closed);
}

static void pull_fail(struct pull *p, enum cay_code code, const char *what)
{
	struct cay_err err = {};

	(void)cay_fail(&err, code, "image '%s': %s", p->reference, what);
	if (code == CAY_E_FORBIDDEN)
		cay_err_hint(&err, "an operator gives the registry's credentials with 'cay image "
				   "login'; check the name of the image as well");
	pull_finish(p, NULL, &err);
}

static void on_pull_registered(void *arg, const struct image *row, const struct cay_err *outcome)
{
	struct pull *p = arg;
	struct cay_err err = *outcome;

	if (!row)
		(void)cay_err_wrap(&err, -EIO, "image '%s'", p->reference);
	pull_finish(p, row, &err);
}

static void on_pull_unpacked(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct pull *p = arg;

	image_unpack_finish(p->cayd, p->name, &p->owner,
			    p->pinned ? IMAGE_PULLED : IMAGE_PULLED_BY_CREATE, outcome, reply, fd,
			    on_pull_registered, p);
}

/* As for an import, the keeper gets the file and cayd does not parse it. */
static void pull_unpack(struct pull *p)
{
	auto_close int fd = cay_take_fd(&p->archive_fd);
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		pull_fail(p, CAY_E_INTERNAL, "cay-pull sent no archive");
		return;
	}
	if ((uint64_t)st.st_size > p->cayd->settings.images_pull_max) {
		pull_fail(p, CAY_E_TOO_LARGE, "the image is larger than images.pull_size");
		return;
	}
	p->state = PULL_UNPACKING;
	pull_notify_progress(p);
	image_unpack_start(p->cayd, fd, 0, on_pull_unpacked, p);
}

/* Whether and why to stop. */
static bool pull_must_stop(struct pull *p, struct cay_err *err)
{
	if (!p->waits && !p->pinned)
		(void)cay_fail(err, CAY_E_UNAVAILABLE, "no client waits for it any more");
	else
		(void)node_space_check_disk(p->cayd, err);
	return err->code;
}

/* A removal under way may be of the same image, and the keeper would run both at once. */
static void pull_unpack_unless_removing(struct pull *p)
{
	struct cay_err err = {};

	if (pull_must_stop(p, &err)) {
		pull_fail(p, err.code, err.msg);
		return;
	}
	if (p->cayd->images_removing)
		return; /* retried at the next tick */
	pull_unpack(p);
}

/* What cay-pull says is checked: it speaks for whatever a registry made of skopeo. */
static void pull_take_reply(struct pull *p, const struct puller_reply *a, int fd)
{
	switch ((enum puller_kind)a->kind) {
	case PULLER_PROGRESS:
		p->bytes = a->bytes > p->bytes ? a->bytes : p->bytes;
		p->total = a->total;
		p->state = PULL_PULLING;
		pull_notify_progress(p);
		return;
	case PULLER_DONE:
		p->bytes = a->bytes > p->bytes ? a->bytes : p->bytes;
		p->archive_fd = fd;
		pull_disconnect(p);
		pull_unpack_unless_removing(p);
		return;
	case PULLER_FAILED:
	default:
		pull_fail(p, puller_failures[a->failure].code, puller_failures[a->failure].text);
	}
}

static void on_pull_reply(uv_poll_t *watch, int, int)
{
	struct pull *p = watch->data;
	struct puller_reply a;
	int fd, r = puller_link_receive(p->conn_fd, &a, &fd);

	if (r == -EAGAIN)
		return;
	if (r < 0)
		pull_fail(p, CAY_E_UNAVAILABLE, "cay-pull ended in the middle of it; try again");
	else
		pull_take_reply(p, &a, fd);
}

static void on_pull_timer(uv_timer_t *t);

/* From a timer, so that no caller is answered inside its own call. */
static void on_pull_start_timer(uv_timer_t *t)
{
	struct pull *p = t->data;
	struct cay_err err = {};

	const struct registry_auth given = { p->username, p->password };

	(void)uv_timer_start(t, on_pull_timer, TICK_MS, TICK_MS);
	p->state = PULL_ASKING;
	pull_notify_progress(p);
	p->conn_fd = puller_link_open(p->cayd, p->reference, &p->owner, p->password ? &given : NULL,
				      &err);
	if (p->conn_fd < 0) {
		pull_fail(p, err.code, err.msg);
		return;
	}
	p->poll = calloc(1, sizeof(*p->poll));
	if (!p->poll || uv_poll_init(&p->cayd->loop, p->poll, p->conn_fd) < 0) {
		free(cay_take(p->poll));
		pull_fail(p, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	p->poll->data = p;
	(void)uv_poll_start(p->poll, UV_READABLE, on_pull_reply);
}

static void on_pull_timer(uv_timer_t *t)
{
	struct pull *p = t->data;
	struct cay_err err = {};

	if (p->archive_fd >= 0)
		pull_unpack_unless_removing(p);
	else if (p->state == PULL_UNPACKING) /* the keeper has it */
		return;
	else if (pull_must_stop(p, &err))
		pull_fail(p, err.code, err.msg);
	else if (clk_boot_ns(p->cayd->clk) > p->deadline_ns)
		pull_fail(p, CAY_E_TIMEOUT, "the pull took longer than images.pull_time");
}

/* A password that is wrong must neither join a pull nor make others fail. */
static bool pull_has_auth(const struct pull *p, const struct registry_auth *auth)
{
	return auth ? p->password && str_eq(p->username, auth->username) &&
			       str_eq(p->password, auth->password)
		    : !p->password;
}

/* Pulls of different owners are apart: each has to be allowed by the registry. */
static struct pull *pull_find(struct cayd *c, const struct pull_order *o)
{
	for (struct pull *p = c->pulls; p; p = p->next)
		if (str_eq(p->reference, o->reference) && str_eq(p->name, o->name) &&
		    p->owner.noun == o->owner.noun && id_eq(&p->owner, &o->owner) &&
		    pull_has_auth(p, o->auth))
			return p;
	return NULL;
}

/* Limits of pulls, of images, and of this tenant. */
static int pull_check_room(struct cayd *c, const struct id *tenant, const struct pull_order *o,
			   struct cay_err *err)
{
	size_t n = 0, of_tenant = 0;

	for (const struct pull *p = c->pulls; p; p = p->next) {
		n++;
		of_tenant += !p->pinned && tenant->noun && id_eq(&p->tenant, tenant);
	}
	if (n >= PULLS_MAX)
		return cay_fail(err, CAY_E_CAPACITY, "too many images are being pulled");
	if (of_tenant >= PULLS_TENANT_MAX)
		return cay_fail(err, CAY_E_LIMIT, "%d images are being pulled for this tenant",
				PULLS_TENANT_MAX);
	if (image_check_room(c->images, &o->owner, o->name, err) < 0)
		return -EDQUOT;
	return node_space_check_disk(c, err);
}

static struct pull *pull_create(struct cayd *c, const struct pull_order *o, const struct id *tenant)
{
	struct pull *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	*p = (struct pull){ .cayd = c,
			    .next = c->pulls,
			    .tenant = *tenant,
			    .owner = o->owner,
			    .reference = strdup(o->reference),
			    .name = strdup(o->name),
			    .username = o->auth ? strdup(o->auth->username) : NULL,
			    .password = o->auth ? strdup(o->auth->password) : NULL,
			    .conn_fd = -EBADF,
			    .archive_fd = -EBADF,
			    .deadline_ns =
				    clk_boot_ns(c->clk) + c->settings.images_pull_ms * NS_PER_MS };
	if (!p->reference || !p->name || (o->auth && (!p->username || !p->password)) ||
	    uv_timer_init(&c->loop, &p->timer) < 0) {
		pull_free(p);
		return NULL;
	}
	p->timer.data = p;
	c->pulls = p;
	return p;
}

static void on_pull_client_gone(struct request *rq)
{
	struct pull_waiter *w = rq->data;

	LIST_UNLINK(w->pull->waits, w, next);
	free(w); /* a client that asks again before the next tick joins it */
}

static void pull_wait_or_start(struct cayd *c, struct request *rq, const struct pull_order *o)
{
	static const struct request_events events = { .gone = on_pull_client_gone };
	const struct id nobody = {},
			*tenant = rq->actor.scope == SCOPE_OPERATOR ? &nobody : &rq->actor.tenant;
	struct pull *p = pull_find(c, o);
	struct pull_waiter *w;
	struct cay_err err = {};
	bool first = !p;

	if (!p && pull_check_room(c, tenant, o, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (w && !p)
		p = pull_create(c, o, tenant);
	if (!w || !p) {
		free(w);
		request_no_memory(rq);
		return;
	}
	*w = (struct pull_waiter){ p->waits, p, rq, o->again };
	p->waits = w;
	p->pinned |= o->pinned;
	rq->data = w;
	rq->events = &events;
	if (first)
		(void)uv_timer_start(&p->timer, on_pull_start_timer, 0, 0);
}

/* The reference an image's name stands for, with images.short. */
static int pull_find_reference(const struct cayd *c, const char *name, struct buf *ret,
			       struct reference *parsed)
{
	int r = reference_complete(slice_of(c->settings.images_short), slice_of(name), ret);

	return r < 0 ? r : reference_parse((struct slice){ ret->data, ret->len }, parsed);
}

void op_image_pull(struct cayd *c, struct request *rq)
{
	struct image_pull *q = rq->body;
	struct registry_auth_copy auth;
	auto_buf reference = BUF_INIT(LONG_REFERENCE);
	struct reference ref;
	struct cay_err err = {};

	registry_auth_take(&q->registry_auth, &q->has_registry_auth, &auth);
	(void)registry_auth_check(&auth, &err);
	if (err.code)
		; /* refused below */
	else if (pull_find_reference(c, q->reference, &reference, &ref) < 0)
		(void)cay_fail_field(&err, CAY_E_INVALID, "reference",
				     "expected HOST[:PORT]/PATH[:TAG][@sha256:DIGEST]%s",
				     c->settings.images_short[0]
					     ? ""
					     : "; images.short of cay.conf allows shorter names");
	else if (!registry_is_listed(c->settings.images_registries, ref.host))
		(void)cay_fail_field(&err, CAY_E_FORBIDDEN, "reference",
				     "images.registries of cay.conf does not name '%.*s'",
				     (int)ref.host.n, ref.host.p);
	else if (q->tenant.noun != ID_NONE && !c->hooks->tenant_exists(c, &q->tenant))
		(void)cay_fail_field(&err, CAY_E_NOT_FOUND, "tenant", "there is no such tenant");
	else if (!keeper_is_up(c->keeper)) /* which unpacks the image */
		(void)cay_fail(&err, CAY_E_UNAVAILABLE, "cay-keeper is not running");
	if (err.code == CAY_E_FORBIDDEN)
		cay_err_hint(&err,
			     "an operator adds the registry to images.registries of cay.conf; an "
			     "image can also be imported from an archive");
	if (err.code)
		request_fail(rq, &err);
	else
		pull_wait_or_start(c, rq,
				   &(struct pull_order){ .reference = buf_str(&reference),
							 .name = q->name ? q->name : q->reference,
							 .owner = q->tenant,
							 .auth = auth.given ? &auth.auth : NULL,
							 .pinned = true });
	explicit_bzero(&auth, sizeof(auth));
}

bool pull_can_help_create(const struct cayd *c, const struct id *tenant,
			  const struct sandbox_create *spec, const struct cay_err *err)
{
	auto_buf reference = BUF_INIT(LONG_REFERENCE);
	struct reference ref;

	return c->settings.images_pull == IMAGES_PULL_CREATE && err->code == CAY_E_NOT_FOUND &&
	       spec->image && !image_find_for_create(c->images, tenant, spec) &&
	       pull_find_reference(c, spec->image, &reference, &ref) >= 0 &&
	       registry_is_listed(c->settings.images_registries, ref.host);
}

/* What a tenant pulls with its own credentials is its own.  A template's image is the node's. */
static struct id pull_owner(const struct cayd *c, const struct request *rq,
			    const struct sandbox_create *spec, struct slice host)
{
	bool own = !spec->template &&
		   (spec->has_registry_auth || registry_has_login(c, &rq->actor.tenant, host));

	return own ? rq->actor.tenant : image_owner_node;
}

void pull_start_for_create(struct cayd *c, struct request *rq, const struct sandbox_create *spec,
			   void (*again)(struct cayd *c, struct request *rq))
{
	auto_buf reference = BUF_INIT(LONG_REFERENCE);
	struct reference ref;

	if (pull_find_reference(c, spec->image, &reference, &ref) < 0)
		request_no_memory(rq); /* it was one before */
	else
		pull_wait_or_start(c, rq,
				   &(struct pull_order){ .reference = buf_str(&reference),
							 .name = spec->image,
							 .owner = pull_owner(c, rq, spec, ref.host),
							 .auth = spec->has_registry_auth
									 ? &spec->registry_auth
									 : NULL,
							 .again = again });
}
