/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/volume/volume.h"

#include "base/failpoint.h"
#include "cayd/core/keeper-link.h"
#include "cayd/sandbox/limits.h"
#include "cayd/tenant/quota.h"
#include "cayd/tenant/tenant.h"
#include "daemon/host-dirs.h"

#define TEXT_MAX KIB(64)
#define POOL_MAX KIB(128)
#define SWEEP_NS NS_PER_S
#define LIMIT_AGAIN_NS (5 * NS_PER_S)
#define SIZE_DEFAULT (UINT64_C(10) << 30)
/* Files, where their number is limited: a million, or one for each of so many bytes. */
#define INODES_MIN (UINT64_C(1) << 20)
#define INODE_BYTES KIB(8)

struct volumes {
	struct volume *rows[VOLUMES_MAX];
	size_t n;
	uint64_t sweep_ns;
	uint64_t
		users_of; /* sandboxes_get_volume_changes() + 1 when users were counted; 0: never */
};

int volumes_open(struct cayd *c, struct cay_err *err)
{
	c->volumes = calloc(1, sizeof(*c->volumes));
	c->host_dirs = calloc(1, sizeof(*c->host_dirs));
	if (!c->volumes || !c->host_dirs)
		return cay_no_memory(err);
	return host_dirs_read(c->settings.host_dir, c->host_dirs, err);
}

/* The table */

static void volume_free(struct volume *v)
{
	arena_fini(&v->arena);
	free(v);
}

static void volume_forget(struct volume *v)
{
	struct volumes *all = v->cayd->volumes;
	size_t i = 0;

	while (all->rows[i] != v)
		i++;
	memmove(&all->rows[i], &all->rows[i + 1], (--all->n - i) * sizeof(all->rows[0]));
	volume_free(v);
}

struct volume *volume_at(const struct cayd *c, size_t i)
{
	return i < c->volumes->n ? c->volumes->rows[i] : NULL;
}

struct volume *volume_find_any(const struct cayd *c, const struct id *id)
{
	for (size_t i = 0; i < c->volumes->n; i++)
		if (id_eq(&c->volumes->rows[i]->info.id, id))
			return c->volumes->rows[i];
	return NULL;
}

bool volumes_have_users_of_now(struct cayd *c)
{
	uint64_t now = sandboxes_get_volume_changes(c->sandboxes) + 1;
	bool same = c->volumes->users_of == now;

	c->volumes->users_of = now;
	return same;
}

bool volume_is_visible_to(const struct volume *v, const struct actor *by)
{
	return id_eq(&v->info.tenant, &by->tenant) && actor_has_group(by, v->info.group) &&
	       v->info.state != VOLUME_DELETING;
}

struct volume *volume_find(const struct cayd *c, const struct actor *by, const struct id *id)
{
	struct volume *v = volume_find_any(c, id);

	return v && volume_is_visible_to(v, by) ? v : NULL;
}

void volumes_count(const struct cayd *c, const struct id *tenant, uint64_t *ret_n,
		   uint64_t *ret_bytes)
{
	*ret_n = *ret_bytes = 0;
	for (size_t i = 0; i < c->volumes->n; i++) {
		const struct volume_info *info = &c->volumes->rows[i]->info;

		if (!id_eq(&info->tenant, tenant))
			continue;
		*ret_n += info->state != VOLUME_DELETING;
		*ret_bytes += info->size_bytes; /* also of one whose files are being removed */
	}
}

static struct volume *volume_parse(struct cayd *c, struct slice text, struct cay_err *err)
{
	struct volume *v = calloc(1, sizeof(*v));
	struct json_limits limits = json_control_limits;

	limits.bytes = limits.values = TEXT_MAX;
	if (!v) {
		(void)cay_no_memory(err);
		return NULL;
	}
	v->cayd = c;
	v->arena = ARENA_INIT(POOL_MAX);
	if (field_decode_text(&volume_info_table, text, &limits, &v->arena, &v->info, err) < 0) {
		volume_free(v);
		return NULL;
	}
	return v;
}

int volume_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err)
{
	struct volumes *all = c->volumes;
	struct volume *v = volume_parse(c, e->text, err);

	if (!v)
		return -EINVAL;
	if (!id_eq(&v->info.id, &e->id) || all->n == VOLUMES_MAX) {
		volume_free(v);
		return cay_fail(err, CAY_E_INVALID, "the journal has an invalid volume");
	}
	v->row_is_ready = v->info.state == VOLUME_READY;
	if (!v->row_is_ready) /* it was cut off */
		v->info.state = VOLUME_DELETING;
	v->limit_due = true;
	all->rows[all->n++] = v;
	return 0;
}

