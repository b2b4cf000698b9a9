/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_LIMIT_H
#define CAY_CAYD_LIMIT_H
/*
 * limit - what is asked for (sizes, and where files are), against what this node can see to
 *
 * A limit nobody would see to is refused by name, not taken and forgotten; one that
 * nobody asked for is left out where it could not be kept.
 */
#include "cayd/box.h"

/* What a sandbox made by this request may use. */
[[nodiscard]] int limit_settle(const struct cayd *c, const struct sandbox_create *spec,
			       struct limits *ret, struct cay_err *err);
/* Whether a sandbox can be stored as this says. */
[[nodiscard]] int limit_storage(const struct sandbox_create *spec, struct cay_err *err);
/* Its root is read-only but for these rows of writable.def; and its files are in memory. */
[[nodiscard]] bool limit_read_only(const struct box *b, uint32_t *ret_writable);
bool limit_in_memory(const struct box *b);
/* Whether this request would make one with the limits this one has. */
[[nodiscard]] bool limit_same(const struct box *b, const struct sandbox_create *spec);
/* What the keeper can change while it runs, a bit each. */
#define LIMIT_MEMORY 1u
#define LIMIT_CPU 2u
#define LIMIT_PIDS 4u
#define LIMIT_ALL 7u

/* Whether one that was started with the limits this one has can have what this request asks
 * for; and of what the keeper must be told then. */
[[nodiscard]] bool limit_late(const struct box *b, const struct sandbox_create *spec);
[[nodiscard]] unsigned limit_changed(const struct limits *was, const struct limits *now);
/* What it may use after a change; CAY_E_UNSUPPORTED for what cannot change while it runs. */
[[nodiscard]] int limit_change(const struct box *b, const struct limits_change *q,
			       struct limits *ret, struct cay_err *err);
#endif
