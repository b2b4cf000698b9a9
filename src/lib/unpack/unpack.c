/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/unpack.h"

#include <sys/stat.h>

#include "base/path.h"
#include "unpack/decompress.h"
#include "unpack/docker.h"
#include "unpack/rootfs.h"
#include "unpack/unpack-layer.h"

#define auto_layout CAY_CLEANUP(oci_layout_fini) struct oci_layout

static struct slice unpack_buf_slice(const struct buf *b)
{
	return (struct slice){ b->data, b->len };
}

/* index.json -> manifest, or index.json -> index -> manifest, and no further. */
static int unpack_find_manifest(const struct oci_layout *l, struct image_choice *choice,
				struct manifest *ret, struct buf *ret_text, struct cay_err *err)
{
	struct image_choice only = {};
	auto_buf index = BUF_INIT(LAYOUT_JSON_MAX), nested = BUF_INIT(LAYOUT_JSON_MAX);
	struct descriptor d = {};
	int r = oci_layout_read_index(l, &index, err);

	if (r >= 0)
		r = manifest_pick_platform(unpack_buf_slice(&index), choice, &d, err);
	if (r >= 0 && d.media == MEDIA_INDEX) {
		r = oci_layout_read_blob(l, &d, &nested, err);
		if (r >= 0)
			r = manifest_pick_platform(unpack_buf_slice(&nested), &only, &d, err);
		if (r >= 0 && d.media == MEDIA_INDEX)
			r = cay_fail(err, CAY_E_INVALID, "an index in an index in an index");
	}
	if (r >= 0)
		r = oci_layout_read_blob(l, &d, ret_text, err);
	if (r >= 0)
		r = manifest_parse(unpack_buf_slice(ret_text), ret, err);
	if (r >= 0)
		docker_archive_read_names(l, &ret->config.digest, choice);
	return r;
}

/* The tar is the one layer. */
static int unpack_read_tree(struct oci_layout *l, struct manifest *m, struct buf *config,
			    struct cay_err *err)
{
	struct oci_layout_file whole = {};
	struct stat st;
	int r;

	if (fstat(l->fd, &st) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot read the image");
	whole.size = (uint64_t)st.st_size;
	*m = (struct manifest){ .n_layers = 1 };
	r = oci_layout_add_blob(l, &whole, &m->layers[0], err);
	if (r >= 0)
		r = manifest_write_config(&m->layers[0].digest, config, err);
	if (r < 0)
		return r;
	m->config = (struct descriptor){ .size = config->len, .media = MEDIA_CONFIG };
	return digest_compute(config->data, config->len, &m->config.digest) < 0
		       ? cay_fail(err, CAY_E_INTERNAL, "cannot hash the config")
		       : 0;
}

/* One that has no manifest gets the one it would have had. */
static int unpack_read_image(struct oci_layout *l, struct image_choice *choice, struct manifest *m,
			     struct buf *text, struct buf *config, struct cay_err *err)
{
	int r;

	switch (oci_layout_detect_kind(l)) {
	case LAYOUT_OCI:
		r = unpack_find_manifest(l, choice, m, text, err);
		return r < 0 ? r : oci_layout_read_blob(l, &m->config, config, err);
	case LAYOUT_DOCKER:
		r = docker_archive_read(l, choice, m, config, err);
		break;
	case LAYOUT_TREE:
		r = image_choice_check(choice, 1, err);
		if (r >= 0)
			r = unpack_read_tree(l, m, config, err);
		break;
	case LAYOUT_NONE:
	default:
		return cay_fail(err, CAY_E_INVALID,
				"there is no index.json, no manifest.json and no program: not an "
				"OCI image layout, not an archive of docker and not a tree");
	}
	return r < 0 ? r : manifest_write(m, text, err);
}

static int unpack_write_config(struct slice text, size_t n_layers,
			       const struct image_choice *choice,
			       struct digest diff_ids[static MANIFEST_LAYERS_MAX], int fd,
			       struct cay_err *err)
{
	auto_buf json = BUF_INIT(UNPACK_CONFIG_MAX);
	int r = manifest_parse_config(text, n_layers, choice, diff_ids, &json, err);

	if (r < 0)
		return r;
	r = fd_write_all(fd, json.data, json.len);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, r, "cannot write the config") : 0;
}

static int unpack_write_manifest(const struct buf *text, int fd, struct cay_err *err)
{
	int r = fd_write_all(fd, text->data, text->len);

	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, r, "cannot write the manifest") : 0;
}

int unpack_image(int root, int tar_fd, struct unpack_texts to, uint64_t max_bytes, uint64_t which,
		 struct unpack_result *ret, struct cay_err *err)
{
	struct image_choice choice = { .which = which };
	struct layer_budget left = { max_bytes, max_bytes, LAYER_ENTRIES_MAX, 0 };
	struct digest diff_ids[MANIFEST_LAYERS_MAX];
	auto_buf config = BUF_INIT(MANIFEST_CONFIG_MAX), text = BUF_INIT(LAYOUT_JSON_MAX);
	auto_layout layout = { .fd = -EBADF };
	auto_close int plain = -EBADF;
	struct manifest m = {};
	int r = decompress_open(root, tar_fd, max_bytes, &plain, err);

	if (r >= 0)
		r = oci_layout_open(plain >= 0 ? plain : tar_fd, &layout, err);
	if (r >= 0)
		r = unpack_read_image(&layout, &choice, &m, &text, &config, err);
	if (r >= 0)
		r = unpack_write_manifest(&text, to.manifest_fd, err);
	if (r >= 0)
		r = unpack_write_config(unpack_buf_slice(&config), m.n_layers, &choice, diff_ids,
					to.config_fd, err);
	for (size_t i = 0; r >= 0 && i < m.n_layers; i++)
		r = layer_apply(root, &layout, &m.layers[i], &diff_ids[i], i == 0, &left, err);
	if (r >= 0)
		r = rootfs_check_mount_dirs(root, /* make= */ true, err);
	ret->bytes = max_bytes - left.file_bytes;
	ret->skipped = left.skipped;
	return r;
}
