/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/box.h"

#include <assert.h>

#include "cayd/claim.h"
#include "cayd/image.h"
#include "cayd/link.h"

#define BUCKETS 16384
#define POOL_MAX KIB(256)
#define RETRY_MS 1000
/* Until disks have quotas (issue 6) the keeper is told what a quota would say. */
#define DISK_BYTES (UINT64_C(2) << 30)
#define DISK_INODES 131072

struct waiter {
	struct waiter *next;
	struct request *rq;
	struct box *box;
	enum box_wait until;
};

struct boxes {
	struct cayd *cayd;
	uv_timer_t sweep; /* takes up removals that failed */
	struct box *by_id[BUCKETS], *by_name[BUCKETS];
	struct box *newest, *oldest;
	uint64_t seq;
	unsigned n, n_ended;
	uint32_t next_range;
	uint8_t ranges[VERB_RANGE_MAX / 8 + 1];
};

const struct id default_tenant = { .noun = ID_TENANT };

static void start(struct box *b);
static void begin_remove(struct box *b);

static unsigned hash(const void *p, size_t n)
{
	const uint8_t *at = p;
	uint32_t h = 2166136261;

	for (size_t i = 0; i < n; i++)
		h = (h ^ at[i]) * 16777619;
	return h % BUCKETS;
}

int boxes_open(struct cayd *c, struct cay_err *err)
{
	c->boxes = calloc(1, sizeof(*c->boxes));
	if (!c->boxes)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	c->boxes->cayd = c;
	(void)uv_timer_init(&c->loop, &c->boxes->sweep);
	c->boxes->sweep.data = c->boxes;
	return 0;
}

static int take_range(struct boxes *all, uint32_t *ret)
{
	for (uint32_t i = 0; i <= VERB_RANGE_MAX; i++) {
		uint32_t at = (all->next_range + i) % (VERB_RANGE_MAX + 1);

		if (all->ranges[at / 8] & 1u << at % 8)
			continue;
		all->ranges[at / 8] |= (uint8_t)(1u << at % 8);
		all->next_range = at + 1;
		*ret = at;
		return 0;
	}
	return -ENOSR;
}

static void give_range(struct boxes *all, uint32_t range)
{
	all->ranges[range / 8] &= (uint8_t)~(1u << range % 8);
}

struct box *box_find(struct boxes *all, const struct id *id)
{
	struct box *b = all->by_id[hash(id, sizeof(*id))];

	while (b && !id_eq(&b->info.id, id))
		b = b->next_by_id;
	return b;
}

/* One that is ending has given its name up. */
static struct box *find_name(struct boxes *all, const char *name)
{
	struct box *b = all->by_name[hash(name, strlen(name))];

	while (b && (!str_eq(b->info.name, name) || b->info.state >= SB_ENDING))
		b = b->next_by_name;
	return b;
}

struct box *box_before(struct boxes *all, uint64_t before)
{
	struct box *b = all->newest;

	while (before && b && b->seq >= before)
		b = b->older;
	return b;
}

bool box_ended(const struct box *b)
{
	return b->info.state == SB_TERMINATED || b->info.state == SB_FAILED;
}

unsigned boxes_live(const struct boxes *all)
{
	return all->n - all->n_ended;
}

static void link_in(struct boxes *all, struct box *b)
{
	struct box **at = &all->by_id[hash(&b->info.id, sizeof(b->info.id))];

	b->next_by_id = *at;
	*at = b;
	if (b->info.name) {
		at = &all->by_name[hash(b->info.name, strlen(b->info.name))];
		b->next_by_name = *at;
		*at = b;
	}
	b->older = all->newest;
	if (all->newest)
		all->newest->newer = b;
	else
		all->oldest = b;
	all->newest = b;
	all->n++;
}

/* An ended one gives its name up at once. */
static void drop_name(struct boxes *all, struct box *b)
{
	struct box **at =
		b->info.name ? &all->by_name[hash(b->info.name, strlen(b->info.name))] : NULL;

	while (at && *at && *at != b)
		at = &(*at)->next_by_name;
	if (at && *at)
		*at = b->next_by_name;
}

