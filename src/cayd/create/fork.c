/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork - sandboxes that start with the files of another one (ADR 0112)
 *
 * One snapshot without a name, and as many creates over it: all of them have the files of the same
 * moment.  The snapshot goes when each create has its outcome, and its layer with the last of the
 * sandboxes.
 */
#include "cayd/core/handlers.h"

#include "cayd/core/deferred-reply.h"
#include "cayd/create/create.h"
#include "cayd/egress/policy.h"
#include "cayd/snapshot/snapshot.h"
#include "text/sandbox-name.h"

#define SPEC_MAX DB_TEXT_MAX

struct fork {
	struct cayd *cayd;
	struct request *rq;          /* NULL: the client left */
	struct sandbox_create *spec; /* this and the names are in the request's arena */
	uint64_t count;
	struct field_texts names;
};

/* `over` with those members of `base` that it lacks. */
static int fork_merge_map(const struct field_map *base, const struct field_map *over,
			  struct arena *arena, struct field_map *ret)
{
	*ret = (struct field_map){ arena_alloc(arena, base->n + over->n + 1, sizeof(*ret->keys)),
				   arena_alloc(arena, base->n + over->n + 1, sizeof(*ret->values)),
				   0 };
	if (!ret->keys || !ret->values)
		return -ENOMEM;
	for (size_t i = 0; i < over->n; i++, ret->n++) {
		ret->keys[i] = over->keys[i];
		ret->values[i] = over->values[i];
	}
	for (size_t i = 0; i < base->n; i++) {
		size_t k = 0;

		while (k < over->n && !str_eq(over->keys[k], base->keys[i]))
			k++;
		if (k < over->n)
			continue;
		ret->keys[ret->n] = base->keys[i];
		ret->values[ret->n++] = base->values[i];
	}
	return 0;
}

/* A copy with all its texts: the source may end while the forks are made. */
static int fork_copy_spec(const struct sandbox_create *from, struct arena *arena,
			  struct sandbox_create *ret, struct cay_err *err)
{
	struct json_limits limits = json_control_limits;
	auto_buf text = BUF_INIT(SPEC_MAX);
	struct jw w = jw_to(&text);
	int r;

	limits.bytes = limits.values = SPEC_MAX;
	field_encode(&sandbox_create_table, NULL, from, &w);
	r = jw_finish(&w);
	if (r < 0)
		return cay_no_memory(err);
	return field_decode_text(&sandbox_create_table, (struct slice){ text.data, text.len },
				 &limits, arena, ret, err);
}

/* Without a policy everything is denied, whatever the default of new sandboxes is. */
static int fork_set_egress(const struct sandbox *sb, struct arena *arena,
			   struct sandbox_create *spec)
{
	const struct sandbox_egress *e = sb->egress;
	struct egress_spec *template;

	spec->has_egress = !e || e->has_own;
	spec->egress = (struct egress_spec){ .otherwise = EGRESS_SPEC_DENY };
	if (e && e->has_own && egress_copy_spec(&e->own, arena, &spec->egress) < 0)
		return -ENOMEM;
	if (!e || !e->has_template)
		return 0;
	template = arena_alloc(arena, 1, sizeof(*template));
	if (!template || egress_copy_spec(&e->template, arena, template) < 0)
		return -ENOMEM;
	spec->template_egress = template;
	return 0;
}

static int fork_make_spec(const struct sandbox *sb, const struct sandbox_fork *q,
			  struct arena *arena, struct sandbox_create *ret, struct cay_err *err)
{
	struct sandbox_create like = { .image = sb->info.image,
				       .limits = sb->info.limits,
				       .runtime = sb->info.runtime,
				       .on_exit = sb->life.on_exit,
				       .wait = true,
				       .group = sb->info.group,
				       .entrypoint = sb->entrypoint,
				       .has_entrypoint = sb->entrypoint.n > 0,
				       .ttl_ms = q->ttl_ms,
				       .has_ttl = q->has_ttl,
				       .idle_ms = sb->life.idle_ns / NS_PER_MS,
				       .has_idle = sb->life.idle_ns != LIFE_NEVER &&
						   !sb->info.has_stop_after,
				       .stop_after_ms = sb->info.stop_after_ms,
				       .has_stop_after = sb->info.has_stop_after,
				       .pause_after_ms = sb->info.pause_after_ms,
				       .has_pause_after = sb->info.has_pause_after,
				       .idle_by = sb->info.idle_by,
				       .has_idle_by = true,
				       .on_expire = sb->info.on_expire,
				       .has_on_expire = true,
				       .rest_ttl_ms = sb->info.rest_ttl_ms,
				       .has_rest_ttl = sb->info.has_rest_ttl,
				       .wake = sb->info.wake,
				       .has_wake = true,
				       .storage = sb->info.storage,
				       .writable = sb->info.writable,
				       .has_writable = sb->info.has_writable,
				       .services = sb->services,
				       .kernels = sb->kernels,
				       .app_port = sb->info.app_port,
				       .has_app_port = true,
				       .public_ports = sb->info.public_ports,
				       .timezone = sb->info.timezone };

