/* SPDX-License-Identifier: Apache-2.0 */
/* labels - texts and maps in the arena of a sandbox, and changes of its labels */
#include "cayd/sandbox/sandbox.h"

const char *sandbox_copy_text(struct sandbox *sb, const char *text)
{
	return text ? arena_strndup(&sb->arena, text, strlen(text)) : NULL;
}

int sandbox_copy_texts(struct sandbox *sb, const struct field_texts *in, struct field_texts *ret)
{
	*ret = (struct field_texts){ .n = in->n };
	if (!in->n)
		return 0;
	ret->v = arena_alloc(&sb->arena, in->n, sizeof(*ret->v));
	for (size_t i = 0; ret->v && i < in->n; i++) {
		ret->v[i] = sandbox_copy_text(sb, in->v[i]);
		if (!ret->v[i])
			return -ENOMEM;
	}
	return ret->v ? 0 : -ENOMEM;
}

int sandbox_copy_map(struct sandbox *sb, const struct field_map *in, struct field_map *ret)
{
	struct field_texts keys = {}, values = {};
	int r = sandbox_copy_texts(sb, &(struct field_texts){ in->keys, in->n }, &keys);

	if (r >= 0)
		r = sandbox_copy_texts(sb, &(struct field_texts){ in->values, in->n }, &values);
	*ret = (struct field_map){ keys.v, values.v, in->n };
	return r;
}

int labels_check(const struct field_map *labels, struct cay_err *err)
{
	for (size_t i = 0; i < labels->n; i++)
		if (strncmp(labels->keys[i], "cay/", 4) == 0)
			return cay_fail_field(err, CAY_E_INVALID, "labels",
					      "'%s' is reserved by Cay", labels->keys[i]);
	return 0;
}

int sandbox_patch_labels(struct sandbox *sb, const struct field_map *patch, struct cay_err *err)
{
	const struct field_map *old = &sb->info.labels;
	struct field_map now = {};
	size_t max = old->n + patch->n;
	int r = labels_check(patch, err);

	if (r < 0)
		return r;
	now.keys = arena_alloc(&sb->arena, max + 1, sizeof(*now.keys));
	now.values = arena_alloc(&sb->arena, max + 1, sizeof(*now.values));
	for (size_t i = 0; now.keys && now.values && i < max; i++) {
		bool mine = i < old->n;
		const char *key = mine ? old->keys[i] : patch->keys[i - old->n];
		const char *value = mine ? old->values[i] : patch->values[i - old->n];
		size_t k = 0;

		while (k < now.n && !str_eq(now.keys[k], key))
			k++;
		if (!value) {
			if (k < now.n) {
				now.keys[k] = now.keys[--now.n];
				now.values[k] = now.values[now.n];
			}
			continue;
		}
		now.keys[k] = mine ? key : sandbox_copy_text(sb, key);
		now.values[k] = mine ? value : sandbox_copy_text(sb, value);
		if (!now.keys[k] || !now.values[k])
			return cay_fail(err, CAY_E_LIMIT, "labels changed too often");
		now.n += k == now.n;
	}
	if (!now.keys || !now.values)
		return cay_fail(err, CAY_E_LIMIT, "labels changed too often");
	if (now.n > 64)
		return cay_fail_field(err, CAY_E_INVALID, "labels", "more than 64 labels");
	sb->info.labels = now;
	return 0;
}
