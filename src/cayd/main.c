/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

#include "base/path.h"
#include "cayd/core/keeper-link.h"
#include "cayd/core/node-key.h"
#include "cayd/create/create.h"
#include "cayd/edge/edge-push.h"
#include "cayd/edge/edge-report.h"
#include "cayd/edge/preview.h"
#include "cayd/egress/asks.h"
#include "cayd/egress/broker-link.h"
#include "cayd/egress/credential-store.h"
#include "cayd/egress/egress-counts.h"
#include "cayd/egress/egress-link.h"
#include "cayd/egress/peers.h"
#include "cayd/egress/policy.h"
#include "cayd/egress/tenant-policy.h"
#include "cayd/egress/trust.h"
#include "cayd/image/image.h"
#include "cayd/image/prune.h"
#include "cayd/image/pull.h"
#include "cayd/image/registry.h"
#include "cayd/listeners.h"
#include "cayd/observe/audit-log.h"
#include "cayd/observe/event.h"
#include "cayd/observe/fsck.h"
#include "cayd/observe/lost.h"
#include "cayd/observe/webhook.h"
#include "cayd/sandbox/disk-watch.h"
#include "cayd/sandbox/drain.h"
#include "cayd/sandbox/egress-usage.h"
#include "cayd/sandbox/entrypoint.h"
#include "cayd/sandbox/kept-keys.h"
#include "cayd/sandbox/sandbox.h"
#include "cayd/snapshot/pack.h"
#include "cayd/snapshot/snapshot.h"
#include "cayd/template/build.h"
#include "cayd/template/package-layer.h"
#include "cayd/template/pool.h"
#include "cayd/template/template.h"
#include "cayd/tenant/api-key.h"
#include "cayd/tenant/operator-key.h"
#include "cayd/tenant/quota.h"
#include "cayd/tenant/tenant.h"
#include "cayd/tenant/token.h"
#include "cayd/upload/upload.h"
#include "cayd/volume/volume.h"
#include "daemon/daemon.h"

#define WORKERS "16"
#define SWEEP_MS 100

/*
 * What follows when something happens to a sandbox, in this order.  sandbox_apply_event()
 * goes through STATE_CHANGED, the journal's queue, STATE_QUEUED, the effect, STEPPED, and
 * then the replies that wait; so
 *
 * - edges come first: a client whose request is answered finds that every edge has the new
 *   state, and no edge lets a request into a sandbox that is ending.  The same holds for
 *   revoked tokens: edges refuse them before the reply says so, and to exports.
 * - the slot of a create is freed before the effect begins; the next create starts from a
 *   timer and never inside this one.
 * - an event is queued after the row of its state: the journal writes in order, so a
 *   follower never sees a state that a crash can undo.
 * - pools come last: an effect that fails at once has changed the state again by then.
 *
 * The audit record of a request is written beside the row (hooks, reply_waits_for_journal)
 * and is durable before its reply goes out.
 */
static const struct sandbox_observer sandbox_observers[] = {
	{ SANDBOX_STATE_CHANGED, edge_push_sandbox },
	{ SANDBOX_STATE_CHANGED, create_slot_release },
	{ SANDBOX_STATE_CHANGED, egress_link_forget_ended },
	{ SANDBOX_STATE_CHANGED, peers_forget_ended },
	{ SANDBOX_STATE_CHANGED, asks_forget_ended },
	{ SANDBOX_STATE_CHANGED, sandbox_trust_ca_if_due },
	{ SANDBOX_STATE_CHANGED, snapshot_sandbox_changed },
	{ SANDBOX_KEPT_PAUSED, edge_push_sandbox },
	{ SANDBOX_STATE_QUEUED, event_record_sandbox },
	{ SANDBOX_STEPPED, pool_sandbox_changed },
	{ SANDBOX_RESTORED, pool_adopt_sandbox },
	{ SANDBOX_REVOKED, edge_push_sandbox },
	{ SANDBOX_EXPORTED, edge_push_sandbox },
};

/*
 * Every SWEEP_MS, in this order.  Deadlines come first, so that the rest sees the states
 * they lead to; events that could not be written follow the rows they tell of; creates that
 * waited too long are refused before pools decide whether a client still waits.
 */
