/* SPDX-License-Identifier: Apache-2.0 */
/*
 * btrfs-quota - a subvolume with a limit is a sandbox's disk
 *
 * Leans on it: disk.h where project quota is not to be had (docs/architecture.md, "Disk
 * quota").  Each sandbox's upper is in a btrfs subvolume of its own with a
 * limit by simple quotas (Linux 6.7), snapshots and forks are btrfs snapshots.
 *
 * Checked, on a loop file: writing through the overlay stops with EDQUOT within
 * a few per cent of the limit, while another sandbox can go on; deleting gives
 * the room back; a snapshot of 2,000 files and 32 MiB takes about as long as
 * one of nothing; deleting a subvolume frees its space at once if a START_SYNC
 * follows (otherwise the cleaner sleeps until the commit interval is over, and
 * syncfs does not wake it).
 *
 * And a trap: simple quotas charge an extent to the subvolume which wrote it,
 * for as long as anybody has it.  A fork starts at zero and may write its whole
 * limit again, and a full sandbox which was forked stays full however much it
 * deletes, until the fork is gone.  Both are asserted; admission must count a
 * fork's inherited bytes itself.
 *
 * Measured on Linux 6.18: EDQUOT at 99.8 % of 16 MiB; a snapshot of nothing 0.5
 * to 0.9 ms, of much 0.6 to 1.2 ms; a deleted subvolume's space back 5 to 18 ms
 * after START_SYNC, and 30.8 s after with nothing but syncfs.
 *
 * If it failed: an ext4 image on a loop device per sandbox (a block device
 * each), or qgroups with full accounting, whose cost grows with snapshots.
 */
#include <fcntl.h>
#include <linux/btrfs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "platform.h"

#define IMAGE_BYTES MIB(512)
#define LIMIT_BYTES MIB(16)
#define LARGE_BYTES MIB(32)
#define LARGE_FILES 2000
#define CHUNK KIB(64)
#define SNAPSHOTS 5
#define DEADLINE_MS 15000

struct fs {
	const struct plat *p;
	char *at; /* mount point */
	int fd;   /* of its root directory */
	char uuid[40];
};

