/* SPDX-License-Identifier: Apache-2.0 */
/* btrfs - one subvolume per disk; tests/platform/btrfs-quota.c shows which limits hold.  There is
 * no inode quota, but a file's metadata counts like its data. */
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/str.h"
#include "disk/disk-internal.h"

/* Every subvolume's own directory, and nothing else, has this number. */
#define SUBVOLUME_INO 256

static const char *btrfs_probe(struct disk *d)
{
	struct btrfs_ioctl_fs_info_args info = {};
	const uint8_t *u = info.fsid;
	auto_buf mode = BUF_INIT(64);
	char path[80];
	int n;

	if (ioctl(d->fd, BTRFS_IOC_FS_INFO, &info) < 0)
		return "cannot determine the name of the btrfs";
	n = snprintf(path, sizeof(path),
		     "/sys/fs/btrfs/%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		     "%02x%02x%02x%02x%02x%02x/qgroups",
		     u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
		     u[12], u[13], u[14], u[15]);
	if (n < 0 || n >= (int)sizeof(path))
		return "its name is too long";
	/* exists while quotas are enabled */
	d->groups = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->groups < 0)
		return "quotas are off: btrfs quota enable --simple";
	/* full ones give up counting when a large tree goes, and no limit holds then */
	if (path_read(d->groups, "mode", &mode) < 0 || !str_eq(buf_str(&mode), "squota\n")) {
		cay_closep(&d->groups);
		return "its quotas are not simple ones: btrfs quota enable --simple";
	}
	return NULL;
}

static int btrfs_set_name(char *to, size_t size, const char *name)
{
	size_t n = strlen(name);

	if (n >= size)
		return -ENAMETOOLONG;
	memcpy(to, name, n + 1);
	return 0;
}

static int btrfs_create(int dirfd, const char *name, uint32_t)
{
	struct btrfs_ioctl_vol_args args = {};
	int r = btrfs_set_name(args.name, sizeof(args.name), name);

	if (r < 0)
		return r;
	return ioctl(dirfd, BTRFS_IOC_SUBVOL_CREATE, &args) < 0 ? -errno : 0;
}

/* A plain directory belongs to the enclosing subvolume, whose limits are not ours. */
static int btrfs_check_subvolume(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_ino == SUBVOLUME_INO ? 0 : -ENOTSUP;
}

static int btrfs_set_limit(int fd, uint32_t, const struct disk_size *limit)
{
	struct btrfs_ioctl_qgroup_limit_args args = {
		/* of the subvolume of fd */
		.lim = { .flags = BTRFS_QGROUP_LIMIT_MAX_RFER,
			 .max_rfer = limit->bytes ? limit->bytes : UINT64_MAX /* none */ },
	};
	int r = btrfs_check_subvolume(fd);

	if (r < 0)
		return r;
	return ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0 ? -errno : 0;
}

static int btrfs_read_qgroup_number(int groups, uint64_t id, const char *name, uint64_t *ret)
{
	auto_buf text = BUF_INIT(KIB(4));
	char path[64];
	int n = snprintf(path, sizeof(path), "0_%llu/%s", (unsigned long long)id, name);
	int r = n < 0 || n >= (int)sizeof(path) ? -EINVAL : path_read(groups, path, &text);

	if (r < 0 || !text.len)
		return r < 0 ? r : -ENODATA;
	return str_parse_u64((struct slice){ text.data, text.len - 1 }, 0, UINT64_MAX, ret);
}

/* Written bytes, plus those reserved and not written yet. */
static int btrfs_read_usage(const struct disk *d, int fd, uint32_t, struct disk_size *ret)
{
	static const char *const parts[] = { "referenced", "rsv_data", "rsv_meta_pertrans" };
	struct btrfs_ioctl_get_subvol_info_args info = {};
	uint64_t sum = 0, n = 0;
	int r = btrfs_check_subvolume(fd);

	/* on 6.18 success is not 0 */
	if (r >= 0 && ioctl(fd, BTRFS_IOC_GET_SUBVOL_INFO, &info) < 0)
		r = -errno;
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(parts); i++, sum += n)
		r = btrfs_read_qgroup_number(d->groups, info.treeid, parts[i], &n);
	if (r >= 0)
		ret->bytes = sum;
	return r;
}

/* The cleaner sleeps until a commit, which comes by itself in half a minute. */
static void btrfs_remove(const struct disk *d, int dirfd, const char *name, uint32_t)
{
	struct btrfs_ioctl_vol_args args = {};
	uint64_t transaction = 0;

	if (btrfs_set_name(args.name, sizeof(args.name), name) >= 0 &&
	    ioctl(dirfd, BTRFS_IOC_SNAP_DESTROY, &args) >= 0)
		(void)ioctl(d->fd, BTRFS_IOC_START_SYNC, &transaction);
}

static int btrfs_copy(int from, int to_dir, const char *to)
{
	struct btrfs_ioctl_vol_args_v2 args = { .fd = from };
	int r = btrfs_check_subvolume(from);

	if (r >= 0)
		r = btrfs_set_name(args.name, sizeof(args.name), to);
	if (r < 0)
		return r;
	return ioctl(to_dir, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0 ? -errno : 0;
}

const struct disk_backend disk_btrfs = {
	.magic = BTRFS_SUPER_MAGIC,
	.kind = VERB_DISK_BTRFS,
	.bytes = true,
	.probe = btrfs_probe,
	.create = btrfs_create,
	.set_limit = btrfs_set_limit,
	.read_usage = btrfs_read_usage,
	.remove = btrfs_remove,
	.copy = btrfs_copy,
};