/* With this state, which it gets when the row is durable. */
static void volume_save(struct volume *v, unsigned state, db_fn *fn)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct jw w = jw_to(&text);
	struct volume_info info = v->info;
	struct cay_err err = {};

	info.state = state;
	info.readers = 0;
	info.writer = (struct id){};
	field_encode(&volume_info_table, NULL, &info, &w);
	if (jw_finish(&w) < 0) {
		(void)cay_fail(&err, CAY_E_INTERNAL, "the volume does not fit into the journal");
		fn(v, &err);
		return;
	}
	db_entry_put(v->cayd->db, &(struct db_entry){ info.id, { text.data, text.len } }, fn, v);
}

static int volume_hit(enum failpoint at, struct cay_err *err)
{
	return failpoint_hit(at) < 0 ? cay_fail(err, CAY_E_INTERNAL, "failpoint") : 0;
}

/* No more than a sandbox of the tenant may have: files are of the whole file system. */
static uint64_t volume_inodes(const struct volume *v, uint64_t bytes)
{
	uint64_t n = bytes / INODE_BYTES;
	uint64_t most = quota_get_volume_inodes(v->cayd, &v->info.tenant);

	if (!limits_disk_inodes_count(v->cayd) || !bytes)
		return 0;
	n = n < INODES_MIN ? INODES_MIN : n > UINT32_MAX ? UINT32_MAX : n;
	return n < most ? n : most;
}

static void volume_call(struct volume *v, enum verb verb, uint64_t bytes, keeper_call_fn *fn)
{
	struct verb_volume q = { .volume = v->info.id,
				 .bytes = bytes,
				 .inodes = volume_inodes(v, bytes) };

	v->busy = true;
	keeper_call_for(v->cayd->keeper, &v->info.tenant, verb, &q, fn, v);
}

/* The end of a change.  One that failed while it was created is removed by the next sweep. */
static void volume_finish(struct volume *v, const struct cay_err *err)
{
	struct volume *from = v->copies ? volume_find_any(v->cayd, &v->info.from) : NULL;
	volume_fn *fn = cay_take(v->fn);

	if (from)
		from->n_copies--;
	v->busy = v->copies = false;
	if (err->code && v->info.state == VOLUME_CREATING)
		v->info.state = VOLUME_DELETING;
	if (fn)
		fn(v->arg, err->code ? NULL : v, err);
}

/* Delete one */

static void on_volume_row_gone(void *arg, const struct cay_err *outcome)
{
	struct volume *v = arg;

	volume_finish(v, outcome);
	if (!outcome->code)
		volume_forget(v);
}

static void on_volume_files_removed(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct volume *v = arg;
	struct cay_err err = *outcome;

	cay_closep(&fd);
	if (!err.code)
		(void)volume_hit(FAULT_VOLUME_GONE, &err);
	if (!err.code) {
		db_entry_delete(v->cayd->db, &v->info.id, on_volume_row_gone, v);
		return;
	}
	if (err.code != CAY_E_UNAVAILABLE)
		log_warn(&v->cayd->log, "files of a volume may be left, will retry: %s", err.msg);
	volume_finish(v, &err);
}

static void volume_remove_files(struct volume *v)
{
	struct verb_volume_name q = { .volume = v->info.id };

	v->busy = true;
	keeper_call_for(v->cayd->keeper, &v->info.tenant, VERB_VOLUME_REMOVE, &q,
			on_volume_files_removed, v);
}

static void on_volume_deleting_saved(void *arg, const struct cay_err *outcome)
{
	struct volume *v = arg;
	struct cay_err err = *outcome;

	if (err.code && v->fn) /* who asked for it may ask again; else the sweep does */
		v->info.state = VOLUME_READY;
	v->row_is_ready &= err.code != CAY_OK;
	if (!err.code)
		(void)volume_hit(FAULT_VOLUME_DELETING, &err);
	if (err.code)
		volume_finish(v, &err);
	else
		volume_remove_files(v);
}

void volume_remove(struct volume *v, volume_fn *fn, void *arg)
{
	v->info.state = VOLUME_DELETING;
	v->busy = true;
	v->fn = fn;
	v->arg = arg;
	volume_save(v, VOLUME_DELETING, on_volume_deleting_saved);
}

