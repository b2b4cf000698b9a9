/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/mount-stage.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "base/buf.h"
#include "base/mount.h"
#include "base/path.h"
#include "base/rmtree.h"
#include "wire/verb.h"

#define INIT_MAX MIB(64)

static const char *const stage_dirs[] = {
	"proc",
	"sys",
	"sys/fs",
	"sys/fs/cgroup",
	"dev",
	"etc",
	"state",
	"l",
	"v",
	"u",
	"r",
	"see",
	"see/dev",
	"see/dev/pts",
	"see/dev/shm",
	"see/dev/mqueue",
	"see/dev/cay",
	"see/sys",
	"see/sys/devices",
	"see/sys/devices/system",
	"see/sys/devices/system/cpu",
	"see/sys/fs",
	"see/sys/fs/cgroup",
	"see/sys/kernel",
	"see/cpus",
	"see/empty",
	"none",
	"bundle",
	/* crun masks directories with it; without it each mask is a mount */
	"state/.empty-directory",
};

/* Parts of the host for runtimes.  A link is copied as a link (merged /usr). */
static const char *const stage_host_paths[] = {
	"usr", "bin", "sbin", "lib", "lib64", "lib32", "libx32", "etc/ld.so.cache",
};

static const struct {
	const char *name;
	unsigned major, minor;
} stage_dev_nodes[] = {
	{ "null", 1, 3 },   { "zero", 1, 5 },    { "full", 1, 7 },
	{ "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 },
};

static const struct {
	const char *name, *target;
} stage_dev_links[] = {
	{ "fd", "/proc/self/fd" },       { "stdin", "/proc/self/fd/0" },
	{ "stdout", "/proc/self/fd/1" }, { "stderr", "/proc/self/fd/2" },
	{ "ptmx", "pts/ptmx" },          { "core", "/proc/kcore" },
};

static int mount_stage_add_host_path(int root, const char *name, struct cay_err *err)
{
	auto_buf host = BUF_INIT(64), target = BUF_INIT(256);
	auto_close int tree = -EBADF;
	struct stat st;
	ssize_t n;

	if (buf_printf(&host, "/%s", name) < 0 || buf_reserve(&target, 255) < 0)
		return cay_no_memory(err);
	if (lstat(host.data, &st) < 0)
		return errno == ENOENT ? 0 : cay_fail_sys(err, CAY_E_INTERNAL, errno, "%s", name);
	if (S_ISLNK(st.st_mode)) {
		n = readlink(host.data, target.data, 255);
		if (n < 0 || n >= 255)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "read the link /%s", name);
		target.data[n] = 0;
		if (symlinkat(target.data, root, name) < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "link /%s", name);
		return 0;
	}
	if (S_ISDIR(st.st_mode) ? mkdirat(root, name, 0755) < 0
				: mknodat(root, name, S_IFREG | 0444, 0) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create the mount point /%s", name);
	tree = mount_clone(AT_FDCWD, host.data, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, -EBADF);
	if (tree < 0 || move_mount(tree, "", root, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, tree < 0 ? -tree : errno,
				    "show /%s to runtimes", name);
	return 0;
}

static int mount_stage_copy_init(int dev, const char *path, struct cay_err *err)
{
	auto_close int from = open(path, O_RDONLY | O_CLOEXEC);
	auto_close int to = path_open(dev, "cay/init", O_WRONLY | O_CREAT | O_EXCL, 0555);
	struct stat st;

	if (from < 0 || fstat(from, &st) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "open cay-init at %s", path);
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (size_t)st.st_size > INIT_MAX)
		return cay_fail(err, CAY_E_INVALID, "%s is not a program", path);
	if (to < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -to, "create " OCI_INIT);
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = sendfile(to, from, NULL, (size_t)left);

		if (n <= 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, n ? errno : EIO, "copy cay-init");
		left -= n;
	}
	return 0;
}

static int mount_stage_fill_dev(int root, const char *init_path, struct cay_err *err)
{
	auto_close int dev = path_open(root, "see/dev", O_RDONLY | O_DIRECTORY, 0);

	if (dev < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -dev, "open " OCI_SOURCE_DEV);
	for (size_t i = 0; i < ARRAY_SIZE(stage_dev_nodes); i++)
		if (mknodat(dev, stage_dev_nodes[i].name, S_IFCHR | 0666,
			    makedev(stage_dev_nodes[i].major, stage_dev_nodes[i].minor)) < 0 ||
		    /* regardless of the umask */
		    fchmodat(dev, stage_dev_nodes[i].name, 0666, 0) < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create /dev/%s",
					    stage_dev_nodes[i].name);
	for (size_t i = 0; i < ARRAY_SIZE(stage_dev_links); i++)
		if (symlinkat(stage_dev_links[i].target, dev, stage_dev_links[i].name) < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create /dev/%s",
					    stage_dev_links[i].name);
	return mount_stage_copy_init(dev, init_path, err);
}

