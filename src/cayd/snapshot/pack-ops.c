/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/core/handlers.h"

#include "cayd/image/image.h"
#include "cayd/sandbox/limits.h"
#include "cayd/snapshot/pack.h"
#include "cayd/snapshot/snapshot.h"

/* Whether an image is over this layer, or is it. */
static bool image_is_over(const struct cayd *c, const uint8_t digest[static 32],
			  const uint8_t layer[static 32])
{
	const struct image *at = image_by_digest(c->images, digest);

	while (at && memcmp(at->digest, layer, 32) != 0 && at->layer)
		at = image_by_digest(c->images, at->parent);
	return at && memcmp(at->digest, layer, 32) == 0;
}

/* The snapshot that a sandbox is compared with; NULL. */
static const struct snapshot *since_find(const struct cayd *c, const struct actor *by,
					 const struct sandbox *sb, const struct id *id,
					 struct cay_err *err)
{
	const struct snapshot *s = snapshot_find(c, by, id);

	if (!s || s->fork || s->info.state != SNAPSHOT_READY ||
	    !image_by_digest(c->images, s->digest)) {
		(void)cay_fail_field(err, CAY_E_NOT_FOUND, "since", "there is no such snapshot");
		return NULL;
	}
	if (id_eq(&s->info.sandbox, &sb->info.id) || image_is_over(c, sb->image, s->digest))
		return s;
	(void)cay_fail_field(err, CAY_E_INVALID, "since",
			     "the snapshot is neither of this sandbox nor below it");
	cay_err_hint(err, "compare with a snapshot of it, or with one that it was created from");
	return NULL;
}

static int sandbox_check_pack(struct cayd *c, const struct actor *by, const struct pack_job *job,
			      struct cay_err *err)
{
	const struct sandbox *sb = sandbox_find(c->sandboxes, &job->of);

	if (!sb)
		return cay_fail(err, CAY_E_NOT_FOUND, "the sandbox ended meanwhile");
	if (sb->life.state != SB_RUNNING && sb->life.state != SB_PAUSED &&
	    (sb->life.state != SB_STOPPED || sb->life.rolled_back))
		return sandbox_fail_state(sb, err);
	if (sb->life.generation != job->request.sandbox.generation)
		return cay_fail(err, CAY_E_UNAVAILABLE,
				"the sandbox was rolled back meanwhile; try again");
	if (sandbox_is_in_memory(sb)) {
		(void)cay_fail(err, CAY_E_UNSUPPORTED, "the files of this sandbox are in memory");
		cay_err_hint(err, "create one with storage 'disk'");
		return -ENOTSUP;
	}
	if (job->since.noun != ID_NONE && !since_find(c, by, sb, &job->since, err))
		return -ENOENT;
	return 0;
}

static void sandbox_pack(struct cayd *c, struct request *rq, enum verb_pack_form form,
			 const struct change_query *query)
{
	const struct sandbox *sb = sandbox_find_of_request(c, rq);
	struct cay_err err = {};
	struct pack_job job = { .check = sandbox_check_pack, .verb = VERB_PACK, .query = query };
	const struct snapshot *since = NULL;

	if (!sb)
		return;
	job.of = sb->info.id;
	job.tenant = sb->info.tenant;
	job.request.sandbox.sandbox = sb->info.id;
	job.request.sandbox.generation = sb->life.generation;
	job.request.sandbox.form = form;
	if (query && query->since.noun != ID_NONE) {
		job.since = query->since;
		since = since_find(c, &rq->actor, sb, &query->since, &err);
	}
	if (since)
		memcpy(job.request.sandbox.since, since->digest, sizeof(since->digest));
	if (err.code || sandbox_check_pack(c, &rq->actor, &job, &err) < 0)
		request_fail(rq, &err);
	else
		pack_start(c, rq, &job);
}

void op_sandbox_changes(struct cayd *c, struct request *rq)
{
	sandbox_pack(c, rq, VERB_PACK_ROWS, rq->query);
}

void op_sandbox_layer(struct cayd *c, struct request *rq)
{
	sandbox_pack(c, rq, VERB_PACK_TAR, NULL);
}

static int snapshot_check_pack(struct cayd *c, const struct actor *by, const struct pack_job *job,
			       struct cay_err *err)
{
	const struct snapshot *s = snapshot_find(c, by, &job->of);

	if (s && s->info.state == SNAPSHOT_CREATING)
		return cay_fail(err, CAY_E_UNAVAILABLE, "the snapshot is being created");
	if (!s || s->fork || !image_by_digest(c->images, s->digest))
		return cay_fail(err, CAY_E_NOT_FOUND, "there is no such snapshot");
	return 0;
}

/* The layer and all below it, from the lowest. */
static int pack_set_layers(const struct cayd *c, const uint8_t digest[static 32],
			   struct pack_job *job, struct cay_err *err)
{
	const struct image *at = image_by_digest(c->images, digest);
	unsigned n = 0;

	for (; at && n < OCI_IMAGE_LAYERS_MAX; n++) {
		memmove(job->layers[1], job->layers[0], n * sizeof(job->layers[0]));
		memcpy(job->layers[0], at->digest, sizeof(at->digest));
		if (!at->layer) {
			job->n_layers = n + 1;
			return 0;
		}
		at = image_by_digest(c->images, at->parent);
	}
	return cay_fail(err, CAY_E_INTERNAL, "the image below the snapshot is not known");
}

static void snapshot_pack(struct cayd *c, struct request *rq, bool whole)
{
	const struct snapshot *s = snapshot_find_of_request(c, rq);
	struct cay_err err = {};
	struct pack_job job = { .check = snapshot_check_pack, .verb = VERB_IMAGE_PACK };

	if (!s)
		return;
	job.of = s->info.id;
	job.tenant = s->info.tenant;
	job.created_ns = s->info.created_ns;
	memcpy(job.request.layer.digest, s->digest, sizeof(s->digest));
	if (snapshot_check_pack(c, &rq->actor, &job, &err) < 0 ||
	    (whole && pack_set_layers(c, s->digest, &job, &err) < 0))
		request_fail(rq, &err);
	else
		pack_start(c, rq, &job);
}

void op_snapshot_layer(struct cayd *c, struct request *rq)
{
	snapshot_pack(c, rq, /* whole= */ false);
}

void op_snapshot_image(struct cayd *c, struct request *rq)
{
	snapshot_pack(c, rq, /* whole= */ true);
}
