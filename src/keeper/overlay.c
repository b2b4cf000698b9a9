/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/overlay.h"

#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "base/path.h"

/* Where the template mounts something (src/oci). */
static const char *const targets[] = { "proc", "dev", "sys" };

void overlay_fini(struct overlay *r)
{
	cay_closep(&r->lower);
	cay_closep(&r->upper);
}

static int write_map(int proc, const char *name, uint32_t live)
{
	auto_close int fd = path_open(proc, name, O_WRONLY, 0);
	char text[64];
	int n = snprintf(text, sizeof(text), "%u %u %u\n", VERB_RANGE_FOREIGN, live,
			 VERB_RANGE_IDS);

	if (fd < 0 || n < 0 || n >= (int)sizeof(text))
		return fd < 0 ? fd : -EINVAL;
	return write(fd, text, (size_t)n) == n ? 0 : -errno;
}

/* It has the lock and the connection of its worker: it must not outlive it. */
static int stay(void *worker)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == *(const pid_t *)worker)
		while (pause() < 0)
			;
	return 0;
}

/* A user namespace in which the foreign range is the live one.  It needs a
 * process to be born; that one waits for our SIGKILL. */
static int make_userns(uint32_t live)
{
	/* our memory on a stack of its own: copying ours would cost more than the rest */
	alignas(16) static char stack[KIB(4)];
	pid_t worker = getpid();
	int pidfd = -EBADF, r, ns = -EBADF;
	auto_buf path = BUF_INIT(32);
	auto_close int proc = -EBADF;
	int pid = clone(stay, stack + sizeof(stack),
			CLONE_NEWUSER | CLONE_VM | CLONE_PIDFD | SIGCHLD, &worker, &pidfd);

	if (pid < 0)
		return -errno;
	r = buf_printf(&path, "/proc/%d", pid);
	if (r >= 0) {
		proc = open(path.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = proc < 0 ? -errno : write_map(proc, "uid_map", live);
	}
	if (r >= 0)
		r = write_map(proc, "gid_map", live);
	r = r < 0 ? r : fault(FAULT_START_MAPPED);
	if (r >= 0) {
		ns = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
		r = ns < 0 ? -errno : ns;
	}
	(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	(void)waitid(P_PIDFD, (id_t)pidfd, &(siginfo_t){}, WEXITED);
	cay_closep(&pidfd);
	return r;
}

static int open_idmapped(int dir, const char *path, int userns)
{
	auto_close int tree =
		open_tree(dir, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
		.userns_fd = (unsigned)userns,
	};

	if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -errno;
	return cay_take_fd(&tree);
}

int overlay_open(const struct keeper *k, const struct box *b, struct overlay *ret,
		 struct cay_err *err)
{
	auto_close int userns = make_userns(box_live(b)), image = -EBADF;
	char name[DIGEST_HEX + 8];

	if (userns < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -userns, "a user namespace for %s",
				    b->name);
	image_name(b->record.image, name);
	image = path_open(k->images, name, O_RDONLY | O_DIRECTORY, 0);
	if (image < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, "the image of %s is gone", b->name);
	ret->lower = open_idmapped(image, "rootfs", userns);
	ret->upper = ret->lower < 0 ? -EBADF : open_idmapped(b->dir, "disk", userns);
	if (ret->lower < 0 || ret->upper < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, ret->lower < 0 ? -ret->lower : -ret->upper,
				    "idmap the files of %s", b->name);
	return 0;
}

int overlay_check(int root, struct cay_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		auto_close int fd = path_open(root, targets[i], O_PATH | O_DIRECTORY, 0);

		if (fd < 0)
			return cay_fail_sys(err, CAY_E_INVALID, -fd,
					    "/%s of the image is not a plain directory",
					    targets[i]);
	}
	return 0;
}

/* With the ids of the sandbox's root but our capabilities: overlayfs works on its
 * layers as who mounted it, and host root has no id in an idmapped layer. */
static int mount_overlay(uint32_t live)
{
	int r = 0;

	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0 || setresgid(0, live, 0) < 0 ||
	    setresuid(0, live, 0) < 0)
		return -errno;
	if (mount("overlay", STAGE_ROOT, "overlay", MS_NOSUID | MS_NODEV,
		  "lowerdir=" STAGE_LOWER ",upperdir=" STAGE_UPPER "/upper,workdir=" STAGE_UPPER
		  "/work") < 0)
		r = -errno;
	if (setresuid(0, 0, 0) < 0 || setresgid(0, 0, 0) < 0 || prctl(PR_SET_SECUREBITS, 0) < 0)
		return -errno;
	return r;
}

int overlay_mount(const struct overlay *r, uint32_t live, struct cay_err *err)
{
	auto_close int root = -EBADF;
	int n;

	if (move_mount(r->lower, "", AT_FDCWD, STAGE_LOWER, MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
	    move_mount(r->upper, "", AT_FDCWD, STAGE_UPPER, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "attach the layers");
	n = mount_overlay(live);
	if (n < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -n, "mount the overlay");
	root = open(STAGE_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "open the overlay");
	return overlay_check(root, err);
}
