/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/failpoint.h"
#include "base/path.h"
#include "base/rmtree.h"
#include "cayd/upload/upload-internal.h"
#include "text/hex.h"

#define SYNC_EVERY MIB(16)
#define HASH_ATTR "user.cay.sha256"

static int upload_fail_disk(struct cay_err *err, int r, const char *what)
{
	return cay_fail_sys(err, cay_code_from_disk_errno(-r), -r, "%s", what);
}

/* The change is made but may not survive a crash: success would promise too much, and a plain
 * failure would say that nothing changed. */
static int upload_fail_sync(struct cay_err *err, int r, const char *done, const char *do_what)
{
	return cay_fail_sys(err, CAY_E_UNAVAILABLE, -r, "%s, but it may not survive a crash: %s",
			    done, do_what);
}

static int upload_temp_name_create(char ret[static UPLOAD_TEMP_LEN + 1])
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	return snprintf(ret, UPLOAD_TEMP_LEN + 1, "%016" PRIx64, random) == UPLOAD_TEMP_LEN ? 0
											    : -EIO;
}

static int upload_dir_sync(int fd)
{
	return fsync(fd) < 0 ? -errno : 0;
}

/* Open a directory below another; `make`: create it if needed. */
static int upload_dir_open(int dir, const char *name, bool make)
{
	if (make && mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	return path_open(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
}

static int upload_tenant_dir_open(const struct upload_location *at, bool make)
{
	char tenant[ID_TEXT_LEN + 1];

	id_format(&at->tenant, tenant);
	return upload_dir_open(at->all->root, tenant, make);
}

static int upload_group_dir_open(const struct upload_location *at, bool make)
{
	auto_close int tenant = upload_tenant_dir_open(at, make);

	return tenant < 0 ? tenant : upload_dir_open(tenant, at->group, make);
}

/* The hash is an attribute of the file, so it is removed and synced with it. */
static int upload_hash_store(int fd, const char *sha256)
{
	int r = fsetxattr(fd, HASH_ATTR, sha256, FILE_HASH_HEX, 0) < 0 ? -errno : 0;

	return r == -ENOTSUP ? 0 : r; /* without attributes a later list shows no hash */
}

static void upload_hash_read(int fd, char ret[static FILE_HASH_HEX + 1])
{
	unsigned char bytes[FILE_HASH_LEN];
	ssize_t n = fgetxattr(fd, HASH_ATTR, ret, FILE_HASH_HEX);

	if (n != FILE_HASH_HEX || hex_decode(ret, FILE_HASH_HEX, bytes, sizeof(bytes)) < 0)
		n = 0;
	ret[n] = 0;
}

void upload_name_from_disk(const char *disk, char ret[static UPLOAD_NAME_MAX + 1])
{
	size_t n = strnlen(disk, UPLOAD_NAME_MAX);

	for (size_t i = 0; i < n; i++)
		ret[i] = (char)(disk[i] == UPLOAD_SLASH ? '/' : disk[i]);
	ret[n] = 0;
}

static void upload_row_fill(const struct stat *st, int fd, const char *name, struct upload *ret)
{
	*ret = (struct upload){
		.size = (uint64_t)st->st_size,
		.created_ns =
			(uint64_t)st->st_mtim.tv_sec * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec,
	};
	upload_name_from_disk(name, ret->name);
	upload_hash_read(fd, ret->sha256);
}

/* Quota */

struct upload_count {
	const struct upload_location *at; /* the new upload, which may replace another */
	bool here;                        /* inside its group */
	uint64_t bytes;
	unsigned files, of_group; /* without the one it replaces */
};

static int upload_count_file(void *arg, int dirfd, const char *name)
{
	struct upload_count *n = arg;
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (n->here && str_eq(name, n->at->name))
		return 0;
	n->bytes += (uint64_t)st.st_size;
	n->files++;
	n->of_group += n->here;
	return 0;
}

static int upload_count_group(void *arg, int dirfd, const char *name)
{
	struct upload_count *n = arg;
	auto_close int fd = upload_dir_open(dirfd, name, false);

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	n->here = str_eq(name, n->at->group);
	return path_for_each_entry(fd, upload_count_file, n);
}

/* Whether an upload of this size fits into the tenant's quota. */
static int upload_check_quota(const struct upload_location *at, uint64_t size, uint64_t quota,
			      uint64_t *ret_room, struct cay_err *err)
{
	auto_close int tenant = upload_tenant_dir_open(at, false);
	struct upload_count n = { .at = at };
	int r = tenant == -ENOENT ? 0 : tenant;

	if (tenant >= 0)
		r = path_for_each_entry(tenant, upload_count_group, &n);
	if (r < 0)
		return upload_fail_disk(err, r, "count the uploads");
	if (n.of_group >= UPLOADS_GROUP)
		return cay_fail(err, CAY_E_LIMIT,
				"the group has %d uploads: delete some (upload.delete)",
				UPLOADS_GROUP);
	if (n.files >= UPLOADS_FILES)
		return cay_fail(err, CAY_E_LIMIT,
				"the tenant has %d uploads: delete groups that are not needed",
				UPLOADS_FILES);
	*ret_room = quota > n.bytes ? quota - n.bytes : 0;
	if (size > *ret_room || !quota)
		return cay_fail(err, CAY_E_LIMIT,
				"uploads of a tenant may take %" PRIu64 " bytes (uploads.size) and "
				"the others take %" PRIu64
				": delete some, or groups that are not needed",
				quota, n.bytes);
	return 0;
}

/* Receive */

int upload_file_create(struct upload_file *f, const struct upload_location *at, uint64_t size,
		       uint64_t quota, struct cay_err *err)
{
	int r = upload_check_quota(at, size, quota, &f->room, err);

	if (r < 0)
		return r;
	file_hash_begin(&f->hash);
	r = upload_temp_name_create(f->temp);
	if (r >= 0)
		r = f->fd = path_open(at->all->incoming, f->temp,
				      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (r < 0)
		f->temp[0] = 0;
	return r < 0 ? upload_fail_disk(err, r, "create a file for the upload") : 0;
}

int upload_file_recount(struct upload_file *f, const struct upload_location *at, uint64_t quota,
			struct cay_err *err)
{
	return upload_check_quota(at, f->size, quota, &f->room, err);
}

int upload_file_append(struct upload_file *f, struct slice bytes, struct cay_err *err)
{
	int r = fd_write_all(f->fd, bytes.p, bytes.n);

	if (r < 0)
		return upload_fail_disk(err, r, "store the upload");
	file_hash_add(&f->hash, bytes.p, bytes.n);
	f->size += bytes.n;
	if (f->size - f->synced < SYNC_EVERY)
		return 0;
	f->synced = f->size;
	return fdatasync(f->fd) < 0 ? upload_fail_disk(err, -errno, "store the upload") : 0;
}

static int upload_file_verify(struct upload_file *f, const struct upload_put_query *want,
			      struct cay_err *err)
{
	unsigned char hash[FILE_HASH_LEN];

	file_hash_end(&f->hash, hash);
	hex_encode(hash, sizeof(hash), f->sha256);
	if (want->has_size && f->size != want->size)
		return cay_fail_field(err, CAY_E_INVALID, "size", "%" PRIu64 " bytes came",
				      f->size);
	if (want->sha256 && !str_eq(want->sha256, f->sha256))
		return cay_fail_field(err, CAY_E_INVALID, "sha256",
				      "what came has another one: it was damaged on its way");
	return 0;
}

/* Sync the group's directory, and those above it that this upload has created. */
static int upload_parent_dirs_sync(const struct upload_location *at, int group)
{
	auto_close int tenant = upload_tenant_dir_open(at, false);
	int r = tenant < 0 ? tenant : upload_dir_sync(group);

	if (r >= 0)
		r = upload_dir_sync(tenant);
	return r < 0 ? r : upload_dir_sync(at->all->root);
}

/* The lock covers the count and the rename, so no other name appears or goes in between; no disk
 * wait happens under it. */
static int upload_file_publish(struct upload_file *f, const struct upload_location *at,
			       uint64_t quota, struct cay_err *err)
{
	auto_close int group = -EBADF;
	uint64_t room;
	int r;

	uv_mutex_lock(&at->all->names_lock);
	if (atomic_load(&f->group_deleted))
		r = cay_fail(err, CAY_E_CONFLICT, "the group was deleted during the upload");
	else
		r = upload_check_quota(at, f->size, quota, &room, err);
	if (r >= 0) {
		r = group = upload_group_dir_open(at, true);
		if (r >= 0 && renameat(at->all->incoming, f->temp, group, at->name) < 0)
			r = -errno;
		if (r >= 0)
			f->temp[0] = 0;
		else
			(void)upload_fail_disk(err, r, "name the upload");
	}
	uv_mutex_unlock(&at->all->names_lock);
	if (r < 0)
		return r;
	r = failpoint_hit(FAULT_UPLOAD_NAMED);
	if (r >= 0)
		r = upload_parent_dirs_sync(at, group);
	return r < 0 ? upload_fail_sync(err, r, "the upload is stored", "upload it again") : 0;
}

int upload_file_commit(struct upload_file *f, const struct upload_location *at,
		       const struct upload_put_query *want, uint64_t quota, struct upload *ret,
		       struct cay_err *err)
{
	struct stat st = {};
	int r = upload_file_verify(f, want, err);

	if (r < 0)
		return r;
	r = upload_hash_store(f->fd, f->sha256);
	if (r >= 0)
		r = fsync(f->fd) < 0 || fstat(f->fd, &st) < 0 ? -errno
							      : failpoint_hit(FAULT_UPLOAD_FILLED);
	if (r < 0)
		return upload_fail_disk(err, r, "store the upload");
	upload_row_fill(&st, f->fd, at->name, ret);
	return upload_file_publish(f, at, quota, err);
}

void upload_file_fini(struct upload_file *f, const struct upload_location *at)
{
	if (f->temp[0])
		(void)unlinkat(at->all->incoming, f->temp, 0);
	cay_closep(&f->fd);
}

/* List, open, remove */

struct upload_row_list {
	struct upload *v;
	size_t n;
};

static int upload_row_list_append(void *arg, int dirfd, const char *name)
{
	struct upload_row_list *rows = arg;
	auto_close int fd = -EBADF;
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(st.st_mode) || rows->n == UPLOADS_GROUP)
		return 0;
	fd = path_open(dirfd, name, O_RDONLY | O_NOFOLLOW, 0); /* without it the row has no hash */
	upload_row_fill(&st, fd, name, &rows->v[rows->n++]);
	return 0;
}

static int upload_row_compare_name(const void *a, const void *b)
{
	return strcmp(((const struct upload *)a)->name, ((const struct upload *)b)->name);
}

int upload_list_rows(const struct upload_location *at, struct upload *v, size_t *ret_n,
		     struct cay_err *err)
{
	auto_close int group = upload_group_dir_open(at, false);
	struct upload_row_list rows = { .v = v };
	int r = group == -ENOENT ? 0 : group;

	if (group >= 0)
		r = path_for_each_entry(group, upload_row_list_append, &rows);
	if (r < 0)
		return upload_fail_disk(err, r, "list the uploads");
	qsort(v, rows.n, sizeof(*v), upload_row_compare_name);
	*ret_n = rows.n;
	return 0;
}

int upload_file_open(const struct upload_location *at, struct upload *ret, struct cay_err *err)
{
	auto_close int group = upload_group_dir_open(at, false);
	auto_close int fd =
		group < 0 ? group : path_open(group, at->name, O_RDONLY | O_NOFOLLOW, 0);
	struct stat st = {};

	if (fd == -ENOENT)
		return cay_fail(err, CAY_E_NOT_FOUND, "the group has no such upload");
	if (fd < 0 || fstat(fd, &st) < 0)
		return upload_fail_disk(err, fd < 0 ? fd : -errno, "open the upload");
	upload_row_fill(&st, fd, at->name, ret);
	return cay_take_fd(&fd);
}

int upload_file_remove(const struct upload_location *at, struct upload *ret, struct cay_err *err)
{
	auto_close int fd = upload_file_open(at, ret, err);
	auto_close int tenant = fd < 0 ? -EBADF : upload_tenant_dir_open(at, false);
	auto_close int group = tenant < 0 ? tenant : upload_dir_open(tenant, at->group, false);
	int r = group < 0 ? group : 0;

	if (fd < 0)
		return fd;
	uv_mutex_lock(&at->all->names_lock);
	if (r >= 0 && unlinkat(group, at->name, 0) < 0)
		r = -errno;
	/* the last upload removes the directory; the next one creates it again */
	if (r >= 0)
		(void)unlinkat(tenant, at->group, AT_REMOVEDIR);
	uv_mutex_unlock(&at->all->names_lock);
	if (r == -ENOENT) /* removed meanwhile */
		return cay_fail(err, CAY_E_NOT_FOUND, "the group has no such upload");
	if (r < 0)
		return upload_fail_disk(err, r, "remove the upload");
	r = failpoint_hit(FAULT_UPLOAD_REMOVED);
	if (r >= 0)
		r = upload_dir_sync(group);
	return r < 0 ? upload_fail_sync(err, r, "it is gone",
					"check after a crash whether it is back")
		     : 0;
}

/* The rename removes everything in one step; the rest can be repeated. */
int upload_dir_remove(const struct upload_location *at, struct cay_err *err)
{
	auto_close int tenant = at->group[0] ? upload_tenant_dir_open(at, false) : -EBADF;
	int dir = at->group[0] ? tenant : at->all->root,
	    r = at->group[0] && tenant < 0 ? tenant : 0;
	char gone[UPLOAD_TEMP_LEN + 1], name[ID_TEXT_LEN + 1];

	id_format(&at->tenant, name);
	if (r >= 0)
		r = upload_temp_name_create(gone);
	if (r >= 0) {
		uv_mutex_lock(&at->all->names_lock);
		if (renameat(dir, at->group[0] ? at->group : name, at->all->incoming, gone) < 0)
			r = -errno;
		uv_mutex_unlock(&at->all->names_lock);
	}
	if (r == -ENOENT)
		return 0; /* the group has no uploads */
	if (r >= 0)
		r = upload_dir_sync(dir);
	if (r >= 0)
		r = failpoint_hit(FAULT_UPLOAD_FORGOTTEN);
	if (r >= 0)
		r = rmtree_at(at->all->incoming, gone);
	return r < 0 ? upload_fail_disk(err, r, "remove the uploads") : 0;
}
