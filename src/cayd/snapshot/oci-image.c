/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/snapshot/oci-image.h"

#include <sys/stat.h>
#include <unistd.h>

#include "archive/tar.h"
#include "base/clock.h"
#include "base/jsonw.h"
#include "base/path.h"
#include "text/hex.h"

#if defined(__aarch64__)
#define OUR_ARCH "arm64"
#else
#define OUR_ARCH "amd64"
#endif

/* With a comment there is a pax header, also where the size does not need one, so that a header
 * always is as long. */
#define NOTE "layer"
#define HEADER (UINT64_C(3) * TAR_BLOCK)
#define HASH_PIECE KIB(256)
#define DIGEST_TEXT (sizeof("sha256:") + FILE_HASH_HEX)
#define MEDIA(what) "application/vnd.oci.image." what

uint64_t oci_image_layer_at(const struct oci_image *o)
{
	return o->at + HEADER;
}

int oci_image_begin_layer(const struct oci_image *o, int fd, struct cay_err *err)
{
	return lseek(fd, (off_t)oci_image_layer_at(o), SEEK_SET) < 0
		       ? cay_fail_sys(err, CAY_E_INTERNAL, errno, "seek in an archive")
		       : 0;
}

static int on_oci_image_write(void *arg, const void *p, size_t n, struct cay_err *err)
{
	return buf_append(arg, p, n) < 0 ? cay_no_memory(err) : 0;
}

static int oci_image_add_header(struct buf *to, const char *name, uint64_t size, const char *note,
				struct cay_err *err)
{
	struct tar_entry e = {
		.type = TAR_FILE, .name = name, .mode = 0644, .size = size, .note = note
	};
	struct tar_writer tar;
	int r;

	tar_writer_init(&tar, on_oci_image_write, to);
	r = tar_write_entry(&tar, &e, err);
	tar_writer_fini(&tar);
	return r;
}

static void oci_image_blob_name(const uint8_t digest[static FILE_HASH_LEN],
				char ret[static sizeof("blobs/sha256/") + FILE_HASH_HEX])
{
	static const char dir[] = "blobs/sha256/";

	memcpy(ret, dir, sizeof(dir));
	hex_encode(digest, FILE_HASH_LEN, ret + sizeof(dir) - 1);
}

int oci_image_hash(struct oci_image *o, int fd, struct cay_err *err)
{
	uint64_t at = oci_image_layer_at(o), end;
	auto_free char *piece = NULL;
	struct stat st;

	if (o->n == OCI_IMAGE_LAYERS_MAX)
		return cay_fail(err, CAY_E_LIMIT, "an image has at most %d layers",
				OCI_IMAGE_LAYERS_MAX);
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size <= at)
		return cay_fail(err, CAY_E_INTERNAL, "the packer wrote no layer");
	piece = malloc(HASH_PIECE);
	if (!piece)
		return cay_no_memory(err);
	if (!o->hashed)
		file_hash_begin(&o->hash);
	o->layers[o->n].size = (uint64_t)st.st_size - at;
	end = o->layers[o->n].size - o->hashed;
	end = o->hashed + (end < OCI_IMAGE_HASH_TURN ? end : OCI_IMAGE_HASH_TURN);
	while (o->hashed < end) {
		uint64_t left = end - o->hashed;
		ssize_t n = pread(fd, piece, left < HASH_PIECE ? left : HASH_PIECE,
				  (off_t)(at + o->hashed));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, n < 0 ? errno : EIO,
					    "read a layer again");
		file_hash_add(&o->hash, piece, (size_t)n);
		o->hashed += (uint64_t)n;
	}
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): its cleanup frees it */
	return o->hashed < o->layers[o->n].size;
}

