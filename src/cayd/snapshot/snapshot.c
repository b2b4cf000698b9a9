/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/snapshot/snapshot.h"

#include "auth/key.h"
#include "base/failpoint.h"
#include "cayd/core/keeper-link.h"
#include "cayd/image/image.h"
#include "cayd/image/prune.h"
#include "cayd/sandbox/limits.h"
#include "cayd/snapshot/oci-image.h"
#include "cayd/tenant/quota.h"
#include "cayd/tenant/tenant.h"
#include "text/hex.h"

#define TEXT_MAX DB_TEXT_MAX
#define POOL_MAX (2 * DB_TEXT_MAX)
#define SWEEP_NS NS_PER_S
#define WAIT_NS (300 * NS_PER_S) /* for a worker of the keeper */

struct snapshots {
	struct snapshot *rows[SNAPSHOTS_MAX];
	size_t n;
	uint64_t sweep_ns;
};

int snapshots_open(struct cayd *c, struct cay_err *err)
{
	c->snapshots = calloc(1, sizeof(*c->snapshots));
	return c->snapshots ? 0 : cay_no_memory(err);
}

/* The table */

static void snapshot_free(struct snapshot *s)
{
	arena_fini(&s->arena);
	free(s);
}

static void snapshot_forget(struct snapshot *s)
{
	struct snapshots *all = s->cayd->snapshots;
	size_t i = 0;

	while (all->rows[i] != s)
		i++;
	memmove(&all->rows[i], &all->rows[i + 1], (--all->n - i) * sizeof(all->rows[0]));
	snapshot_free(s);
}

const struct snapshot *snapshot_at(const struct cayd *c, size_t i)
{
	return i < c->snapshots->n ? c->snapshots->rows[i] : NULL;
}

struct snapshot *snapshot_find_any(const struct cayd *c, const struct id *id)
{
	for (size_t i = 0; i < c->snapshots->n; i++)
		if (id_eq(&c->snapshots->rows[i]->info.id, id))
			return c->snapshots->rows[i];
	return NULL;
}

bool snapshot_is_visible_to(const struct snapshot *s, const struct actor *by)
{
	if (!id_eq(&s->info.tenant, &by->tenant))
		return false;
	if (!actor_has_group(by, s->info.group))
		return false;
	return s->info.state != SNAPSHOT_DELETING;
}

struct snapshot *snapshot_find(const struct cayd *c, const struct actor *by, const struct id *id)
{
	struct snapshot *s = snapshot_find_any(c, id);

	return s && snapshot_is_visible_to(s, by) ? s : NULL;
}

bool snapshots_use_image(const struct cayd *c, const uint8_t digest[static 32])
{
	for (size_t i = 0; i < c->snapshots->n; i++)
		if (memcmp(c->snapshots->rows[i]->digest, digest, 32) == 0 ||
		    (c->snapshots->rows[i]->info.state == SNAPSHOT_CREATING &&
		     memcmp(c->snapshots->rows[i]->parent, digest, 32) == 0))
			return true;
	return false;
}

void snapshot_sandbox_changed(struct sandbox *sb)
{
	if (life_is_finished(&sb->life) && sb->info.snapshot.noun != ID_NONE)
		prune_run_soon(sb->cayd);
}

void snapshots_count(const struct cayd *c, const struct id *tenant, uint64_t *ret_n,
		     uint64_t *ret_bytes)
{
	*ret_n = 0;
	*ret_bytes = image_count_snapshot_bytes(c->images, tenant);
	for (size_t i = 0; i < c->snapshots->n; i++) {
		const struct snapshot *s = c->snapshots->rows[i];

		if (!id_eq(&s->info.tenant, tenant))
			continue;
		*ret_n += s->info.state != SNAPSHOT_DELETING;
		if (s->info.state == SNAPSHOT_CREATING && !image_by_digest(c->images, s->digest))
			*ret_bytes += s->reserved_bytes;
	}
}

