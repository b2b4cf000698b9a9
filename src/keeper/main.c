/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/failpoint.h"
#include "base/path.h"
#include "base/rmtree.h"
#include "daemon/daemon.h"
#include "keeper/host-dir.h"
#include "keeper/image-store.h"
#include "keeper/keeper.h"
#include "keeper/runtime-probe.h"
#include "keeper/runtime.h"
#include "keeper/trash.h"
#include "keeper/volume.h"
#include "wire/broker-message.h"
#include "wire/credential-message.h"
#include "wire/egress-message.h"
#include "wire/puller.h"

enum keeper_dir_owner { ROOT, CONTROL, PULLER, EGRESS, BROKER };

/* All directories with their owners, below paths.state or paths.run.  The latter is cayd's, which
 * could replace any path in it: root touches those only by the checks of keeper_make_dir(). */
static const struct {
	const char *name;
	bool run;
	enum keeper_dir_owner owner;
	mode_t mode;
	size_t fd;      /* offset in struct keeper of the fd to keep, or 0 */
	bool of_egress; /* its group */
} keeper_dirs[] = {
	{ "images", false, ROOT, 0700, offsetof(struct keeper, images) },
	{ "images/sha256", false, ROOT, 0700, 0 },
	{ "images/tmp", false, ROOT, 0700, 0 },
	{ "boxes", false, ROOT, 0700, offsetof(struct keeper, sandboxes) },
	{ "ranges", false, ROOT, 0700, offsetof(struct keeper, ranges) },
	{ "trash", false, ROOT, 0700, offsetof(struct keeper, trash) },
	{ "volumes", false, ROOT, 0700, offsetof(struct keeper, volumes) },
	{ "db", false, CONTROL, 0700, 0 },
	{ "secret", false, CONTROL, 0700, 0 },
	{ "tmp", false, CONTROL, 0700, 0 },
	{ "audit", false, CONTROL, 0700, 0 },
	{ "uploads", false, CONTROL, 0700, 0 },
	{ PULLER_DIR, false, PULLER, 0700, 0 },
	{ "stage", false, ROOT, 0700, 0 },
	{ "box", true, ROOT, 0711, offsetof(struct keeper, sockets) },
	{ PULLER_DIR, true, PULLER, 02750, 0 }, /* its socket gets the group of cayd */
	{ EGRESS_DIR, true, EGRESS, 02750, 0 },
	{ EGRESS_DIR, false, EGRESS, 0700, 0 },
	{ BROKER_DIR, true, BROKER, 02750, 0, .of_egress = true },
	{ BROKER_DIR, false, BROKER, 0700, 0 },
	{ CREDENTIAL_DIR, true, BROKER, 02750, 0 },
};

/* An existing directory must have the right owner: another user could have created it before. */
static int keeper_make_dir(int parent, const char *name, mode_t mode, uid_t uid, gid_t gid,
			   struct cay_err *err)
{
	auto_close int fd = -EBADF;
	struct stat st;

