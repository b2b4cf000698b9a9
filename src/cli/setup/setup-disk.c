/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setup-disk - give paths.state quotas, so that no sandbox can fill the disk
 *
 * btrfs has its quotas turned on.  Elsewhere the state moves into a file system with quotas in a
 * file beside it, which /etc/fstab mounts.  The file is allocated in full and never trimmed: a
 * sparse one would return errors when the disk around it fills up.
 *
 * The new file system is complete before the state's directory is moved aside, and fstab names
 * it before that; so after a crash either the old directory is whole, and setup starts again, or
 * the file is, and only has to be mounted.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "base/path.h"
#include "cli/print/progress.h"
#include "cli/setup/run-program.h"
#include "cli/setup/setup.h"
#include "disk/disk.h"
#include "text/quantity.h"

#define FSTAB_DIR "/etc"
#define FSTAB_NAME "fstab"
#define FSTAB_MAX MIB(1)
#define PATH_LEN 4200
#define SIZE_LEAST (UINT64_C(2) << 30)
#define PROGRAM_MS 600000

struct setup_disk {
	const char *state, *image, *image_new, *mount_new, *state_old;
};

/* In the order they are tried: limits of bytes and files first, tools of a minimal system first. */
static const struct setup_disk_kind {
	const char *name, *options;
	const char *mkfs[8]; /* the file's name follows */
	bool enable_btrfs;
} setup_disk_kinds[] = {
	{ "ext4",
	  "loop,noatime,prjquota",
	  { "mkfs.ext4", "-qF", "-m0", "-Oquota,project", "-Enodiscard,quotatype=prjquota" } },
	{ "xfs", "loop,noatime,prjquota", { "mkfs.xfs", "-qfK" } },
	{ "btrfs", "loop,noatime,nodiscard", { "mkfs.btrfs", "-qfK" }, .enable_btrfs = true },
};

static const char *setup_disk_path(struct setup *s, const char *suffix)
{
	auto_buf path = BUF_INIT(PATH_LEN);

	return buf_printf(&path, "%s%s", s->cli->settings.state_dir, suffix) < 0
		       ? NULL
		       : arena_strndup(&s->cli->arena, buf_str(&path), path.len);
}

static int setup_disk_paths_init(struct setup *s, struct setup_disk *d, struct cay_err *err)
{
	*d = (struct setup_disk){ .state = s->cli->settings.state_dir,
				  .image = setup_disk_path(s, ".img"),
				  .image_new = setup_disk_path(s, ".img.new"),
				  .mount_new = setup_disk_path(s, ".new"),
				  .state_old = setup_disk_path(s, ".old") };
	return d->image && d->image_new && d->mount_new && d->state_old ? 0 : cay_no_memory(err);
}

/* NULL: quotas are enforced.  kind: of the file system, also without quotas. */
static const char *setup_disk_probe(const char *dir, enum verb_disk *ret_kind)
{
	auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct disk d;
	const char *why;

	*ret_kind = VERB_DISK_NONE;
	if (fd < 0)
		return "it does not exist yet";
	disk_open(fd, &d);
	*ret_kind = d.kind;
	why = d.kind == VERB_DISK_NONE ? d.unavailable_reason : NULL;
	disk_close(&d);
	return why;
}

int setup_disk_check(struct setup *s, struct cay_err *)
{
	enum verb_disk kind;
	const char *why = setup_disk_probe(s->cli->settings.state_dir, &kind);

	if (!why)
		return setup_report(s, 1, "%s quotas limit what each sandbox writes",
				    disk_names[kind]);
	if (s->disk && str_eq(s->disk, "no"))
		return setup_report(s, 1, "no quotas: this node can serve one tenant only");
	if (setup_daemons_run_without_systemd(s))
		return setup_report(s, 1,
				    "no quotas, one tenant only: to change that, stop the daemons "
				    "and run setup again");
	return setup_report(s, 0, "no quotas: %s", why);
}

static int setup_disk_run(struct setup *s, const char *const *argv, struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(4));
	int r = run_program_to_end(&s->cli->arena, argv, NULL, PROGRAM_MS, &out, err);

	return r > 0 ? setup_program_fail(argv[0], &out, err) : r;
}