/* Create one */

static void on_volume_ready_saved(void *arg, const struct cay_err *outcome)
{
	struct volume *v = arg;
	struct cay_err err = *outcome;

	if (!err.code)
		(void)volume_hit(FAULT_VOLUME_READY, &err);
	if (!err.code) {
		v->info.state = VOLUME_READY;
		v->ready_ns = clk_boot_ns(v->cayd->clk);
	}
	volume_finish(v, &err);
}

static void on_volume_made(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct volume *v = arg;
	struct cay_err err = *outcome;

	cay_closep(&fd);
	if (!err.code)
		(void)volume_hit(FAULT_VOLUME_ANSWERED, &err);
	if (err.code) {
		volume_finish(v, &err);
		return;
	}
	v->row_is_ready = true;
	volume_save(v, VOLUME_READY, on_volume_ready_saved);
}

static struct verb_volume_copy volume_copy_request(const struct volume *v)
{
	return (struct verb_volume_copy){ .volume = v->info.id,
					  .from = v->info.from,
					  .bytes = v->info.size_bytes,
					  .inodes = volume_inodes(v, v->info.size_bytes),
					  .read_only = v->info.read_only };
}

void volume_copy_fill(const struct cayd *c, const struct sandbox *sb, struct verb_volume_copy *q)
{
	const struct volume *v = volume_find_any(c, &sb->snapshot.id);

	*q = v ? volume_copy_request(v) : (struct verb_volume_copy){};
	q->sandbox = sb->info.id;
	q->generation = sb->life.generation;
}

void volume_copied(struct cayd *c, struct sandbox *sb, const struct cay_err *outcome)
{
	struct volume *v = volume_find_any(c, &sb->snapshot.id);

	sb->snapshot.id = (struct id){};
	if (v)
		on_volume_made(v, outcome, NULL, -EBADF);
}

/* As a snapshot is made of it: it neither ends nor stops meanwhile. */
static int volume_copy_of_writer(struct volume *v, const struct id *writer, struct cay_err *err)
{
	struct sandbox *sb = sandbox_find(v->cayd->sandboxes, writer);

	if (!sb || !life_can_be_copied(&sb->life) || sb->snapshot.id.noun != ID_NONE)
		return cay_fail(err, CAY_E_UNAVAILABLE,
				"another change of the sandbox that has the volume is under way; "
				"try again");
	if (!keeper_can_copy_now(v->cayd->keeper, &v->info.tenant))
		return cay_fail(err, CAY_E_OVERLOADED, "too many copies are being made; try again");
	sb->snapshot.id = v->info.id; /* its outcome may come at once */
	if (!sandbox_apply_event(sb, &(struct life_event){ .kind = LIFE_SNAPSHOT }))
		return 0;
	sb->snapshot.id = (struct id){};
	return cay_fail(err, CAY_E_UNAVAILABLE,
			"the sandbox that has the volume changed meanwhile; try again");
}

static void volume_copy(struct volume *v)
{
	const struct volume *from = volume_find_any(v->cayd, &v->info.from);
	struct verb_volume_copy q = volume_copy_request(v);
	struct cay_err err = {};

	volumes_count_users(v->cayd);
	if (from && from->info.writer.noun != ID_NONE) {
		if (volume_copy_of_writer(v, &from->info.writer, &err) < 0)
			volume_finish(v, &err);
		return;
	}
	keeper_call_for(v->cayd->keeper, &v->info.tenant, VERB_VOLUME_COPY, &q, on_volume_made, v);
}

static void on_volume_row_saved(void *arg, const struct cay_err *outcome)
{
	struct volume *v = arg;
	struct cay_err err = *outcome;

	if (!err.code)
		(void)volume_hit(FAULT_VOLUME_WANTED, &err);
	if (err.code)
		volume_finish(v, &err);
	else if (v->copies)
		volume_copy(v);
	else
		volume_call(v, VERB_VOLUME_MAKE, v->info.size_bytes, on_volume_made);
}

static int volume_check_name(const struct cayd *c, const struct id *tenant, const char *name,
			     struct cay_err *err)
{
	for (size_t i = 0; i < c->volumes->n; i++) {
		const struct volume *v = c->volumes->rows[i];

		if (v && v->info.state != VOLUME_DELETING && str_eq(v->info.name, name) &&
		    id_eq(&v->info.tenant, tenant))
			return cay_fail_field(err, CAY_E_CONFLICT, "name",
					      "there is a volume of the name '%s'", name);
	}
	return 0;
}

