/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_OCI_LAYOUT_H
#define CAY_UNPACK_OCI_LAYOUT_H
/* oci-layout - an image in a plain tar: offsets of its files, and blobs
 *
 * The tar is an OCI image layout (index.json, blobs/), an archive of `docker save` (manifest.json
 * and the files it names) or the tree itself; the names found decide.  Files without a digest of
 * their own are hashed and are blobs from then on.
 *
 * Another process has the tar open and may change it while it is read.  So nothing is trusted
 * twice: a blob's bytes are hashed as they are returned, and blob_verify() checks them against the
 * expected digest.  Offsets only say where to read.  Reads use pread; the file offset is shared
 * with the sender.
 *
 * Runs in the confined child only. */
#include "base/buf.h"
#include "base/err.h"
#include "unpack/digest.h"

#define LAYOUT_BLOBS_MAX 4096
#define LAYOUT_ENTRIES_MAX 65536
#define LAYOUT_NAMES_MAX 4096
#define LAYOUT_NAME_MAX 255
#define LAYOUT_JSON_MAX MIB(1) /* index.json, manifests */

struct oci_layout_file {
	struct digest digest;
	uint64_t at, size;
};

/* A file manifest.json may name: NAME.json, NAME.tar, or a link to one of them. */
struct oci_layout_name {
	char *name, *link; /* link: NULL for a file */
	struct oci_layout_file file;
};

enum oci_layout_kind { LAYOUT_NONE, LAYOUT_OCI, LAYOUT_DOCKER, LAYOUT_TREE };

struct oci_layout {
	int fd; /* borrowed */
	struct oci_layout_file *blobs;
	size_t n_blobs;
	struct oci_layout_file index; /* size 0 when absent; has no digest */
	struct oci_layout_name *names;
	size_t n_names;
	bool has_blobs;    /* something below blobs/ */
	bool has_programs; /* an executable file */
};

/* A manifest's description of a blob. */
struct descriptor {
	struct digest digest;
	uint64_t size;
	unsigned media; /* enum media, see manifest.h */
};

[[nodiscard]] int oci_layout_open(int tar_fd, struct oci_layout *ret, struct cay_err *err);
void oci_layout_fini(struct oci_layout *l);
enum oci_layout_kind oci_layout_detect_kind(const struct oci_layout *l);
/* By name; a link is followed once.  NULL. */
const struct oci_layout_file *oci_layout_find_file(const struct oci_layout *l, const char *name);
/* A whole file that has no digest yet, no longer than the buffer allows. */
[[nodiscard]] int oci_layout_read_file(const struct oci_layout *l, const struct oci_layout_file *f,
				       struct buf *ret, struct cay_err *err);
/* Hash such a file: a blob from now on.  Its media is a tar, by its first bytes plain
 * or compressed. */
[[nodiscard]] int oci_layout_add_blob(struct oci_layout *l, const struct oci_layout_file *f,
				      struct descriptor *ret, struct cay_err *err);
[[nodiscard]] int oci_layout_read_index(const struct oci_layout *l, struct buf *ret,
					struct cay_err *err);
/* A whole blob with the size and digest of its descriptor, no longer than the buffer allows. */
[[nodiscard]] int oci_layout_read_blob(const struct oci_layout *l, const struct descriptor *d,
				       struct buf *ret, struct cay_err *err);

/* Messages name the fault of a blob; the caller adds which one it is. */
struct blob {
	int fd;
	uint64_t at, left;
	struct digest want;
	struct hash hash;
	char *chunk;
};

#define auto_blob CAY_CLEANUP(blob_fini) struct blob
[[nodiscard]] int blob_open(const struct oci_layout *l, const struct descriptor *d,
			    struct blob *ret, struct cay_err *err);
/* The next bytes, valid until the next call; *n is 0 at the end. */
[[nodiscard]] int blob_read_next(struct blob *b, const void **ret, size_t *n, struct cay_err *err);
/* Read the rest, and compare. */
[[nodiscard]] int blob_verify(struct blob *b, struct cay_err *err);
void blob_fini(struct blob *b);
#endif
