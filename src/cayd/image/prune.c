/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/image/prune.h"
#include "cayd/core/handlers.h"

#include "cayd/core/deferred-reply.h"
#include "cayd/image/image-internal.h"

#define OFTEN_NS NS_PER_S
#define SELDOM_NS (60 * NS_PER_S)
#define REPLY_MAX MIB(4)

struct prune {
	struct cayd *cayd;
	struct request *rq; /* NULL: a periodic run, or the client left */
	uint64_t before_ns; /* remove images last used before this (wall clock) */
	uint64_t size;      /* and more, oldest first, while all take more than this; UINT64_MAX: no
			       limit */
	uint64_t skipped_ns; /* images used before this have been considered */
	bool ownerless;      /* remove those that nothing owns, and no others */
	struct id removing;
	struct buf out;
	struct jw reply;
};

/* An image with several names is in use if one of its names is. */
bool image_is_in_use(struct cayd *c, const struct image *row)
{
	const struct image *other;

	if (image_has_snapshot(c->images, row->digest))
		return true;
	for (size_t i = 0; (other = image_at(c->images, i)); i++)
		if (memcmp(other->digest, row->digest, sizeof(row->digest)) == 0 &&
		    ((!other->info.pulled && !other->layer) || c->hooks->image_is_used(c, other)))
			return true;
	return false;
}

/* Whether its tenant was deleted, so that no client can use it any more. */
static bool image_owner_is_gone(struct cayd *c, const struct image *row)
{
	return row->info.tenant.noun != ID_NONE && !c->hooks->tenant_exists(c, &row->info.tenant);
}

/* Its row can be removed without its files if there is another row of them. */
static bool image_is_ownerless(struct cayd *c, const struct image *row)
{
	if (row->removing || row->unsaved)
		return false;
	if (row->snapshot) /* its snapshot is what owns it, which may be one that was not read */
		return !c->snapshot_unread && !image_is_in_use(c, row);
	return image_owner_is_gone(c, row) &&
	       (image_count_names(c->images, row->digest) > 1 || !c->hooks->image_is_used(c, row));
}

/* Beginning after the last one: where one cannot be removed, others still are. */
static const struct image *prune_find_ownerless(struct cayd *c)
{
	size_t n = c->images->n;

	for (size_t i = 0; i < n; i++) {
		size_t at = (c->images->prune_next + i) % n;

		if (image_is_ownerless(c, c->images->rows[at])) {
			c->images->prune_next = at + 1;
			return c->images->rows[at];
		}
	}
	return NULL;
}

/* The least recently used image used after behind_ns. *ret_bytes is the size of all pulled images.
 * A layer is removed for its age only: its own size is small. */
static const struct image *prune_find_oldest(struct cayd *c, uint64_t behind_ns, uint64_t before_ns,
					     uint64_t *ret_bytes)
{
	const struct image *row, *found = NULL;

	*ret_bytes = 0;
	for (size_t i = 0; (row = image_at(c->images, i)); i++) {
		if (row->removing || row->snapshot ||
		    (row->layer ? image_last_used_ns(row) >= before_ns : !row->info.pulled))
			continue;
		*ret_bytes += row->layer ? 0 : row->info.size_bytes;
		if (image_last_used_ns(row) > behind_ns &&
		    (!found || image_last_used_ns(row) < image_last_used_ns(found)))
			found = row;
	}
	return found;
}

static void prune_finish(struct prune *p)
{
	p->cayd->images_removing--;
	jw_end(&p->reply);
	jw_end(&p->reply);
	if (p->rq) {
		if (jw_finish(&p->reply) < 0)
			request_refuse(p->rq, CAY_E_INTERNAL, "write the list");
		else
			request_reply(p->rq, 200, "application/json", &p->out);
	}
	buf_fini(&p->out);
	free(p);
}

static void prune_continue(struct prune *p);

static void on_prune_table_saved(void *arg, const struct cay_err *)
{
	prune_continue(arg);
}

static void on_prune_image_removed(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct prune *p = arg;
	const struct image *row = image_by_id(p->cayd->images, &p->removing);

	cay_closep(&fd);
	if (row && !outcome->code) {
		if (p->rq)
			field_encode(&image_info_table, NULL, &row->info, &p->reply);
		log_info(&p->cayd->log, "pruned unused image '%s'",
			 row->info.name ? row->info.name : row->info.digest);
		image_unregister(p->cayd->images, &p->removing, on_prune_table_saved, p);
		return;
	}
	if (row)
		image_set_removing(p->cayd->images, &p->removing, false);
	if (p->ownerless)
		prune_finish(p); /* the next run begins with another one */
	else
		prune_continue(p);
}