/* As the keeper names the layer. */
static void snapshot_set_digest(struct snapshot *s)
{
	char text[sizeof(VERB_SNAPSHOT_NAME) + sizeof(struct id)] = VERB_SNAPSHOT_NAME;

	memcpy(text + sizeof(VERB_SNAPSHOT_NAME), &s->info.id, sizeof(s->info.id));
	static_assert(sizeof(s->digest) == KEY_HASH_LEN);
	key_hash((struct slice){ text, sizeof(text) }, s->digest);
}

static struct snapshot *snapshot_parse(struct cayd *c, struct slice text, struct cay_err *err)
{
	struct snapshot *s = calloc(1, sizeof(*s));
	struct json_limits limits = json_control_limits;
	struct snapshot_record record = {};

	limits.bytes = limits.values = TEXT_MAX;
	if (!s) {
		(void)cay_no_memory(err);
		return NULL;
	}
	s->cayd = c;
	s->arena = ARENA_INIT(POOL_MAX);
	if (field_decode_text(&snapshot_record_table, text, &limits, &s->arena, &record, err) < 0) {
		snapshot_free(s);
		return NULL;
	}
	s->info = record.snapshot;
	s->fork = record.fork;
	s->template_egress = record.template_egress;
	s->has_template_egress = record.has_template_egress;
	snapshot_set_digest(s);
	return s;
}

int snapshot_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err)
{
	struct snapshots *all = c->snapshots;
	struct snapshot *s = snapshot_parse(c, e->text, err);

	if (!s)
		return -EINVAL;
	if (!id_eq(&s->info.id, &e->id) || all->n == SNAPSHOTS_MAX) {
		snapshot_free(s);
		return cay_fail(err, CAY_E_INVALID, "the journal has an invalid snapshot");
	}
	if (s->info.state != SNAPSHOT_READY || s->fork) /* it was cut off */
		s->info.state = SNAPSHOT_DELETING;
	all->rows[all->n++] = s;
	return 0;
}

static int snapshot_encode(const struct snapshot_record *record, struct buf *text)
{
	struct jw w = jw_to(text);

	field_encode(&snapshot_record_table, NULL, record, &w);
	return jw_finish(&w);
}

/* Its state changes when the row is durable. */
static void snapshot_save_ready(struct snapshot *s, db_fn *fn)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct snapshot_record record = { s->info, s->fork, s->template_egress,
					  s->has_template_egress };
	struct cay_err err = {};

	record.snapshot.state = SNAPSHOT_READY;
	if (snapshot_encode(&record, &text) < 0) {
		(void)cay_fail(&err, CAY_E_INTERNAL, "the snapshot does not fit into the journal");
		fn(s, &err);
		return;
	}
	db_entry_put(s->cayd->db, &(struct db_entry){ s->info.id, { text.data, text.len } }, fn, s);
}

/* Clients know of no snapshot of a fork. */
static void snapshot_announce(const struct snapshot *s)
{
	if (!s->fork)
		s->cayd->hooks->snapshot_changed(s->cayd, &s->info);
}

/* Remove one */

struct snapshot_removal {
	struct snapshot *snapshot;
	snapshot_fn *fn;
	void *arg;
	unsigned state; /* that it had before */
};

static void on_snapshot_row_removed(void *arg, const struct cay_err *outcome)
{
	struct snapshot_removal *r = arg;
	struct snapshot *s = r->snapshot;
	struct cayd *c = s->cayd;

	s->busy = false;
	if (outcome->code)
		s->info.state = s->fork ? SNAPSHOT_DELETING : r->state;
	else
		snapshot_announce(s);
	if (r->fn)
		r->fn(r->arg, outcome->code ? NULL : s, outcome);
	if (!outcome->code) {
		snapshot_forget(s);
		prune_run_soon(c);
	}
	free(r);
}

void snapshot_remove(struct snapshot *s, snapshot_fn *fn, void *arg)
{
	struct snapshot_removal *r = malloc(sizeof(*r));
	struct cay_err err = {};

	if (!r) {
		(void)cay_no_memory(&err);
		if (fn)
			fn(arg, NULL, &err);
		return;
	}
	*r = (struct snapshot_removal){ s, fn, arg, s->info.state };
	s->info.state = SNAPSHOT_DELETING;
	s->busy = true;
	db_entry_delete(s->cayd->db, &s->info.id, on_snapshot_row_removed, r);
}