static int volume_check_room(struct cayd *c, const struct id *tenant, uint64_t bytes,
			     struct cay_err *err)
{
	struct grant more = { .disk_bytes = bytes };
	uint64_t n, all, max = quota_get(c, tenant).volumes;

	volumes_count(c, tenant, &n, &all);
	if (n >= max) {
		(void)cay_fail(err, CAY_E_LIMIT, "this tenant already has %llu volumes",
			       (unsigned long long)n);
		cay_err_hint(err, "delete some of them, or raise the quota 'volumes'");
		return -ENOSR;
	}
	if (c->volumes->n == VOLUMES_MAX)
		return cay_fail(err, CAY_E_CAPACITY, "this node already has %d volumes",
				VOLUMES_MAX);
	if (tenants_require_disk_quota(c, tenants_count(c), err) < 0 ||
	    quota_check_grant(c, tenant, &(struct grant){}, &more, err) < 0 ||
	    node_space_check_disk(c, err) < 0)
		return -ENOSR;
	return 0;
}

static int volume_check_size(const struct cayd *c, struct cay_err *err)
{
	if (limits_disk_bytes_count(c))
		return 0;
	(void)cay_fail_field(err, CAY_E_UNSUPPORTED, "size_bytes",
			     "this node cannot limit disk space");
	cay_err_hint(err, "put paths.state on btrfs or on a file system with project quota");
	return -ENOTSUP;
}

static int volume_check_from(const struct volume *from, const struct volume_create *want,
			     struct cay_err *err)
{
	if (!from && want->from.noun != ID_NONE)
		return cay_fail_field(err, CAY_E_NOT_FOUND, "from", "there is no such volume");
	if (!from && want->read_only)
		return cay_fail_field(err, CAY_E_INVALID, "read_only",
				      "only a volume with the files of another one ('from') can be "
				      "read-only");
	if (from && (from->busy || from->info.state != VOLUME_READY))
		return cay_fail(err, CAY_E_UNAVAILABLE,
				"another change of the volume '%s' is under way; try again",
				from->info.name);
	return 0;
}