/* --disk, or half of the free space. */
static int setup_disk_choose_size(struct setup *s, const char *parent, uint64_t *ret,
				  struct cay_err *err)
{
	struct statvfs fs;
	uint64_t free_bytes;

	if (statvfs(parent, &fs) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "read the size of %s", parent);
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	*ret = free_bytes / 2;
	if (s->disk && quantity_parse_bytes(slice_of(s->disk), ret) < 0)
		return cay_fail(err, CAY_E_INVALID, "--disk: '%s' is no size; use 50Gi or no",
				s->disk);
	if (*ret < SIZE_LEAST || *ret > free_bytes - free_bytes / 20)
		return cay_fail(err, CAY_E_CAPACITY,
				"%s has %llu MiB free; name a size of 2Gi or more with --disk",
				parent, (unsigned long long)(free_bytes >> 20));
	return 0;
}

static int setup_disk_allocate(const char *path, uint64_t size, struct cay_err *err)
{
	auto_close int fd = -EBADF;

	(void)unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create %s", path);
	return fallocate(fd, 0, 0, (off_t)size) < 0
		       ? cay_fail_sys(err, cay_code_from_disk_errno(errno), errno, "allocate %s",
				      path)
		       : 0;
}

static int setup_disk_mount(struct setup *s, const struct setup_disk_kind *kind, const char *image,
			    const char *at, struct cay_err *err)
{
	const char *const mount[] = { "mount",       "-t",  kind->name, "-o",
				      kind->options, image, at,         NULL };
	const char *const enable[] = { "btrfs", "quota", "enable", "--simple", at, NULL };
	int r = setup_disk_run(s, mount, err);

	return r >= 0 && kind->enable_btrfs ? setup_disk_run(s, enable, err) : r;
}

static void setup_disk_unmount(struct setup *s, const char *at)
{
	const char *const argv[] = { "umount", at, NULL };
	struct cay_err none = {};

	(void)!setup_disk_run(s, argv, &none);
}

/* A mounted file system whose quotas are enforced; -ENOTSUP if this machine cannot make it. */
static int setup_disk_try_kind(struct setup *s, const struct setup_disk *d,
			       const struct setup_disk_kind *kind, struct cay_err *err)
{
	const char *argv[ARRAY_SIZE(kind->mkfs) + 1] = {};
	enum verb_disk found;
	const char *why;
	size_t n = 0;
	int r;

	for (; kind->mkfs[n]; n++)
		argv[n] = kind->mkfs[n];
	argv[n] = d->image_new;
	if (!run_program_find_path(&s->cli->arena, argv[0]))
		return cay_fail(err, CAY_E_UNSUPPORTED, "%s is not installed", argv[0]);
	r = setup_disk_run(s, argv, err);
	if (r >= 0)
		r = setup_disk_mount(s, kind, d->image_new, d->mount_new, err);
	if (r < 0)
		return r;
	why = setup_disk_probe(d->mount_new, &found);
	if (!why)
		return 0;
	setup_disk_unmount(s, d->mount_new);
	return cay_fail(err, CAY_E_UNSUPPORTED, "%s: %s", kind->name, why);
}

/* Returns NULL with the last reason in err if none works. */
static const struct setup_disk_kind *setup_disk_pick_kind(struct setup *s,
							  const struct setup_disk *d,
							  struct cay_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(setup_disk_kinds); i++) {
		*err = (struct cay_err){};
		if (setup_disk_try_kind(s, d, &setup_disk_kinds[i], err) >= 0)
			return &setup_disk_kinds[i];
		setup_disk_unmount(s, d->mount_new);
	}
	return NULL;
}

/* The fields of a line of fstab that name the file and the directory. */
static bool setup_disk_fstab_line_is(struct slice line, const struct setup_disk *d)
{
	struct slice image = slice_cut(&line, ' '), state = slice_cut(&line, ' ');

	return slice_eq(image, slice_of(d->image)) && slice_eq(state, slice_of(d->state));
}

