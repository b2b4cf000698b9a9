/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overlay-index - index=on makes overlayfs refuse a second writer of the same files
 *
 * Leans on it: volumes (docs/adr/0121).  A volume is an upper directory over an empty lower
 * one.  Two overlays with one upper would corrupt what they keep about it; cayd gives a volume
 * to one writer, and the kernel is the second defence.
 *
 * Checked on ext4, XFS and btrfs (loop files): while an overlay is mounted, a second one with
 * the same upper fails with EBUSY, also through a clone that is idmapped to another range of
 * ids; after an unmount it succeeds, and the files belong to the other range.  A reader, with
 * upper and lower as lowers, cannot be written to by root of its range, and is EROFS also after
 * a remount.
 *
 * Traps, asserted: without index=on the second mount succeeds, with a warning in the log.  A
 * reader beside a writer is not refused, because a mount without an upper ignores index: only
 * cayd prevents it.  An upper remembers its lower by a file handle, so that one that was copied
 * fails with ESTALE until trusted.overlay.origin and the content of work are removed.
 *
 * If it failed: a lock of the keeper's for each volume, held by a process as long as the sandbox
 * runs.
 */
#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/rmtree.h"
#include "platform.h"

#define FOREIGN 0x7FFE0000u
#define IMAGE_BYTES MIB(512)

static const struct fs {
	const char *name;
	const char *mkfs[6];
} kinds[] = {
	{ "ext4", { "mkfs.ext4", "-q", "-F" } },
	{ "xfs", { "mkfs.xfs", "-q", "-f" } },
	{ "btrfs", { "mkfs.btrfs", "-q", "-f" } },
};

static bool make_fs(const struct plat *p, const struct fs *fs, const char *at)
{
	auto_free char *image = platform_format("%s/%s.img", p->work, fs->name);
	auto_close int backing = open(image, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	auto_close int device = -EBADF;
	auto_free char *loop = NULL;
	const char *argv[ARRAY_SIZE(fs->mkfs) + 2] = {};
	size_t n = 0;

	NEED(backing >= 0 && ftruncate(backing, IMAGE_BYTES) == 0, "an image");
	for (; n < ARRAY_SIZE(fs->mkfs) && fs->mkfs[n]; n++)
		argv[n] = fs->mkfs[n];
	argv[n] = image;
	if (platform_run(argv, NULL) != 0)
		return false;
	device = platform_loop(backing, &loop);
	platform_mkdir(AT_FDCWD, at, 0755);
	return device >= 0 && mount(loop, at, fs->name, MS_NOATIME, NULL) == 0;
}

static void make_volume(int fs)
{
	static const char *const dirs[] = { "volume", "volume/upper", "volume/work",
					    "volume/lower" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		platform_mkdir(fs, dirs[i], 0755);
		NEED(fchownat(fs, dirs[i], FOREIGN, FOREIGN, 0) == 0, "chown %s", dirs[i]);
	}
}

/* A directory of fs in live ids at a path of its own, which the caller frees. */
static char *idmap(const char *fs, const char *dir, const char *name, uint32_t live)
{
	auto_free char *from = platform_format("%s/%s", fs, dir);
	char *at = platform_format("%s/%s", fs, name);
	auto_close int userns = platform_userns(FOREIGN, live);
	auto_close int clone = open_tree(AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (unsigned)userns };

	NEED(clone >= 0 && mount_setattr(clone, "", AT_EMPTY_PATH, &attr, sizeof(attr)) == 0,
	     "idmap %s", from);
	platform_mkdir(AT_FDCWD, at, 0755);
	NEED(move_mount(clone, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) == 0, "attach %s", at);
	return at;
}

struct attempt {
	const char *at; /* the disk, which is in ids from `live` on */
	const char *merged, *options;
	uint32_t live;
	bool read_only;
};

static int mount_it(void *arg)
{
	const struct attempt *a = arg;
	auto_free char *options =
		a->read_only
			? platform_format("lowerdir=%s/upper:%s/lower", a->at, a->at)
			: platform_format("lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work%s",
					  a->at, a->at, a->at, a->options);

	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0 ||
	    setresgid(a->live, a->live, a->live) < 0 || setresuid(a->live, a->live, a->live) < 0)
		platform_die("become %u", a->live);
	return mount("overlay", a->merged, "overlay", 0, options) < 0 ? errno : 0;
}

