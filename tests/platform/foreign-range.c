/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign-range - one id range on disk, another for each living sandbox
 *
 * Leans on it: images, snapshots, forks and volumes move between sandboxes
 * without chown (docs/architecture.md, "Files on disk belong to one foreign id range").  All
 * files on disk belong to systemd's foreign range, 65,536 ids from 0x7FFE0000,
 * which no process ever has.  At mount the lower and the upper of the overlay
 * are idmapped (detached clones, mount_setattr) to the live range of the
 * sandbox, 65,536 ids no other living sandbox has.
 *
 * Checked, with ext4 or whatever /var/tmp is: two overlays with different live
 * ranges over the same lower at once; inside each, files of the lower have
 * their owner 0 or 1000; files made, copied up and deleted by root and by uid
 * 1000 inside lie on disk in the foreign range; root of one range may not touch
 * the other's; the upper of one, mounted for the other range, belongs to it.
 *
 * And a trap: an overlay works on its layers with the credentials of who
 * mounted it, and host uid 0 has no id in the idmapped upper.  Mounted as uid 0
 * the mount succeeds and nothing can be written: it is read-only, and the kernel
 * says so only in its log (6.18: "failed to create directory .../work, errno 75;
 * mounting read-only").  It must be mounted with the uid and gid of the sandbox's root, keeping
 * the capabilities (SECBIT_NO_SETUID_FIXUP).  Both are asserted.
 *
 * If it failed: chown -R at every create, fork and snapshot, or one id range
 * for all sandboxes, which is no defence in depth at all.
 */
#include <fcntl.h>
#include <ftw.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "platform.h"

#define FOREIGN 0x7FFE0000u
#define USER 1000u

struct box {
	const char *name;
	uint32_t live;
	const char *upper; /* whose disk: name/u and name/w */
	bool as_host_root; /* the trap */
	/* filled by box_mount() */
	char *merged;
	int mount_errno;
};

static void own(int dirfd, const char *path, uint32_t id)
{
	NEED(fchownat(dirfd, path, FOREIGN + id, FOREIGN + id, AT_SYMLINK_NOFOLLOW) == 0,
	     "chown %s", path);
}

static void make_lower(const struct plat *p)
{
	platform_mkdir(p->work_fd, "lower", 0755);
	platform_mkdir(p->work_fd, "lower/home", 0755);
	platform_write(p->work_fd, "lower/root-file", "lower\n");
	platform_write(p->work_fd, "lower/home/user-file", "lower\n");
	platform_write(p->work_fd, "lower/doomed", "lower\n");
	own(p->work_fd, "lower", 0);
	own(p->work_fd, "lower/home", USER);
	own(p->work_fd, "lower/root-file", 0);
	own(p->work_fd, "lower/home/user-file", USER);
	own(p->work_fd, "lower/doomed", 0);
}

static void make_upper(const struct plat *p, const char *name)
{
	static const char *const parts[] = { "", "/u", "/w" };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		auto_free char *path = platform_format("%s%s", name, parts[i]);

		platform_mkdir(p->work_fd, path, 0755);
		own(p->work_fd, path, 0);
	}
}

/* SRC of the work directory, seen in live ids, at DST. */
static void idmap(const struct plat *p, const char *src, const char *dst, uint32_t live)
{
	auto_close int userns = platform_userns(FOREIGN, live);
	auto_close int clone = open_tree(p->work_fd, src, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (unsigned)userns };

	NEED(clone >= 0, "clone %s", src);
	NEED(mount_setattr(clone, "", AT_EMPTY_PATH, &attr, sizeof(attr)) == 0, "idmap %s", src);
	platform_mkdir(p->work_fd, dst, 0755);
	NEED(move_mount(clone, "", p->work_fd, dst, MOVE_MOUNT_F_EMPTY_PATH) == 0, "attach %s",
	     dst);
}

struct overlay {
	const struct box *box;
	const char *options;
};

static int mount_overlay(void *arg)
{
	const struct overlay *o = arg;
	uint32_t id = o->box->live;

	if (!o->box->as_host_root && (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0 ||
				      setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0))
		platform_die("become %u", id);
	return mount("overlay", o->box->merged, "overlay", 0, o->options) < 0 ? errno : 0;
}

