/* SPDX-License-Identifier: Apache-2.0 */
/* texts - what a sandbox keeps in its arena, and what remains of it once it ends */
#include "cayd/sandbox/sandbox.h"

/* An ended sandbox: its public texts without the labels. */
#define ENDED_MAX KIB(128)
#define EGRESS_ARENA_MAX KIB(256)

static const char *text_copy(struct arena *arena, const char *text)
{
	return text ? arena_strndup(arena, text, strlen(text)) : NULL;
}

static int texts_copy(struct arena *arena, const struct field_texts *in, struct field_texts *ret)
{
	*ret = (struct field_texts){ .n = in->n };
	if (!in->n)
		return 0;
	ret->v = arena_alloc(arena, in->n, sizeof(*ret->v));
	for (size_t i = 0; ret->v && i < in->n; i++) {
		ret->v[i] = text_copy(arena, in->v[i]);
		if (!ret->v[i])
			return -ENOMEM;
	}
	return ret->v ? 0 : -ENOMEM;
}

static int map_copy(struct arena *arena, const struct field_map *in, struct field_map *ret)
{
	struct field_texts keys = {}, values = {};
	int r = texts_copy(arena, &(struct field_texts){ in->keys, in->n }, &keys);

	if (r >= 0)
		r = texts_copy(arena, &(struct field_texts){ in->values, in->n }, &values);
	*ret = (struct field_map){ keys.v, values.v, in->n };
	return r;
}

const char *sandbox_copy_text(struct sandbox *sb, const char *text)
{
	return text_copy(&sb->arena, text);
}

int sandbox_copy_texts(struct sandbox *sb, const struct field_texts *in, struct field_texts *ret)
{
	return texts_copy(&sb->arena, in, ret);
}

int sandbox_copy_map(struct sandbox *sb, const struct field_map *in, struct field_map *ret)
{
	return map_copy(&sb->arena, in, ret);
}

int sandbox_set_labels(struct sandbox *sb, const struct field_map *labels)
{
	struct arena fresh = ARENA_INIT_SMALL(LABELS_ARENA_MAX);
	struct field_map copy;

	if (map_copy(&fresh, labels, &copy) < 0) {
		arena_fini(&fresh);
		return -ENOMEM;
	}
	arena_fini(&sb->labels_arena);
	sb->labels_arena = fresh;
	sb->info.labels = copy;
	return 0;
}

void sandbox_egress_free(struct sandbox_egress *egress)
{
	if (egress)
		arena_fini(&egress->arena);
	free(egress);
}

static int egress_spec_copy(const struct egress_spec *in, struct arena *arena, bool *ret_has,
			    struct egress_spec *ret)
{
	struct field_list one;

	*ret_has = in != NULL;
	if (!in)
		return 0;
	if (field_list_copy(&egress_spec_table, &(struct field_list){ (void *)(uintptr_t)in, 1 },
			    arena, &one) < 0)
		return -ENOMEM;
	*ret = *(const struct egress_spec *)one.v;
	return 0;
}

int sandbox_set_egress(struct sandbox *sb, const struct egress_spec *own,
		       const struct egress_spec *template, uint64_t generation)
{
	struct sandbox_egress *fresh = calloc(1, sizeof(*fresh));

	if (!fresh)
		return -ENOMEM;
	fresh->arena = ARENA_INIT_SMALL(EGRESS_ARENA_MAX);
	fresh->generation = generation;
	if (egress_spec_copy(own, &fresh->arena, &fresh->has_own, &fresh->own) < 0 ||
	    egress_spec_copy(template, &fresh->arena, &fresh->has_template, &fresh->template) < 0) {
		sandbox_egress_free(fresh);
		return -ENOMEM;
	}
	sandbox_egress_free(sb->egress);
	sb->egress = fresh;
	return 0;
}

void sandbox_drop_private(struct sandbox *sb)
{
	struct sandbox_info info = sb->info;
	const char *key = sb->idempotency_key, *hash = sb->idempotency_hash;
	struct arena fresh = ARENA_INIT_SMALL(ENDED_MAX);
	const char **texts[] = { &info.image,      &info.template,  &info.name, &info.group,
				 &info.timezone,   &info.entry,     &key,       &hash,
				 &info.end.detail, &info.end.signal };
	bool all = texts_copy(&fresh, &sb->info.writable, &info.writable) >= 0;

	for (size_t i = 0; all && i < ARRAY_SIZE(texts); i++)
		if (*texts[i] && !(*texts[i] = text_copy(&fresh, *texts[i])))
			all = false;
	if (!all) { /* no memory: it stays as it is */
		arena_fini(&fresh);
		return;
	}
	arena_fini(&sb->arena);
	sb->arena = fresh;
	sb->info = info;
	sb->idempotency_key = key;
	sb->idempotency_hash = hash;
	sb->env = (struct field_map){};
	sb->entrypoint = (struct field_texts){};
	sb->services = (struct field_list){};
	sandbox_egress_free(cay_take(sb->egress));
}