void image_remove_files(struct cayd *c, const struct image *row, keeper_call_fn *fn, void *arg)
{
	struct verb_image_remove q = {};

	image_set_removing(c->images, &row->info.id, true);
	memcpy(q.digest, row->digest, sizeof(q.digest));
	if (image_count_names(c->images, row->digest) > 1)
		fn(arg, &(struct cay_err){}, NULL, -EBADF);
	else
		keeper_call(c->keeper, VERB_IMAGE_REMOVE, &q, -EBADF, fn, arg);
}

static void prune_continue(struct prune *p)
{
	const struct image *row = p->ownerless ? prune_find_ownerless(p->cayd) : NULL;
	uint64_t bytes;

	if (row) {
		p->removing = row->info.id;
		image_remove_files(p->cayd, row, on_prune_image_removed, p);
		return;
	}
	while (!p->ownerless &&
	       (row = prune_find_oldest(p->cayd, p->skipped_ns, p->before_ns, &bytes))) {
		if (image_last_used_ns(row) >= p->before_ns && bytes <= p->size)
			break;
		p->skipped_ns = image_last_used_ns(row);
		if (!image_is_in_use(p->cayd, row)) {
			p->removing = row->info.id;
			image_remove_files(p->cayd, row, on_prune_image_removed, p);
			return;
		}
	}
	prune_finish(p);
}

static struct prune *prune_create(struct cayd *c, struct request *rq, uint64_t before_ns,
				  uint64_t size)
{
	struct prune *p = c->images_removing || c->images_unpacking ? NULL : calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	*p = (struct prune){ .cayd = c, .rq = rq, .before_ns = before_ns, .size = size };
	p->out = BUF_INIT(REPLY_MAX);
	p->reply = jw_to(&p->out);
	jw_object_begin(&p->reply, NULL);
	jw_array_begin(&p->reply, "images");
	if (rq)
		request_watch_client(&p->rq);
	c->images_removing++;
	return p;
}

static bool prune_start(struct cayd *c, struct request *rq, uint64_t before_ns, uint64_t size)
{
	struct prune *p = prune_create(c, rq, before_ns, size);

	if (p)
		prune_continue(p);
	return p;
}

/* A removal that fails ends the run. */
static bool prune_remove_ownerless(struct cayd *c)
{
	const struct image *row;
	struct prune *p = NULL;
	bool found = false;

	for (size_t i = 0; !found && (row = image_at(c->images, i)); i++)
		found = image_is_ownerless(c, row);
	if (found)
		p = prune_create(c, NULL, 0, UINT64_MAX);
	if (p) {
		p->ownerless = true;
		prune_continue(p);
	}
	return found;
}

void prune_run_soon(struct cayd *c)
{
	c->images->prune_due_ns = 0;
}

void prune_run_if_due(struct cayd *c, uint64_t now)
{
	const struct settings *s = &c->settings;
	uint64_t keep = s->images_keep_ms * NS_PER_MS, every = keep / 10;
	uint64_t wall = clk_wall_ns(c->clk);

	if (now < c->images->prune_due_ns)
		return;
	every = !keep || every > SELDOM_NS ? SELDOM_NS : every;
	c->images->prune_due_ns = now + (s->images_size || every < OFTEN_NS ? OFTEN_NS : every);
	images_flush(c->images);
	if (!keeper_is_up(c->keeper) || prune_remove_ownerless(c))
		c->images->prune_due_ns = now + OFTEN_NS;
	else if (keep || s->images_size)
		(void)prune_start(c, NULL, keep && wall > keep ? wall - keep : 0,
				  s->images_size ? s->images_size : UINT64_MAX);
}

void op_image_prune(struct cayd *c, struct request *rq)
{
	const struct image_prune *q = rq->body;
	uint64_t wall = clk_wall_ns(c->clk), keep = q->unused_ms * NS_PER_MS;

	if (!prune_start(c, rq, wall > keep ? wall - keep + 1 : 0, UINT64_MAX))
		request_refuse(rq, CAY_E_UNAVAILABLE, "images are being unpacked or removed");
}