int volume_start(struct cayd *c, const struct id *tenant, const struct volume_create *want,
		 volume_fn *fn, void *arg, struct cay_err *err)
{
	struct volume *from = want->from.noun == ID_NONE ? NULL : volume_find_any(c, &want->from);
	uint64_t size = from && from->info.has_size ? from->info.size_bytes : SIZE_DEFAULT;
	bool limited = limits_disk_bytes_count(c);
	struct volume_info info = { .tenant = *tenant,
				    .name = want->name,
				    .group = want->group,
				    .labels = want->labels,
				    .has_size = limited,
				    .size_bytes = !limited         ? 0
						  : want->has_size ? want->size_bytes
								   : size,
				    .read_only = want->read_only,
				    .from = want->from,
				    .created_ns = clk_wall_ns(c->clk) };
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct jw w = jw_to(&text);
	struct volume *v;

	if (want->has_size && volume_check_size(c, err) < 0)
		return -ENOTSUP;
	if (volume_check_from(from, want, err) < 0)
		return -EINVAL;
	if (!keeper_is_up(c->keeper))
		return cay_fail(err, CAY_E_UNAVAILABLE, "cay-keeper is not running");
	if (labels_check(&want->labels, err) < 0 ||
	    quota_bound_volume(c, tenant, want->has_size, &info.size_bytes, err) < 0 ||
	    volume_check_name(c, tenant, want->name, err) < 0 ||
	    volume_check_room(c, tenant, info.size_bytes, err) < 0)
		return -EINVAL;
	if (!tenant_take_create(c, tenant)) /* it costs the node as much as a sandbox does */
		return cay_fail(err, CAY_E_RATE,
				"this tenant creates too many sandboxes and volumes a second");
	if (id_generate(ID_VOLUME, 0, 0, &info.id) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot get random bytes");
	field_encode(&volume_info_table, NULL, &info, &w);
	if (jw_finish(&w) < 0)
		return cay_no_memory(err);
	v = volume_parse(c, (struct slice){ text.data, text.len }, err);
	if (!v)
		return -EINVAL;
	v->fn = fn;
	v->arg = arg;
	v->busy = true;
	v->copies = from;
	if (from)
		from->n_copies++;
	c->volumes->rows[c->volumes->n++] = v;
	volume_save(v, VOLUME_CREATING, on_volume_row_saved);
	return 0;
}

/* Resize one: what the row says is never less than what the keeper allows. */

static void on_volume_shrunk_saved(void *arg, const struct cay_err *outcome)
{
	struct volume *v = arg;

	if (outcome->code) {
		v->info.size_bytes = v->size_before;
		v->limit_due = true;
	}
	volume_finish(v, outcome);
}

static void on_volume_limited(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct volume *v = arg;
	bool shrinks = v->info.size_bytes < v->size_before;
	struct cay_err err = *outcome;

	cay_closep(&fd);
	if (!err.code)
		(void)volume_hit(FAULT_VOLUME_RESIZED, &err);
	if (err.code) {
		v->limit_due = true; /* unknown */
		v->info.size_bytes = shrinks ? v->size_before : v->info.size_bytes;
	}
	if (err.code || !shrinks)
		volume_finish(v, &err);
	else
		volume_save(v, VOLUME_READY, on_volume_shrunk_saved);
}

static void on_volume_grown_saved(void *arg, const struct cay_err *outcome)
{
	struct volume *v = arg;

	if (outcome->code) {
		v->info.size_bytes = v->size_before;
		volume_finish(v, outcome);
		return;
	}
	volume_call(v, VERB_VOLUME_LIMIT, v->info.size_bytes, on_volume_limited);
}

int volume_resize(struct volume *v, uint64_t bytes, volume_fn *fn, void *arg, struct cay_err *err)
{
	struct grant less = { .disk_bytes = v->info.size_bytes }, more = { .disk_bytes = bytes };

	if (v->busy || v->n_copies || v->info.state != VOLUME_READY)
		return cay_fail(err, CAY_E_UNAVAILABLE,
				"another change of the volume is under way; try again");
	if (!v->info.has_size || volume_check_size(v->cayd, err) < 0)
		return err->code ? -ENOTSUP
				 : cay_fail_field(err, CAY_E_UNSUPPORTED, "size_bytes",
						  "the volume was created without a limit");
	if (!keeper_is_up(v->cayd->keeper))
		return cay_fail(err, CAY_E_UNAVAILABLE, "cay-keeper is not running");
	if ((bytes > v->info.size_bytes &&
	     quota_bound_volume(v->cayd, &v->info.tenant, true, &bytes, err) < 0) ||
	    quota_check_grant(v->cayd, &v->info.tenant, &less, &more, err) < 0)
		return -ENOSR;
	v->fn = fn;
	v->arg = arg;
	v->busy = true;
	v->size_before = v->info.size_bytes;
	v->info.size_bytes = bytes;
	if (bytes > v->size_before)
		volume_save(v, VOLUME_READY, on_volume_grown_saved);
	else
		volume_call(v, VERB_VOLUME_LIMIT, bytes, on_volume_limited);
	return 0;
}

/* The sweep */

static void on_volume_limit_set(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct volume *v = arg;

	cay_closep(&fd);
	v->busy = false;
	/* one without files is a finding of fsck */
	v->limit_due = outcome->code && outcome->code != CAY_E_NOT_FOUND;
	v->limit_ns = clk_boot_ns(v->cayd->clk) + LIMIT_AGAIN_NS;
}

static void volume_sweep(struct volume *v, uint64_t now)
{
	if (v->info.state == VOLUME_DELETING && v->row_is_ready) {
		volume_remove(v, NULL, NULL);
	} else if (v->info.state == VOLUME_DELETING) {
		volume_remove_files(v);
	} else if (!tenant_exists(v->cayd, &v->info.tenant)) {
		volumes_count_users(v->cayd);
		if (v->info.writer.noun == ID_NONE && !v->info.readers)
			volume_remove(v, NULL, NULL);
	} else if (v->limit_due && v->info.has_size && now >= v->limit_ns) {
		volume_call(v, VERB_VOLUME_LIMIT, v->info.size_bytes, on_volume_limit_set);
	}
}

void volumes_sweep(struct cayd *c, uint64_t now)
{
	struct volumes *all = c->volumes;

	if (now < all->sweep_ns || !keeper_is_up(c->keeper))
		return;
	all->sweep_ns = now + SWEEP_NS;
	for (size_t i = 0; i < all->n; i++)
		if (!all->rows[i]->busy && !all->rows[i]->n_copies)
			volume_sweep(all->rows[i], now);
}
