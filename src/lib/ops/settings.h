/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_SETTINGS_H
#define CAY_OPS_SETTINGS_H
/* settings - the contents of cay.conf; every daemon reads the same file */
#include "text/conf.h"

enum log_format { LOG_FORMAT_AUTO, LOG_FORMAT_TEXT, LOG_FORMAT_JSON, LOG_FORMAT_NUM };

enum images_pull { IMAGES_PULL_NO, IMAGES_PULL_CREATE, IMAGES_PULL_NUM };

struct settings {
	unsigned log_level;  /* enum log_level */
	unsigned log_format; /* enum log_format */
	bool log_access;
	char state_dir[4096];
	char run_dir[81]; /* a socket below it must fit into sun_path */
	char init_path[4096], egress_dir[4096], host_dir[4096];
	char cgroup[256];
	uint64_t max_sandboxes, max_tenant, max_group, max_stopped, max_snapshots, max_volumes;
	/* ceilings of one sandbox's limits; 0: see the help */
	uint64_t sandbox_memory, sandbox_cpu, sandbox_pids, sandbox_nofile;
	uint64_t sandbox_shm, sandbox_output, sandbox_disk, sandbox_inodes;
	uint64_t tenant_groups, tenant_memory, tenant_cpu, tenant_pids, tenant_disk;
	uint64_t tenant_creates, node_overcommit;
	uint64_t node_memory, node_sandbox_memory, node_pids, node_disk;
	uint64_t rest_ttl_ms;
	uint64_t default_ttl_ms, max_ttl_ms, record_ttl_ms, idempotency_ttl_ms;
	bool unlimited_disk;
	bool drain;
	uint64_t token_key_ms;
	uint64_t audit_keep, audit_size, uploads_size;
	char control_user[33], pull_user[33], egress_user[33], broker_user[33];
	char egress_dns[256], egress_synthetic[19], egress_private[1024];
	char edge_listen[256], edge_hosts[1024], edge_origins[1024], edge_previews[256];
	char edge_novnc[256];
	char edge_public_url[256], edge_trusted[1024];
	uint64_t link_max_ms;
	char edge_cert[4096], edge_key[4096];
	bool edge_plain, edge_pages, edge_public_ports;
	char jwt_keys[4096], jwt_issuer[256], jwt_audience[256];
	unsigned images_pull; /* enum images_pull */
	char images_short[128];
	char images_registries[1024], images_insecure[1024], images_skopeo[4096];
	uint64_t images_pull_ms, images_pull_max, images_keep_ms, images_size;
	uint64_t edge_conns, edge_peer, edge_rate, edge_failures;
	char egress_default[64], egress_max[1024], egress_map[4096];
	uint64_t egress_connections;
	char egress_roots[4096], egress_ca[4096];
	char egress_proxy[512], egress_proxy_credentials[4096], egress_no_proxy[4096];
	bool egress_proxy_resolves;
	char webhook_url[512], webhook_secret[4096];
	char e2b_dir[81];
	char opensandbox_dir[81];
	char mcp_dir[81], mcp_image[256], mcp_template[64];
	uint64_t mcp_idle_ms, mcp_timeout_ms;
};

extern const struct conf_table settings_table;
/* Check what no single row can: settings that need each other. */
[[nodiscard]] int settings_check(const struct settings *s, struct cay_err *err);
/* Apply the settings that may change while a program runs, after reading the file again. */
void settings_apply_live(struct settings *now, const struct settings *again);
#endif
