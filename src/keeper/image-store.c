/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/image-store.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/path.h"
#include "base/rmtree.h"
#include "base/str.h"
#include "unpack/rootfs.h"
#include "unpack/tree-compare.h"
#include "unpack/unpack-confine.h"
#include "unpack/unpack-texts.h"
#include "unpack/unpack.h"

static_assert(ROOTFS_IDS == FOREIGN_IDS, "an id of an image has a place on disk");

#define UNPACK_DEADLINE_NS (600 * NS_PER_S)
#define PARENT "parent"
/* The project number of all layers together, which has no limit. */
#define LAYERS_NUMBER VERB_RANGE_FOREIGN
#define WORK_NAME_LEN 16

/* A private directory in images/tmp. */
struct image_work {
	int tmp_fd, fd;          /* fd: the directory itself */
	const struct disk *disk; /* of layers; NULL: not a layer */
	char name[WORK_NAME_LEN + 1];
};

#define auto_work CAY_CLEANUP(image_work_fini) struct image_work

/* The child's result; nothing in it is trusted. */
struct image_unpack_result {
	struct confined_report report;
	struct unpack_result unpacked;
};
static_assert(sizeof(struct image_unpack_result) <= 4096, "one write to a pipe");

struct image_unpack_job {
	int tar_fd, tree_fd, result_fd;
	struct unpack_texts texts;
	uint64_t max_bytes, which;
};

