/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/tenant/exports.h"

static bool export_path_matches(const char *a, const char *b)
{
	return a && b ? str_eq(a, b) : a == b;
}

const struct export_record *sandbox_find_export(const struct sandbox *sb, const char *path,
						const char *path_b64)
{
	for (size_t i = 0; sb->exports && i < sb->exports->n; i++) {
		const struct export_record *e = &sb->exports->v[i];

		if (export_path_matches(e->info.path, path) &&
		    export_path_matches(e->info.path_b64, path_b64))
			return e;
	}
	return NULL;
}

int sandbox_put_export(struct sandbox *sb, const struct export_record *e)
{
	const struct export_record *old = sandbox_find_export(sb, e->info.path, e->info.path_b64);
	const struct field_list from = sandbox_list_exports(sb);
	struct export_record rows[EXPORTS_MAX];
	size_t n = from.n;

	if (!old && n == EXPORTS_MAX)
		return -ENOSPC;
	if (n)
		memcpy(rows, from.v, n * sizeof(*rows));
	rows[old ? (size_t)(old - sb->exports->v) : n++] = *e;
	return sandbox_set_exports(sb, &(struct field_list){ rows, n });
}

int sandbox_remove_export(struct sandbox *sb, const struct export_record *gone)
{
	struct export_record rows[EXPORTS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < sb->exports->n; i++)
		if (&sb->exports->v[i] != gone)
			rows[n++] = sb->exports->v[i];
	return sandbox_set_exports(sb, &(struct field_list){ rows, n });
}

void exports_emit_push_records(const struct sandbox *sb, exports_push_fn *fn, void *arg)
{
	const struct sandbox_exports *all = sb->exports;

	if (!all)
		return; /* it had none since cayd started; edges empty what is left at PUSH_END */
	for (size_t i = 0; i < all->n || !i; i += 2) {
		struct push p = { .kind = PUSH_EXPORTS,
				  .value = (uint8_t)(i / 2),
				  .number = (uint32_t)all->n,
				  .id = sb->info.id };

		for (size_t k = 0; k < 2 && i + k < all->n; k++)
			memcpy(p.secret + k * PUSH_EXPORT_TAG, all->tags[i + k], PUSH_EXPORT_TAG);
		fn(arg, &p);
	}
}
