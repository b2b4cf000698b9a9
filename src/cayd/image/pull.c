/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/image/pull.h"
#include "cayd/core/handlers.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "cayd/core/list.h"
#include "cayd/image/image-import.h"
#include "cayd/image/registry.h"
#include "cayd/image/skopeo.h"
#include "text/reference.h"

#define PULLS_MAX 8
#define PULLS_TENANT_MAX 2 /* started by creates of one tenant */
#define TICK_MS 250
#define DIR_FRONT "pull-"

/* A waiting request: of image.pull, or of a create that is then run again. */
struct pull_waiter {
	struct pull_waiter *next;
	struct pull *pull;
	struct request *rq;
	void (*retry)(struct cayd *c, struct request *rq);
};

struct pull {
	struct cayd *cayd;
	struct pull *next;
	struct pull_waiter *waits;
	char *reference, *name;
	struct id tenant; /* the tenant whose create started it; none: an operator */
	bool pinned;      /* started by image.pull: the image stays, and the pull goes on without a
			     client */
	bool arrived;     /* the archive is complete and waits to be unpacked */
	enum pull_state state;
	uint64_t bytes, total, deadline_ns;
	struct cay_err failed; /* why skopeo was killed */
	char dir[sizeof(DIR_FRONT) + 16];
	int dir_fd;
	struct child child;
	uv_timer_t timer;
	uv_poll_t *poll;
};

static void on_pull_dir_removed(uv_work_t *work, int)
{
	free(work);
}

struct pull_dir_removal {
	uv_work_t work; /* first: freeing it frees the struct */
	int tmp;
	char dir[sizeof(DIR_FRONT) + 16];
};

static void pull_dir_remove_work(uv_work_t *work)
{
	struct pull_dir_removal *r = (struct pull_dir_removal *)(void *)work;

	(void)rmtree_at(r->tmp, r->dir);
}

/* Removing gigabytes takes long, so a worker does it. */
static void pull_dir_schedule_removal(struct pull *p)
{
	struct pull_dir_removal *r = calloc(1, sizeof(*r));

	if (!r)
		return; /* pulls_remove_leftovers() does it at the next start */
	r->tmp = p->cayd->tmp;
	memcpy(r->dir, p->dir, sizeof(r->dir));
	if (uv_queue_work(&p->cayd->loop, &r->work, pull_dir_remove_work, on_pull_dir_removed) < 0)
		free(r);
}

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

static void on_pull_timer_closed(uv_handle_t *h)
{
	struct pull *p = h->data;

	cay_closep(&p->dir_fd);
	free(p->reference);
	free(p->name);
	free(p);
}

/* Answer every waiter; a reply may start the same pull again. */
static void pull_finish(struct pull *p, const struct image *row, const struct cay_err *err)
{
	struct pull_waiter *w;

	p->state = row ? PULL_DONE : PULL_FAILED;
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
	pull_dir_schedule_removal(p);
	uv_close((uv_handle_t *)&p->timer, on_pull_timer_closed);
}

static void pull_fail(struct pull *p, enum cay_code code, const char *what)
{
	struct cay_err err = {};

	(void)cay_fail(&err, code, "image '%s': %s", p->reference, what);
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

	image_unpack_finish(p->cayd, p->name, !p->pinned, outcome, reply, fd, on_pull_registered,
			    p);
}

/* As for an import, the keeper gets the file and cayd does not parse it. */
static void pull_unpack(struct pull *p)
{
	auto_close int fd = path_open(p->dir_fd, SKOPEO_ARCHIVE, O_RDONLY, 0);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		pull_fail(p, CAY_E_INTERNAL, "skopeo left no archive");
		return;
	}
	if ((uint64_t)st.st_size > p->cayd->settings.images_pull_max) {
		pull_fail(p, CAY_E_TOO_LARGE, "the image is larger than images.pull_size");
		return;
	}
	p->state = PULL_UNPACKING;
	pull_notify_progress(p);
	image_unpack_start(p->cayd, fd, on_pull_unpacked, p);
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
	p->arrived = false;
	pull_unpack(p);
}

static void on_pull_skopeo_exit(uv_poll_t *watch, int status, int events);

