/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/spec.h"

#include "cayd/image/image.h"
#include "cayd/sandbox/limits.h"
#include "cayd/sandbox/record.h"
#include "life/egress-layers.h"

#define END_RESERVE KIB(1) /* of the pool, for the texts of its end */

uint64_t rest_bound_ms(const struct cayd *c, uint64_t asked)
{
	uint64_t max = c->settings.rest_ttl_ms;

	return !max || (asked && asked < max) ? asked : max;
}

bool rest_spec_never_dozes(const struct sandbox_create *spec)
{
	return spec->has_pause_after &&
	       ((spec->has_stop_after && spec->pause_after_ms >= spec->stop_after_ms) ||
		(spec->has_idle && spec->pause_after_ms >= spec->idle_ms));
}

int rest_spec_check(const struct sandbox_create *spec, struct cay_err *err)
{
	if (spec->has_stop_after && spec->has_idle)
		return cay_fail_field(err, CAY_E_INVALID, "stop_after_ms",
				      "give either 'stop_after_ms' or 'idle_ms'; 'rest_ttl_ms' "
				      "ends what stays stopped");
	if (rest_spec_never_dozes(spec))
		return cay_fail_field(err, CAY_E_INVALID, "pause_after_ms",
				      "'pause_after_ms' must be less than '%s'",
				      spec->has_idle ? "idle_ms" : "stop_after_ms");
	if (spec->storage == STORAGE_MEMORY &&
	    (spec->has_stop_after || spec->on_expire == ON_EXPIRE_STOP))
		return cay_fail_field(err, CAY_E_UNSUPPORTED,
				      spec->has_stop_after ? "stop_after_ms" : "on_expire",
				      "files in memory would be lost: with storage 'memory' a "
				      "sandbox cannot be stopped");
	return 0;
}

struct life_terms sandbox_life_terms(const struct cayd *c, const struct sandbox_create *spec)
{
	return (struct life_terms){
		.ttl_ns = spec->has_ttl ? spec->ttl_ms * NS_PER_MS : LIFE_NEVER,
		.idle_ns = spec->has_stop_after ? spec->stop_after_ms * NS_PER_MS
			   : spec->has_idle     ? spec->idle_ms * NS_PER_MS
						: LIFE_NEVER,
		.lease_ns = spec->has_lease ? spec->lease_ms * NS_PER_MS : 0,
		.max_ns =
			(spec->max_ttl_ms ? spec->max_ttl_ms : c->settings.max_ttl_ms) * NS_PER_MS,
		.entry = spec->has_entrypoint || spec->image_entrypoint,
		.on_exit = (uint8_t)spec->on_exit,
		.expire_stops = spec->on_expire == ON_EXPIRE_STOP,
		.idle_stops = spec->has_stop_after,
		.idle_is_work = spec->has_idle_by ? spec->idle_by == IDLE_BY_WORK
						  : spec->has_stop_after || spec->has_pause_after,
		.rest_ns = rest_bound_ms(c, spec->has_rest_ttl ? spec->rest_ttl_ms : 0) * NS_PER_MS,
		.doze_ns = spec->has_pause_after ? spec->pause_after_ms * NS_PER_MS : 0,
	};
}

/* A sandbox whose connections go nowhere, without a template that bounds later policies, keeps
 * nothing. */
static int sandbox_assign_egress(struct sandbox *sb, const struct sandbox_create *spec)
{
	const struct egress_spec *own = spec->has_egress ? &spec->egress : NULL;

	if (spec->egress_tenant)
		sb->egress_tenant = *spec->egress_tenant;
	if (!spec->template_egress && (!own || !egress_spec_has_effect(own)))
		return 0;
	if (sandbox_inherit_answers(sb) < 0)
		return -ENOMEM;
	return sandbox_set_egress(sb, own, spec->template_egress, SANDBOX_FIRST_GENERATION);
}

static void sandbox_assign_rest(struct sandbox *sb, const struct sandbox_create *spec)
{
	struct life_terms t = sandbox_life_terms(sb->cayd, spec);
	struct sandbox_info *info = &sb->info;

	info->has_stop_after = spec->has_stop_after;
	info->stop_after_ms = spec->stop_after_ms;
	info->has_pause_after = spec->has_pause_after;
	info->pause_after_ms = spec->pause_after_ms;
	info->has_idle_by = t.idle_is_work;
	info->idle_by = t.idle_is_work ? IDLE_BY_WORK : IDLE_BY_REQUESTS;
	info->has_on_expire = t.expire_stops;
	info->on_expire = t.expire_stops ? ON_EXPIRE_STOP : ON_EXPIRE_END;
	info->has_wake = spec->wake != WAKE_BY_KEY;
	info->wake = spec->wake;
	info->has_rest_ttl = t.rest_ns;
	info->rest_ttl_ms = t.rest_ns / NS_PER_MS;
}

