/* SPDX-License-Identifier: Apache-2.0 */
/* project - ext4 and XFS: a project id on a directory, inherited by its new entries
 *
 * XFS's commands, which ext4 understands as well.  Changing a file's project takes root of the
 * host, so no process inside can leave its project.  On ext4 a process with CAP_SYS_RESOURCE may
 * exceed a limit; overlayfs writes with the mounter's credentials, but without that capability. */
#include <fcntl.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/path.h"
#include "disk/disk-internal.h"

#define BLOCK 512 /* unit of the kernel's counters */

static int project_quotactl(int fd, unsigned command, uint32_t project, void *arg)
{
	return syscall(SYS_quotactl_fd, fd, QCMD(command, PRJQUOTA), project, arg) < 0 ? -errno : 0;
}

static const char *project_probe(struct disk *d)
{
	struct fs_quota_statv state = { .qs_version = FS_QSTATV_VERSION1 };

	if (project_quotactl(d->fd, Q_XGETQSTATV, 0, &state) < 0)
		return "project quotas are off: mount it with prjquota";
	return state.qs_flags & FS_QUOTA_PDQ_ENFD ? NULL
						  : "project quotas are counted and not enforced";
}

static int project_set_id(int fd, uint32_t project)
{
	struct fsxattr attr;

	if (ioctl(fd, FS_IOC_FSGETXATTR, &attr) < 0)
		return -errno;
	attr.fsx_projid = project;
	attr.fsx_xflags |= FS_XFLAG_PROJINHERIT;
	return ioctl(fd, FS_IOC_FSSETXATTR, &attr) < 0 ? -errno : 0;
}

static int project_create(int dirfd, const char *name, uint32_t project)
{
	auto_close int fd = -EBADF;

	if (mkdirat(dirfd, name, 0755) < 0)
		return -errno;
	fd = path_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
	return fd < 0 ? fd : project_set_id(fd, project);
}

/* A directory without a project is not limited. */
static int project_check_id(int fd, uint32_t project)
{
	struct fsxattr attr;

	if (ioctl(fd, FS_IOC_FSGETXATTR, &attr) < 0)
		return -errno;
	return attr.fsx_projid == project ? 0 : -ENOTSUP;
}

static int project_set_quota(int fd, uint32_t project, const struct disk_size *limit)
{
	struct fs_disk_quota q = {
		.d_version = FS_DQUOT_VERSION,
		.d_flags = FS_PROJ_QUOTA,
		.d_fieldmask = FS_DQ_BHARD | FS_DQ_IHARD,
		.d_id = project,
		.d_blk_hardlimit = (limit->bytes + BLOCK - 1) / BLOCK, /* 0 would be none */
		.d_ino_hardlimit = limit->inodes,
	};

	return project_quotactl(fd, Q_XSETQLIM, project, &q);
}

static int project_set_limit(int fd, uint32_t project, const struct disk_size *limit)
{
	int r = project_check_id(fd, project);

	return r < 0 ? r : project_set_quota(fd, project, limit);
}

static int project_read_usage(const struct disk *, int fd, uint32_t project, struct disk_size *ret)
{
	struct fs_disk_quota q = {};
	int r = project_check_id(fd, project);

	if (r >= 0)
		r = project_quotactl(fd, Q_XGETQUOTA, project, &q);
	if (r >= 0)
		*ret = (struct disk_size){ q.d_bcount * BLOCK, q.d_icount };
	return r;
}

/* Files go by rmtree_at(); the number's next one must not inherit a limit. */
static void project_remove(const struct disk *d, int, const char *, uint32_t project)
{
	if (project) /* 0 is everything that has none */
		(void)project_set_quota(d->fd, project, &(struct disk_size){});
}

#define PROJECT(magic_) \
	{ \
		.magic = (magic_), \
		.kind = VERB_DISK_PROJECT, \
		.bytes = true, \
		.inodes = true, \
		.probe = project_probe, \
		.create = project_create, \
		.set_limit = project_set_limit, \
		.read_usage = project_read_usage, \
		.remove = project_remove, \
	}
const struct disk_backend disk_ext4 = PROJECT(EXT4_SUPER_MAGIC);
const struct disk_backend disk_xfs = PROJECT(XFS_SUPER_MAGIC);