static void (*const sweeps[])(struct cayd *c, uint64_t now_boot_ns) = {
	sandboxes_sweep,      events_retry_unwritten,
	entrypoints_poll,     creates_expire_waiting,
	pools_sweep,          sandboxes_forget_expired,
	kept_keys_expire,     prune_run_if_due,
	disk_watch_sweep,     asks_sweep,
	wakes_expire_waiting, snapshots_sweep,
	packs_sweep,          reclaims_sweep,
	volumes_sweep,
};

static bool cayd_image_is_used(const struct cayd *c, const struct image *image)
{
	return templates_use_image(c, image) || sandboxes_use_image(c->sandboxes, image->digest) ||
	       snapshots_use_image(c, image->digest);
}

static void on_tenant_is_deleted(struct cayd *c, const struct id *tenant)
{
	struct cay_err err = {};

	layers_remove_of_tenant(c, tenant);
	prune_run_soon(c);
	if (registries_remove_of_deleted(c, &err) < 0) /* the next start tries again */
		log_error(&c->log, "%s", err.msg);
	if (credential_store_remove_of_deleted(c, &err) < 0)
		log_error(&c->log, "%s", err.msg);
	uploads_remove_of_tenant(c, tenant);
	kept_keys_remove_of_tenant(c, tenant);
	events_forget_tenant(c, tenant);
}

static void ask_send_events(struct cayd *c, const struct id *tenant, const struct ask_info *ask,
			    bool answered)
{
	event_send_ask(c, tenant, ask, answered);
	webhook_send_ask(c, tenant, ask, answered);
}

static void on_cayd_copied(struct cayd *c, struct sandbox *sb, const struct cay_err *outcome)
{
	if (sb->snapshot.id.noun == ID_VOLUME)
		volume_copied(c, sb, outcome);
	else
		snapshot_copied(c, sb, outcome);
}

static const struct cayd_hooks cayd_hooks = {
	.keeper_up = sandboxes_retry_now,
	.image_is_used = cayd_image_is_used,
	.tenant_exists = tenant_exists,
	.pull_progressed = event_send_image_progress,
	.reply_waits_for_journal = audit_log_record_early,
	.one_of_many_created = audit_log_record_one_of_many,
	.sandbox_woken = audit_log_record_wake,
	.key_changed = edge_push_key,
	.access_revoked = events_drop_unauthorized,
	.token_keys_changed = edge_push_token_keys,
	.limits_check = quota_check_change,
	.tenant_deleted = on_tenant_is_deleted,
	.tenant_policies_check = tenant_policies_check,
	.tenant_policy_changed = tenant_policy_changed,
	.sandbox_held = event_send_hold,
	.ask_changed = ask_send_events,
	.template_naming = templates_find_naming,
	.template_changed = event_send_template,
	.snapshot_copied = on_cayd_copied,
	.volume_copy_fill = volume_copy_fill,
	.snapshots_count = snapshots_count,
	.snapshot_changed = event_send_snapshot,
	.volumes_count = volumes_count,
	.volumes_admit = volume_mounts_admit,
	.sandbox_has_network = sandbox_has_egress,
	.sandbox_attach_network = egress_link_attach,
};

static void on_cayd_sweep(uv_timer_t *t)
{
	struct cayd *c = t->data;
	uint64_t now = clk_boot_ns(c->clk);

	for (size_t i = 0; i < ARRAY_SIZE(sweeps); i++)
		sweeps[i](c, now);
}

static int cayd_start_sweeps(struct cayd *c, struct cay_err *err)
{
	int r = uv_timer_init(&c->loop, &c->sweep);

	c->sweep.data = c;
	if (r >= 0)
		r = uv_timer_start(&c->sweep, on_cayd_sweep, SWEEP_MS, SWEEP_MS);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "start a timer") : 0;
}

static int cayd_open_state_dirs(struct cayd *c, struct cay_err *err)
{
	const struct {
		const char *name;
		int *fd;
	} dirs[] = { { "db", &c->db_dir },
		     { "secret", &c->secret_dir },
		     { "tmp", &c->tmp },
		     { "audit", &c->audit_dir },
		     { "uploads", &c->uploads_dir } };
	auto_close int state = open(c->settings.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (state < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "open %s", c->settings.state_dir);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		*dirs[i].fd = path_open(state, dirs[i].name, O_RDONLY | O_DIRECTORY, 0);
		if (*dirs[i].fd < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, -*dirs[i].fd, "open %s in %s",
					    dirs[i].name, c->settings.state_dir);
	}
	return path_remove_tmp_files(c->db_dir);
}

