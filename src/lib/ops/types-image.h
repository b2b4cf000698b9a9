/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_TYPES_IMAGE_H
#define CAY_OPS_TYPES_IMAGE_H
/* types-image - images, registries, snapshots and volumes; a part of types.h */
#include "ops/types-egress.h"

struct image_info {
	struct id id;
	const char *name, *digest;
	uint64_t size_bytes, created_ns, used_ns;
	bool pulled, has_used, has_others;
	struct field_list others; /* struct image_other */
	struct id tenant;         /* its owner; none: the node, and every tenant may use it */
};

/* A further image or name that the same tar held. */
struct image_other {
	struct id id;
	const char *name, *digest;
};

struct image_list {
	struct field_list images;
	const char *next_cursor;
};

struct image_import_query {
	const char *name, *default_name;
};

struct image_prune {
	uint64_t unused_ms;
};

/* For one pull; never stored. */
struct registry_auth {
	const char *username, *password;
};

struct image_pull {
	const char *reference, *name;
	struct id tenant; /* owner of the image; none: the node */
	struct registry_auth registry_auth;
	bool has_registry_auth;
};

enum pull_state { PULL_ASKING, PULL_PULLING, PULL_UNPACKING, PULL_DONE, PULL_FAILED, PULL_NUM };

struct image_progress {
	const char *reference;
	unsigned state; /* enum pull_state */
	uint64_t bytes, total;
	bool has_total;
};

struct registry {
	const char *registry, *username;
	bool unreadable;
	struct id tenant; /* none: the node */
};

struct registry_login {
	const char *registry, *username, *password;
	struct id tenant;
};

struct registry_query {
	const char *registry;
	struct id tenant;
};

struct registry_list {
	struct field_list registries;
};

enum snapshot_state { SNAPSHOT_CREATING, SNAPSHOT_READY, SNAPSHOT_DELETING, SNAPSHOT_NUM };
extern const char *const snapshot_states[SNAPSHOT_NUM + 1]; /* ended by NULL */
/* What kept its files as they were while they were copied. */
enum snapshot_consistency { SNAPSHOT_FROZEN, SNAPSHOT_STOPPED, SNAPSHOT_NUM_CONSISTENCIES };

struct snapshot_create {
	const char *name;
	struct field_map labels;
	uint64_t ttl_ms;
	bool has_ttl;
};

struct snapshot_info {
	struct id id, tenant, sandbox;
	const char *name, *group, *image;
	unsigned state, consistency;
	struct field_map labels;
	uint64_t size_bytes, created_ns, expires_ns;
	bool has_size, has_expires;
};

/* The journal's row of one. */
struct snapshot_record {
	struct snapshot_info snapshot;
	bool fork; /* it is removed when its forks are made */
	/* policy of the template of its sandbox, which bounds sandboxes created from it */
	struct egress_spec template_egress;
	bool has_template_egress;
};

struct snapshot_query {
	uint64_t limit;
	const char *cursor, *name;
	struct id sandbox;
};

struct snapshot_list {
	struct field_list snapshots;
	const char *next_cursor;
};

enum volume_state { VOLUME_CREATING, VOLUME_READY, VOLUME_DELETING, VOLUME_NUM };

struct volume_create {
	const char *name, *group;
	struct field_map labels;
	uint64_t size_bytes;
	bool has_size, read_only;
	struct id from; /* no noun: it is empty */
};

struct volume_resize {
	uint64_t size_bytes;
};

struct volume_info {
	struct id id, tenant;
	const char *name, *group;
	unsigned state;
	struct field_map labels;
	uint64_t size_bytes, used_bytes, readers, created_ns;
	bool has_size, has_used, read_only;
	struct id writer, from; /* no noun: none */
};

struct volume_query {
	uint64_t limit;
	const char *cursor, *name;
};

struct volume_list {
	struct field_list volumes;
	const char *next_cursor;
};

#define VOLUME_MOUNTS_MAX 8
/* A volume in a sandbox; or a directory of the host, by its name. */
struct volume_mount {
	struct id volume;
	const char *host; /* NULL: a volume */
	const char *path;
	bool read_only;
};
/* What a sandbox changed in its image */
struct change_query {
	struct id since;
	uint64_t limit;
	const char *cursor;
};

struct change_info {
	const char *path, *path_b64; /* one of them */
	unsigned kind;               /* as enum change_kind of archive/change-row.h */
	unsigned type;               /* enum file_type */
	bool has_size;
	uint64_t size_bytes;
	const char *mode;
};

struct change_list {
	struct field_list changes;
	const char *next_cursor;
	bool truncated;
	uint64_t skipped;
};

struct image_config {
	struct field_map env;
	const char *user, *cwd;
	struct field_texts argv; /* its ENTRYPOINT and CMD */
	bool has_argv;
	/* from the unpacker only: how many images the tar holds, and its names for this one */
	struct field_texts names;
	bool has_names;
	uint64_t images;
	bool has_images;
};
#endif