static int image_store_make_dir(int dirfd, const char *name)
{
	if (mkdirat(dirfd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	return path_open(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
}

static int image_work_random_name(struct image_work *w)
{
	uint64_t random;
	int n;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	n = snprintf(w->name, sizeof(w->name), "%016" PRIx64, random);
	return n == WORK_NAME_LEN ? 0 : -EIO;
}

/* The outer directory stays owned by root: the child can create nothing beside rootfs. */
static int image_work_make_dir(struct image_work *w)
{
	if (mkdirat(w->tmp_fd, w->name, 0755) < 0)
		return -errno;
	w->fd = path_open(w->tmp_fd, w->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (w->fd < 0)
		return w->fd;
	return fchmod(w->fd, 0755) < 0 ? -errno : 0;
}

static int image_work_make_rootfs(const struct image_work *w)
{
	if (mkdirat(w->fd, IMAGE_ROOTFS, 0755) < 0 || fchmodat(w->fd, IMAGE_ROOTFS, 0755, 0) < 0 ||
	    fchownat(w->fd, IMAGE_ROOTFS, FOREIGN_BASE, FOREIGN_BASE, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

static int image_work_init(int images_fd, struct image_work *w)
{
	int r;

	w->tmp_fd = image_store_make_dir(images_fd, "tmp");
	if (w->tmp_fd < 0)
		return w->tmp_fd;
	r = image_work_random_name(w);
	return r < 0 ? r : image_work_make_dir(w);
}

/* A disk may be a subvolume, out of which rmtree_at() cannot rename. */
static void image_layer_remove_disk(const struct disk *disk, int tmp_fd, const char *name)
{
	auto_close int dir = path_open(tmp_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

	if (dir >= 0)
		disk_remove(disk, dir, IMAGE_DISK, LAYERS_NUMBER);
}

/* Succeeds when it was renamed away. */
static int image_work_remove(const struct image_work *w)
{
	if (w->disk)
		image_layer_remove_disk(w->disk, w->tmp_fd, w->name);
	return rmtree_at(w->tmp_fd, w->name);
}

static void image_work_fini(struct image_work *w)
{
	if (w->tmp_fd >= 0 && w->name[0])
		(void)image_work_remove(w);
	cay_closep(&w->fd);
	cay_closep(&w->tmp_fd);
}

static int image_unpack_confined(struct image_unpack_job *job, int parent,
				 struct unpack_result *ret, struct cay_err *err)
{
	struct confine c = {
		.tree_fd = job->tree_fd,
		.keep = { &job->tar_fd, &job->texts.config_fd, &job->texts.manifest_fd,
			  &job->result_fd },
		.n_keep = 4,
		.file_max =
			job->max_bytes > UNPACK_MANIFEST_MAX ? job->max_bytes : UNPACK_MANIFEST_MAX,
	};
	auto_close int root = -EBADF;
	int r;

	/* Load these while host files can be read.  File names are bytes to us, which libarchive
	 * supports as UTF-8; jansson's seed is random. */
	json_object_seed(0);
	if (!setlocale(LC_CTYPE, "C.UTF-8") || hash_library_init() < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot set up the unpacker");
	r = confine_self(&c, parent, err);
	if (r < 0)
		return r;
	root = path_open(AT_FDCWD, IMAGE_ROOTFS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (root < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, root, "cannot open the new tree");
	return unpack_image(root, job->tar_fd, job->texts, job->max_bytes, job->which, ret, err);
}

static int image_unpack_child_main(void *arg, int parent)
{
	struct image_unpack_job *exec = arg;
	struct cay_err err = {};
	struct image_unpack_result res = {};
	int r = image_unpack_confined(exec, parent, &res.unpacked, &err);

	confined_report_fill(&res.report, r, &err);
	return fd_write_all(exec->result_fd, &res, sizeof(res)) < 0;
}

/* Wait for the child; on a timeout the owner kills it. */
static int image_unpack_wait(struct child *c, struct cay_err *err)
{
	const uint64_t end = clk_boot_ns(&clk_system) + UNPACK_DEADLINE_NS;
	struct pollfd p = { .fd = c->pidfd, .events = POLLIN };
	int status, r;

	do {
		uint64_t now = clk_boot_ns(&clk_system);

		if (now >= end)
			return cay_fail(err, CAY_E_TIMEOUT,
					"unpacking took longer than %" PRIu64 " s",
					(uint64_t)(UNPACK_DEADLINE_NS / NS_PER_S));
		r = poll(&p, 1, (int)((end - now) / NS_PER_MS) + 1);
	} while (r == 0 || (r < 0 && errno == EINTR));
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot wait for the unpacker");
	r = child_wait(c, &status);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, r, "cannot wait for the unpacker");
	if (status == -SIGKILL || status == -SIGXCPU)
		return cay_fail(err, CAY_E_TIMEOUT, "the unpacker ran out of memory or CPU time");
	if (status)
		return cay_fail(err, CAY_E_INTERNAL, "the unpacker failed with %s %d",
				status < 0 ? "signal" : "status", status < 0 ? -status : status);
	return 0;
}

static int image_unpack_read_result(int fd, struct unpack_result *ret, struct cay_err *err)
{
	struct image_unpack_result res;
	ssize_t n = read(fd, &res, sizeof(res));
	int r;

	if (n != (ssize_t)sizeof(res))
		return cay_fail(err, CAY_E_INTERNAL, "the unpacker returned no result");
	r = confined_report_check(&res.report, err);
	if (r >= 0)
		*ret = res.unpacked;
	return r;
}

static int image_unpack_run_child(const struct image_work *w, struct image_unpack_job *job,
				  struct unpack_result *ret, struct cay_err *err)
{
	auto_close int tree = confine_clone_tree(w->fd), from = -EBADF, to = -EBADF;
	auto_confined child = CONFINED_INIT;
	int pipes[2], r;

	if (tree < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, tree, "cannot create a mount");
	if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot create a pipe");
	from = pipes[0];
	to = pipes[1];
	job->result_fd = to;
	job->tree_fd = tree;
	r = confine_start_child(image_unpack_child_main, job, &child, err);
	if (r >= 0)
		r = image_unpack_wait(&child.child, err);
	return r < 0 ? r : image_unpack_read_result(from, ret, err);
}

static int image_work_check_rootfs(const struct image_work *w, struct cay_err *err)
{
	auto_close int root =
		path_open(w->fd, IMAGE_ROOTFS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

	if (root < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, root, "cannot open the new tree");
	return rootfs_check_mount_dirs(root, /* make= */ false, err);
}

/* Whoever took over the unpacker of one archive can return the manifest of another image, so that a
 * name alone says nothing: what has it already must be the same tree. */
static int image_work_check_same(const struct image_work *w, int all, const char *hex,
				 struct cay_err *err)
{
	auto_close int there = path_open(all, hex, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	int r = there < 0 ? there : tree_compare(there, w->fd, IMAGE_ROOTFS);

	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, r, "cannot compare the image");
	if (r > 0)
		return cay_fail(err, CAY_E_STATE,
				"other files are stored as the image " DIGEST_PREFIX
				"%s: one of the two archives is forged; remove that image, then "
				"add the one you trust",
				hex);
	return 0;
}

/* Synced before it gets its name. */
static int image_work_publish(int images_fd, const struct image_work *w, const struct digest *d,
			      struct cay_err *err)
{
	auto_close int all = image_store_make_dir(images_fd, "sha256");
	char hex[DIGEST_HEX_LEN + 1];
	int r = 0;

	if (all < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, all, "cannot open the images");
	digest_format_hex(d, hex);
	if (syncfs(w->fd) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot sync the image");
	if (renameat2(w->tmp_fd, w->name, all, hex, RENAME_NOREPLACE) < 0) {
		if (errno != EEXIST)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot name the image");
		if (!w->disk) /* the keeper itself names layers */
			r = image_work_check_same(w, all, hex, err);
	}
	if (r >= 0 && fsync(all) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot sync the images");
	return r;
}

static int image_tar_check_fd(int fd, struct cay_err *err)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || flags & O_PATH ||
	    (flags & O_ACCMODE) == O_WRONLY)
		return cay_fail(err, CAY_E_INVALID, "the image is not a readable file");
	return 0;
}

int image_store_add(int images_fd, int tar_fd, uint64_t max_bytes, uint64_t which,
		    struct image_store_added *ret, struct cay_err *err)
{
	struct image_unpack_job job = { .tar_fd = tar_fd, .max_bytes = max_bytes, .which = which };
	CAY_CLEANUP(unpack_texts_fini) struct unpack_texts texts = UNPACK_TEXTS_INIT;
	auto_work w = { .tmp_fd = -EBADF, .fd = -EBADF };
	struct unpack_result u = {};
	struct digest d;
	int r = image_tar_check_fd(tar_fd, err);

	if (r >= 0)
		r = unpack_texts_create(&texts, err);
	if (r < 0)
		return r;
	r = image_work_init(images_fd, &w);
	r = r < 0 ? r : image_work_make_rootfs(&w);
	if (r < 0)
		return cay_fail_sys(err, cay_code_from_disk_errno(r), r,
				    "cannot create a directory for the image");
	job.texts = texts;
	r = image_unpack_run_child(&w, &job, &u, err);
	if (r >= 0)
		r = unpack_texts_seal(&texts, &d, err);
	if (r >= 0)
		r = image_work_check_rootfs(&w, err);
	if (r >= 0)
		r = image_work_publish(images_fd, &w, &d, err);
	if (r < 0)
		return r;
	*ret = (struct image_store_added){ .bytes = u.bytes,
					   .config_fd = cay_take_fd(&texts.config_fd) };
	memcpy(ret->digest, d.byte, sizeof(ret->digest));
	return 0;
}

/* The parent of an image: 1, or 0 when it has none. */
static int image_read_parent(int images_fd, const struct digest *d, struct digest *ret)
{
	char path[sizeof("sha256/") + DIGEST_HEX_LEN + sizeof("/" PARENT)] = "sha256/";
	char hex[DIGEST_HEX_LEN + 1];
	struct stat st;
	ssize_t n;

	digest_format_hex(d, path + 7);
	if (fstatat(images_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	memcpy(path + 7 + DIGEST_HEX_LEN, "/" PARENT, sizeof("/" PARENT));
	n = readlinkat(images_fd, path, hex, sizeof(hex));
	if (n < 0)
		return errno == ENOENT ? 0 : -errno;
	return digest_parse_hex(hex, (size_t)n, ret) < 0 ? -EINVAL : 1;
}

int image_store_read_chain(int images_fd, const uint8_t digest[static 32],
			   uint8_t ret[static IMAGE_LAYERS_MAX][32])
{
	struct digest d;
	int r = 1, n = 0;

	memcpy(d.byte, digest, sizeof(d.byte));
	while (r > 0 && n < IMAGE_LAYERS_MAX) {
		memcpy(ret[n++], d.byte, sizeof(d.byte));
		r = image_read_parent(images_fd, &d, &d);
	}
	return r < 0 ? r : r ? -ELOOP : n;
}

static int image_work_link_parent(const struct image_work *w, const struct digest *parent)
{
	char hex[DIGEST_HEX_LEN + 1];

	digest_format_hex(parent, hex);
	return symlinkat(hex, w->fd, PARENT) < 0 ? -errno : 0;
}

/* Move the disk as a whole: it may be a subvolume.  With project quotas it has the number of the
 * sandbox, which will be reused, so its files are copied to the number of layers. */
static int image_work_take_disk(const struct image_work *w, int sandbox_fd, bool copy)
{
	if (copy || w->disk->kind == VERB_DISK_PROJECT)
		return disk_copy(w->disk, sandbox_fd, IMAGE_DISK, w->fd, IMAGE_DISK, LAYERS_NUMBER);
	return renameat(sandbox_fd, IMAGE_DISK, w->fd, IMAGE_DISK) < 0 ? -errno : 0;
}

static int image_open_dir(int images_fd, const uint8_t digest[static 32])
{
	char path[sizeof("sha256/") + DIGEST_HEX_LEN] = "sha256/";
	struct digest d;

	memcpy(d.byte, digest, sizeof(d.byte));
	digest_format_hex(&d, path + 7);
	return path_open(images_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
}

/* All layers over the lowest image as one, in the work: a copy of the lowest of them, with the
 * others laid over it in turn.  Nobody changes layers, so the sandbox runs meanwhile. */
static int image_work_merge_layers(const struct image_work *w, int images_fd, int n,
				   uint8_t chain[static IMAGE_LAYERS_MAX][32])
{
	uint64_t end = clk_boot_ns(&clk_system) + UNPACK_DEADLINE_NS;
	int r = 0;

	for (int i = n - 2; r >= 0 && i >= 0; i--) {
		auto_close int layer = image_open_dir(images_fd, chain[i]);

		if (layer < 0)
			r = layer;
		else if (i == n - 2)
			r = disk_copy(w->disk, layer, IMAGE_DISK, w->fd, IMAGE_DISK, LAYERS_NUMBER);
		else if (clk_boot_ns(&clk_system) > end)
			r = -ETIMEDOUT;
		else
			r = disk_merge(layer, IMAGE_UPPER, w->fd, IMAGE_UPPER);
	}
	return r < 0 ? r : failpoint_hit(FAULT_SNAPSHOT_MERGED);
}

/* What overlayfs keeps beside the files. */
static int image_work_remove_scratch(const struct image_work *w, struct cay_err *err)
{
	auto_close int disk = path_open(w->fd, IMAGE_DISK, O_RDONLY | O_DIRECTORY, 0);
	int r = disk < 0 ? disk : rmtree_at(disk, "work");

	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "create an image of the disk") : 0;
}

/* Work on a copy is named by its layer, so that image_store_remove() finds what a worker that died
 * left of it. */
static int image_work_init_copy(int images_fd, const struct digest *d, struct image_work *w)
{
	char hex[DIGEST_HEX_LEN + 1];
	int r;

	w->tmp_fd = image_store_make_dir(images_fd, "tmp");
	if (w->tmp_fd < 0)
		return w->tmp_fd;
	digest_format_hex(d, hex);
	memcpy(w->name, hex, WORK_NAME_LEN);
	r = image_work_remove(w);
	return r < 0 ? r : image_work_make_dir(w);
}

static int image_commit_fail(int r, struct cay_err *err)
{
	if (r == -EMLINK)
		return cay_fail(err, CAY_E_UNSUPPORTED,
				"its files cannot be copied, perhaps because paths are longer than "
				"4,095 bytes");
	if (r == -ETIMEDOUT)
		return cay_fail(err, CAY_E_TIMEOUT, "its files could not be copied in ten minutes");
	return cay_fail_sys(err, cay_code_from_disk_errno(r), -r, "create an image of the disk");
}

/* The disk of a sandbox that goes on.  Above `n` layers there is room for another, or n is
 * IMAGE_LAYERS_MAX: then the copy has what all of them have. */
static int image_work_copy(const struct image_work *w, int images_fd, int sandbox_fd, int n,
			   uint8_t chain[static IMAGE_LAYERS_MAX][32], struct image_copy *copy,
			   struct cay_err *err)
{
	bool merge = n == IMAGE_LAYERS_MAX;
	struct cay_err why = {};
	int copied, r = merge ? image_work_merge_layers(w, images_fd, n, chain) : 0;

	if (r < 0)
		return image_commit_fail(r, err);
	r = copy->begin(copy->arg, err);
	if (r < 0)
		return r;
	r = merge ? disk_merge(sandbox_fd, IMAGE_UPPER, w->fd, IMAGE_UPPER)
		  : image_work_take_disk(w, sandbox_fd, /* copy= */ true);
	r = r < 0 ? r : failpoint_hit(FAULT_SNAPSHOT_COPIED);
	copied = copy->copied(copy->arg, &why);
	if (r >= 0 && merge)
		r = disk_count_bytes(w->fd, IMAGE_UPPER, &copy->bytes);
	if (r < 0)
		return image_commit_fail(r, err);
	memcpy(copy->parent, chain[merge ? n - 1 : 0], sizeof(copy->parent));
	if (copied < 0)
		*err = why;
	return copied;
}

int image_store_commit(int images_fd, const struct disk *disk, int sandbox_fd,
		       const uint8_t parent[static 32], const uint8_t digest[static 32],
		       struct image_copy *copy, struct cay_err *err)
{
	auto_work w = { .tmp_fd = -EBADF, .fd = -EBADF, .disk = disk };
	uint8_t chain[IMAGE_LAYERS_MAX][32];
	struct digest d, below;
	int n = image_store_read_chain(images_fd, parent, chain), r = n;

	if (n == -ELOOP || (n == IMAGE_LAYERS_MAX && !copy))
		return cay_fail(err, CAY_E_LIMIT, "an image has at most %d layers",
				IMAGE_LAYERS_MAX);
	memcpy(d.byte, digest, sizeof(d.byte));
	memcpy(below.byte, parent, sizeof(below.byte));
	if (r >= 0)
		r = copy ? image_work_init_copy(images_fd, &d, &w) : image_work_init(images_fd, &w);
	if (r >= 0 && !copy)
		r = image_work_take_disk(&w, sandbox_fd, /* copy= */ false);
	if (r >= 0 && !copy)
		r = failpoint_hit(FAULT_COMMIT_MOVED);
	if (r < 0)
		return image_commit_fail(r, err);
	if (copy) {
		r = image_work_copy(&w, images_fd, sandbox_fd, n, chain, copy, err);
		if (r < 0)
			return r;
		memcpy(below.byte, copy->parent, sizeof(below.byte));
	}
	r = image_work_link_parent(&w, &below);
	if (r < 0)
		return image_commit_fail(r, err);
	r = image_work_remove_scratch(&w, err);
	r = r < 0 ? r : image_work_publish(images_fd, &w, &d, err);
	return r < 0 ? r : failpoint_hit(copy ? FAULT_SNAPSHOT_NAMED : FAULT_COMMIT_NAMED);
}

struct image_child_search {
	const struct digest *parent;
	int images_fd;
};

static int on_image_dir_check_parent(void *arg, int, const char *name)
{
	const struct image_child_search *c = arg;
	struct digest d, parent;

	return digest_parse_hex(name, strlen(name), &d) >= 0 &&
	       image_read_parent(c->images_fd, &d, &parent) > 0 && digest_eq(&parent, c->parent);
}

/* Renamed first, so that an image exists whole or not at all. */
int image_store_remove(int images_fd, const struct disk *disk, const uint8_t digest[static 32],
		       struct cay_err *err)
{
	auto_close int all = image_store_make_dir(images_fd, "sha256");
	auto_work w = { .tmp_fd = image_store_make_dir(images_fd, "tmp"),
			.fd = -EBADF,
			.disk = disk };
	char hex[DIGEST_HEX_LEN + 1];
	struct digest d;
	int r;

	if (all < 0 || w.tmp_fd < 0 || image_work_random_name(&w) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot open the images");
	memcpy(d.byte, digest, sizeof(d.byte));
	r = path_for_each_entry(all, on_image_dir_check_parent,
				&(struct image_child_search){ &d, images_fd });
	if (r != 0)
		return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "read the images")
			     : cay_fail(err, CAY_E_STATE, "another image is based on this one");
	digest_format_hex(&d, hex);
	if (renameat2(all, hex, w.tmp_fd, w.name, RENAME_NOREPLACE) < 0) {
		if (errno != ENOENT)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot remove the image");
		memcpy(w.name, hex, WORK_NAME_LEN); /* a copy that was not finished */
		r = image_work_remove(&w);
		return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, r, "cannot remove the copy") : 0;
	}
	if (fsync(all) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot sync the images");
	r = image_work_remove(&w);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, r, "cannot remove the image") : 0;
}

static int on_image_tmp_dir(void *disk, int tmp_fd, const char *name)
{
	image_layer_remove_disk(disk, tmp_fd, name);
	return 0;
}

void image_store_sweep_tmp(int images_fd, const struct disk *disk)
{
	auto_close int tmp = path_open(images_fd, "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

	if (tmp >= 0)
		(void)path_for_each_entry(tmp, on_image_tmp_dir, (void *)(uintptr_t)disk);
}
