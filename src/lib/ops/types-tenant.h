/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_TYPES_TENANT_H
#define CAY_OPS_TYPES_TENANT_H
/* types-tenant - tenants, keys, tokens and previews; a part of types.h */
#include "ops/types-egress.h"

/* Of a tenant's sandboxes together. */
struct quotas {
	uint64_t sandboxes, groups, memory_bytes, cpu_milli, pids, disk_bytes;
	uint64_t uploads_bytes, creates_per_s, max_ttl_ms, snapshots, volumes;
	bool has_sandboxes, has_groups, has_memory, has_cpu, has_pids, has_disk;
	bool has_uploads, has_creates, has_max_ttl, has_snapshots, has_volumes;
};

/* Of one sandbox of a tenant. */
struct ceilings {
	uint64_t memory_bytes, cpu_milli, pids, nofile;
	uint64_t shm_bytes, output_bytes, disk_bytes, disk_inodes;
	bool has_memory, has_cpu, has_pids, has_nofile;
	bool has_shm, has_output, has_disk_bytes, has_disk_inodes;
};

struct tenant_update {
	bool reset;
	struct quotas quotas;
	struct ceilings ceilings;
	struct egress_spec egress_default, egress_max;
	bool has_quotas, has_ceilings, has_egress_default, has_egress_max;
};

struct tenant_usage {
	uint64_t sandboxes, groups, memory_bytes, cpu_milli, pids, disk_bytes, snapshots;
	uint64_t volumes;
};

enum usage_by { USAGE_BY_TENANT, USAGE_BY_LABEL, USAGE_NUM_BY };

struct usage_list_query {
	uint64_t limit;
	const char *cursor;
	unsigned by;
	const char *label, *group;
};

/* What the sandboxes of a tenant, or those with one value of a label, use together. */
struct usage_row {
	struct id tenant;
	const char *name, *value;
	uint64_t sandboxes, running, ended, cpu_ms;
	uint64_t memory_bytes, memory_limit_bytes, processes, pids_limit;
	uint64_t disk_bytes, disk_limit_bytes;
	bool has_disk;
};

struct usage_list {
	struct field_list usage;
	const char *next_cursor;
};

struct tenant_info {
	struct id id;
	const char *name;
	uint64_t created_ns;
	struct quotas quotas;
	struct ceilings ceilings;
	struct egress_spec egress_default, egress_max;
	bool has_quotas, has_ceilings, has_egress_default, has_egress_max;
};

struct tenant_status {
	struct tenant_info tenant;
	struct quotas quotas; /* with settings for what the tenant's row leaves out */
	struct ceilings ceilings;
	struct tenant_usage usage;
};

struct tenant_create {
	const char *name;
};

struct tenant_list {
	struct field_list tenants;
	const char *next_cursor;
};

/* Scopes of a key: enum op_scope from SCOPE_READ on. */
enum key_scope { KEY_READ, KEY_WRITE, KEY_OPERATOR, KEY_NUM_SCOPES };

struct key_create {
	struct id tenant;
	const char *name, *group;
	unsigned scope;
	uint64_t ttl_ms;
	bool has_ttl;
};

struct key_info {
	struct id id, tenant;
	const char *name, *prefix, *group;
	unsigned scope;
	uint64_t created_ns, expires_ns, used_ns, old_until_ns;
	bool has_expires, revoked;
};

struct key_made {
	struct key_info key;
	const char *secret;
};

struct key_rotate {
	uint64_t overlap_ms;
};

struct key_list {
	struct field_list keys;
	const char *next_cursor;
};

/* A key in the journal. */
struct key_record {
	struct key_info key;
	const char *hash, *old_hash;
};

struct token_create {
	unsigned scope; /* enum op_scope from SCOPE_READ on, without operator */
	uint64_t ttl_ms;
};

struct token_made {
	const char *token;
	uint64_t expires_ns;
};

enum preview_screen_choice { SCREEN_WATCH, SCREEN_CONTROL, SCREEN_CHOICE_NUM };

struct preview_create {
	uint64_t port, ttl_ms;
	unsigned screen; /* enum preview_screen_choice */
	bool has_port, has_screen;
};

struct preview_made {
	const char *url, *origin, *token;
	struct field_map headers;
	uint64_t expires_ns;
	bool has_listening, listening;
};
#endif
