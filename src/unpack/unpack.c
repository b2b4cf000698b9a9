/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/unpack.h"

#include "base/path.h"
#include "unpack/layer.h"
#include "unpack/rootfs.h"

#define auto_layout CAY_CLEANUP(layout_fini) struct layout

static struct slice text_of(const struct buf *b)
{
	return (struct slice){ b->data, b->len };
}

/* index.json -> manifest, or index.json -> index -> manifest, and no further. */
static int find_manifest(const struct layout *l, struct manifest *ret, struct digest *ret_digest,
			 struct cay_err *err)
{
	auto_buf index = BUF_INIT(LAYOUT_JSON_MAX), nested = BUF_INIT(LAYOUT_JSON_MAX);
	auto_buf text = BUF_INIT(LAYOUT_JSON_MAX);
	struct descriptor d = {};
	int r = layout_read_index(l, &index, err);

	if (r >= 0)
		r = manifest_pick(text_of(&index), &d, err);
	if (r >= 0 && d.media == MEDIA_INDEX) {
		r = layout_read(l, &d, &nested, err);
		if (r >= 0)
			r = manifest_pick(text_of(&nested), &d, err);
		if (r >= 0 && d.media == MEDIA_INDEX)
			r = cay_fail(err, CAY_E_INVALID, "an index in an index in an index");
	}
	if (r >= 0)
		r = layout_read(l, &d, &text, err);
	if (r >= 0)
		r = manifest_read(text_of(&text), ret, err);
	*ret_digest = d.digest;
	return r;
}

static int write_config(const struct layout *l, const struct manifest *m,
			struct digest diff_ids[static MANIFEST_LAYERS_MAX], int fd,
			struct cay_err *err)
{
	auto_buf text = BUF_INIT(MANIFEST_CONFIG_MAX), json = BUF_INIT(UNPACK_CONFIG_MAX);
	int r = layout_read(l, &m->config, &text, err);

	if (r >= 0)
		r = manifest_read_config(text_of(&text), m->n_layers, diff_ids, &json, err);
	if (r < 0)
		return r;
	r = path_write_all(fd, json.data, json.len);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, r, "cannot write the config") : 0;
}

int unpack(int root, int tar_fd, int config_fd, uint64_t max_bytes, struct unpacked *ret,
	   struct cay_err *err)
{
	struct layer_budget left = { max_bytes, max_bytes, LAYER_ENTRIES_MAX, 0 };
	struct digest diff_ids[MANIFEST_LAYERS_MAX];
	auto_layout layout = { .fd = -EBADF };
	struct manifest m;
	int r = layout_scan(tar_fd, &layout, err);

	if (r >= 0)
		r = find_manifest(&layout, &m, &ret->digest, err);
	if (r >= 0)
		r = write_config(&layout, &m, diff_ids, config_fd, err);
	for (size_t i = 0; r >= 0 && i < m.n_layers; i++)
		r = layer_apply(root, &layout, &m.layers[i], &diff_ids[i], i == 0, &left, err);
	if (r >= 0)
		r = rootfs_check(root, /* make= */ true, err);
	ret->bytes = max_bytes - left.file_bytes;
	ret->skipped = left.skipped;
	return r;
}