	if (fork_merge_map(&sb->info.labels, &q->labels, arena, &like.labels) < 0 ||
	    fork_merge_map(&sb->env, &q->env, arena, &like.env) < 0)
		return cay_no_memory(err);
	if (fork_copy_spec(&like, arena, ret, err) < 0)
		return -EINVAL;
	ret->is_fork = true;
	return fork_set_egress(sb, arena, ret) < 0 ? cay_no_memory(err) : 0;
}

static int fork_check_names(const struct sandbox_fork *q, struct cay_err *err)
{
	if (q->names.n && q->names.n != q->count)
		return cay_fail_field(err, CAY_E_INVALID, "names",
				      "there are %zu names for %llu sandboxes", q->names.n,
				      (unsigned long long)q->count);
	for (size_t i = 0; i < q->names.n; i++)
		if (!q->names.v[i][0] || strlen(q->names.v[i]) > SANDBOX_NAME_MAX ||
		    !sandbox_name_is_valid(slice_of(q->names.v[i])))
			return cay_fail_field(err, CAY_E_INVALID, "names",
					      "'%.64s' is not the name of a sandbox",
					      q->names.v[i]);
	return 0;
}

static void on_fork_snapshot(void *arg, const struct snapshot *s, const struct cay_err *err)
{
	struct fork *f = arg, own = *f;

	free(f);
	if (own.rq)
		own.rq->events = NULL; /* they are for f */
	if (!own.rq) {
		if (s)
			snapshot_remove_fork(own.cayd, &s->info.id);
	} else if (!s) {
		if (cay_error_row(err->code)->retryable)
			(void)request_add_reply_header(own.rq, "Retry-After", "1");
		request_fail(own.rq, err);
	} else {
		own.spec->snapshot = s->info.id;
		batch_start(own.cayd, own.rq, own.count, &own.names, &s->info.id);
	}
}

static int fork_start(struct cayd *c, struct request *rq, struct sandbox *sb, struct cay_err *err)
{
	const struct sandbox_fork *q = rq->body;
	struct sandbox_create *spec = arena_alloc(&rq->arena, 1, sizeof(*spec));
	struct idempotency_key key;
	struct fork *f;

	if (!spec)
		return cay_no_memory(err);
	*spec = (struct sandbox_create){};
	if (fork_check_names(q, err) < 0 || fork_make_spec(sb, q, &rq->arena, spec, err) < 0)
		return -EINVAL;
	f = calloc(1, sizeof(*f));
	if (!f)
		return cay_no_memory(err);
	*f = (struct fork){ c, rq, spec, q->count, q->names };
	rq->body = spec;
	if (batch_check(rq, &key, err) < 0 ||
	    snapshot_start(c, sb, &(struct snapshot_create){}, /* fork= */ true, on_fork_snapshot,
			   f, err) < 0) {
		free(f);
		return -EINVAL;
	}
	request_watch_client(&f->rq);
	return 0;
}

void op_sandbox_fork(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	struct cay_err err = {};

	if (!sb)
		return;
	/* a token is given away, and what forks take is its tenant's */
	if (rq->actor.one_sandbox) {
		request_refuse_hinted(rq, CAY_E_FORBIDDEN, "a token of the sandbox may not fork it",
				      "use an API key of its tenant");
		return;
	}
	if (fork_start(c, rq, sb, &err) >= 0)
		return;
	if (cay_error_row(err.code)->retryable)
		(void)request_add_reply_header(rq, "Retry-After", "1");
	request_fail(rq, &err);
}
