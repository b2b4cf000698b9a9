/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/overlay.h"

#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/failpoint.h"
#include "base/mount.h"
#include "base/path.h"
#include "unpack/unpack-confine.h"
#include "wire/writable.h"

/* Mount targets of the OCI config (src/lib/oci). */
static const char *const overlay_mount_targets[] = { "proc", "dev", "sys" };

static_assert(IMAGE_LAYERS_MAX == STAGE_LOWERS, "a place for each layer");
static_assert(STAGE_LOWERS <= 16, "a place has one digit");

void overlay_fini(struct overlay *r)
{
	while (r->n_lower)
		cay_closep(&r->lower[--r->n_lower]);
	cay_closep(&r->upper);
	volume_mounts_fini(&r->volumes);
}

static int userns_write_id_map(int proc, const char *name, uint32_t disk, const struct id_map *map)
{
	auto_close int fd = path_open(proc, name, O_WRONLY, 0);
	char text[64];
	int n = snprintf(text, sizeof(text), "%u %u %u\n", disk, map->live, map->n);

	if (fd < 0 || n < 0 || n >= (int)sizeof(text))
		return fd < 0 ? fd : -EINVAL;
	return write(fd, text, (size_t)n) == n ? 0 : -errno;
}

/* It inherits the worker's lock and connection, so it must not outlive the worker. */
static int userns_child_main(void *worker)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == *(const pid_t *)worker)
		while (pause() < 0)
			;
	return 0;
}

