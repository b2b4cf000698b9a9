/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared-clone - a copy of a shared mount is its peer, until it is told not to be
 *
 * Leans on it: base/mnt.  Where systemd is PID 1 every mount is shared.  The unpacker
 * pivots into a copy of a directory of the host's, and sandboxes get copies of layers and
 * cgroups.
 *
 * Checked: a copy as open_tree() makes it cannot be pivoted to (EINVAL), not even in a
 * mount namespace all of which was made private before, and what is mounted on it is seen
 * on the original; one made private before it is attached can, and tells nobody.
 *
 * If it failed: every mount namespace of ours would have to be walked again behind each
 * copy that is attached in it.
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "platform.h"

struct way {
	const struct plat *p;
	bool private;
};

static int copy(const struct way *w)
{
	struct mount_attr attr = { .propagation = MS_PRIVATE };
	auto_free char *from = platform_format("%s/from", w->p->work);
	int tree = open_tree(AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (tree < 0 ||
	    (w->private && mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0))
		platform_die("copy a mount");
	return tree;
}

static void attach(const struct way *w, const char *at)
{
	int tree = copy(w);

	/* in this order, as where an fd comes from outside */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    move_mount(tree, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0 || fchdir(tree) < 0)
		platform_die("attach it");
}

/* Exits with the errno of it. */
static int pivot(void *arg)
{
	attach(arg, "/");
	return syscall(SYS_pivot_root, ".", ".") < 0 ? errno : 0;
}

static int mount_on_it(void *arg)
{
	const struct way *w = arg;
	auto_free char *at = platform_format("%s/to", w->p->work);

	attach(w, at);
	if (mount("tmpfs", "in", "tmpfs", 0, NULL) < 0)
		platform_die("mount on the copy");
	return 0;
}

static bool is_mount(const struct plat *p, const char *path)
{
	struct stat above, at;

	NEED(fstatat(p->work_fd, "from", &above, 0) == 0 && fstatat(p->work_fd, path, &at, 0) == 0,
	     "look at %s", path);
	return above.st_dev != at.st_dev;
}

static void body(const struct plat *p)
{
	struct way shared = { .p = p }, private = { .p = p, .private = true };
	auto_free char *from = platform_format("%s/from", p->work);

	platform_mkdir(p->work_fd, "to", 0755);
	platform_mkdir(p->work_fd, "from", 0755);
	NEED(mount("tmpfs", from, "tmpfs", 0, NULL) == 0, "tmpfs");
	platform_mkdir(p->work_fd, "from/in", 0755);
	NEED(mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL) == 0, "shared, as systemd does");
	CHECK(platform_in_child(pivot, &shared) == EINVAL, "a peer is no root to pivot to");
	CHECK(platform_in_child(pivot, &private) == 0, "a private copy is");
	NEED(platform_in_child(mount_on_it, &private) == 0, "mount on a private copy");
	CHECK(!is_mount(p, "from/in"), "what is mounted on a private copy is not seen outside");
	NEED(platform_in_child(mount_on_it, &shared) == 0, "mount on a peer");
	CHECK(is_mount(p, "from/in"), "what is mounted on a peer is");
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