/* Copies the lines of other file systems; *ret_kind is the one of our line, or NULL. */
static int setup_disk_fstab_read(const struct setup_disk *d, struct buf *ret_others,
				 const struct setup_disk_kind **ret_kind, struct cay_err *err)
{
	auto_buf text = BUF_INIT(FSTAB_MAX);
	auto_close int etc = open(FSTAB_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = etc < 0 ? -errno : path_read(etc, FSTAB_NAME, &text);
	struct slice rest = { text.data, text.len };

	*ret_kind = NULL;
	if (r < 0 && r != -ENOENT)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read " FSTAB_DIR "/" FSTAB_NAME);
	while (rest.n) {
		struct slice line = slice_cut(&rest, '\n'), words = line;

		if (!setup_disk_fstab_line_is(line, d)) {
			if (buf_append(ret_others, line.p, line.n) < 0 ||
			    buf_putc(ret_others, '\n') < 0)
				return cay_no_memory(err);
			continue;
		}
		(void)slice_cut(&words, ' ');
		(void)slice_cut(&words, ' ');
		words = slice_cut(&words, ' ');
		for (size_t i = 0; i < ARRAY_SIZE(setup_disk_kinds); i++)
			if (slice_eq(words, slice_of(setup_disk_kinds[i].name)))
				*ret_kind = &setup_disk_kinds[i];
	}
	return 0;
}

/* The keeper must not start on the empty directory below the mount. */
static int setup_disk_fstab_write(const struct setup_disk *d, const struct setup_disk_kind *kind,
				  struct cay_err *err)
{
	auto_buf text = BUF_INIT(FSTAB_MAX);
	const struct setup_disk_kind *had;
	auto_close int etc = open(FSTAB_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = setup_disk_fstab_read(d, &text, &had, err);

	if (r < 0)
		return r;
	if (buf_printf(&text,
		       "%s %s %s "
		       "%s,nofail,X-fstrim.notrim,x-cay,x-systemd.required-by=cay-keeper.service 0 "
		       "0\n",
		       d->image, d->state, kind->name, kind->options) < 0)
		return cay_no_memory(err);
	r = etc < 0 ? -errno : path_write_atomic(etc, FSTAB_NAME, text.data, text.len, 0644);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "write " FSTAB_DIR "/" FSTAB_NAME) : 0;
}

/* Ends the walk: the directory is not empty. */
static int on_setup_dir_entry(void *, int, const char *)
{
	return -EEXIST;
}

static bool setup_dir_is_empty(const char *path)
{
	auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || path_for_each_entry(fd, on_setup_dir_entry, NULL) == 0;
}

/* Sandboxes have files open below the state's directory. */
static int setup_disk_require_no_sandboxes(struct setup *s, struct cay_err *err)
{
	const char *sandboxes = setup_disk_path(s, "/boxes");

	if (!sandboxes)
		return cay_no_memory(err);
	if (setup_dir_is_empty(sandboxes))
		return 0;
	api_hint_set(s->api, "delete them with 'cay rm --all', or use 'cay setup --disk no'");
	return cay_fail(err, CAY_E_CONFLICT,
			"sandboxes exist, so the state cannot move to a file system with quotas");
}

static int setup_disk_copy_state(struct setup *s, const struct setup_disk *d, struct cay_err *err)
{
	const char *const copy[] = { "cp", "-aT", d->state, d->mount_new, NULL };
	struct cay_err none = {};
	int r = setup_daemons_stop(s, err);

	if (r >= 0) /* again: the daemons ran until now */
		r = setup_disk_require_no_sandboxes(s, err);
	if (r >= 0 && access(d->state, F_OK) == 0)
		r = setup_disk_run(s, copy, err);
	if (r < 0) /* the old state is whole */
		(void)!setup_daemons_apply(s, &none);
	return r;
}

/* Make the new file system, with a copy of the state, under its final name. */
static int setup_disk_build(struct setup *s, const struct setup_disk *d, struct cay_err *err)
{
	const struct setup_disk_kind *kind = setup_disk_pick_kind(s, d, err);
	int r;

	if (!kind)
		return -ENOTSUP;
	r = setup_disk_copy_state(s, d, err);
	setup_disk_unmount(s, d->mount_new);
	if (r >= 0)
		r = setup_disk_fstab_write(d, kind, err);
	if (r >= 0 && rename(d->image_new, d->image) < 0)
		r = cay_fail_sys(err, CAY_E_INTERNAL, errno, "rename %s", d->image_new);
	return r;
}

/* Put the new file system in the place of the state's directory. */
static int setup_disk_switch(struct setup *s, const struct setup_disk *d,
			     const struct setup_disk_kind *kind, struct cay_err *err)
{
	const char *const clear[] = { "rm", "-rf", "--one-file-system", d->state_old, NULL };
	const char *const reload[] = { "systemctl", "daemon-reload", NULL };
	struct cay_err none = {};
	int r;

	if (access(d->state_old, F_OK) < 0 && rename(d->state, d->state_old) < 0 && errno != ENOENT)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "rename %s", d->state);
	if (mkdir(d->state, 0755) < 0 && errno != EEXIST)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create %s", d->state);
	(void)!setup_disk_run(s, reload, &none); /* without systemd there is no unit to make */
	r = setup_disk_mount(s, kind, d->image, d->state, err);
	return r < 0 ? r : setup_disk_run(s, clear, err);
}