	if (mkdirat(parent, name, mode) == 0) {
		if (fchownat(parent, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "chown %s", name);
	} else if (errno != EEXIST) {
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create %s", name);
	}
	fd = path_open(parent, name, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0 || fstat(fd, &st) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, fd < 0 ? -fd : errno, "open %s", name);
	if (st.st_uid != uid)
		return cay_fail(err, CAY_E_FORBIDDEN, "%s belongs to uid %u instead of %u", name,
				st.st_uid, uid);
	if (fchmod(fd, mode) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "chmod %s", name);
	return cay_take_fd(&fd);
}

static int keeper_make_top_dir(const char *path, uid_t uid, gid_t gid, struct cay_err *err)
{
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create %s", path);
	if (chown(path, uid, gid) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "chown %s", path);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int keeper_make_dirs(struct keeper *k, struct cay_err *err)
{
	auto_close int state = keeper_make_top_dir(k->settings.state_dir, 0, 0, err);
	auto_close int run = state < 0 ? -EBADF
				       : keeper_make_top_dir(k->settings.run_dir, k->control_uid,
							     k->control_gid, err);

	if (state < 0 || run < 0)
		return err->code ? -EIO : cay_fail_sys(err, CAY_E_INTERNAL, errno, "directories");
	for (size_t i = 0; i < ARRAY_SIZE(keeper_dirs); i++) {
		const uid_t uids[] = { 0, k->control_uid, k->pull_uid, k->egress_uid,
				       k->broker_uid };
		enum keeper_dir_owner owner = keeper_dirs[i].owner;
		gid_t gid = keeper_dirs[i].of_egress ? k->egress_gid
			    : owner == ROOT          ? 0
						     : k->control_gid;
		auto_close int fd = -EBADF;

		if (owner != ROOT && !uids[owner]) /* there is no such user */
			continue;
		fd = keeper_make_dir(keeper_dirs[i].run ? run : state, keeper_dirs[i].name,
				     keeper_dirs[i].mode, uids[owner], gid, err);
		if (fd < 0)
			return fd;
		if (keeper_dirs[i].fd)
			*(int *)(void *)((char *)k + keeper_dirs[i].fd) = cay_take_fd(&fd);
	}
	return 0;
}

/* Remove what a crashed unpack left; its worker must be gone.  The next unpack creates the
 * directory: failing here for lack of space would leave running sandboxes without a keeper. */
static void keeper_clear_images_tmp(struct keeper *k)
{
	int r;

	image_store_sweep_tmp(k->images, &k->disk);
	r = rmtree_at(k->images, "tmp");
	if (r < 0)
		log_warn(&k->log, "clear images/tmp, ignoring: %s", strerror(-r));
}

/* A node without the user of cay-pull, cay-egress or cay-broker works, but has no such program. */
static int keeper_find_optional_user(struct keeper *k, const char *setting, const char *user,
				     uid_t *ret, gid_t *ret_gid, struct cay_err *err)
{
	struct cay_err none = {};

	if (daemon_find_user(setting, user, ret, ret_gid, &none) < 0)
		log_warn(&k->log, "%s: %s", setting, none.msg);
	else if (*ret == k->control_uid)
		return cay_fail(err, CAY_E_INVALID, "%s is the user of users.control", setting);
	return 0;
}

static int keeper_find_users(struct keeper *k, struct cay_err *err)
{
	gid_t broker_gid;
	int r = daemon_find_user("users.control", k->settings.control_user, &k->control_uid,
				 &k->control_gid, err);

	if (r >= 0)
		r = keeper_find_optional_user(k, "users.pull", k->settings.pull_user, &k->pull_uid,
					      &k->pull_gid, err);
	if (r >= 0)
		r = keeper_find_optional_user(k, "users.egress", k->settings.egress_user,
					      &k->egress_uid, &k->egress_gid, err);
	if (r >= 0 && k->egress_uid)
		r = keeper_find_optional_user(k, "users.broker", k->settings.broker_user,
					      &k->broker_uid, &broker_gid, err);
	if (r >= 0 && k->broker_uid && k->broker_uid == k->egress_uid)
		r = cay_fail(err, CAY_E_INVALID, "users.broker is the user of users.egress");
	return r;
}

static int keeper_setup(struct keeper *k, struct cay_err *err)
{
	auto_buf stage = BUF_INIT(128);
	int r = keeper_find_users(k, err);

	if (r >= 0)
		r = keeper_make_dirs(k, err);
	if (r < 0)
		return r;
	disk_open(k->sandboxes, &k->disk);
	if (k->disk.unavailable_reason)
		log_warn(&k->log, "disks of sandboxes are not limited: %s",
			 k->disk.unavailable_reason);
	r = sandbox_cgroups_open(k->settings.cgroup, &k->cgroups, err);
	if (r >= 0)
		/* workers of a crashed keeper must not act while we look */
		r = keeper_cgroup_recreate(&k->cgroups, WORKERS_CGROUP, &k->workers, err);
	if (r >= 0)
		r = keeper_cgroup_recreate(&k->cgroups, TRASH_CGROUP, &k->trash_cgroup, err);
	if (r >= 0) {
		keeper_clear_images_tmp(k);
		volumes_prepare(k);
		r = host_dirs_open(k, err);
	}
	if (r >= 0 && buf_printf(&stage, "%s/stage", k->settings.state_dir) < 0)
		r = cay_no_memory(err);
	if (r >= 0)
		r = mount_stage_create(stage.data, k->settings.init_path, &k->stage, err);
	if (r < 0)
		return r;
	if (oci_filter_compile(&k->filter) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot compile the filter of sandboxes");
	k->runtimes = runtime_probe_all(k);
	if (!k->runtimes)
		log_error(&k->log, "no runtime passes its probes: no sandbox can be started");
	return 0;
}

int main(int argc, char **argv)
{
	static struct keeper k;
	struct cay_err err = {};
	int r;

	k.log = log_create(STDERR_FILENO, "cay-keeper", &clk_system);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)umask(022);
	k.argc = argc;
	k.argv = argv;
	k.workers = k.trash_cgroup = CGROUP_INIT;
	k.filter = BUF_INIT(OCI_FILTER_MAX);
	r = daemon_parse_options(argc, argv, &k.settings, &err);
	if (r > 0)
		return 0; /* --check */
	if (r >= 0)
		r = failpoint_arm(getenv("CAY_FAULT"), &err);
	if (r >= 0 && geteuid() != 0)
		r = cay_fail(&err, CAY_E_FORBIDDEN, "the keeper must be started as root");
	if (r >= 0) {
		daemon_configure_log(&k.settings, &k.log);
		daemon_set_short_slices();
		r = keeper_setup(&k, &err);
	}
	if (r >= 0)
		r = keeper_serve(&k, &err);
	return daemon_exit_status(r, &k.log, &err);
}