static int mount_stage_fill_sys(int root, struct cay_err *err)
{
	static const char *const files[] = { "online", "possible", "present" };
	auto_close int cpu =
		path_open(root, "see/sys/devices/system/cpu", O_RDONLY | O_DIRECTORY, 0);
	auto_buf text = BUF_INIT(32);
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	int r = n > 1 ? buf_printf(&text, "0-%ld\n", n - 1) : buf_puts(&text, "0\n");

	for (size_t i = 0; cpu >= 0 && r >= 0 && i < ARRAY_SIZE(files); i++)
		r = path_write_atomic(cpu, files[i], text.data, text.len, 0444);
	if (cpu < 0 || r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, cpu < 0 ? -cpu : -r,
				    "fill " OCI_SOURCE_SYS);
	return 0;
}

/* Of one digit. */
static int mount_stage_create_places(int root, char dir, unsigned n, struct cay_err *err)
{
	for (unsigned i = 0; i < n; i++) {
		const char at[] = { dir, '/', "0123456789abcdef"[i], 0 };

		if (mkdirat(root, at, 0755) < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create %s", at);
	}
	return 0;
}

static int mount_stage_fill(int root, const char *init_path, struct cay_err *err)
{
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(stage_dirs); i++)
		if (mkdirat(root, stage_dirs[i], 0755) < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create %s", stage_dirs[i]);
	r = mount_stage_create_places(root, 'l', STAGE_LOWERS, err);
	if (r >= 0)
		r = mount_stage_create_places(root, 'v', VERB_MOUNTS_MAX, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(stage_host_paths); i++) {
		r = mount_stage_add_host_path(root, stage_host_paths[i], err);
		if (r < 0)
			return r;
	}
	r = mount_stage_fill_dev(root, init_path, err);
	return r < 0 ? r : mount_stage_fill_sys(root, err);
}

static int mount_stage_attach(int from_dir, const char *from, int root, const char *to,
			      struct cay_err *err)
{
	auto_close int tree = mount_clone(from_dir, from, 0, -EBADF);

	if (tree < 0 || move_mount(tree, "", root, to, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, tree < 0 ? -tree : errno, "mount %s on %s",
				    from, to);
	return 0;
}

/* In a new mount namespace that still has all mounts of the host. */
static int mount_stage_build(const char *at, const char *init_path, struct mount_stage *ret,
			     struct cay_err *err)
{
	auto_close int root = -EBADF;
	int r;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("cay", at, "tmpfs", MS_NOSUID, "mode=0755,size=0,nr_inodes=0") < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "mount the stage on %s", at);
	root = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "open %s", at);
	r = mount_stage_fill(root, init_path, err);
	/* a runtime needs null and little else, so /dev of sandboxes suffices */
	if (r >= 0)
		r = mount_stage_attach(root, "see/dev", root, "dev", err);
	if (r >= 0)
		r = mount_stage_attach(AT_FDCWD, "/proc", root, "proc", err);
	if (r < 0)
		return r;
	if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "make the stage the root");
	ret->state = path_open(root, "state", O_RDONLY | O_DIRECTORY, 0);
	ret->bundle = path_open(root, "bundle", O_RDONLY | O_DIRECTORY, 0);
	ret->mount_ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (ret->state < 0 || ret->bundle < 0 || ret->mount_ns < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "open the stage");
	return 0;
}

int mount_stage_create(const char *at, const char *init_path, struct mount_stage *ret,
		       struct cay_err *err)
{
	auto_close int host = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	int r;

	*ret = (struct mount_stage){ -EBADF, -EBADF, -EBADF };
	if (host < 0 || unshare(CLONE_NEWNS) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno,
				    "create a mount namespace for workers");
	r = mount_stage_build(at, init_path, ret, err);
	if (setns(host, CLONE_NEWNS) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "leave the stage");
	return r;
}

void mount_stage_remove_bundle(const struct mount_stage *s, const char *name)
{
	(void)rmtree_at(s->state, name);
	(void)rmtree_at(s->bundle, name);
}

/* An overlay of nothing but lower directories: its inodes are its own and its pages shared. */
int mount_stage_make_own(struct cay_err *err)
{
	int r;

	if (mount("see", "/see", "overlay", MS_RDONLY | MS_NOSUID, "lowerdir=/see:/none") < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "mount the files of a sandbox");
	r = mount_stage_attach(AT_FDCWD, OCI_SOURCE_DEV, AT_FDCWD, "/dev", err);
	return r < 0 ? r : mount_stage_attach(AT_FDCWD, "/see/empty", AT_FDCWD, STAGE_EMPTY, err);
}

int mount_stage_enter(const struct mount_stage *s, struct cay_err *err)
{
	if (setns(s->mount_ns, CLONE_NEWNS) < 0 || unshare(CLONE_NEWNS) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "enter the stage");
	return 0;
}