static void box_mount(const struct plat *p, struct box *sb)
{
	auto_free char *lower = platform_format("%s.lower", sb->name);
	auto_free char *upper = platform_format("%s.upper", sb->name);
	auto_free char *options = platform_format("lowerdir=%s/%s,upperdir=%s/%s/u,workdir=%s/%s/w",
						  p->work, lower, p->work, upper, p->work, upper);

	sb->merged = platform_format("%s/%s.merged", p->work, sb->name);
	idmap(p, "lower", lower, sb->live);
	idmap(p, sb->upper, upper, sb->live);
	platform_mkdir(AT_FDCWD, sb->merged, 0755);
	sb->mount_errno = platform_in_child(mount_overlay, &(struct overlay){ sb, options });
}

static void box_fini(struct box *sb)
{
	free(sb->merged);
}

/* Somebody inside: uid of a user namespace over the range from live. */
struct inside {
	const char *merged;
	uint32_t live;
	uint32_t uid;
};

static int enter(const struct inside *in)
{
	auto_close int userns = platform_userns(0, in->live);
	int fd;

	/* by way of uid 0: only leaving the namespace's root drops the capabilities
	 * which entering it gave */
	if (setns(userns, CLONE_NEWUSER) < 0 || setresgid(in->uid, in->uid, in->uid) < 0 ||
	    setresuid(0, 0, 0) < 0 || setresuid(in->uid, in->uid, in->uid) < 0)
		platform_die("become uid %u", in->uid);
	fd = open(in->merged, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		platform_die("open %s", in->merged);
	return fd;
}

static bool owned_by(int dirfd, const char *path, uint32_t id)
{
	struct stat st;

	return fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == id &&
	       st.st_gid == id;
}

static int append(int dirfd, const char *path, int flags)
{
	auto_close int fd = openat(dirfd, path, O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0644);

	return fd < 0 || write(fd, "inside\n", 7) != 7 ? -errno : 0;
}

static int work_as_root(void *arg)
{
	auto_close int fd = enter(arg);

	return owned_by(fd, "root-file", 0) && owned_by(fd, "home/user-file", USER) &&
			       append(fd, "root-file", 0) == 0 &&
			       append(fd, "made-by-root", O_CREAT | O_EXCL) == 0 &&
			       owned_by(fd, "made-by-root", 0) && unlinkat(fd, "doomed", 0) == 0 &&
			       fchownat(fd, "made-by-root", 0, USER, 0) == 0 &&
			       fchownat(fd, "made-by-root", 0, 0, 0) == 0
		       ? 0
		       : 1;
}

static int work_as_user(void *arg)
{
	auto_close int fd = enter(arg);

	return append(fd, "home/user-file", 0) == 0 &&
			       append(fd, "home/made-by-user", O_CREAT | O_EXCL) == 0 &&
			       owned_by(fd, "home/made-by-user", USER) &&
			       append(fd, "root-file", 0) == -EACCES
		       ? 0
		       : 1;
}

static int intrude(void *arg)
{
	auto_close int fd = enter(arg);

	return append(fd, "root-file", 0) == -EACCES &&
			       append(fd, "intruder", O_CREAT) == -EACCES &&
			       append(fd, "home/made-by-user", 0) == -EACCES &&
			       unlinkat(fd, "made-by-root", 0) < 0 && errno == EACCES &&
			       fchownat(fd, "made-by-root", 0, 0, 0) < 0 && errno == EPERM &&
			       fchmodat(fd, "made-by-root", 0777, 0) < 0 && errno == EPERM
		       ? 0
		       : 1;
}

static int inherit(void *arg)
{
	auto_close int fd = enter(arg);

	return owned_by(fd, "made-by-root", 0) && owned_by(fd, "home/made-by-user", USER) &&
			       append(fd, "made-by-root", 0) == 0 &&
			       faccessat(fd, "doomed", F_OK, 0) < 0 && errno == ENOENT
		       ? 0
		       : 1;
}

static int try_create(void *arg)
{
	auto_close int fd = enter(arg);

	return -append(fd, "made-by-root", O_CREAT);
}

static int check_foreign(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)type;
	(void)ftw;
	if (st->st_uid >= FOREIGN && st->st_uid < FOREIGN + LIVE_IDS && st->st_gid >= FOREIGN &&
	    st->st_gid < FOREIGN + LIVE_IDS)
		return 0;
	platform_note("%s belongs to %u:%u", path, st->st_uid, st->st_gid);
	return 1;
}