void snapshot_remove_fork(struct cayd *c, const struct id *id)
{
	struct snapshot *s = snapshot_find_any(c, id);

	if (s && s->fork)
		s->info.state = SNAPSHOT_DELETING; /* by the next sweep, which repeats it */
}

bool snapshot_is_hollow(const struct snapshot *s)
{
	return s->info.state == SNAPSHOT_READY && !s->busy &&
	       !image_by_digest(s->cayd->images, s->digest);
}

void snapshot_remove_hollow(struct cayd *c, const struct id *id)
{
	struct snapshot *s = snapshot_find_any(c, id);

	if (s && snapshot_is_hollow(s))
		s->info.state = SNAPSHOT_DELETING; /* by the next sweep, with files it may have */
}

static void on_snapshot_files_removed(void *arg, const struct cay_err *outcome, const void *,
				      int fd)
{
	struct snapshot *s = arg;

	cay_closep(&fd);
	s->busy = false;
	if (!outcome->code)
		snapshot_remove(s, NULL, NULL);
	else if (outcome->code != CAY_E_UNAVAILABLE)
		log_warn(&s->cayd->log, "files of a snapshot may be left, will retry: %s",
			 outcome->msg);
}

/* What has no row of a layer may have files, of which only its own row tells. */
static void snapshot_continue_removal(struct snapshot *s)
{
	struct verb_image_remove q = {};

	if (image_by_digest(s->cayd->images, s->digest)) {
		snapshot_remove(s, NULL, NULL);
		return;
	}
	if (!keeper_is_up(s->cayd->keeper))
		return;
	memcpy(q.digest, s->digest, sizeof(q.digest));
	s->busy = true;
	keeper_call_for(s->cayd->keeper, &s->info.tenant, VERB_IMAGE_REMOVE, &q,
			on_snapshot_files_removed, s);
}

static void snapshot_copy_or_wait(struct snapshot *s);

static bool snapshot_is_over(const struct snapshot *s, uint64_t wall_ns)
{
	bool over = (s->info.has_expires && wall_ns >= s->info.expires_ns) ||
		    !tenant_exists(s->cayd, &s->info.tenant);

	/* a template that names it keeps it */
	return over && !s->cayd->hooks->template_naming(s->cayd, &s->info.id);
}

void snapshots_copy_waiting(struct cayd *c)
{
	for (size_t i = 0; i < c->snapshots->n; i++)
		if (c->snapshots->rows[i]->waiting)
			snapshot_copy_or_wait(c->snapshots->rows[i]);
}

void snapshots_sweep(struct cayd *c, uint64_t now)
{
	struct snapshots *all = c->snapshots;
	uint64_t wall = clk_wall_ns(c->clk);

	if (now < all->sweep_ns)
		return;
	all->sweep_ns = now + SWEEP_NS;
	snapshots_copy_waiting(c);
	for (size_t i = 0; i < all->n; i++) {
		struct snapshot *s = all->rows[i];

		if (s->busy || s->info.state == SNAPSHOT_CREATING)
			continue;
		if (s->info.state == SNAPSHOT_DELETING)
			snapshot_continue_removal(s);
		else if (snapshot_is_over(s, wall))
			snapshot_remove(s, NULL, NULL);
	}
}

/* Make one */

static void snapshot_finish(struct snapshot *s, const struct cay_err *err)
{
	snapshot_fn *fn = cay_take(s->fn);

	s->busy = false;
	if (err->code)
		s->info.state = SNAPSHOT_DELETING;
	else
		snapshot_announce(s);
	s->cayd->snapshots->sweep_ns = 0;
	if (fn)
		fn(s->arg, err->code ? NULL : s, err);
}

static int snapshot_hit(enum failpoint at, struct cay_err *err)
{
	return failpoint_hit(at) < 0 ? cay_fail(err, CAY_E_INTERNAL, "failpoint") : 0;
}