static int setup_disk_report_size(struct setup *s, const struct setup_disk *d)
{
	auto_buf size = BUF_INIT(32);
	struct stat st = {};

	if (stat(d->image, &st) < 0 || byte_size_format((uint64_t)st.st_size, &size) < 0)
		return -ENOMEM;
	return setup_report(s, 0, "%s is now a file system of %s with quotas, in %s", d->state,
			    buf_str(&size), d->image);
}

/* Everything but a btrfs: a file beside the directory. */
static int setup_disk_apply_image(struct setup *s, const struct setup_disk *d, struct cay_err *err)
{
	const struct setup_disk_kind *kind = NULL;
	size_t parent_len = (size_t)(strrchr(d->state, '/') - d->state);
	const char *parent = arena_strndup(&s->cli->arena, d->state, parent_len ? parent_len : 1);
	auto_buf others = BUF_INIT(FSTAB_MAX);
	struct cay_err why = {};
	uint64_t size = 0;
	int r = setup_disk_fstab_read(d, &others, &kind, err);
	bool built = kind && access(d->image, F_OK) == 0 &&
		     (access(d->state_old, F_OK) == 0 || setup_dir_is_empty(d->state));

	if (!parent)
		return cay_no_memory(err);
	if (r >= 0 && !built) {
		r = setup_disk_choose_size(s, parent, &size, err);
		if (r >= 0 && mkdir(d->mount_new, 0700) < 0 && errno != EEXIST)
			r = cay_fail_sys(err, CAY_E_INTERNAL, errno, "create %s", d->mount_new);
		if (r >= 0)
			r = setup_disk_allocate(d->image_new, size, err);
		if (r >= 0)
			r = setup_disk_build(s, d, &why);
		(void)rmdir(d->mount_new);
		if (r < 0) /* it has all its blocks */
			(void)unlink(d->image_new);
		if (r == -ENOTSUP)
			return setup_report(s, 1,
					    "no quotas, this node can serve one tenant only: %s",
					    why.msg);
		if (r < 0 && why.code)
			*err = why;
	}
	if (r >= 0)
		r = setup_disk_fstab_read(d, &others, &kind, err);
	if (r >= 0)
		r = setup_disk_switch(s, d, kind, err);
	return r < 0 ? r : setup_disk_report_size(s, d);
}

int setup_disk_apply(struct setup *s, struct cay_err *err)
{
	const char *const enable[] = {
		"btrfs", "quota", "enable", "--simple", s->cli->settings.state_dir, NULL
	};
	struct setup_disk d;
	struct statfs fs = {};
	int r = setup_disk_require_no_sandboxes(s, err);

	if (r >= 0)
		r = setup_disk_paths_init(s, &d, err);
	if (r < 0)
		return r;
	if (statfs(d.state, &fs) < 0 || (unsigned long)fs.f_type != BTRFS_SUPER_MAGIC)
		return setup_disk_apply_image(s, &d, err);
	r = setup_daemons_stop(s, err); /* the keeper looks for quotas when it starts */
	if (r >= 0)
		r = setup_disk_run(s, enable, err);
	return r < 0 ? r : setup_report(s, 0, "turned on the quotas of its btrfs");
}