static bool all_foreign(const struct plat *p, const char *tree)
{
	auto_free char *path = platform_format("%s/%s", p->work, tree);

	return nftw(path, check_foreign, 16, FTW_PHYS) == 0;
}

static void use_box(const struct plat *p, const struct box *sb)
{
	auto_free char *upper = platform_format("%s/u", sb->upper);
	auto_close int disk = openat(p->work_fd, upper, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct inside root = { sb->merged, sb->live, 0 }, user = { sb->merged, sb->live, USER };
	struct stat st;

	CHECK(platform_in_child(work_as_root, &root) == 0,
	      "%s: root reads, copies up, makes, deletes, chowns", sb->name);
	CHECK(platform_in_child(work_as_user, &user) == 0,
	      "%s: uid 1000 works at home and nowhere else", sb->name);
	CHECK(owned_by(disk, "made-by-root", FOREIGN) && owned_by(disk, "root-file", FOREIGN),
	      "%s: root's files lie on disk as 0x%x", sb->name, FOREIGN);
	CHECK(owned_by(disk, "home/made-by-user", FOREIGN + USER) &&
		      owned_by(disk, "home/user-file", FOREIGN + USER),
	      "%s: uid 1000's as 0x%x", sb->name, FOREIGN + USER);
	CHECK(fstatat(disk, "doomed", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode),
	      "%s: what it deleted is a whiteout", sb->name);
	CHECK(all_foreign(p, sb->upper), "%s: nothing on its disk outside the foreign range",
	      sb->name);
}

static void two_at_once(const struct plat *p)
{
	CAY_CLEANUP(box_fini) struct box a = { .name = "a", .upper = "disk-a", .live = LIVE_A };
	CAY_CLEANUP(box_fini) struct box b = { .name = "b", .upper = "disk-b", .live = LIVE_B };
	CAY_CLEANUP(box_fini) struct box c = { .name = "c", .upper = "disk-a", .live = LIVE_B };

	make_upper(p, a.upper);
	make_upper(p, b.upper);
	box_mount(p, &a);
	box_mount(p, &b);
	CHECK(a.mount_errno == 0 && b.mount_errno == 0,
	      "two overlays over one lower, in ids from %u and from %u", a.live, b.live);
	use_box(p, &a);
	use_box(p, &b);
	CHECK(all_foreign(p, "lower") && faccessat(p->work_fd, "lower/doomed", F_OK, 0) == 0,
	      "the lower is as it was");
	CHECK(platform_in_child(intrude, &(struct inside){ a.merged, b.live, 0 }) == 0,
	      "root of b may not write, make, delete, chown or chmod in a");
	CHECK(platform_in_child(intrude, &(struct inside){ b.merged, a.live, 0 }) == 0,
	      "nor root of a in b");
	NEED(umount2(a.merged, 0) == 0, "unmount a");
	box_mount(p, &c);
	CHECK(c.mount_errno == 0 &&
		      platform_in_child(inherit, &(struct inside){ c.merged, c.live, 0 }) == 0,
	      "a's disk, mounted for b's range without chown, belongs to it");
	CHECK(all_foreign(p, "disk-a"), "and stays in the foreign range");
}

static void fall_into_trap(const struct plat *p)
{
	CAY_CLEANUP(box_fini)
	struct box t = { .name = "t", .upper = "disk-t", .live = LIVE_A, .as_host_root = true };
	struct statvfs vfs = {};
	int created;

	make_upper(p, t.upper);
	box_mount(p, &t);
	created = platform_in_child(try_create, &(struct inside){ t.merged, t.live, 0 });
	(void)statvfs(t.merged, &vfs);
	platform_note("mounted as host uid 0: mount says \"%s\", it is read-%s, creating says "
		      "\"%s\"",
		      strerror(t.mount_errno), vfs.f_flag & ST_RDONLY ? "only" : "write",
		      strerror(created));
	CHECK(t.mount_errno != 0 || created != 0,
	      "trap: mounted as host uid 0 the sandbox's root cannot write");
}

static void body(const struct plat *p)
{
	make_lower(p);
	two_at_once(p);
	fall_into_trap(p);
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
