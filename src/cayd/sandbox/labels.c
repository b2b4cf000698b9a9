/* SPDX-License-Identifier: Apache-2.0 */
/* labels - changes of a sandbox's labels */
#include "cayd/sandbox/sandbox.h"

int labels_check(const struct field_map *labels, struct cay_err *err)
{
	for (size_t i = 0; i < labels->n; i++)
		if (strncmp(labels->keys[i], "cay/", 4) == 0)
			return cay_fail_field(err, CAY_E_INVALID, "labels",
					      "'%s' is reserved by Cay", labels->keys[i]);
	return 0;
}

/* The old labels with the patch applied; texts are not copied. */
static void labels_merge(const struct field_map *old, const struct field_map *patch,
			 struct field_map *now)
{
	for (size_t i = 0; i < old->n + patch->n; i++) {
		bool mine = i < old->n;
		const char *key = mine ? old->keys[i] : patch->keys[i - old->n];
		const char *value = mine ? old->values[i] : patch->values[i - old->n];
		size_t k = 0;

		while (k < now->n && !str_eq(now->keys[k], key))
			k++;
		if (value) {
			now->keys[k] = key;
			now->values[k] = value;
			now->n += k == now->n;
		} else if (k < now->n) {
			now->keys[k] = now->keys[--now->n];
			now->values[k] = now->values[now->n];
		}
	}
}

int sandbox_patch_labels(struct sandbox *sb, const struct field_map *patch, struct cay_err *err)
{
	const char *keys[2 * LABELS_MAX], *values[2 * LABELS_MAX];
	struct field_map now = { keys, values, 0 };
	int r = labels_check(patch, err);

	if (r < 0)
		return r;
	if (sb->info.labels.n + patch->n > ARRAY_SIZE(keys))
		return cay_fail_field(err, CAY_E_INVALID, "labels", "more than %d labels",
				      LABELS_MAX);
	labels_merge(&sb->info.labels, patch, &now);
	if (now.n > LABELS_MAX)
		return cay_fail_field(err, CAY_E_INVALID, "labels", "more than %d labels",
				      LABELS_MAX);
	return sandbox_set_labels(sb, &now) < 0 ? cay_no_memory(err) : 0;
}
