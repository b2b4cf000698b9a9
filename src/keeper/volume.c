/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/volume.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/failpoint.h"
#include "base/path.h"
#include "base/rmtree.h"
#include "keeper/id-page.h"
#include "keeper/trash.h"

#define RECORD "volume"
#define RECORD_MAGIC UINT32_C(0x56594143)        /* "CAYV" */
#define RECORD_MAGIC_FROZEN UINT32_C(0x46594143) /* "CAYF": the same, never written to */
#define FREEZE_MS 5000
#define PROBE ".probe"
#define NUMBERS_MAX 65535
/* Above the ids of all ranges, which sandboxes have as numbers. */
#define NUMBER_BASE UINT32_C(0x80000000)
#define NUMBER_NAME_MAX 12

static const char *const volume_dirs[] = { VOLUME_DISK, VOLUME_UPPER, VOLUME_WORK, "disk/lower" };
#define VOLUME_DIR_UPPER 1

static void volume_number_name(uint32_t n, char ret[static NUMBER_NAME_MAX])
{
	int len = snprintf(ret, NUMBER_NAME_MAX, "v%u", n);

	if (len < 0 || len >= NUMBER_NAME_MAX)
		ret[0] = 0;
}

/* The number of a volume whose directory exists: a link to it stays as long as that, and until its
 * files are gone from the trash. */
