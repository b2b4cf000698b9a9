/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_LIMITS_H
#define CAY_CAYD_SANDBOX_LIMITS_H
/*
 * limit - what is asked for (sizes, and where files are), against what this node can see to
 *
 * A limit nobody would see to is refused by name, not taken and forgotten; one that
 * nobody asked for is left out where it could not be kept.
 */
#include "cayd/sandbox/sandbox.h"

/* What a sandbox made by this request may use. */
[[nodiscard]] int limits_resolve(const struct cayd *c, const struct sandbox_create *spec,
				 struct limits *ret, struct cay_err *err);
/* Whether a sandbox can be stored as this says. */
[[nodiscard]] int storage_spec_check(const struct sandbox_create *spec, struct cay_err *err);
/* Its root is read-only but for these rows of writable.def; and its files are in memory. */
[[nodiscard]] bool sandbox_root_is_read_only(const struct sandbox *sb, uint32_t *ret_writable);
bool sandbox_is_in_memory(const struct sandbox *sb);
/* Whether this request would make one with the limits this one has. */
[[nodiscard]] bool sandbox_limits_match_spec(const struct sandbox *sb,
					     const struct sandbox_create *spec);
/* What the keeper can change while it runs, a bit each. */
#define LIMIT_MEMORY 1u
#define LIMIT_CPU 2u
#define LIMIT_PIDS 4u
#define LIMIT_ALL 7u

/* Whether one that was started with the limits this one has can have what this request asks
 * for; and of what the keeper must be told then. */
[[nodiscard]] bool sandbox_limits_can_become(const struct sandbox *sb,
					     const struct sandbox_create *spec);
[[nodiscard]] unsigned limits_changed_bits(const struct limits *was, const struct limits *now);
/* What it may use after a change; CAY_E_UNSUPPORTED for what cannot change while it runs. */
[[nodiscard]] int limits_apply_change(const struct sandbox *sb, const struct limits_change *q,
				      struct limits *ret, struct cay_err *err);
#endif