static void on_snapshot_ready_saved(void *arg, const struct cay_err *outcome)
{
	struct snapshot *s = arg;
	struct cay_err err = *outcome;

	if (!err.code)
		(void)snapshot_hit(FAULT_SNAPSHOT_READY, &err);
	if (!err.code)
		s->info.state = SNAPSHOT_READY;
	snapshot_finish(s, &err);
}

static void on_snapshot_layer_saved(void *arg, const struct image *row, const struct cay_err *why)
{
	struct snapshot *s = arg;
	struct cay_err err = *why;

	if (row)
		(void)snapshot_hit(FAULT_SNAPSHOT_LAYER, &err);
	if (err.code) {
		snapshot_finish(s, &err);
		return;
	}
	snapshot_save_ready(s, on_snapshot_ready_saved);
}

void snapshot_copied(struct cayd *c, struct sandbox *sb, const struct cay_err *outcome)
{
	struct snapshot *s = snapshot_find_any(c, &sb->snapshot.id);
	struct cay_err err = *outcome;
	char hash[65];

	sb->snapshot.id = (struct id){};
	if (!s)
		return;
	if (!err.code)
		(void)snapshot_hit(FAULT_SNAPSHOT_MADE, &err);
	if (err.code) {
		snapshot_finish(s, &err);
		return;
	}
	s->info.has_size = sb->snapshot.bytes != UINT64_MAX;
	s->info.size_bytes = s->info.has_size ? sb->snapshot.bytes : 0;
	memcpy(s->parent, sb->snapshot.parent, sizeof(s->parent));
	hex_encode(s->digest, sizeof(s->digest), hash);
	image_register_layer(c->images,
			     &(struct image_layer_entry){ .parent = s->parent,
							  .digest = s->digest,
							  .hash = hash,
							  .tenant = s->info.tenant,
							  .bytes = s->info.size_bytes,
							  .snapshot = true },
			     on_snapshot_layer_saved, s);
}

static int snapshot_fail_busy(struct cay_err *err)
{
	return cay_fail(err, CAY_E_UNAVAILABLE,
			"another change of this sandbox is under way; try again");
}

/* It changed while the row was written. */
static int snapshot_fail_refused(const struct sandbox *sb, struct cay_err *err)
{
	unsigned state = sb->life.state;

	return state == SB_RUNNING || state == SB_PAUSED ||
			       (state == SB_STOPPED && !sb->life.rolled_back)
		       ? snapshot_fail_busy(err)
		       : sandbox_fail_state(sb, err);
}

static int snapshot_copy(struct snapshot *s, struct sandbox *sb, struct cay_err *err)
{
	/* its outcome may come at once */
	sb->snapshot.id = s->info.id;
	s->info.consistency = sb->life.state == SB_STOPPED ? SNAPSHOT_STOPPED : SNAPSHOT_FROZEN;
	memcpy(s->parent, sb->image, sizeof(s->parent));
	if (!sandbox_apply_event(sb, &(struct life_event){ .kind = LIFE_SNAPSHOT }))
		return 0;
	sb->snapshot.id = (struct id){};
	return snapshot_fail_refused(sb, err);
}

/* A sandbox cannot end while the keeper has its copy to make, so that call must not wait: the
 * snapshot does, until there is a worker. */
static void snapshot_copy_or_wait(struct snapshot *s)
{
	struct sandbox *sb = sandbox_find(s->cayd->sandboxes, &s->info.sandbox);
	struct cayd *c = s->cayd;
	struct cay_err err = {};

	s->waiting = false;
	if (!sb)
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "the sandbox ended meanwhile");
	else if (!life_can_be_copied(&sb->life)) /* also while another one is copied */
		(void)snapshot_fail_refused(sb, &err);
	else if (keeper_can_copy_now(c->keeper, &s->info.tenant))
		(void)snapshot_copy(s, sb, &err);
	else if (clk_boot_ns(c->clk) < s->wait_until_ns)
		s->waiting = true;
	else
		(void)cay_fail(&err, CAY_E_OVERLOADED, "too many snapshots are being created");
	if (err.code)
		snapshot_finish(s, &err);
}

