/* SPDX-License-Identifier: Apache-2.0 */
#include "init/kernel/kernel.h"

/* So much do a result and each of its forms count besides their text: a client that reads few bytes
 * reads few values too. */
#define RESULT_COST 512
#define FORM_COST 128

static uint64_t json_text_size(const char *text)
{
	uint64_t n = FORM_COST;

	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		n += c < 0x20 || c == 0x7f ? 6 : c == '"' || c == '\\' ? 2 : 1;
	}
	return n;
}

static uint64_t json_map_size(const struct field_map *map)
{
	uint64_t n = 0;

	for (size_t i = 0; i < map->n; i++)
		n += json_text_size(map->keys[i]) + json_text_size(map->values[i]);
	return n;
}

/* The event keeps its own maps and list: these are copies. */
static bool result_copy_rows(struct kernel_result *r, struct arena *arena)
{
	size_t n = r->data.n;
	const char **keys = arena_alloc(arena, n + 1, sizeof(char *)),
		   **values = arena_alloc(arena, n + 1, sizeof(char *));
	struct kernel_cut *cut = arena_alloc(arena, r->cut.n + n + 1, sizeof(*cut));

	if (!keys || !values || !cut)
		return false;
	if (r->cut.n)
		memcpy(cut, r->cut.v, r->cut.n * sizeof(*cut));
	r->cut.v = cut;
	for (size_t i = 0; i < n; i++) {
		keys[i] = r->data.keys[i];
		values[i] = r->data.values[i];
	}
	r->data.keys = keys;
	r->data.values = values;
	return true;
}

/* Move the data that does not fit to `cut`; a smaller form after it may fit. */
static void result_cut_data(struct kernel_result *r, uint64_t *left)
{
	struct kernel_cut *cut = r->cut.v;
	struct field_map *data = &r->data;
	size_t kept = 0;

	for (size_t i = 0; i < data->n; i++) {
		uint64_t size = json_text_size(data->keys[i]) + json_text_size(data->values[i]);

		if (size > *left) {
			cut[r->cut.n++] = (struct kernel_cut){ .mime = data->keys[i],
							       .bytes = strlen(data->values[i]) };
			continue;
		}
		*left -= size;
		data->keys[kept] = data->keys[i];
		data->values[kept++] = data->values[i];
	}
	data->n = kept;
}

bool kernel_limit_results(struct run_info *reply, uint64_t max, struct arena *arena)
{
	struct kernel_result *rows = reply->results.v;
	uint64_t left = max;
	size_t i;

	for (i = 0; i < reply->results.n; i++) {
		struct kernel_result *r = &rows[i];
		/* cut may name all of its forms */
		uint64_t fixed = RESULT_COST + (r->data.n + r->cut.n) * FORM_COST,
			 metadata = json_map_size(&r->metadata);

		if (fixed > left)
			break;
		left -= fixed;
		if (metadata > left)
			r->metadata = (struct field_map){};
		else
			left -= metadata;
		if (json_map_size(&r->data) <= left)
			left -= json_map_size(&r->data);
		else if (result_copy_rows(r, arena))
			result_cut_data(r, &left);
		else
			return false;
	}
	reply->results_dropped += reply->results.n - i;
	reply->results.n = i;
	return true;
}
