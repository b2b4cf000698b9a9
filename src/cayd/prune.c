/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/prune.h"

#include "cayd/box.h"
#include "cayd/image.h"
#include "cayd/link.h"
#include "cayd/template.h"

#define OFTEN_NS NS_PER_S
#define SELDOM_NS (60 * NS_PER_S)
#define REPLY_MAX MIB(4)

struct prune {
	struct cayd *cayd;
	struct request *rq;  /* NULL: the sweeper's, or nobody waits any more */
	uint64_t before_ns;  /* those used last before that go (wall) */
	uint64_t size;       /* and others while all take more; UINT64_MAX: never */
	uint64_t skipped_ns; /* those used before were refused by the keeper, or are in use */
	struct id going;
	struct buf out;
	struct jw reply;
};

/* An image may have several names: one that stays keeps it. */
bool prune_kept(struct cayd *c, const struct image_row *row)
{
	const struct image_row *other;

	for (size_t i = 0; (other = image_at(c->images, i)); i++)
		if (memcmp(other->digest, row->digest, sizeof(row->digest)) == 0 &&
		    ((!other->info.pulled && !other->layer) || templates_use(c, other)))
			return true;
	for (const struct box *b = boxes_newest(c->boxes); b; b = b->older)
		if (!life_over(&b->life) && memcmp(b->image, row->digest, sizeof(row->digest)) == 0)
			return true;
	return false;
}

/* Used longest ago among those behind the ones that were looked at; *ret_bytes is what
 * all that were pulled take.  A layer goes for its age only: it has little of its own. */
static const struct image_row *oldest(struct cayd *c, uint64_t behind_ns, uint64_t before_ns,
				      uint64_t *ret_bytes)
{
	const struct image_row *row, *found = NULL;

	*ret_bytes = 0;
	for (size_t i = 0; (row = image_at(c->images, i)); i++) {
		if (row->going ||
		    (row->layer ? image_last_ns(row) >= before_ns : !row->info.pulled))
			continue;
		*ret_bytes += row->layer ? 0 : row->info.size_bytes;
		if (image_last_ns(row) > behind_ns &&
		    (!found || image_last_ns(row) < image_last_ns(found)))
			found = row;
	}
	return found;
}

static void finish(struct prune *p)
{
	p->cayd->removing--;
	jw_end(&p->reply);
	jw_end(&p->reply);
	if (p->rq) {
		p->rq->events = NULL;
		if (jw_done(&p->reply) < 0)
			request_refuse(p->rq, CAY_E_INTERNAL, "write the list");
		else
			request_reply(p->rq, 200, "application/json", &p->out);
	}
	buf_fini(&p->out);
	free(p);
}

static void go_on(struct prune *p);

static void on_forgotten(void *arg, const struct cay_err *)
{
	go_on(arg);
}

static void on_removed(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct prune *p = arg;
	const struct image_row *row = image_by_id(p->cayd->images, &p->going);

	cay_closep(&fd);
	if (row && !outcome->code) {
		if (p->rq)
			field_encode(&image_table, NULL, &row->info, &p->reply);
		log_info(&p->cayd->log, "image '%s' went: nobody used it",
			 row->info.name ? row->info.name : row->info.digest);
		image_forget(p->cayd->images, &p->going, on_forgotten, p);
		return;
	}
	if (row)
		image_going(p->cayd->images, &p->going, false);
	go_on(p);
}

static void remove_one(struct prune *p, const struct image_row *row)
{
	struct verb_image_remove q = {};
	struct cay_err none = {};

	p->going = row->info.id;
	image_going(p->cayd->images, &p->going, true);
	memcpy(q.digest, row->digest, sizeof(q.digest));
	if (image_names(p->cayd->images, row->digest) > 1)
		on_removed(p, &none, NULL, -EBADF); /* its files are another's, too */
	else
		link_call(p->cayd->link, VERB_IMAGE_REMOVE, &q, -EBADF, on_removed, p);
}

static void go_on(struct prune *p)
{
	const struct image_row *row;
	uint64_t bytes;

	while ((row = oldest(p->cayd, p->skipped_ns, p->before_ns, &bytes))) {
		if (image_last_ns(row) >= p->before_ns && bytes <= p->size)
			break;
		p->skipped_ns = image_last_ns(row);
		if (!prune_kept(p->cayd, row)) {
			remove_one(p, row);
			return;
		}
	}
	finish(p);
}

static bool begin(struct cayd *c, struct request *rq, uint64_t before_ns, uint64_t size)
{
	struct prune *p = c->removing || c->adding ? NULL : calloc(1, sizeof(*p));

	if (!p)
		return false;
	*p = (struct prune){ .cayd = c, .rq = rq, .before_ns = before_ns, .size = size };
	p->out = BUF_INIT(REPLY_MAX);
	p->reply = jw_to(&p->out);
	jw_object(&p->reply, NULL);
	jw_array(&p->reply, "images");
	if (rq)
		rq->data = p;
	c->removing++;
	go_on(p);
	return true;
}

void prune_sweep(struct cayd *c, uint64_t now)
{
	const struct settings *s = &c->settings;
	uint64_t keep = s->images_keep_ms * NS_PER_MS, every = keep / 10;
	uint64_t wall = clk_wall_ns(c->clk);

	if (now < c->prune_ns)
		return;
	every = !keep || every > SELDOM_NS ? SELDOM_NS : every;
	c->prune_ns = now + (s->images_size || every < OFTEN_NS ? OFTEN_NS : every);
	images_flush(c->images);
	if ((keep || s->images_size) && link_up(c->link))
		(void)begin(c, NULL, keep && wall > keep ? wall - keep : 0,
			    s->images_size ? s->images_size : UINT64_MAX);
}

static void on_gone(struct request *rq)
{
	struct prune *p = rq->data;

	p->rq = NULL;
}

void prune_ask(struct cayd *c, struct request *rq)
{
	static const struct request_events events = { .gone = on_gone };
	const struct image_prune *q = rq->body;
	uint64_t wall = clk_wall_ns(c->clk), keep = q->unused_ms * NS_PER_MS;

	rq->events = &events;
	if (!begin(c, rq, wall > keep ? wall - keep + 1 : 0, UINT64_MAX)) {
		rq->events = NULL;
		request_refuse(rq, CAY_E_UNAVAILABLE, "images are being unpacked or removed");
	}
}