static void fs_make(struct fs *fs, const struct plat *p)
{
	auto_free char *image = platform_format("%s/btrfs.img", p->work);
	const char *const mkfs[] = { "mkfs.btrfs", "-q", "-f", image, NULL };
	auto_close int backing = open(image, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct btrfs_ioctl_fs_info_args info = {};
	struct btrfs_ioctl_quota_ctl_args quota = { .cmd = BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA };
	auto_close int device = -EBADF;
	auto_free char *loop = NULL;
	const uint8_t *u = info.fsid;

	*fs = (struct fs){ .p = p, .at = platform_format("%s/fs", p->work) };
	NEED(backing >= 0 && ftruncate(backing, IMAGE_BYTES) == 0, "an image");
	NEED(platform_run(mkfs, NULL) == 0, "mkfs.btrfs");
	device = platform_loop(backing, &loop);
	if (device < 0)
		platform_skip("no loop device can be had here");
	platform_mkdir(AT_FDCWD, fs->at, 0755);
	if (mount(loop, fs->at, "btrfs", MS_NOATIME, NULL) < 0)
		platform_skip("no btrfs here: %s", strerror(errno));
	fs->fd = open(fs->at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	NEED(fs->fd >= 0 && ioctl(fs->fd, BTRFS_IOC_FS_INFO, &info) == 0, "open %s", fs->at);
	if (ioctl(fs->fd, BTRFS_IOC_QUOTA_CTL, &quota) < 0)
		platform_skip("no simple quotas here: %s", strerror(errno));
	NEED((unsigned)snprintf(fs->uuid, sizeof(fs->uuid),
				"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
				"%02x%02x%02x%02x%02x%02x",
				u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10],
				u[11], u[12], u[13], u[14], u[15]) < sizeof(fs->uuid),
	     "uuid");
}

static void copy_name(char *to, size_t size, const char *name)
{
	NEED(strlen(name) < size, "name");
	memcpy(to, name, strlen(name) + 1);
}

static uint64_t subvol_id(int fd)
{
	struct btrfs_ioctl_get_subvol_info_args info = {};

	/* on 6.18 success is not 0 */
	NEED(ioctl(fd, BTRFS_IOC_GET_SUBVOL_INFO, &info) >= 0, "subvolume info");
	return info.treeid;
}

static int subvol_open(const struct fs *fs, const char *name)
{
	int fd = openat(fs->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	NEED(fd >= 0, "open %s", name);
	return fd;
}

static void subvol_limit(const struct fs *fs, const char *name)
{
	auto_close int fd = subvol_open(fs, name);
	struct btrfs_ioctl_qgroup_limit_args limit = {
		.qgroupid = subvol_id(fd),
		.lim = { .flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = LIMIT_BYTES },
	};

	NEED(ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &limit) == 0, "limit %s", name);
}

static void subvol_make(const struct fs *fs, const char *name)
{
	struct btrfs_ioctl_vol_args args = {};

	copy_name(args.name, sizeof(args.name), name);
	NEED(ioctl(fs->fd, BTRFS_IOC_SUBVOL_CREATE, &args) == 0, "subvolume %s", name);
}

static void subvol_snapshot(const struct fs *fs, const char *from, const char *to)
{
	auto_close int fd = subvol_open(fs, from);
	struct btrfs_ioctl_vol_args_v2 args = { .fd = fd };

	copy_name(args.name, sizeof(args.name), to);
	NEED(ioctl(fs->fd, BTRFS_IOC_SNAP_CREATE_V2, &args) == 0, "snapshot %s", to);
}

static void subvol_delete(const struct fs *fs, const char *name)
{
	struct btrfs_ioctl_vol_args args = {};

	copy_name(args.name, sizeof(args.name), name);
	NEED(ioctl(fs->fd, BTRFS_IOC_SNAP_DESTROY, &args) == 0, "delete %s", name);
}

/* The overlay a sandbox would see, its upper and work in the subvolume. */
static int overlay_open(const struct fs *fs, const char *name)
{
	auto_free char *at = platform_format("%s/merged-%s", fs->p->work, name);
	auto_free char *upper = platform_format("%s/%s/u", fs->at, name);
	auto_free char *work = platform_format("%s/%s/w", fs->at, name);
	auto_free char *options = platform_format("lowerdir=%s/lower,upperdir=%s,workdir=%s",
						  fs->p->work, upper, work);
	int fd;

	platform_mkdir(AT_FDCWD, at, 0755);
	(void)mkdir(upper, 0755); /* a fork has them */
	(void)mkdir(work, 0755);
	NEED(mount("overlay", at, "overlay", 0, options) == 0, "overlay %s", at);
	fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	NEED(fd >= 0, "open %s", at);
	return fd;
}

/* Bytes that went in before *ret_errno, or all of them and 0. */
static uint64_t fill(int dirfd, const char *name, uint64_t bytes, int *ret_errno)
{
	auto_close int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	static char chunk[CHUNK];
	uint64_t done = 0;

	*ret_errno = fd < 0 ? errno : 0;
	NEED(getrandom(chunk, sizeof(chunk), 0) > 0, "random bytes");
	while (fd >= 0 && done < bytes) {
		ssize_t n = write(fd, chunk, sizeof(chunk));

		if (n <= 0) {
			*ret_errno = errno;
			break;
		}
		done += (uint64_t)n;
	}
	if (fd >= 0 && fsync(fd) < 0 && *ret_errno == 0)
		*ret_errno = errno;
	return done;
}

static bool about_limit(uint64_t bytes)
{
	return bytes >= LIMIT_BYTES / 100 * 90 && bytes <= LIMIT_BYTES / 100 * 101;
}

static void note_usage(const struct fs *fs, const char *name)
{
	auto_close int fd = subvol_open(fs, name);
	auto_free char *path = platform_format("/sys/fs/btrfs/%s/qgroups/0_%llu/referenced",
					       fs->uuid, (unsigned long long)subvol_id(fd));
	auto_buf text = BUF_INIT(KIB(1));

	if (platform_get(AT_FDCWD, path, &text))
		platform_note("%s is charged %.*s bytes", name, (int)strcspn(buf_str(&text), "\n"),
			      buf_str(&text));
}

struct retry {
	int dirfd;
	const char *name;
	uint64_t bytes;
	int fs_fd;
};

/* Freed extents are given back at a commit, so commit and try again. */
static bool can_write(void *arg)
{
	const struct retry *r = arg;
	uint64_t done;
	int errnum;

	(void)syncfs(r->fs_fd);
	done = fill(r->dirfd, r->name, r->bytes, &errnum);
	(void)unlinkat(r->dirfd, r->name, 0);
	return errnum == 0 && done >= r->bytes;
}

static void try_limit(const struct fs *fs)
{
	auto_close int a = -EBADF, b = -EBADF;
	int errnum;
	uint64_t done;

	subvol_make(fs, "a");
	subvol_make(fs, "b");
	subvol_limit(fs, "a");
	subvol_limit(fs, "b");
	a = overlay_open(fs, "a");
	b = overlay_open(fs, "b");
	done = fill(a, "big", 4 * LIMIT_BYTES, &errnum);
	CHECK(errnum == EDQUOT || errnum == ENOSPC, "writing through the overlay ends: %s",
	      strerror(errnum));
	CHECK(about_limit(done), "after %.1f %% of the limit",
	      100 * (double)done / (double)LIMIT_BYTES);
	note_usage(fs, "a");
	done = fill(b, "big", LIMIT_BYTES / 2, &errnum);
	CHECK(errnum == 0 && done >= LIMIT_BYTES / 2, "another sandbox can go on");
	NEED(unlinkat(a, "big", 0) == 0, "unlink");
	CHECK(platform_wait(can_write, &(struct retry){ a, "again", LIMIT_BYTES / 4 * 3, fs->fd },
			    DEADLINE_MS),
	      "deleting gives the room back");
}

static void try_fork(const struct fs *fs)
{
	auto_close int origin = -EBADF, fork_fd = -EBADF;
	struct retry some = { .name = "some", .bytes = LIMIT_BYTES / 4, .fs_fd = fs->fd };
	int errnum;
	uint64_t done;

	subvol_make(fs, "origin");
	subvol_limit(fs, "origin");
	origin = overlay_open(fs, "origin");
	done = fill(origin, "big", 4 * LIMIT_BYTES, &errnum);
	NEED(errnum == EDQUOT && about_limit(done), "a full sandbox");
	NEED(syncfs(fs->fd) == 0, "sync");
	subvol_snapshot(fs, "origin", "fork");
	subvol_limit(fs, "fork");
	note_usage(fs, "fork");
	fork_fd = overlay_open(fs, "fork");
	CHECK(faccessat(fork_fd, "big", F_OK, 0) == 0, "a fork of a full sandbox has its files");
	done = fill(fork_fd, "more", 4 * LIMIT_BYTES, &errnum);
	CHECK(errnum == EDQUOT && about_limit(done),
	      "trap: and may write its whole limit again (%.1f %%)",
	      100 * (double)done / (double)LIMIT_BYTES);
	some.dirfd = origin;
	NEED(unlinkat(origin, "big", 0) == 0, "unlink");
	CHECK(!platform_wait(can_write, &some, 100),
	      "trap: the full one stays full after deleting, its fork has the bytes");
	NEED(unlinkat(fork_fd, "big", 0) == 0, "unlink");
	CHECK(platform_wait(can_write, &some, DEADLINE_MS), "until the fork deletes them too");
}

static void make_large(const struct fs *fs)
{
	auto_close int fd = subvol_open(fs, "large");
	int errnum;

	(void)fill(fd, "big", LARGE_BYTES, &errnum);
	NEED(errnum == 0, "a large file");
	for (unsigned i = 0; i < LARGE_FILES; i++) {
		auto_free char *name = platform_format("%u", i);

		platform_write(fd, name, "a small file, inline in the tree\n");
	}
}

static double snapshot_ms(const struct fs *fs, const char *name)
{
	double best = 0;

	for (int i = 0; i < SNAPSHOTS; i++) {
		auto_free char *to = platform_format("%s-snap-%d", name, i);
		uint64_t start;
		double ms;

		NEED(syncfs(fs->fd) == 0, "sync");
		start = platform_now_ns();
		subvol_snapshot(fs, name, to);
		ms = (double)(platform_now_ns() - start) / 1e6;
		if (i == 0 || ms < best)
			best = ms;
	}
	return best;
}

struct space {
	const struct fs *fs;
	uint64_t want;
};

static uint64_t free_bytes(const struct fs *fs)
{
	struct statvfs vfs;

	NEED(fstatvfs(fs->fd, &vfs) == 0, "statvfs");
	return vfs.f_bfree * vfs.f_frsize;
}

static bool is_free(void *arg)
{
	const struct space *s = arg;

	return free_bytes(s->fs) >= s->want;
}

static void try_snapshots(const struct fs *fs)
{
	struct space space = { .fs = fs };
	uint64_t start, transid = 0;
	double small_ms, large_ms, make_ms;

	subvol_make(fs, "small");
	subvol_make(fs, "large");
	NEED(syncfs(fs->fd) == 0, "sync");
	space.want = free_bytes(fs) - LARGE_BYTES / 10;
	start = platform_now_ns();
	make_large(fs);
	NEED(syncfs(fs->fd) == 0, "sync");
	make_ms = (double)(platform_now_ns() - start) / 1e6;
	small_ms = snapshot_ms(fs, "small");
	large_ms = snapshot_ms(fs, "large");
	platform_note("snapshot: empty %.2f ms, large %.2f ms; writing the large one %.0f ms",
		      small_ms, large_ms, make_ms);
	CHECK(large_ms < 10 * small_ms, "a snapshot of much takes as one of nothing (ratio %.2f)",
	      large_ms / small_ms);
	CHECK(large_ms < make_ms / 4, "and far less than making it did (ratio %.3f)",
	      large_ms / make_ms);
	CHECK(free_bytes(fs) < space.want, "the large one occupies space");
	for (int i = 0; i < SNAPSHOTS; i++) {
		auto_free char *name = platform_format("large-snap-%d", i);

		subvol_delete(fs, name);
	}
	subvol_delete(fs, "large");
	start = platform_now_ns();
	NEED(ioctl(fs->fd, BTRFS_IOC_START_SYNC, &transid) == 0, "wake the cleaner");
	CHECK(platform_wait(is_free, &space, DEADLINE_MS), "deleting subvolumes frees it");
	platform_note("%.0f ms after", (double)(platform_now_ns() - start) / 1e6);
}

static void body(const struct plat *p)
{
	struct fs fs;

	platform_require((const char *const[]){ "mkfs.btrfs", NULL });
	platform_mkdir(p->work_fd, "lower", 0755);
	fs_make(&fs, p);
	try_limit(&fs);
	try_fork(&fs);
	try_snapshots(&fs);
	(void)close(fs.fd);
	free(fs.at);
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