static void pull_skopeo_start(struct pull *p, enum pull_state state)
{
	struct skopeo job = {
		.settings = &p->cayd->settings,
		.reference = p->reference,
		.dir = p->dir,
		.dir_fd = p->dir_fd,
		.copy = state == PULL_PULLING,
	};
	struct cay_err err = {};

	p->state = state;
	pull_notify_progress(p);
	p->poll = calloc(1, sizeof(*p->poll));
	if (!p->poll || skopeo_start(&job, &p->child, &err) < 0) {
		free(cay_take(p->poll));
		pull_fail(p, CAY_E_INTERNAL, err.code ? err.msg : "out of memory");
		return;
	}
	if (uv_poll_init(&p->cayd->loop, p->poll, p->child.pidfd) < 0) {
		free(cay_take(p->poll));
		child_fini(&p->child);
		pull_fail(p, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	p->poll->data = p;
	(void)uv_poll_start(p->poll, UV_READABLE, on_pull_skopeo_exit);
}

static void on_pull_skopeo_exit(uv_poll_t *watch, int, int)
{
	struct pull *p = watch->data;
	const char *why;
	int status;

	(void)uv_poll_stop(watch);
	uv_close((uv_handle_t *)cay_take(p->poll), on_handle_closed);
	if (child_wait(&p->child, &status) < 0)
		status = 1;
	if (p->failed.code) {
		pull_fail(p, p->failed.code, p->failed.msg);
	} else if (status) {
		enum cay_code code = skopeo_describe_failure(p->dir_fd, status, &why);

		pull_fail(p, code, why);
	} else if (p->state == PULL_PULLING) {
		p->arrived = true;
		pull_unpack_unless_removing(p);
	} else if (skopeo_read_total_size(p->dir_fd, &p->total) < 0) {
		pull_fail(p, CAY_E_UNAVAILABLE, "the registry sent no valid manifest");
	} else if (p->total > p->cayd->settings.images_pull_max) {
		pull_fail(p, CAY_E_TOO_LARGE, "the image is larger than images.pull_size");
	} else {
		pull_skopeo_start(p, PULL_PULLING);
	}
}

static void pull_abort(struct pull *p, enum cay_code code, const char *why)
{
	if (p->failed.code || p->child.pidfd < 0)
		return;
	(void)cay_fail(&p->failed, code, "%s", why);
	(void)child_kill(&p->child, SIGKILL);
}

static void on_pull_timer(uv_timer_t *t)
{
	struct pull *p = t->data;
	const struct settings *s = &p->cayd->settings;
	struct cay_err err = {};

	if (p->arrived) {
		pull_unpack_unless_removing(p);
		return;
	}
	if (p->state == PULL_PULLING) {
		p->bytes = skopeo_count_bytes(p->dir_fd);
		pull_notify_progress(p);
	}
	if (pull_must_stop(p, &err))
		pull_abort(p, err.code, err.msg);
	/* the blobs and the archive that skopeo writes from them */
	if (p->bytes > 2 * s->images_pull_max + MIB(1))
		pull_abort(p, CAY_E_TOO_LARGE, "the image is larger than images.pull_size");
	if (clk_boot_ns(p->cayd->clk) > p->deadline_ns)
		pull_abort(p, CAY_E_TIMEOUT, "the pull took longer than images.pull_time");
}

static int pull_dir_create(struct pull *p)
{
	auto_buf auth = BUF_INIT(KIB(32));
	struct reference ref;
	uint64_t random;
	int r = reference_parse(slice_of(p->reference), &ref);

	if (r < 0 || getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	if (snprintf(p->dir, sizeof(p->dir), DIR_FRONT "%016" PRIx64, random) < 0 ||
	    mkdirat(p->cayd->tmp, p->dir, 0700) < 0)
		return -EIO;
	p->dir_fd = path_open(p->cayd->tmp, p->dir, O_RDONLY | O_DIRECTORY, 0);
	if (p->dir_fd < 0)
		return p->dir_fd;
	r = registry_authfile_write(p->cayd, ref.host, &auth);
	if (r >= 0)
		r = path_write_atomic(p->dir_fd, SKOPEO_AUTH, auth.data, auth.len, 0600);
	if (r >= 0)
		r = path_write_atomic(p->dir_fd, SKOPEO_CONF, "", 0, 0600);
	if (auth.data)
		explicit_bzero(auth.data, auth.len);
	return r;
}

/* A pull that is being stopped cannot be joined. */
static struct pull *pull_find(struct cayd *c, const char *reference, const char *name)
{
	for (struct pull *p = c->pulls; p; p = p->next) {
		if (p->failed.code)
			continue;
		if (str_eq(p->reference, reference) && str_eq(p->name, name))
			return p;
	}
	return NULL;
}

/* Limits of pulls, of images, and of this tenant. */
static int pull_check_room(struct cayd *c, const struct id *tenant, const char *name,
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
	if (image_check_room(c->images, name, err) < 0)
		return -EDQUOT;
	return node_space_check_disk(c, err);
}

static struct pull *pull_create(struct cayd *c, const char *reference, const char *name,
				const struct id *tenant)
{
	struct pull *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	*p = (struct pull){ .cayd = c,
			    .next = c->pulls,
			    .tenant = *tenant,
			    .reference = strdup(reference),
			    .name = strdup(name),
			    .dir_fd = -EBADF,
			    .child = CHILD_INIT,
			    .deadline_ns =
				    clk_boot_ns(c->clk) + c->settings.images_pull_ms * NS_PER_MS };
	if (!p->reference || !p->name || uv_timer_init(&c->loop, &p->timer) < 0) {
		free(p->reference);
		free(p->name);
		free(p);
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

/* From a timer, so that no caller is answered inside its own call. */
static void on_pull_start_timer(uv_timer_t *t)
{
	struct pull *p = t->data;

	(void)uv_timer_start(t, on_pull_timer, TICK_MS, TICK_MS);
	if (pull_dir_create(p) < 0)
		pull_fail(p, CAY_E_INTERNAL, "cannot create a directory for the pull");
	else
		pull_skopeo_start(p, PULL_ASKING);
}

static void pull_wait_or_start(struct cayd *c, struct request *rq, const char *reference,
			       const char *name, bool pinned,
			       void (*again)(struct cayd *c, struct request *rq))
{
	static const struct request_events events = { .gone = on_pull_client_gone };
	const struct id nobody = {},
			*tenant = rq->actor.scope == SCOPE_OPERATOR ? &nobody : &rq->actor.tenant;
	struct pull *p = pull_find(c, reference, name);
	struct pull_waiter *w;
	struct cay_err err = {};
	bool first = !p;

	if (!p && pull_check_room(c, tenant, name, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (w && !p)
		p = pull_create(c, reference, name, tenant);
	if (!w || !p) {
		free(w);
		request_no_memory(rq);
		return;
	}
	*w = (struct pull_waiter){ p->waits, p, rq, again };
	p->waits = w;
	p->pinned |= pinned;
	rq->data = w;
	rq->events = &events;
	if (first)
		(void)uv_timer_start(&p->timer, on_pull_start_timer, 0, 0);
}

void op_image_pull(struct cayd *c, struct request *rq)
{
	const struct image_pull *q = rq->body;
	struct reference ref;
	struct cay_err err = {};

	if (reference_parse(slice_of(q->reference), &ref) < 0)
		(void)cay_fail_field(&err, CAY_E_INVALID, "reference",
				     "expected HOST[:PORT]/PATH[:TAG][@sha256:DIGEST]");
	else if (!registry_is_listed(c->settings.images_registries, ref.host))
		(void)cay_fail_field(&err, CAY_E_FORBIDDEN, "reference",
				     "images.registries of cay.conf does not name '%.*s'",
				     (int)ref.host.n, ref.host.p);
	if (err.code)
		request_fail(rq, &err);
	else
		pull_wait_or_start(c, rq, q->reference, q->name ? q->name : q->reference, true,
				   NULL);
}

bool pull_can_help_create(const struct cayd *c, const char *image, const struct cay_err *err)
{
	struct reference ref;

	return c->settings.images_pull == IMAGES_PULL_CREATE && err->code == CAY_E_NOT_FOUND &&
	       image && !image_find(c->images, image) &&
	       reference_parse(slice_of(image), &ref) >= 0 &&
	       registry_is_listed(c->settings.images_registries, ref.host);
}

void pull_start_for_create(struct cayd *c, struct request *rq, const char *image,
			   void (*again)(struct cayd *c, struct request *rq))
{
	pull_wait_or_start(c, rq, image, image, false, again);
}

static int pull_leftover_remove(void *, int tmp, const char *name)
{
	return strncmp(name, DIR_FRONT, strlen(DIR_FRONT)) == 0 ? rmtree_at(tmp, name) : 0;
}

int pulls_remove_leftovers(struct cayd *c, struct cay_err *err)
{
	int r = path_for_each_entry(c->tmp, pull_leftover_remove, NULL);

	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "remove old pulls from tmp/") : 0;
}