int sandbox_assign_spec(struct sandbox *sb, const struct sandbox_create *spec,
			const struct idempotency_key *key, const struct id *tenant)
{
	const struct image *image = image_by_digest(sb->cayd->images, sb->image);
	const struct field_texts *argv =
		spec->image_entrypoint && image ? &image->config.argv : &spec->entrypoint;
	struct limits limits;
	int r = limits_resolve(sb->cayd, spec, &limits, NULL);

	if (r < 0)
		return r;
	sb->info = (struct sandbox_info){ .id = sb->life.id,
					  .tenant = *tenant,
					  .snapshot = spec->snapshot,
					  .runtime = spec->runtime,
					  .created_ns = clk_wall_ns(sb->cayd->clk),
					  .image = sandbox_copy_text(sb, spec->image),
					  .template = sandbox_copy_text(sb, spec->template),
					  .name = sandbox_copy_text(sb, spec->name),
					  .group = sandbox_copy_text(sb, spec->group),
					  .timezone = sandbox_copy_text(sb, spec->timezone) };
	sandbox_assign_rest(sb, spec);
	sb->info.limits = limits;
	sb->info.storage = spec->storage;
	sb->info.app_port = spec->has_app_port ? spec->app_port : APP_PORT;
	sb->info.public_ports = spec->public_ports;
	sb->info.has_writable = spec->has_writable;
	sb->info.changed_ns = sb->info.active_ns = sb->info.created_ns;
	if (key->key.n) {
		sb->idempotency_key = arena_strndup(&sb->arena, key->key.p, key->key.n);
		sb->idempotency_hash = sandbox_copy_text(sb, key->body_hash);
	}
	if (!sb->info.image || (spec->name && !sb->info.name) ||
	    (spec->template && !sb->info.template) || (spec->group && !sb->info.group) ||
	    (spec->timezone && !sb->info.timezone) ||
	    (key->key.n && (!sb->idempotency_key || !sb->idempotency_hash)) ||
	    sandbox_set_labels(sb, &spec->labels) < 0 ||
	    sandbox_copy_map(sb, &spec->env, &sb->env) < 0 ||
	    sandbox_copy_texts(sb, &spec->writable, &sb->info.writable) < 0 ||
	    sandbox_copy_texts(sb, argv, &sb->entrypoint) < 0 ||
	    field_list_copy(&volume_mount_table, &spec->volumes, &sb->arena, &sb->info.volumes) <
		    0 ||
	    field_list_copy(&service_spec_table, &spec->services, &sb->arena, &sb->services) < 0 ||
	    field_list_copy(&warm_kernel_table, &spec->kernels, &sb->arena, &sb->kernels) < 0 ||
	    sandbox_assign_egress(sb, spec) < 0)
		return -ENOMEM;
	return sb->arena.left < END_RESERVE ? -E2BIG : sandbox_record_check_size(sb);
}

int sandbox_init_from_spec(struct sandbox *sb, const struct sandbox_create *spec,
			   const struct idempotency_key *key, const struct id *tenant)
{
	struct life_terms t = sandbox_life_terms(sb->cayd, spec);
	struct id id;
	int r = id_generate(ID_SANDBOX, 0, 0, &id);

	if (r < 0)
		return r;
	sb->life = life_new(&id, clk_boot_ns(sb->cayd->clk), t.ttl_ns, t.idle_ns, t.max_ns);
	life_set_lease(&sb->life, clk_boot_ns(sb->cayd->clk), t.lease_ns);
	life_set_rest(&sb->life, &t);
	sb->life.entry = t.entry;
	sb->life.on_exit = t.on_exit;
	sb->cgroup_tenant = *tenant;
	return sandbox_assign_spec(sb, spec, key, tenant);
}

/* A request that names no policy accepts the one that the sandbox has. */
static bool sandbox_has_same_egress(const struct sandbox *sb, const struct sandbox_create *spec)
{
	static const struct egress_spec nothing = { .otherwise = EGRESS_SPEC_DENY };
	const struct egress_spec *own =
		sb->egress && sb->egress->has_own ? &sb->egress->own : &nothing;
	auto_buf a = BUF_INIT(DB_TEXT_MAX), b = BUF_INIT(DB_TEXT_MAX);
	struct jw wa = jw_to(&a), wb = jw_to(&b);

	if (!spec->has_egress || spec->egress_is_default ||
	    (!egress_spec_has_effect(own) && !egress_spec_has_effect(&spec->egress)))
		return true;
	field_encode(&egress_spec_table, NULL, own, &wa);
	field_encode(&egress_spec_table, NULL, &spec->egress, &wb);
	return jw_finish(&wa) >= 0 && jw_finish(&wb) >= 0 && a.len == b.len &&
	       memcmp(a.data, b.data, a.len) == 0;
}

static bool sandbox_has_same_volumes(const struct sandbox *sb, const struct sandbox_create *spec)
{
	const struct volume_mount *a = sb->info.volumes.v, *b = spec->volumes.v;
	bool same = sb->info.volumes.n == spec->volumes.n;

	for (size_t i = 0; same && i < spec->volumes.n; i++)
		same = id_eq(&a[i].volume, &b[i].volume) && a[i].read_only == b[i].read_only &&
		       str_eq(a[i].path, b[i].path) && !a[i].host == !b[i].host &&
		       (!a[i].host || str_eq(a[i].host, b[i].host));
	return same;
}

int sandbox_check_same_spec(const struct sandbox *sb, const struct sandbox_create *spec,
			    struct cay_err *err)
{
	if (str_eq(sb->info.image, spec->image) && sb->info.runtime == spec->runtime &&
	    id_eq(&sb->info.snapshot, &spec->snapshot) && sandbox_has_same_volumes(sb, spec) &&
	    (!spec->has_app_port || spec->app_port == sb->info.app_port) &&
	    spec->public_ports == sb->info.public_ports && sandbox_limits_match_spec(sb, spec) &&
	    sandbox_has_same_egress(sb, spec))
		return 0;
	return cay_fail_field(
		err, CAY_E_CONFLICT, "name",
		"'%s' is the name of a sandbox with another image, snapshot, runtime, storage, "
		"volumes, app_port, public_ports, egress or limits",
		spec->name);
}