/* The process waits for our SIGKILL. */
int userns_create(const struct id_map *map)
{
	/* CLONE_VM with its own stack: copying our memory would cost more than the rest */
	alignas(16) static char stack[KIB(4)];
	pid_t worker = getpid();
	int pidfd = -EBADF, r, ns = -EBADF;
	auto_buf path = BUF_INIT(32);
	auto_close int proc = -EBADF;
	int pid = clone(userns_child_main, stack + sizeof(stack),
			CLONE_NEWUSER | CLONE_VM | CLONE_PIDFD | SIGCHLD, &worker, &pidfd);

	if (pid < 0)
		return -errno;
	r = buf_printf(&path, "/proc/%d", pid);
	if (r >= 0) {
		proc = open(path.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = proc < 0 ? -errno : userns_write_id_map(proc, "uid_map", map->uid, map);
	}
	if (r >= 0)
		r = userns_write_id_map(proc, "gid_map", map->gid, map);
	r = r < 0 ? r : failpoint_hit(FAULT_START_MAPPED);
	if (r >= 0) {
		ns = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
		r = ns < 0 ? -errno : ns;
	}
	(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	(void)waitid(P_PIDFD, (id_t)pidfd, &(siginfo_t){}, WEXITED);
	cay_closep(&pidfd);
	return r;
}

static int overlay_open_idmapped(int dir, const char *path, int userns)
{
	return mount_clone(dir, path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, userns);
}

/* An unpacked image, or the committed disk of a sandbox. */
static int overlay_open_layer(const struct keeper *k, const uint8_t digest[static 32], int userns)
{
	char name[DIGEST_HEX + 8];
	auto_close int image = -EBADF;
	int r;

	image_dir_name(digest, name);
	image = path_open(k->images, name, O_RDONLY | O_DIRECTORY, 0);
	if (image < 0)
		return image;
	r = overlay_open_idmapped(image, IMAGE_ROOTFS, userns);
	return r == -ENOENT ? overlay_open_idmapped(image, IMAGE_UPPER, userns) : r;
}

static int overlay_open_layers(const struct keeper *k, const struct sandbox *sb, int userns,
			       struct overlay *ret)
{
	uint8_t chain[IMAGE_LAYERS_MAX][32];
	int n = image_store_read_chain(k->images, sb->record.image, chain);

	for (int i = 0; i < n; i++) {
		int fd = overlay_open_layer(k, chain[i], userns);

		if (fd < 0)
			return fd;
		ret->lower[ret->n_lower++] = fd;
	}
	return n < 0 ? n : 0;
}

static int overlay_open_image_dir(const struct keeper *k, const uint8_t digest[static 32])
{
	char name[DIGEST_HEX + 8];
	auto_close int image = -EBADF;
	int r;

	image_dir_name(digest, name);
	image = path_open(k->images, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	r = image < 0 ? image : path_open(image, IMAGE_ROOTFS, O_RDONLY | O_DIRECTORY, 0);
	return image >= 0 && r == -ENOENT ? path_open(image, IMAGE_UPPER, O_RDONLY | O_DIRECTORY, 0)
					  : r;
}

/* Names in /proc/self/fd: the kernel takes 255 bytes of an option. */
static int overlay_mount_lowers(const char *lowers)
{
	auto_close int fs = fsopen("overlay", FSOPEN_CLOEXEC);
	int r;

	if (fs < 0 || chdir("/proc/self/fd") < 0)
		return -errno;
	r = fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", lowers, 0) < 0 ||
			    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0
		    ? -errno
		    : 0;
	if (chdir("/") < 0 || r < 0)
		return r < 0 ? r : -errno;
	r = fsmount(fs, FSMOUNT_CLOEXEC,
		    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
			    MOUNT_ATTR_NOATIME);
	return r < 0 ? -errno : r;
}

int overlay_open_image(const struct keeper *k, const uint8_t digest[static 32])
{
	uint8_t chain[IMAGE_LAYERS_MAX][32];
	int dirs[IMAGE_LAYERS_MAX], opened = 0, r = 0;
	auto_buf lowers = BUF_INIT(255);
	int n = image_store_read_chain(k->images, digest, chain);

	while (r >= 0 && opened < n) {
		r = dirs[opened] = overlay_open_image_dir(k, chain[opened]);
		if (r >= 0)
			r = buf_printf(&lowers, "%s%d", opened ? ":" : "", r);
		opened++;
	}
	if (n < 0)
		r = n;
	else if (r >= 0)
		r = n == 1 ? confine_clone_tree_readonly(dirs[0])
			   : overlay_mount_lowers(buf_str(&lowers));
	while (opened)
		cay_closep(&dirs[--opened]);
	return r;
}

int overlay_open(const struct keeper *k, const struct sandbox *sb,
		 const struct overlay_options *how, struct overlay *ret, struct cay_err *err)
{
	auto_close int userns =
		userns_create(&(struct id_map){ VERB_RANGE_FOREIGN, VERB_RANGE_FOREIGN,
						keeper_sandbox_host_root_id(sb), VERB_RANGE_IDS });
	int r;

	if (userns < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -userns, "create a user namespace for %s",
				    sb->name);
	r = overlay_open_layers(k, sb, userns, ret);
	if (r == -ENOENT)
		return cay_fail(err, CAY_E_NOT_FOUND, "the image of %s does not exist", sb->name);
	if (r >= 0 && !how->memory.bytes)
		r = ret->upper = overlay_open_idmapped(sb->dir, "disk", userns);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "idmap the files of %s", sb->name);
	if (how->mounts && volumes_check_writers(k, how->mounts, err) < 0)
		return -ENOTSUP;
	return how->mounts ? volume_mounts_open(k, sb, how->mounts, userns, &ret->volumes, err) : 0;
}

int overlay_check_mount_targets(int root, struct cay_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(overlay_mount_targets); i++) {
		auto_close int fd =
			path_open(root, overlay_mount_targets[i], O_PATH | O_DIRECTORY, 0);

		if (fd < 0)
			return cay_fail_sys(err, CAY_E_INVALID, -fd,
					    "/%s of the image is not a plain directory",
					    overlay_mount_targets[i]);
	}
	return 0;
}

/* A tmpfs of this size as upper; its pages are charged to the writer's cgroup. */
static int overlay_mount_memory_upper(uint32_t live, const struct disk_size *size)
{
	static const char *const parts[] = { STAGE_UPPER "/upper", STAGE_UPPER "/work" };
	auto_buf options = BUF_INIT(160);

	/* plus the inodes of overlayfs: the root, these two and work/work */
	if (buf_printf(&options, "mode=0755,size=%llu,nr_inodes=%llu,uid=%u,gid=%u",
		       (unsigned long long)size->bytes, (unsigned long long)size->inodes + 4, live,
		       live) < 0)
		return -ENOMEM;
	if (mount("upper", STAGE_UPPER, "tmpfs", MS_NOSUID | MS_NODEV, options.data) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (mkdir(parts[i], 0755) < 0 || chown(parts[i], live, live) < 0)
			return -errno;
	return 0;
}

static int overlay_attach_layers(const struct overlay *r, uint32_t live,
				 const struct overlay_options *how)
{
	for (unsigned i = 0; i < r->n_lower; i++) {
		char at[] = STAGE_LOWER "/0";

		at[sizeof(at) - 2] = "0123456789abcdef"[i];
		if (move_mount(r->lower[i], "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0)
			return -errno;
	}
	if (how->memory.bytes)
		return overlay_mount_memory_upper(live, &how->memory);
	return move_mount(r->upper, "", AT_FDCWD, STAGE_UPPER, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno
											    : 0;
}

/* Open one directory of a path, creating it if absent; anything else is refused. */
static int overlay_enter_dir(int at, const char *name, mode_t mode)
{
	if (mkdirat(at, name, mode) == 0) {
		if (fchmodat(at, name, mode, 0) < 0)
			return -errno;
	} else if (errno != EEXIST) {
		return -errno;
	}
	return path_open(at, name, O_PATH | O_DIRECTORY, 0);
}

int overlay_make_path(int root, const char *path)
{
	struct slice rest = slice_of(path);
	int at = fcntl(root, F_DUPFD_CLOEXEC, 3);

	while (at >= 0 && rest.p) {
		auto_close int above = at;
		auto_buf name = BUF_INIT(VOLUME_PATH_MAX + 1);
		struct slice part = slice_cut(&rest, '/');

		if (buf_append(&name, part.p, part.n) < 0)
			return -ENOMEM;
		at = overlay_enter_dir(above, name.data, rest.p ? 0755 : 01777);
	}
	return at;
}

static int overlay_mount_fs(struct overlay *o, const struct overlay_options *how,
			    int ret_at[static WRITABLE_NUM], struct cay_err *err)
{
	auto_buf options = BUF_INIT(KIB(1));
	int r = buf_puts(&options, "upperdir=" STAGE_UPPER "/upper,workdir=" STAGE_UPPER "/work");
	auto_close int root = -EBADF;

	for (unsigned i = 0; r >= 0 && i < o->n_lower; i++)
		r = buf_printf(&options, "%s" STAGE_LOWER "/%x", i ? ":" : ",lowerdir=", i);
	if (r < 0)
		return r;
	if (mount("overlay", STAGE_ROOT, "overlay", MS_NOSUID | MS_NODEV, options.data) < 0)
		return -errno;
	root = open(STAGE_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	for (unsigned i = 0; how->read_only && i < WRITABLE_NUM; i++) {
		if (!(how->writable & UINT32_C(1) << i))
			continue;
		ret_at[i] = overlay_make_path(root, writable_paths[i]);
		if (ret_at[i] < 0)
			return ret_at[i];
	}
	return volume_mounts_create(&o->volumes, root, err);
}

/* With the ids of the sandbox's root but our capabilities: overlayfs accesses its layers as the
 * mounter, and host root has no id in an idmapped layer. */
static int overlay_mount_as_sandbox_root(struct overlay *o, uint32_t live,
					 const struct overlay_options *how,
					 int ret_at[static WRITABLE_NUM], struct cay_err *err)
{
	int r;

	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0 || setresgid(0, live, 0) < 0 ||
	    setresuid(0, live, 0) < 0)
		return -errno;
	r = overlay_mount_fs(o, how, ret_at, err);
	if (setresuid(0, 0, 0) < 0 || setresgid(0, 0, 0) < 0 || prctl(PR_SET_SECUREBITS, 0) < 0)
		return -errno;
	return r;
}

/* Clone the writable paths while the root is writable; make it read-only; mount the clones. */
static int overlay_make_root_readonly(const int at[static WRITABLE_NUM])
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
	int trees[WRITABLE_NUM], r = 0;

	for (unsigned i = 0; i < WRITABLE_NUM; i++) {
		trees[i] = at[i] < 0 ? -EBADF : mount_clone(at[i], "", 0, -EBADF);
		if (at[i] >= 0 && trees[i] < 0)
			r = trees[i];
	}
	if (r >= 0 && mount_setattr(AT_FDCWD, STAGE_ROOT, 0, &attr, sizeof(attr)) < 0)
		r = -errno;
	for (unsigned i = 0; i < WRITABLE_NUM; i++) {
		if (r >= 0 && trees[i] >= 0 &&
		    move_mount(trees[i], "", at[i], "",
			       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
			r = -errno;
		cay_closep(&trees[i]);
	}
	return r;
}

int overlay_mount(struct overlay *r, uint32_t live, const struct overlay_options *how,
		  struct cay_err *err)
{
	auto_close int root = -EBADF;
	int at[WRITABLE_NUM], n;

	for (unsigned i = 0; i < WRITABLE_NUM; i++)
		at[i] = -EBADF;
	n = overlay_attach_layers(r, live, how);
	if (n < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -n, "attach the layers");
	n = volume_mounts_attach_disks(&r->volumes, err);
	if (n >= 0)
		n = overlay_mount_as_sandbox_root(r, live, how, at, err);
	if (n >= 0 && how->read_only)
		n = overlay_make_root_readonly(at);
	for (unsigned i = 0; i < WRITABLE_NUM; i++)
		cay_closep(&at[i]);
	if (n < 0 && err->code)
		return n;
	if (n == -ENOTDIR || n == -ELOOP)
		return cay_fail_sys(err, CAY_E_INVALID, -n,
				    "a writable path of the image is not a plain directory");
	if (n < 0)
		return cay_fail_sys(err, cay_code_from_disk_errno(n), -n, "mount the overlay");
	root = open(STAGE_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "open the overlay");
	n = overlay_check_mount_targets(root, err);
	return n < 0 ? n : volume_mounts_attach(&r->volumes, root, err);
}
