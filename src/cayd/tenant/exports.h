/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TENANT_EXPORTS_H
#define CAY_CAYD_TENANT_EXPORTS_H
/*
 * exports - changes of a sandbox's exports, and what edges get of them (ADR 0085)
 *
 * They are part of the sandbox's row and end with it.  edge/export.c has the operations,
 * revoke.c revokes one by its URL and all of them.
 */
#include "cayd/sandbox/sandbox.h"

#define EXPORTS_MAX PUSH_EXPORTS_MAX

/* The one of this path, given as one of both; NULL: none. */
const struct export_record *sandbox_find_export(const struct sandbox *sb, const char *path,
						const char *path_b64);
/* Add one, or replace the one of its path; -ENOSPC: there are EXPORTS_MAX.  -ENOMEM leaves them as
 * they are. */
[[nodiscard]] int sandbox_put_export(struct sandbox *sb, const struct export_record *e);
/* One of them; -ENOMEM as above. */
[[nodiscard]] int sandbox_remove_export(struct sandbox *sb, const struct export_record *gone);

typedef void exports_push_fn(void *arg, const struct push *p);
void exports_emit_push_records(const struct sandbox *sb, exports_push_fn *fn, void *arg);
#endif