static int volume_number_claim(const struct keeper *k, const char *id, uint32_t *ret)
{
	for (uint32_t n = 1; n <= NUMBERS_MAX; n++) {
		char name[NUMBER_NAME_MAX];

		volume_number_name(n, name);
		*ret = NUMBER_BASE + n;
		if (symlinkat(id, k->ranges, name) == 0)
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
	return -ENOSPC;
}

/* A link to an absent volume was left by a power loss. */
static int on_volume_number(void *arg, int ranges, const char *name)
{
	const struct keeper *k = arg;
	char owner[ID_TEXT_LEN + 2] = "";
	struct stat st;

	if (name[0] == 'v' && readlinkat(ranges, name, owner, sizeof(owner) - 1) >= 0 &&
	    fstatat(k->volumes, owner, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT &&
	    !trash_has_sandbox(k, owner))
		(void)unlinkat(ranges, name, 0);
	return 0;
}

static int volume_overlay_set_dirs(int fs, const char *at, bool read_only)
{
	auto_buf upper = BUF_INIT(128), lower = BUF_INIT(256), work = BUF_INIT(128);

	if (buf_printf(&upper, "%s/upper", at) < 0 || buf_printf(&work, "%s/work", at) < 0 ||
	    buf_printf(&lower, read_only ? "%s/upper:%s/lower" : "%s/lower", at, at) < 0)
		return -ENOMEM;
	if (fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", lower.data, 0) < 0)
		return -errno;
	if (read_only)
		return 0;
	if (fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", upper.data, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "workdir", work.data, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "index", "on", 0) < 0)
		return -errno;
	return 0;
}

int volume_overlay_create(const char *at, bool read_only)
{
	auto_close int fs = fsopen("overlay", FSOPEN_CLOEXEC);
	int r = fs < 0 ? -errno : volume_overlay_set_dirs(fs, at, read_only);

	if (r >= 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		r = -errno;
	if (r < 0)
		return r;
	r = fsmount(fs, FSMOUNT_CLOEXEC,
		    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (read_only ? MOUNT_ATTR_RDONLY : 0));
	return r < 0 ? -errno : r;
}

void volume_fini(struct volume *v)
{
	cay_closep(&v->dir);
}

static int volume_read_record(struct volume *v)
{
	auto_buf text = BUF_INIT(sizeof(v->record));
	int r = path_read(v->dir, RECORD, &text);

	v->record = (struct volume_record){};
	if (text.len == sizeof(v->record))
		memcpy(&v->record, text.data, sizeof(v->record));
	if (v->record.magic != RECORD_MAGIC && v->record.magic != RECORD_MAGIC_FROZEN)
		v->record = (struct volume_record){};
	return r == -ENOENT || r == -EFBIG ? 0 : r;
}

bool volume_is_frozen(const struct volume *v)
{
	return v->record.magic == RECORD_MAGIC_FROZEN;
}

/* Also one that is not whole; *err is set only by other failures than -ENOENT. */
static int volume_lock(const struct keeper *k, const struct id *id, int lock, struct volume *v,
		       struct cay_err *err)
{
	int r;

	id_format(id, v->name);
	v->dir = keeper_lock_dir(k->volumes, v->name, lock);
	if (v->dir == -ENOENT)
		return -ENOENT;
	r = v->dir < 0 ? v->dir : volume_read_record(v);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "read the record of %s", v->name) : 0;
}

int volume_open(const struct keeper *k, const struct id *id, int lock, struct volume *v,
		struct cay_err *err)
{
	int r = volume_lock(k, id, lock, v, err);

	if (r == -ENOENT || (r >= 0 && !v->record.magic))
		return cay_fail(err, CAY_E_NOT_FOUND, "no such volume: %s", v->name);
	return r;
}

/* Who has it mounted may write to it, whatever user the image has: it is of one tenant. */
static int volume_make_dirs(int dir)
{
	for (size_t i = 0; i < ARRAY_SIZE(volume_dirs); i++) {
		const char *name = volume_dirs[i];

		if ((i && mkdirat(dir, name, 0755) < 0) ||
		    fchownat(dir, name, VERB_RANGE_FOREIGN, VERB_RANGE_FOREIGN,
			     AT_SYMLINK_NOFOLLOW) < 0 ||
		    (i == VOLUME_DIR_UPPER && fchmodat(dir, name, 0777, 0) < 0))
			return -errno;
	}
	return 0;
}

/* Only what was made: a sync of the whole file system would wait for what all tenants have written.
 * btrfs has its subvolumes on the disk with the next transaction, which only that sync ends. */
static int volume_sync(const struct keeper *k, const struct volume *v)
{
	if (k->disk.kind == VERB_DISK_BTRFS)
		return syncfs(v->dir) < 0 ? -errno : 0;
	for (size_t i = 0; i < ARRAY_SIZE(volume_dirs); i++) {
		auto_close int dir = path_open(v->dir, volume_dirs[i], O_RDONLY | O_DIRECTORY, 0);

		if (dir < 0 || fsync(dir) < 0)
			return dir < 0 ? dir : -errno;
	}
	return fsync(k->ranges) < 0 || fsync(k->volumes) < 0 ? -errno : 0;
}

/* The files of a new volume: of another one, while no process of the sandbox that may write to that
 * one runs.  One that was frozen before stays so: it is paused, or cayd thaws it. */
struct volume_source {
	const struct keeper *keeper;
	struct volume from;
	struct sandbox writer; /* its dir is < 0: none */
};

static int volume_copy_failed(const struct volume_source *s, int r, struct cay_err *err)
{
	if (r == -EMLINK)
		return cay_fail(
			err, CAY_E_UNSUPPORTED,
			"the files of %s cannot be copied, perhaps because paths are longer "
			"than 4,095 bytes",
			s->from.name);
	if (r == -ETIMEDOUT)
		return cay_fail(err, CAY_E_TIMEOUT,
				"the files of %s could not be copied in ten minutes", s->from.name);
	return cay_fail_sys(err, cay_code_from_disk_errno(r), -r,
			    "copy the files of %s; the new volume may be too small", s->from.name);
}

static int volume_copy_files(const struct volume_source *s, const struct volume *to,
			     struct cay_err *err)
{
	int r = s->writer.dir < 0 ? 0
				  : sandbox_cgroup_wait_frozen(&s->writer.cgroup, FREEZE_MS, err);

	if (r < 0)
		return r;
	r = failpoint_hit(FAULT_VOLUME_FROZEN);
	r = r < 0 ? r : disk_fill(&s->keeper->disk, s->from.dir, VOLUME_DISK, to->dir, VOLUME_DISK);
	return r < 0 ? volume_copy_failed(s, r, err) : 0;
}

static int volume_copy_frozen(const struct volume_source *s, const struct volume *to,
			      struct cay_err *err)
{
	const struct cgroup *cgroup = &s->writer.cgroup;
	bool thaw = s->writer.dir >= 0 && !sandbox_cgroup_is_frozen(cgroup);
	struct cay_err why = {};
	int thawed, r = thaw ? sandbox_cgroup_freeze(cgroup, true, err) : 0;

	if (r >= 0)
		r = volume_copy_files(s, to, err);
	/* also one that may not have been frozen */
	thawed = thaw ? sandbox_cgroup_freeze(cgroup, false, &why) : 0;
	if (r >= 0 && thawed < 0) {
		*err = why;
		return thawed;
	}
	return r;
}

/* Root is above some quotas, and a tenant pays for the limit. */
static int volume_check_fits(const struct volume_source *s, const struct volume *to,
			     const struct disk_size *limit, struct cay_err *err)
{
	struct disk_size used;
	int r = disk_read_usage(&s->keeper->disk, to->dir, VOLUME_DISK, to->record.number, &used);

	if (r == -ENOTSUP ||
	    (r >= 0 && (!limit->bytes || used.bytes == DISK_UNKNOWN || used.bytes <= limit->bytes)))
		return 0;
	return volume_copy_failed(s, r < 0 ? r : -ENOSPC, err);
}

static int volume_fill_from(const struct volume_source *s, const struct volume *to,
			    const struct disk_size *limit, struct cay_err *err)
{
	int r = volume_copy_frozen(s, to, err);

	if (r < 0)
		return r;
	r = volume_forget_origin(to->dir);
	if (r >= 0 && syncfs(to->dir) < 0) /* or the usage is old */
		r = -errno;
	r = r < 0 ? r : failpoint_hit(FAULT_VOLUME_COPIED);
	return r < 0 ? volume_copy_failed(s, r, err) : volume_check_fits(s, to, limit, err);
}

/* source: NULL, it is empty. */
static int volume_fill(const struct keeper *k, struct volume *v, const struct disk_size *limit,
		       const struct volume_source *source, struct cay_err *err)
{
	uint32_t magic = v->record.magic;
	int r = volume_number_claim(k, v->name, &v->record.number);

	if (r >= 0)
		r = disk_create(&k->disk, v->dir, VOLUME_DISK, v->record.number, limit);
	if (r == -ENOTSUP)
		return cay_fail_sys(err, CAY_E_UNSUPPORTED, -r,
				    "this node cannot limit the size of a volume");
	if (r >= 0 && source && volume_fill_from(source, v, limit, err) < 0)
		return -EIO;
	if (r >= 0 && !source)
		r = volume_make_dirs(v->dir);
	if (r >= 0)
		r = failpoint_hit(FAULT_VOLUME_MADE);
	v->record.magic = magic;
	if (r >= 0)
		r = path_write_atomic(v->dir, RECORD, &v->record, sizeof(v->record), 0600);
	if (r >= 0)
		r = volume_sync(k, v);
	if (r >= 0)
		r = failpoint_hit(FAULT_VOLUME_LIMITED);
	return r < 0 ? cay_fail_sys(err, cay_code_from_disk_errno(r), -r, "create the volume %s",
				    v->name)
		     : 0;
}

/* Two mounts that may write to the same files: the second has to be refused. */
static int volume_probe(int dir)
{
	char at[64];
	auto_close int first = -EBADF, second = -EBADF;
	int r = snprintf(at, sizeof(at), "/proc/self/fd/%d/" VOLUME_DISK, dir);

	if (r < 0 || r >= (int)sizeof(at))
		return -EINVAL;
	r = mkdirat(dir, VOLUME_DISK, 0755) < 0 ? -errno : volume_make_dirs(dir);
	if (r < 0)
		return r;
	first = volume_overlay_create(at, /* read_only= */ false);
	if (first < 0)
		return first;
	second = volume_overlay_create(at, /* read_only= */ false);
	return second == -EBUSY ? 0 : -ENOTSUP;
}

/* One at a time: they have one name. */
static int volumes_try(const struct keeper *k)
{
	auto_close int lock = path_open(k->volumes, ".", O_RDONLY | O_DIRECTORY, 0);
	auto_close int dir = -EBADF;
	int r;

	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		return lock < 0 ? lock : -errno;
	(void)rmtree_at(k->volumes, PROBE);
	if (mkdirat(k->volumes, PROBE, 0700) < 0)
		return -errno;
	dir = path_open(k->volumes, PROBE, O_RDONLY | O_DIRECTORY, 0);
	r = dir < 0 ? dir : volume_probe(dir);
	(void)rmtree_at(k->volumes, PROBE);
	return r;
}

static int volumes_fail_shared(struct cay_err *err)
{
	return cay_fail(err, CAY_E_UNSUPPORTED,
			"the kernel would let two sandboxes write to one volume on the file system "
			"of paths.state");
}

/* Where it is not known, because the disk was full when that was tried, it is tried again. */
static int volumes_check_exclusive(const struct keeper *k, struct cay_err *err)
{
	int r = k->volumes_are_exclusive ? 0 : k->volumes_are_shared ? -ENOTSUP : volumes_try(k);

	if (r == -ENOTSUP)
		return volumes_fail_shared(err);
	return r < 0 ? cay_fail_sys(err, cay_code_from_disk_errno(r), -r,
				    "try whether two mounts may write to a volume")
		     : 0;
}

int volumes_check_writers(const struct keeper *k, const struct verb_mount *rows,
			  struct cay_err *err)
{
	for (unsigned i = 0; k->volumes_are_shared && i < VERB_MOUNTS_MAX; i++)
		if (rows[i].volume.noun != ID_NONE && !rows[i].read_only)
			return volumes_fail_shared(err);
	return 0;
}

/* A directory of this name, locked, for volume_fill(). */
static int volume_create_dir(const struct keeper *k, const struct id *id, struct volume *v,
			     struct cay_err *err)
{
	if (volumes_check_exclusive(k, err) < 0)
		return -ENOTSUP;
	id_format(id, v->name);
	if (mkdirat(k->volumes, v->name, 0700) < 0)
		return cay_fail_sys(
			err, errno == EEXIST ? CAY_E_CONFLICT : cay_code_from_disk_errno(errno),
			errno, "create %s", v->name);
	v->dir = keeper_lock_dir(k->volumes, v->name, LOCK_EX);
	return v->dir < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -v->dir, "lock %s", v->name) : 0;
}

/* volume_make: an empty directory with a limit.  An attacker who owns cayd can fill the disk with
 * directories and choose their limits. */
int verb_volume_make(const struct keeper *k, const void *request, int, struct verb_result *,
		     struct cay_err *err)
{
	const struct verb_volume *q = request;
	const struct disk_size limit = { q->bytes, q->inodes };
	auto_volume v = VOLUME_INIT;
	int r = volume_create_dir(k, &q->volume, &v, err);

	v.record.magic = RECORD_MAGIC;
	return r < 0 ? r : volume_fill(k, &v, &limit, NULL, err);
}

static void volume_source_fini(struct volume_source *s)
{
	volume_fini(&s->from);
	keeper_sandbox_fini(&s->writer);
}

/* volume_copy: a volume with the files that another one has now.  An attacker who owns cayd can
 * stop any sandbox for as long as the copy takes, copy while another one writes, and fill the disk
 * with copies; the files stay in the foreign range. */
int verb_volume_copy(const struct keeper *k, const void *request, int, struct verb_result *result,
		     struct cay_err *err)
{
	const struct verb_volume_copy *q = request;
	const struct disk_size limit = { q->bytes, q->inodes };
	CAY_CLEANUP(volume_source_fini)
	struct volume_source s = { k, VOLUME_INIT, KEEPER_SANDBOX_INIT };
	auto_volume v = VOLUME_INIT;
	int r = 0;

	/* in the order of a start */
	if (q->sandbox.noun != ID_NONE)
		r = keeper_sandbox_open(k, &q->sandbox, q->generation, &s.writer, err);
	if (r >= 0 && s.writer.dir >= 0 && s.writer.cgroup.v2 < 0)
		return cay_fail(err, CAY_E_STATE, "%s has no cgroup that can be opened",
				s.writer.name);
	if (r >= 0)
		r = volume_open(k, &q->from, LOCK_SH, &s.from, err);
	if (r >= 0)
		r = volume_create_dir(k, &q->volume, &v, err);
	v.record.magic = q->read_only ? RECORD_MAGIC_FROZEN : RECORD_MAGIC;
	if (r >= 0)
		r = volume_fill(k, &v, &limit, &s, err);
	result->snapshot.bytes = UINT64_MAX; /* its own quota counts them */
	return r;
}

/* volume_limit: the limit and the usage of one volume; may be repeated.  An attacker who owns cayd
 * can set any limit. */
int verb_volume_limit(const struct keeper *k, const void *request, int, struct verb_result *result,
		      struct cay_err *err)
{
	const struct verb_volume *q = request;
	const struct disk_size limit = { q->bytes, q->inodes };
	struct disk_size now = { DISK_UNKNOWN, DISK_UNKNOWN };
	auto_volume v = VOLUME_INIT;
	int r = volume_open(k, &q->volume, LOCK_EX, &v, err);

	if (r < 0)
		return r;
	if (limit.bytes || limit.inodes)
		r = disk_set_limit(&k->disk, v.dir, VOLUME_DISK, v.record.number, &limit);
	if (r < 0)
		return cay_fail_sys(err, r == -ENOTSUP ? CAY_E_UNSUPPORTED : CAY_E_INTERNAL, -r,
				    "limit the size of %s", v.name);
	r = disk_read_usage(&k->disk, v.dir, VOLUME_DISK, v.record.number, &now);
	if (r < 0 && r != -ENOTSUP)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read the usage of %s", v.name);
	result->usage.disk_bytes = now.bytes;
	result->usage.disk_inodes = now.inodes;
	result->worker_reusable = true;
	return 0;
}

/* volume_remove: by name, whole or not; may be repeated.  An attacker who owns cayd can remove any
 * volume with its files, also one that is mounted. */
int verb_volume_remove(const struct keeper *k, const void *request, int, struct verb_result *result,
		       struct cay_err *err)
{
	const struct verb_volume_name *q = request;
	const struct keeper_sandbox_record none = {};
	auto_volume v = VOLUME_INIT;
	int r = volume_lock(k, &q->volume, LOCK_EX, &v, err);

	if (r == -ENOENT && !trash_has_sandbox(k, v.name))
		id_range_release(k, v.name, &none);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	disk_remove(&k->disk, v.dir, VOLUME_DISK, v.record.number);
	r = trash_add(k, &(struct trash_item){ k->volumes, v.dir, v.name, &none },
		      &result->trash_left);
	r = r < 0 ? r : failpoint_hit(FAULT_VOLUME_REMOVED);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "remove %s", v.name) : 0;
}

/* volume_list: ids and numbers of all volumes. */
int verb_volume_list(const struct keeper *k, const void *request, int, struct verb_result *result,
		     struct cay_err *err)
{
	const struct verb_volume_list *q = request;
	struct id_page names = { .noun = ID_VOLUME, .after = q->after };
	int r = id_page_read(&names, k->volumes);

	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read volumes/");
	result->volumes.more = names.more;
	for (uint32_t i = 0; i < names.n; i++) {
		struct verb_volume_row *row = &result->volumes.rows[result->volumes.n_rows];
		struct disk_size now = { DISK_UNKNOWN, DISK_UNKNOWN };
		auto_volume v = VOLUME_INIT;

		id_format(&names.ids[i], v.name);
		v.dir = path_open(k->volumes, v.name, O_RDONLY | O_DIRECTORY, 0);
		if (v.dir == -ENOENT)
			continue; /* removed meanwhile */
		r = v.dir < 0 ? v.dir : volume_read_record(&v);
		if (r < 0) /* unreadable does not mean absent */
			return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read %s", v.name);
		if (v.record.magic)
			(void)disk_read_usage(&k->disk, v.dir, VOLUME_DISK, v.record.number, &now);
		*row = (struct verb_volume_row){ .volume = names.ids[i],
						 .disk_bytes = now.bytes,
						 .whole = v.record.magic != 0 };
		result->volumes.n_rows++;
	}
	return 0;
}

void volumes_prepare(struct keeper *k)
{
	int r;

	(void)path_for_each_entry(k->ranges, on_volume_number, k);
	r = volumes_try(k);
	k->volumes_are_exclusive = r >= 0;
	k->volumes_are_shared = r == -ENOTSUP;
	if (r < 0)
		log_warn(&k->log, "volumes cannot be created: %s",
			 strerror(-r)); /* NOLINT(concurrency-mt-unsafe): no threads */
}
