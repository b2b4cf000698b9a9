/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_TYPES_TENANT_H
#define CAY_OPS_TYPES_TENANT_H
/* types-tenant - tenants, keys, tokens and previews; a part of types.h */
#include "ops/field.h"

struct tenant_info {
	struct id id;
	const char *name;
	uint64_t created_ns;
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
	const char *name;
	unsigned scope;
	uint64_t ttl_ms;
	bool has_ttl;
};

struct key_info {
	struct id id, tenant;
	const char *name, *prefix;
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

struct preview_create {
	uint64_t port, ttl_ms;
	bool has_port;
};

struct preview_made {
	const char *url, *origin, *token;
	struct field_map headers;
	uint64_t expires_ns;
	bool has_listening, listening;
};
#endif