static void forget(struct boxes *all, struct box *b)
{
	struct box **at = &all->by_id[hash(&b->info.id, sizeof(b->info.id))];

	while (*at != b)
		at = &(*at)->next_by_id;
	*at = b->next_by_id;
	*(b->newer ? &b->newer->older : &all->newest) = b->older;
	*(b->older ? &b->older->newer : &all->oldest) = b->newer;
	all->n--;
	all->n_ended--;
	pool_fini(&b->pool);
	free(b);
}

static void forget_old(struct boxes *all)
{
	struct box *b = all->oldest;

	while (b && all->n_ended > BOXES_ENDED_MAX) {
		struct box *newer = b->newer;

		if (box_ended(b))
			forget(all, b);
		b = newer;
	}
}

static void answer(const struct box *b, struct request *rq, enum box_wait until)
{
	if (until == WAIT_STARTED && b->failure.code)
		request_fail(rq, &b->failure);
	else
		request_reply_json(rq, &sandbox_table, &b->info);
}

static bool has_come(const struct box *b, enum box_wait until)
{
	/* one that fails to start says so at once, though it has yet to be removed */
	return box_ended(b) || (until == WAIT_STARTED && b->info.state >= SB_RUNNING);
}

static void tell(struct box *b)
{
	struct waiter **at = &b->waiters;

	while (*at) {
		struct waiter *w = *at;

		if (!has_come(b, w->until)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		answer(b, w->rq, w->until);
		free(w);
	}
}

static void on_gone(struct request *rq)
{
	struct waiter *w = rq->data, **at = &w->box->waiters;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	free(w);
}

void box_answer(struct box *b, struct request *rq, enum box_wait until)
{
	static const struct request_events events = { .gone = on_gone };
	struct cay_err err = {};
	struct waiter *w;

	if (has_come(b, until)) {
		answer(b, rq, until);
		return;
	}
	w = malloc(sizeof(*w));
	if (!w) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		request_fail(rq, &err);
		return;
	}
	*w = (struct waiter){ b->waiters, rq, b, until };
	b->waiters = w;
	rq->data = w;
	rq->events = &events;
}

static void free_handle(uv_handle_t *h)
{
	free(h);
}

static void unwatch(struct box *b)
{
	if (b->watch)
		uv_close((uv_handle_t *)b->watch, free_handle);
	b->watch = NULL;
	cay_closep(&b->pidfd);
	b->pidfd = -EBADF;
}

static void on_sweep(uv_timer_t *t)
{
	const struct boxes *all = t->data;

	for (struct box *b = all->newest; b; b = b->older)
		if (b->info.state == SB_ENDING && !b->steps)
			begin_remove(b);
}

static void on_removed(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct box *b = arg;
	struct boxes *all = b->cayd->boxes;

	(void)reply;
	cay_closep(&fd);
	if (outcome->code) {
		log_error(&b->cayd->log, "remove a sandbox, trying again: %s", outcome->msg);
		b->steps = false;
		(void)uv_timer_start(&all->sweep, on_sweep, RETRY_MS, 0);
		return;
	}
	give_range(all, b->range);
	drop_name(all, b);
	b->info.state = b->failure.code ? SB_FAILED : SB_TERMINATED;
	b->steps = false;
	all->n_ended++;
	tell(b);
	forget_old(all);
}

static void begin_remove(struct box *b)
{
	struct verb_box q = { .sandbox = b->info.id, .generation = 1 };

	unwatch(b);
	b->steps = true;
	link_call(b->cayd->link, VERB_REMOVE, &q, -EBADF, on_removed, b);
}

void box_end(struct box *b, unsigned reason, const char *detail)
{
	if (b->info.state >= SB_ENDING)
		return;
	b->info.state = SB_ENDING;
	b->info.has_end = true;
	b->info.end.reason = reason;
	b->info.end.detail = detail ? pool_strn(&b->pool, detail, strlen(detail)) : NULL;
	if (!b->steps)
		begin_remove(b);
}

static void fail(struct box *b, const struct cay_err *why)
{
	char name[ID_TEXT_LEN + 1];

	id_format(&b->info.id, name);
	log_error(&b->cayd->log, "%s could not be started: %s", name, why->msg);
	b->steps = false;
	if (b->info.state < SB_ENDING)
		b->failure = *why;
	box_end(b, END_START_FAILED, why->msg);
	if (!b->steps) /* it was ending before */
		begin_remove(b);
	tell(b);
}

