/* SPDX-License-Identifier: Apache-2.0 */
/* texts - what a sandbox keeps in its arena, and what remains of it once it ends */
#include "auth/export-token.h"
#include "cayd/core/init-call.h"
#include "cayd/image/image.h"
#include "cayd/sandbox/sandbox.h"

/* An ended sandbox: its public texts without the labels. */
#define ENDED_MAX KIB(128)
#define EGRESS_ARENA_MAX KIB(256)
#define EXPORTS_ARENA_MAX KIB(512)
/* Of an export: each byte of its path may be percent-encoded. */
#define TARGET_MAX (3 * KIB(6) + 512)
static_assert(PUSH_EXPORT_TAG == EXPORT_TAG_LEN);

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

void sandbox_answers_free(struct sandbox_answers *answers)
{
	if (answers)
		arena_fini(&answers->arena);
	free(answers);
}

static int answers_fill(struct sandbox_answers *to, const struct field_list *from, uint64_t now_ns)
{
	const struct egress_remembered *rows = from->v;
	struct egress_rule_spec *rules = arena_alloc(&to->arena, from->n + 1, sizeof(*rules));

	to->v = arena_alloc(&to->arena, from->n + 1, sizeof(*to->v));
	if (!rules || !to->v)
		return -ENOMEM;
	for (size_t i = 0; i < from->n; i++) {
		struct egress_remembered *row = &to->v[to->n];
		auto_buf port = BUF_INIT(8);
		const char **ports = arena_alloc(&to->arena, 1, sizeof(*ports));

		*row = rows[i];
		row->to = text_copy(&to->arena, rows[i].to);
		if (!row->to || !ports || buf_printf(&port, "%u", (uint16_t)row->port) < 0)
			return -ENOMEM;
		*ports = text_copy(&to->arena, buf_str(&port));
		if (!*ports)
			return -ENOMEM;
		rules[to->n] = (struct egress_rule_spec){ .action = row->verdict,
							  .to = row->to,
							  .ports = { ports, 1 },
							  .has_ports = true };
		to->n += !row->until_ns || row->until_ns > now_ns;
	}
	to->spec = (struct egress_spec){ .rules = { rules, to->n }, .otherwise = EGRESS_SPEC_ASK };
	return 0;
}

int sandbox_set_answers(struct sandbox *sb, const struct field_list *answers)
{
	struct sandbox_answers *fresh;

	if (!answers->n && !sb->answers)
		return 0;
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	fresh->arena = ARENA_INIT_SMALL(EGRESS_ARENA_MAX);
	if (answers_fill(fresh, answers, clk_wall_ns(sb->cayd->clk)) < 0) {
		sandbox_answers_free(fresh);
		return -ENOMEM;
	}
	sandbox_answers_free(sb->answers);
	sb->answers = fresh;
	return 0;
}

/* Every sandbox of a group with a policy has the answers of the group. */
static const struct sandbox *sandbox_find_of_group(const struct sandbox *like)
{
	struct sandbox *sb = sandbox_find_before(like->cayd->sandboxes, &like->info.tenant, 0);

	for (; sb; sb = sandbox_next_of_tenant(sb))
		if (sb != like && sb->egress && !life_is_finished(&sb->life) && sb->info.group &&
		    str_eq(sb->info.group, like->info.group))
			return sb;
	return NULL;
}

int sandbox_inherit_answers(struct sandbox *sb)
{
	const struct sandbox *from = sb->info.group ? sandbox_find_of_group(sb) : NULL;
	struct egress_remembered rows[ANSWERS_MAX];
	size_t n = 0;

	for (size_t i = 0; from && from->answers && i < from->answers->n; i++)
		if (from->answers->v[i].remember == REMEMBER_GROUP && n < ANSWERS_MAX)
			rows[n++] = from->answers->v[i];
	return sandbox_set_answers(sb, &(struct field_list){ rows, n });
}

struct field_list sandbox_list_answers(const struct sandbox *sb)
{
	return sb->answers ? (struct field_list){ sb->answers->v, sb->answers->n }
			   : (struct field_list){};
}

const char *sandbox_workspace(const struct sandbox *sb)
{
	const struct image *image = image_by_digest(sb->cayd->images, sb->image);

	return image && image->config.cwd ? image->config.cwd : "/";
}

int export_target_format(const struct id *sandbox, const struct export_record *e, struct buf *ret)
{
	int r = tree_target_format(sandbox, e->info.type == EXPORT_DIR ? "tar" : NULL, e->info.path,
				   e->info.path_b64, ret);

	return r < 0 ? r : buf_printf(ret, "&token=%s", e->token);
}

void sandbox_exports_free(struct sandbox_exports *exports)
{
	if (exports)
		arena_fini(&exports->arena);
	free(exports);
}

static int exports_compute_tags(const struct sandbox *sb, struct sandbox_exports *to)
{
	auto_buf target = BUF_INIT(TARGET_MAX);

	for (size_t i = 0; i < to->n; i++) {
		buf_clear(&target);
		if (export_target_format(&sb->info.id, &to->v[i], &target) < 0)
			return -ENOMEM;
		export_tag((struct slice){ target.data, target.len }, to->tags[i]);
	}
	return 0;
}

int sandbox_set_exports(struct sandbox *sb, const struct field_list *records)
{
	struct sandbox_exports *fresh;
	struct field_list copy = {};
	int r;

	if (records->n > PUSH_EXPORTS_MAX)
		return -ENOMEM;
	if (!records->n && !sb->exports)
		return 0;
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	fresh->arena = ARENA_INIT_SMALL(EXPORTS_ARENA_MAX);
	r = field_list_copy(&export_record_table, records, &fresh->arena, &copy);
	fresh->v = copy.v;
	fresh->n = copy.n;
	if (r < 0 || exports_compute_tags(sb, fresh) < 0) {
		sandbox_exports_free(fresh);
		return -ENOMEM;
	}
	sandbox_exports_free(sb->exports);
	sb->exports = fresh;
	return 0;
}

struct field_list sandbox_list_exports(const struct sandbox *sb)
{
	return sb->exports ? (struct field_list){ sb->exports->v, sb->exports->n }
			   : (struct field_list){};
}

void sandbox_drop_private(struct sandbox *sb)
{
	struct sandbox_info info = sb->info;
	const char *key = sb->idempotency_key, *hash = sb->idempotency_hash;
	struct arena fresh = ARENA_INIT_SMALL(ENDED_MAX);
	const char **texts[] = { &info.image,      &info.template,  &info.name, &info.group,
				 &info.timezone,   &info.entry,     &key,       &hash,
				 &info.end.detail, &info.end.signal };
	bool all =
		texts_copy(&fresh, &sb->info.writable, &info.writable) >= 0 &&
		field_list_copy(&volume_mount_table, &sb->info.volumes, &fresh, &info.volumes) >= 0;

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
	sb->services = sb->kernels = (struct field_list){};
	sandbox_egress_free(cay_take(sb->egress));
	sandbox_answers_free(cay_take(sb->answers));
	sandbox_exports_free(cay_take(sb->exports));
}