int oci_image_end_layer(struct oci_image *o, int fd, struct cay_err *err)
{
	uint64_t end;
	struct oci_image_layer *l = &o->layers[o->n];
	auto_buf header = BUF_INIT(HEADER);
	char name[sizeof("blobs/sha256/") + FILE_HASH_HEX];

	file_hash_end(&o->hash, l->digest);
	oci_image_blob_name(l->digest, name);
	if (oci_image_add_header(&header, name, l->size, NOTE, err) < 0)
		return -EIO;
	end = (oci_image_layer_at(o) + l->size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
	if (header.len != HEADER || ftruncate(fd, (off_t)end) < 0 ||
	    lseek(fd, (off_t)o->at, SEEK_SET) < 0 || fd_write_all(fd, header.data, header.len) < 0)
		return cay_fail_sys(err, cay_code_from_disk_errno(errno), errno,
				    "write the header of a layer");
	o->at = end;
	o->hashed = 0;
	o->n++;
	return 0;
}

/* A whole entry, padded. */
static int oci_image_add_file(struct buf *to, const char *name, struct slice content,
			      struct cay_err *err)
{
	static const char zeros[TAR_BLOCK];
	size_t pad = (TAR_BLOCK - content.n % TAR_BLOCK) % TAR_BLOCK;
	int r = oci_image_add_header(to, name, content.n, NULL, err);

	if (r < 0)
		return r;
	if (buf_append(to, content.p, content.n) < 0 || buf_append(to, zeros, pad) < 0)
		return cay_no_memory(err);
	return 0;
}

static void oci_image_write_descriptor(struct jw *w, const char *key, const char *media,
				       const struct oci_image_layer *l)
{
	char digest[DIGEST_TEXT] = "sha256:";

	hex_encode(l->digest, sizeof(l->digest), digest + strlen(digest));
	jw_object_begin(w, key);
	jw_str(w, "mediaType", media);
	jw_str(w, "digest", digest);
	jw_u64(w, "size", l->size);
	jw_end(w);
}

/* As a blob; its descriptor. */
static int oci_image_add_blob(struct buf *to, const struct buf *text, struct oci_image_layer *ret,
			      struct cay_err *err)
{
	char name[sizeof("blobs/sha256/") + FILE_HASH_HEX];
	struct file_hash h;

	file_hash_begin(&h);
	file_hash_add(&h, text->data, text->len);
	file_hash_end(&h, ret->digest);
	ret->size = text->len;
	oci_image_blob_name(ret->digest, name);
	return oci_image_add_file(to, name, (struct slice){ text->data, text->len }, err);
}

static void oci_image_write_variables(struct jw *w, const struct field_map *env)
{
	jw_array_begin(w, "Env");
	for (size_t i = 0; i < env->n; i++) {
		auto_buf text = BUF_INIT(KIB(256));

		if (buf_printf(&text, "%s=%s", env->keys[i], env->values[i]) < 0 && !w->err)
			w->err = -ENOMEM;
		jw_str(w, NULL, buf_str(&text));
	}
	jw_end(w);
}

static void oci_image_write_config(struct jw *w, const struct oci_image *o,
				   const struct image_config *config, uint64_t created_wall_ns)
{
	char created[CLK_TEXT_LEN + 1];

	clk_format_rfc3339(created_wall_ns, created);
	jw_object_begin(w, NULL);
	jw_str(w, "created", created);
	jw_str(w, "architecture", OUR_ARCH);
	jw_str(w, "os", "linux");
	jw_object_begin(w, "config");
	oci_image_write_variables(w, &config->env);
	if (config->user)
		jw_str(w, "User", config->user);
	if (config->cwd)
		jw_str(w, "WorkingDir", config->cwd);
	if (config->has_argv) {
		jw_array_begin(w, "Cmd");
		for (size_t i = 0; i < config->argv.n; i++)
			jw_str(w, NULL, config->argv.v[i]);
		jw_end(w);
	}
	jw_end(w);
	jw_object_begin(w, "rootfs");
	jw_str(w, "type", "layers");
	jw_array_begin(w, "diff_ids");
	for (unsigned i = 0; i < o->n; i++) {
		char digest[DIGEST_TEXT] = "sha256:";

		hex_encode(o->layers[i].digest, FILE_HASH_LEN, digest + strlen(digest));
		jw_str(w, NULL, digest);
	}
	jw_end(w);
	jw_end(w);
	jw_end(w);
}

static void oci_image_write_manifest(struct jw *w, const struct oci_image *o,
				     const struct oci_image_layer *config)
{
	jw_object_begin(w, NULL);
	jw_u64(w, "schemaVersion", 2);
	jw_str(w, "mediaType", MEDIA("manifest.v1+json"));
	oci_image_write_descriptor(w, "config", MEDIA("config.v1+json"), config);
	jw_array_begin(w, "layers");
	for (unsigned i = 0; i < o->n; i++)
		oci_image_write_descriptor(w, NULL, MEDIA("layer.v1.tar"), &o->layers[i]);
	jw_end(w);
	jw_end(w);
}

static void oci_image_write_index(struct jw *w, const struct oci_image_layer *manifest)
{
	jw_object_begin(w, NULL);
	jw_u64(w, "schemaVersion", 2);
	jw_str(w, "mediaType", MEDIA("index.v1+json"));
	jw_array_begin(w, "manifests");
	oci_image_write_descriptor(w, NULL, MEDIA("manifest.v1+json"), manifest);
	jw_end(w);
	jw_end(w);
}

int oci_image_finish(const struct oci_image *o, const struct image_config *config,
		     uint64_t created_wall_ns, struct buf *ret, struct cay_err *err)
{
	static const char zeros[2 * TAR_BLOCK];
	auto_buf text = BUF_INIT(OCI_IMAGE_TEXTS_MAX);
	struct oci_image_layer about_config, about_manifest;
	struct jw w = jw_to(&text);

	oci_image_write_config(&w, o, config, created_wall_ns);
	if (jw_finish(&w) < 0)
		return cay_no_memory(err);
	if (oci_image_add_blob(ret, &text, &about_config, err) < 0)
		return -EIO;
	buf_clear(&text);
	w = jw_to(&text);
	oci_image_write_manifest(&w, o, &about_config);
	if (jw_finish(&w) < 0)
		return cay_no_memory(err);
	if (oci_image_add_blob(ret, &text, &about_manifest, err) < 0)
		return -EIO;
	buf_clear(&text);
	w = jw_to(&text);
	oci_image_write_index(&w, &about_manifest);
	if (jw_finish(&w) < 0)
		return cay_no_memory(err);
	if (oci_image_add_file(ret, "index.json", (struct slice){ text.data, text.len }, err) < 0)
		return -EIO;
	buf_clear(&text);
	w = jw_to(&text);
	jw_object_begin(&w, NULL);
	jw_str(&w, "imageLayoutVersion", "1.0.0");
	jw_end(&w);
	if (jw_finish(&w) < 0)
		return cay_no_memory(err);
	if (oci_image_add_file(ret, "oci-layout", (struct slice){ text.data, text.len }, err) < 0)
		return -EIO;
	return buf_append(ret, zeros, sizeof(zeros)) < 0 ? cay_no_memory(err) : 0;
}