/* A step is over: did it work, and is the sandbox still wanted? */
static bool go_on(struct box *b, const struct cay_err *outcome)
{
	b->steps = false;
	if (outcome->code) {
		fail(b, outcome);
		return false;
	}
	if (b->info.state == SB_ENDING) {
		begin_remove(b);
		return false;
	}
	return true;
}

static void on_prepared(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct box *b = arg;

	(void)reply;
	cay_closep(&fd);
	if (go_on(b, outcome))
		start(b);
}

static void prepare(struct box *b)
{
	struct verb_prepare q = { .sandbox = b->info.id,
				  .generation = 1,
				  .tenant = b->info.tenant,
				  .disk_bytes = DISK_BYTES,
				  .disk_inodes = DISK_INODES,
				  .range = b->range };

	memcpy(q.image, b->image, sizeof(q.image));
	b->steps = true;
	link_call(b->cayd->link, VERB_PREPARE, &q, -EBADF, on_prepared, b);
}

static void on_pid1(uv_poll_t *p, int status, int events)
{
	struct box *b = p->data;

	(void)status;
	(void)events;
	b->info.end.inferred = true;
	unwatch(b);
	box_end(b, END_KILLED, "PID 1 of the sandbox ended by itself");
}

static int watch(struct box *b, int pidfd)
{
	b->pidfd = pidfd;
	b->watch = calloc(1, sizeof(*b->watch));
	if (!b->watch || uv_poll_init(&b->cayd->loop, b->watch, pidfd) < 0) {
		free(b->watch);
		b->watch = NULL;
		return -ENOMEM;
	}
	b->watch->data = b;
	return uv_poll_start(b->watch, UV_READABLE, on_pid1);
}

static void on_claimed(void *arg, const struct cay_err *outcome)
{
	struct box *b = arg;

	if (!go_on(b, outcome))
		return;
	b->info.state = SB_RUNNING;
	tell(b);
}

static void on_started(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct box *b = arg;
	struct cay_err err = {};

	(void)reply;
	if (!go_on(b, outcome)) {
		cay_closep(&fd);
		return;
	}
	if (watch(b, fd) < 0) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "watch PID 1");
		fail(b, &err);
		return;
	}
	b->steps = true;
	claim_start(b, on_claimed);
}

static void start(struct box *b)
{
	struct verb_start q = { .sandbox = b->info.id,
				.generation = 1,
				.memory_bytes = b->info.limits.memory_bytes,
				.cpu_milli = (uint32_t)b->info.limits.cpu_milli,
				.pids = (uint32_t)b->info.limits.pids,
				.runtime = b->info.runtime };

	b->steps = true;
	link_call(b->cayd->link, VERB_START, &q, -EBADF, on_started, b);
}

static int copy_map(struct pool *pool, const struct field_map *in, struct field_map *ret)
{
	*ret = (struct field_map){ .n = in->n };
	if (!in->n)
		return 0;
	ret->keys = pool_take(pool, in->n, sizeof(*ret->keys));
	ret->values = pool_take(pool, in->n, sizeof(*ret->values));
	for (size_t i = 0; ret->keys && ret->values && i < in->n; i++) {
		ret->keys[i] = pool_strn(pool, in->keys[i], strlen(in->keys[i]));
		ret->values[i] = pool_strn(pool, in->values[i], strlen(in->values[i]));
		if (!ret->keys[i] || !ret->values[i])
			return -ENOMEM;
	}
	return ret->keys && ret->values ? 0 : -ENOMEM;
}

static int fill(struct box *b, const struct sandbox_create *spec)
{
	int r = id_new(ID_SANDBOX, 0, 0, &b->info.id);

	b->info.tenant = default_tenant;
	b->info.limits = spec->limits;
	b->info.runtime = spec->runtime;
	b->info.created_ns = clk_wall_ns(b->cayd->clk);
	b->info.image = pool_strn(&b->pool, spec->image, strlen(spec->image));
	if (spec->name)
		b->info.name = pool_strn(&b->pool, spec->name, strlen(spec->name));
	if (r < 0 || !b->info.image || (spec->name && !b->info.name) ||
	    copy_map(&b->pool, &spec->labels, &b->info.labels) < 0 ||
	    copy_map(&b->pool, &spec->env, &b->env) < 0)
		return r < 0 ? r : -ENOMEM;
	return 0;
}