static void on_snapshot_row_saved(void *arg, const struct cay_err *outcome)
{
	struct snapshot *s = arg;
	struct cay_err err = *outcome;

	if (!err.code)
		(void)snapshot_hit(FAULT_SNAPSHOT_WANTED, &err);
	if (err.code) {
		snapshot_finish(s, &err);
		return;
	}
	s->wait_until_ns = clk_boot_ns(s->cayd->clk) + WAIT_NS;
	snapshot_copy_or_wait(s);
}

static int snapshot_check_name(const struct cayd *c, const struct id *tenant, const char *name,
			       struct cay_err *err)
{
	for (size_t i = 0; name && i < c->snapshots->n; i++) {
		const struct snapshot_info *info = &c->snapshots->rows[i]->info;

		if (info->name && info->state != SNAPSHOT_DELETING && str_eq(info->name, name) &&
		    id_eq(&info->tenant, tenant))
			return cay_fail_field(err, CAY_E_CONFLICT, "name",
					      "there is a snapshot of the name '%s'", name);
	}
	return 0;
}

/* Of those that are being created too: nothing is frozen and copied in vain. */
static int snapshot_check_layers(const struct cayd *c, const struct id *tenant, struct cay_err *err)
{
	size_t all = 0, own = 0;

	for (size_t i = 0; i < c->snapshots->n; i++) {
		const struct snapshot *s = c->snapshots->rows[i];

		if (s->info.state != SNAPSHOT_CREATING || image_by_digest(c->images, s->digest))
			continue;
		all++;
		own += id_eq(&s->info.tenant, tenant);
	}
	return image_check_snapshot_layers(c->images, tenant, own, all, err);
}

/* What the keeper copies besides the disk where no layer fits above the others (ADR 0145). */
static uint64_t snapshot_merged_bytes(const struct cayd *c, const struct sandbox *sb)
{
	const struct image *top = image_by_digest(c->images, sb->image), *at = top;
	unsigned n = 1;

	for (; at && at->layer; n++)
		at = image_by_digest(c->images, at->parent);
	return at && n >= OCI_IMAGE_LAYERS_MAX ? top->info.size_bytes - at->info.size_bytes : 0;
}

static int snapshot_check_room(struct cayd *c, const struct sandbox *sb, struct cay_err *err)
{
	const struct id *tenant = &sb->info.tenant;
	uint64_t merged = snapshot_merged_bytes(c, sb);
	struct grant more = { .disk_bytes = sb->info.limits.disk_bytes + merged };
	uint64_t n, bytes, left, reserve, max = quota_get(c, tenant).snapshots;

	snapshots_count(c, tenant, &n, &bytes);
	if (n >= max) {
		(void)cay_fail(err, CAY_E_LIMIT, "this tenant already has %llu snapshots",
			       (unsigned long long)n);
		cay_err_hint(err, "delete some of them, or raise the quota 'snapshots'");
		return -ENOSR;
	}
	if (c->snapshots->n == SNAPSHOTS_MAX)
		return cay_fail(err, CAY_E_CAPACITY, "this node already has %d snapshots",
				SNAPSHOTS_MAX);
	if (snapshot_check_layers(c, tenant, err) < 0 ||
	    quota_check_grant(c, tenant, &(struct grant){}, &more, err) < 0 ||
	    node_space_check_disk(c, err) < 0)
		return -ENOSR;
	if (sb->usage.disk_known && node_space_read_disk(c, &left, &reserve) &&
	    sb->usage.disk_bytes + merged + reserve > left)
		return cay_fail(err, CAY_E_DISK_FULL,
				"the node has no room for a copy of its files");
	return 0;
}

