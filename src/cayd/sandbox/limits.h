/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_LIMITS_H
#define CAY_CAYD_SANDBOX_LIMITS_H
/*
 * limits - the limits and storage of a sandbox, against what this node can enforce
 *
 * A requested limit that nothing enforces is refused by name; a default that nothing enforces
 * is left out.
 */
#include "cayd/sandbox/sandbox.h"

/* The limits of a sandbox created by this request. */
[[nodiscard]] int limits_resolve(const struct cayd *c, const struct sandbox_create *spec,
				 struct limits *ret, struct cay_err *err);
/* Whether a quota can limit the bytes, or the number of files, of a disk of this node. */
bool limits_disk_bytes_count(const struct cayd *c);
bool limits_disk_inodes_count(const struct cayd *c);
/* Whether the node can store a sandbox like this. */
[[nodiscard]] int storage_spec_check(const struct sandbox_create *spec, struct cay_err *err);
/* Whether its root is read-only except for these rows of writable.def; whether its files are in
 * memory. */
[[nodiscard]] bool sandbox_root_is_read_only(const struct sandbox *sb, uint32_t *ret_writable);
bool sandbox_is_in_memory(const struct sandbox *sb);
/* Whether this request would create a sandbox with the same limits. */
[[nodiscard]] bool sandbox_limits_match_spec(const struct sandbox *sb,
					     const struct sandbox_create *spec);
/* Limits that the keeper can change while a sandbox runs, a bit each. */
#define LIMIT_MEMORY 1u
#define LIMIT_CPU 2u
#define LIMIT_PIDS 4u
#define LIMIT_ALL 7u

/* Whether a warm sandbox with these limits can get those of the request; and the bits that the
 * keeper must set then. */
[[nodiscard]] bool sandbox_limits_can_become(const struct sandbox *sb,
					     const struct sandbox_create *spec);
[[nodiscard]] unsigned limits_changed_bits(const struct limits *was, const struct limits *now);
/* The limits after a change; CAY_E_UNSUPPORTED if one of them cannot change while it runs. */
[[nodiscard]] int limits_apply_change(const struct sandbox *sb, const struct limits_change *q,
				      struct limits *ret, struct cay_err *err);
#endif