/* Whether there is room and reason for one more. */
static int admit(struct boxes *all, const struct sandbox_create *spec, struct cay_err *err)
{
	if (boxes_live(all) >= BOXES_MAX)
		return cay_fail(err, CAY_E_CAPACITY, "this node has %d sandboxes", BOXES_MAX);
	if (!(link_runtimes(all->cayd->link) & 1u << spec->runtime))
		return cay_fail_field(err, CAY_E_UNSUPPORTED, "runtime",
				      "this runtime is not installed here or failed its probes");
	return 0;
}

/* Creating a name again returns what has it, if that is what was asked for. */
static int same_request(const struct box *b, const struct sandbox_create *spec, struct cay_err *err)
{
	const struct limits *a = &b->info.limits, *l = &spec->limits;

	if (str_eq(b->info.image, spec->image) && b->info.runtime == spec->runtime &&
	    a->memory_bytes == l->memory_bytes && a->cpu_milli == l->cpu_milli &&
	    a->pids == l->pids)
		return 0;
	return cay_fail_field(err, CAY_E_CONFLICT, "name",
			      "'%s' is the name of a sandbox with another image, runtime or limits",
			      spec->name);
}

int box_create(struct boxes *all, const struct sandbox_create *spec, struct box **ret,
	       struct cay_err *err)
{
	const struct image_row *image = image_find(all->cayd->images, spec->image);
	struct box *b = spec->name ? find_name(all, spec->name) : NULL;
	int r;

	if (b) {
		*ret = b;
		return same_request(b, spec, err);
	}
	if (!image)
		return cay_fail_field(err, CAY_E_NOT_FOUND, "image", "there is no image '%s'",
				      spec->image);
	r = admit(all, spec, err);
	if (r < 0)
		return r;
	b = calloc(1, sizeof(*b));
	if (!b)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	b->cayd = all->cayd;
	b->pidfd = -EBADF;
	b->pool = POOL_INIT(POOL_MAX);
	memcpy(b->image, image->digest, sizeof(b->image));
	r = fill(b, spec);
	if (r >= 0)
		r = take_range(all, &b->range);
	if (r < 0) {
		pool_fini(&b->pool);
		free(b);
		return cay_fail_sys(err, CAY_E_CAPACITY, -r, "make a sandbox");
	}
	b->seq = ++all->seq;
	link_in(all, b);
	prepare(b);
	*ret = b;
	return 0;
}

int boxes_recover(struct cayd *c, struct cay_err *err)
{
	alignas(uint64_t) char msg[VERB_MESSAGE_MAX];
	struct verb_list_reply list;
	struct verb_list q = {};
	unsigned n = 0;

	do {
		int r = link_call_now(c->link, VERB_LIST, &q, msg, err);

		if (r < 0)
			return r;
		memcpy(&list, msg, sizeof(list));
		for (uint32_t i = 0; i < list.n_rows; i++) {
			struct verb_box gone = { .sandbox = list.rows[i].sandbox,
						 .generation = list.rows[i].generation };

			if (!gone.generation)
				gone.generation = 1;
			q.after = gone.sandbox;
			r = link_call_now(c->link, VERB_REMOVE, &gone, msg, err);
			if (r >= 0) {
				n++;
				continue;
			}
			if (err->code == CAY_E_UNAVAILABLE)
				return r;
			/* one that cannot be removed keeps its ids and nothing else waits for it */
			log_error(&c->log, "remove what an earlier cayd left: %s", err->msg);
			*err = (struct cay_err){};
			c->boxes->ranges[list.rows[i].range / 8] |=
				(uint8_t)(1u << list.rows[i].range % 8);
		}
	} while (list.more);
	if (n)
		log_warn(&c->log, "removed %u sandboxes an earlier cayd left", n);
	return 0;
}