static int snapshot_check_sandbox(const struct sandbox *sb, struct cay_err *err)
{
	if (sandbox_is_in_memory(sb)) {
		(void)cay_fail(err, CAY_E_UNSUPPORTED, "the files of this sandbox are in memory");
		cay_err_hint(err, "create one with storage 'disk'");
		return -ENOTSUP;
	}
	if (!life_can_be_copied(&sb->life))
		return snapshot_fail_refused(sb, err);
	return 0;
}

static struct snapshot_info snapshot_describe(const struct sandbox *sb,
					      const struct snapshot_create *want)
{
	uint64_t now = clk_wall_ns(sb->cayd->clk);

	return (struct snapshot_info){ .tenant = sb->info.tenant,
				       .sandbox = sb->info.id,
				       .name = want->name,
				       .group = sb->info.group,
				       .image = sb->info.image,
				       .labels = want->labels,
				       .created_ns = now,
				       .expires_ns = now + want->ttl_ms * NS_PER_MS,
				       .has_expires = want->has_ttl };
}

int snapshot_start(struct cayd *c, struct sandbox *sb, const struct snapshot_create *want,
		   bool fork, snapshot_fn *fn, void *arg, struct cay_err *err)
{
	struct snapshot_record record = { snapshot_describe(sb, want), .fork = fork };
	struct snapshot_info *info = &record.snapshot;
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct snapshot *s;

	if (sb->egress && sb->egress->has_template) {
		record.template_egress = sb->egress->template;
		record.has_template_egress = true;
	}
	if (!keeper_is_up(c->keeper))
		return cay_fail(err, CAY_E_UNAVAILABLE, "cay-keeper is not running");
	if (snapshot_check_sandbox(sb, err) < 0 || labels_check(&want->labels, err) < 0 ||
	    snapshot_check_name(c, &info->tenant, want->name, err) < 0 ||
	    snapshot_check_room(c, sb, err) < 0)
		return -EINVAL;
	if (id_generate(ID_SNAPSHOT, 0, 0, &info->id) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot get random bytes");
	if (snapshot_encode(&record, &text) < 0)
		return cay_no_memory(err);
	s = snapshot_parse(c, (struct slice){ text.data, text.len }, err);
	if (!s)
		return -EINVAL;
	s->fn = fn;
	s->arg = arg;
	s->reserved_bytes = sb->info.limits.disk_bytes + snapshot_merged_bytes(c, sb);
	s->busy = true;
	c->snapshots->rows[c->snapshots->n++] = s;
	db_entry_put(c->db, &(struct db_entry){ info->id, { text.data, text.len } },
		     on_snapshot_row_saved, s);
	return 0;
}

/* Use one */

bool snapshot_give_files(const struct snapshot *s, struct sandbox_create *spec)
{
	const struct image *layer = image_by_digest(s->cayd->images, s->digest);

	if (!layer)
		return false;
	spec->image = s->info.image;
	spec->layer = layer->info.digest;
	spec->layered = true;
	if (!s->fork && s->has_template_egress) {
		spec->template_egress = &s->template_egress;
		spec->template_egress_bounds = true;
	}
	return true;
}

int snapshot_apply(const struct cayd *c, const struct actor *by, struct sandbox_create *spec,
		   struct cay_err *err)
{
	const struct snapshot *s = snapshot_find(c, by, &spec->snapshot);

	if (!spec->is_fork && (spec->image || spec->template))
		return cay_fail_field(err, CAY_E_INVALID, "snapshot",
				      "give one of 'snapshot', 'image' and 'template'");
	if (spec->packages.python.n || spec->packages.node.n || spec->packages.r.n)
		return cay_fail_field(err, CAY_E_INVALID, "packages",
				      "packages are installed over an image, not over a snapshot");
	if (s && !s->fork && s->info.state == SNAPSHOT_CREATING)
		return cay_fail_field(err, CAY_E_UNAVAILABLE, "snapshot",
				      "the snapshot is being created");
	/* one of a fork is for its creates only */
	if (!s || s->fork != spec->is_fork || !snapshot_give_files(s, spec))
		return cay_fail_field(err, CAY_E_NOT_FOUND, "snapshot",
				      "there is no such snapshot");
	return 0;
}
