/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CORE_CAYD_H
#define CAY_CAYD_CORE_CAYD_H
/*
 * cayd - control: which sandboxes and images there are, and what becomes of them
 *
 *	core/      this header, calls to cay-keeper and to PID 1, hooks, deferred replies
 *	image/     images: table, import, pull, prune
 *	sandbox/   sandboxes: table, transitions, limits, usage, waiting requests
 *	tenant/    tenants, API keys, tokens, revocation, admission
 *	egress/    where the connections of sandboxes may go, and the link to cay-egress
 *	snapshot/  files of sandboxes, to create others from
 *	volume/    directories that outlive sandboxes
 *	template/  templates, builds, pools of pre-started sandboxes
 *	create/    create requests and their queue
 *	upload/    files of a group, and imports of trees
 *	edge/      push to edges, their reports, preview URLs
 *	observe/   events, audit log, metrics, fsck and recovery
 *	main.c, listeners.c, handlers.c   start, the two sockets, dispatch
 *
 * Each includes only those above it in this list (src/LAYERS) and calls those below it by
 * the tables in main.c (core/hooks.h, sandbox/observer.h).
 *
 * One loop thread; nothing blocks in it once it serves.
 */
#include <uv.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "cayd/core/hooks.h"
#include "cayd/core/node-space.h"
#include "daemon/metrics.h"
#include "db/db.h"
#include "egress/dial-rate.h"
#include "net/server.h"
#include "ops/settings.h"

struct cayd {
	struct settings settings;
	struct log log;
	struct log_recent recent; /* of log */
	uint64_t started_ns;      /* boot clock */
	const struct cayd_hooks *hooks;
	const struct clk *clk;
	int argc; /* for reading the settings again */
	char **argv;
	uv_loop_t loop;
	int db_dir, secret_dir, tmp, audit_dir, uploads_dir; /* directories below paths.state */
	char boot[BOOT_ID_LEN + 1];
	struct db *db;
	unsigned foreign_ending;      /* removals of foreign sandboxes under way */
	struct peer_dial *peer_dials; /* of egress/peers.h, under way */
	struct dial_rates peer_rates; /* of the tenants that ask for them */
	struct cay_err lost;          /* why the journal is not opened: it lost its past */
	struct events *events;
	struct audit *audit;
	bool audit_failing;   /* logged once until a write succeeds */
	bool snapshot_unread; /* a row was ignored: its files have no owner that is known */
	bool volume_unread;   /* the same */
	uv_timer_t sweep;
	uv_timer_t drain;
	uint64_t drain_ns; /* when draining gives up; 0: not draining */
	struct metrics metrics;
	struct keeper_link *keeper;
	struct sandboxes *sandboxes;
	struct kept_keys *kept_keys;
	struct creates *creates;
	struct wake *wakes; /* under way */
	struct builds *builds;
	struct images *images;
	struct pull *pulls; /* under way */
	struct tree_import_job *tree_imports;
	struct export_call *export_calls;
	struct uploads *uploads;
	struct previews *previews;
	struct registries *registries;
	struct node_key *node_key;
	/* unpacks and removals under way: the keeper would run both on the same image, so either
	 * counter is 0 */
	unsigned images_unpacking, images_removing;
	struct edge_push *edge_push;
	struct edge_reports *edge_reports;
	struct token_signer *token_signer;
	struct tenants *tenants;
	struct disk_watch *disk_watch;
	struct usage_sampler *usage_sampler; /* NULL until a request needs it */
	struct templates *templates;
	struct snapshots *snapshots;
	struct volumes *volumes;
	struct host_dirs *host_dirs; /* that the operator lets sandboxes mount */
	struct pack *packs;          /* under way, oldest first */
	struct egress *egress;
	struct egress_link *egress_link;
	struct broker_link *broker_link;
	struct credential_store *credentials;
	struct egress_totals *egress_totals;
	struct asks *asks;
	struct node_space node_space;
	struct warm_pools *warm_pools;
	struct api_keys *keys;
	struct server *listeners[2];
};

/* The operator's tenant; and the owners of warm sandboxes and of builds, which no list shows and no
 * request can name. */
extern const struct id default_tenant, warm_tenant, build_tenant;

/* Close callbacks: free a handle; free the object that holds it, its data. */
static inline void on_handle_closed(uv_handle_t *h)
{
	free(h);
}

static inline void on_handle_owner_closed(uv_handle_t *h)
{
	free(h->data);
}

/* Operations that control carries out itself; operations that a sandbox's PID 1 carries out. */
request_fn control_request_handle, sandbox_request_relay;
#endif