static void on_cayd_signal(uv_signal_t *s, int number)
{
	struct cayd *c = s->data;

	if (number == SIGHUP) {
		daemon_reload_settings(c->argc, c->argv, &c->settings, &c->log);
		return;
	}
	if (c->drain_ns) { /* a second signal stops at once */
		uv_stop(&c->loop);
		return;
	}
	listeners_close(c);
	if (!c->lost.code && drain_is_configured(c)) {
		drain_start(c);
		return;
	}
	log_info(&c->log, "signal %d: stopping; sandboxes keep running", number);
	uv_stop(&c->loop);
}

static void cayd_serve(struct cayd *c)
{
	static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
	uv_signal_t signals[ARRAY_SIZE(numbers)];

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		(void)uv_signal_init(&c->loop, &signals[i]);
		signals[i].data = c;
		(void)uv_signal_start(&signals[i], on_cayd_signal, numbers[i]);
	}
	daemon_notify_ready(&c->log);
	(void)uv_run(&c->loop, UV_RUN_DEFAULT);
	egress_usage_save_all(c);
	db_close(c->db);
	audit_close(c->audit);
}

static int cayd_open_sandboxes(struct cayd *c, struct cay_err *err)
{
	return sandboxes_open(c, sandbox_observers, ARRAY_SIZE(sandbox_observers), err);
}

static int cayd_open_pools(struct cayd *c, struct cay_err *err)
{
	return pools_open(c, creates_get_queue(c), err);
}

/* In this order.  The journal comes before the hello to the keeper, which fences out every other
 * cayd: only the one that holds the journal may do that. */
static int (*const start_steps[])(struct cayd *c, struct cay_err *err) = {
	cayd_open_state_dirs,
	node_space_open,
	images_open,
	tenants_open,
	egress_open,
	templates_open,
	snapshots_open,
	volumes_open,
	keys_open,
	journal_open,
	audit_log_open,
	node_key_open,
	registries_open,
	keeper_link_open,
	cayd_open_sandboxes,
	kept_keys_open,
	events_open,
	creates_open,
	builds_open,
	cayd_open_pools,
	recovery_run,
	registries_remove_of_deleted,
	events_recover,
	uploads_open,
	builds_recover,
	operator_key_ensure,
	token_signer_open,
	cayd_start_sweeps,
	egress_counts_open,
	asks_open,
	egress_link_open,
	credential_store_open,
	broker_link_open,
	listeners_open,
	edge_reports_open,
	previews_open,
	edge_push_open,
};

/* What follows journal_open() instead if the journal lost its past: nothing that changes anything.
 */
static int (*const lost_steps[])(struct cayd *c, struct cay_err *err) = { audit_log_open,
									  listeners_open };

static int cayd_start(struct cayd *c, struct cay_err *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && !c->lost.code && i < ARRAY_SIZE(start_steps); i++)
		r = start_steps[i](c, err);
	for (size_t i = 0; r >= 0 && c->lost.code && i < ARRAY_SIZE(lost_steps); i++)
		r = lost_steps[i](c, err);
	return r;
}

int main(int argc, char **argv)
{
	static struct cayd c = {
		.clk = &clk_system,
		.hooks = &cayd_hooks,
		.db_dir = -EBADF,
		.secret_dir = -EBADF,
		.tmp = -EBADF,
		.audit_dir = -EBADF,
		.uploads_dir = -EBADF,
	};
	struct cay_err err = {};
	int r;

	c.log = log_create(STDERR_FILENO, "cayd", &clk_system);
	c.log.recent = &c.recent;
	c.started_ns = clk_boot_ns(c.clk);
	c.argc = argc;
	c.argv = argv;
	r = daemon_start(argc, argv, "the user in users.control", &c.settings, &c.log, &err);
	if (r > 0)
		return 0; /* --check, --version */
	if (r >= 0)
		(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/* workers block on the disk; short jobs must not queue after long ones */
	if (r >= 0 && setenv("UV_THREADPOOL_SIZE", WORKERS, 0) < 0)
		r = cay_no_memory(&err);
	if (r >= 0)
		r = uv_loop_init(&c.loop) < 0 ? cay_no_memory(&err) : 0;
	if (r >= 0)
		r = cayd_start(&c, &err);
	if (r >= 0)
		cayd_serve(&c);
	return daemon_exit_status(r, &c.log, &err);
}