/* As root of the range: 0 or an errno. */
static int write_inside(void *arg)
{
	const struct attempt *a = arg;
	auto_close int userns = platform_userns(0, a->live);
	auto_close int fd = -EBADF, file = -EBADF;

	if (setns(userns, CLONE_NEWUSER) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		platform_die("become root of %u", a->live);
	fd = open(a->merged, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	file = fd < 0 ? fd : openat(fd, "file", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	return file < 0 || write(file, "x", 1) != 1 ? errno : 0;
}

static int try_mount(const struct attempt *a)
{
	return platform_in_child(mount_it, (void *)(uintptr_t)a);
}

static int try_write(const struct attempt *a)
{
	return platform_in_child(write_inside, (void *)(uintptr_t)a);
}

static void two_writers(const struct fs *fs, const struct attempt *a, const struct attempt *b)
{
	struct attempt without = *b;
	int r;

	CHECK(try_mount(a) == 0 && try_write(a) == 0, "%s: a writer with index=on", fs->name);
	r = try_mount(b);
	CHECK(r == EBUSY, "%s: a second one, in other ids: %s", fs->name, strerror(r));
	without.options = ",index=off";
	r = try_mount(&without);
	CHECK(r == 0, "%s: trap: without index=on it is mounted: %s", fs->name, strerror(r));
	if (r == 0)
		NEED(umount2(b->merged, 0) == 0, "unmount b");
	NEED(umount2(a->merged, 0) == 0, "unmount a");
	CHECK(try_mount(b) == 0 && try_write(b) == 0,
	      "%s: after an unmount the other range has it, with its files", fs->name);
}

/* While b is mounted. */
static void readers(const struct fs *fs, const struct attempt *a, const struct attempt *b)
{
	struct attempt reader = *a;
	int r;

	reader.read_only = true;
	r = try_mount(&reader);
	CHECK(r == 0, "%s: trap: a reader beside a writer is not refused: %s", fs->name,
	      strerror(r));
	r = try_write(&reader);
	CHECK(r == EROFS, "%s: root of its range writes: %s", fs->name, strerror(r));
	r = mount(NULL, reader.merged, NULL, MS_REMOUNT, NULL) < 0 ? errno : 0;
	CHECK(try_write(&reader) == EROFS, "%s: also after a remount (%s)", fs->name, strerror(r));
	NEED(umount2(reader.merged, 0) == 0 && umount2(b->merged, 0) == 0, "unmount both");
}

static void copied(const struct fs *fs, const char *top, const char *merged)
{
	auto_free char *from = platform_format("%s/volume", top);
	auto_free char *to = platform_format("%s/copy", top);
	auto_free char *upper = platform_format("%s/upper", to);
	auto_free char *work = platform_format("%s/work", to);
	const char *const cp[] = { "cp", "-a", from, to, NULL };
	auto_close int dir = -EBADF;
	auto_free char *at = NULL;
	struct attempt a = { .merged = merged, .options = ",index=on", .live = LIVE_A };
	int r;

	NEED(platform_run(cp, NULL) == 0, "cp -a");
	at = idmap(top, "copy", "c", LIVE_A);
	a.at = at;
	r = try_mount(&a);
	CHECK(r == ESTALE, "%s: trap: a copied upper: %s", fs->name, strerror(r));
	dir = open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	NEED(dir >= 0 && rmtree_contents(dir) >= 0 &&
		     (removexattr(upper, "trusted.overlay.origin") == 0 || errno == ENODATA),
	     "forget the lower");
	r = try_mount(&a);
	CHECK(r == 0 && try_write(&a) == 0, "%s: mounts when it forgot its lower: %s", fs->name,
	      strerror(r));
}

static void body(const struct plat *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		auto_free char *top = platform_format("%s/%s", p->work, kinds[i].name);
		auto_free char *one = platform_format("%s/one", p->work);
		auto_free char *two = platform_format("%s/two", p->work);
		auto_free char *at_a = NULL, *at_b = NULL;
		auto_close int fs = -EBADF;
		struct attempt a = { .merged = one, .options = ",index=on", .live = LIVE_A };
		struct attempt b = { .merged = two, .options = ",index=on", .live = LIVE_B };

		if (!make_fs(p, &kinds[i], top)) {
			platform_note("%s: not here", kinds[i].name);
			continue;
		}
		fs = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		make_volume(fs);
		if (i == 0) {
			platform_mkdir(AT_FDCWD, one, 0755);
			platform_mkdir(AT_FDCWD, two, 0755);
		}
		a.at = at_a = idmap(top, "volume", "a", a.live);
		b.at = at_b = idmap(top, "volume", "b", b.live);
		two_writers(&kinds[i], &a, &b);
		readers(&kinds[i], &a, &b);
		copied(&kinds[i], top, one);
		NEED(umount2(one, 0) == 0, "unmount the copy");
	}
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
