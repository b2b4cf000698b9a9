/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/magic.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>

#include "base/failpoint.h"
#include "base/mount.h"
#include "base/path.h"
#include "keeper/keeper-sandbox.h"
#include "keeper/overlay.h"
#include "keeper/proc-view.h"
#include "keeper/runtime.h"
#include "keeper/start.h"
#include "oci/oci-config.h"

#define RUNTIME_MS 30000
#define CONFIG_MAX KIB(64)

struct proc_setting {
	const char *name, *value; /* below /proc */
};

/* The socket of PID 1.  Only cayd's user and its group, which includes the edges, can reach it; the
 * sandbox gets the socket and not the path. */
static int keeper_start_make_listener(const struct keeper *k, const struct sandbox *sb,
				      struct cay_err *err)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/%s", k->sockets,
			 sb->name);

	if (fd < 0 || n < 0 || n >= (int)sizeof(at.sun_path))
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a socket for %s", sb->name);
	(void)unlinkat(k->sockets, sb->name, 0);
	if (fchmod(fd, 0600) < 0 || bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    fchownat(k->sockets, sb->name, k->control_uid, k->control_gid, AT_SYMLINK_NOFOLLOW) <
		    0 ||
	    fchmodat(k->sockets, sb->name, 0660, 0) < 0 || listen(fd, 128) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "listen for %s", sb->name);
	return cay_take_fd(&fd);
}

/* Settings of the caller's namespaces. */
static int keeper_start_write_settings(int proc, const struct proc_setting *settings, size_t n,
				       struct cay_err *err)
{
	for (size_t i = 0; i < n; i++) {
		auto_close int fd = path_open(proc, settings[i].name, O_WRONLY, 0);
		size_t len = strlen(settings[i].value);

		if (fd < 0 || write(fd, settings[i].value, len) != (ssize_t)len)
			return cay_fail_sys(err, CAY_E_INTERNAL, fd < 0 ? -fd : errno, "set %s",
					    settings[i].name);
	}
	return 0;
}

int keeper_start_make_netns(struct cay_err *err)
{
	auto_close int sock = -EBADF;
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };

	if (unshare(CLONE_NEWNET) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a network namespace");
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0 || ioctl(sock, SIOCSIFFLAGS, &lo) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "bring lo up");
	return 0;
}

/* The sandbox's own /proc without the mounts on it.  The host's lists the settings of all
 * namespaces together: 3 ms to walk with 5,000 sandboxes. */
static int keeper_start_open_proc(int pidfd)
{
	auto_close int proc = -EBADF;
	struct statfs st;

	if (setns(pidfd, CLONE_NEWNS) < 0)
		return -errno;
	proc = mount_clone(AT_FDCWD, "/proc", 0, -EBADF);
	if (proc < 0 || fstatfs(proc, &st) < 0)
		return proc < 0 ? proc : -errno;
	return st.f_type == PROC_SUPER_MAGIC ? cay_take_fd(&proc) : -ENOTDIR;
}

/* Final settings after the runtime has exited.  Low ports are open to all users: no capability
 * inside counts in the host's network namespace (docs/adr/0008).  User namespaces are disabled, and
 * with them all others: PID 1 may call clone3(), whose flags no filter sees.  Per-user kernel
 * resources are limited.  Afterwards the worker can only reply and exit. */
static int keeper_start_seal(int pidfd, const struct proc_view *view, struct cay_err *err)
{
	static const struct proc_setting network[] = {
		{ "sys/net/ipv4/ip_unprivileged_port_start", "0" },
	};
	static const struct proc_setting users[] = {
		{ "sys/user/max_user_namespaces", "0" },
		{ "sys/user/max_inotify_instances", "512" },
		{ "sys/user/max_inotify_watches", "65536" },
	};
	auto_close int proc = keeper_start_open_proc(pidfd);
	int r = proc < 0 ? cay_fail_sys(err, CAY_E_RUNTIME, -proc, "PID 1 exited early")
			 : keeper_start_write_settings(proc, network, ARRAY_SIZE(network), err);

	if (r >= 0)
		r = proc_view_mount(view, false, err);
	if (r < 0)
		return r;
	if (setns(pidfd, CLONE_NEWUSER) < 0)
		return cay_fail_sys(err, CAY_E_RUNTIME, errno, "PID 1 exited early");
	return keeper_start_write_settings(proc, users, ARRAY_SIZE(users), err);
}

int keeper_start_write_bundle(const struct mount_stage *stage, const struct oci_config *o,
			      struct cay_err *err)
{
	auto_buf text = BUF_INIT(CONFIG_MAX);
	struct jw w = jw_to(&text);
	auto_close int dir = -EBADF, fd = -EBADF;
	int r;

	oci_config_write(o, &w);
	r = jw_finish(&w);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "write config.json");
	mount_stage_remove_bundle(stage, o->name);
	if (mkdirat(stage->bundle, o->name, 0700) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a bundle for %s", o->name);
	dir = path_open(stage->bundle, o->name, O_RDONLY | O_DIRECTORY, 0);
	fd = dir < 0 ? dir : path_open(dir, "config.json", O_WRONLY | O_CREAT | O_EXCL, 0600);
	r = fd < 0 ? fd : fd_write_all(fd, text.data, text.len);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "write config.json of %s", o->name);
	return cay_take_fd(&dir);
}

/* Prepared in the host's mount namespace. */
struct start_state {
	struct overlay overlay;
	struct overlay_options how;
	int listener;
	int cgroup_inside; /* PID 1's fd 4: a mount with nothing above it (docs/adr/0005) */
	int cgroup_shown;  /* for the runtime's /sys/fs/cgroup (docs/adr/0006) */
	int memory;        /* fd 6: the same for v1's memory cgroup (docs/adr/0033) */
};

static void start_state_fini(struct start_state *s)
{
	overlay_fini(&s->overlay);
	cay_closep(&s->listener);
	cay_closep(&s->cgroup_inside);
	cay_closep(&s->cgroup_shown);
	cay_closep(&s->memory);
}

static int keeper_start_prepare(const struct keeper *k, const struct sandbox *sb,
				struct start_state *s, struct cay_err *err)
{
	int r = overlay_open(k, sb, &s->how, &s->overlay, err);

	if (r < 0)
		return r;
	s->listener = keeper_start_make_listener(k, sb, err);
	if (s->listener < 0)
		return s->listener;
	r = s->cgroup_inside = mount_clone(sb->cgroup.v2, "", 0, -EBADF);
	if (r >= 0)
		r = s->cgroup_shown = mount_clone(sb->cgroup.v2, "", 0, -EBADF);
	/* PID 1 could not read v1's memory usage otherwise; read-only */
	if (r >= 0 && sb->cgroup.v1[CG_MEMORY] >= 0)
		r = s->memory =
			mount_clone(sb->cgroup.v1[CG_MEMORY], "", MOUNT_ATTR_RDONLY, -EBADF);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "clone the cgroup's directory") : 0;
}

int keeper_start_mount_cgroup(int tree, struct cay_err *err)
{
	if (move_mount(tree, "", AT_FDCWD, "/sys/fs/cgroup", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "mount the cgroup for the runtime");
	return 0;
}

static int keeper_start_run_on_stage(const struct keeper *k, const struct sandbox *sb,
				     struct start_state *s, const struct verb_start *q,
				     struct verb_result *result, struct cay_err *err)
{
	static const char *const args[] = { OCI_INIT, NULL };
	struct oci_config o = { .host_id_base = keeper_sandbox_host_root_id(sb),
				.name = sb->name,
				.root = STAGE_ROOT,
				.shm_bytes = q->shm_bytes,
				.nofile = q->nofile,
				.filter = runtimes[q->runtime].takes_filter ? k->filter.data : NULL,
				.args = args };
	struct runtime_run run = { .runtime = &runtimes[q->runtime],
				   .name = sb->name,
				   .cgroup = sb->cgroup.v2,
				   .fds = { s->listener, s->cgroup_inside, -EBADF, s->memory },
				   .timeout_ms = RUNTIME_MS };
	auto_close int bundle = -EBADF;
	auto_proc_view view = PROC_VIEW_INIT;
	int r = mount_stage_enter(&k->stage, err);

	if (r >= 0)
		r = keeper_start_make_netns(err);
	if (r >= 0)
		r = overlay_mount(&s->overlay, o.host_id_base, &s->how, err);
	if (r >= 0)
		r = keeper_start_mount_cgroup(s->cgroup_shown, err);
	if (r < 0)
		return r;
	bundle = keeper_start_write_bundle(&k->stage, &o, err);
	r = bundle < 0 ? bundle : proc_view_open(q->cpu_milli, sb->name, &view, err);
	if (r < 0)
		return r;
	run.bundle = bundle;
	run.fds[2] = view.meminfo;
	r = failpoint_hit(FAULT_START_STAGED);
	r = r < 0 ? r : runtime_run(&run, &result->fd, err);
	if (r < 0)
		return r;
	result->start.started_boot_ns = pid_start_boot_ns(r);
	if (!result->start.started_boot_ns || failpoint_hit(FAULT_START_RAN) < 0)
		return cay_fail(err, CAY_E_RUNTIME, "PID 1 exited early");
	return keeper_start_seal(result->fd, &view, err);
}

/* After limits have changed; afterwards the worker can only reply and exit. */
int keeper_start_update_proc_view(const struct keeper *k, const struct sandbox *sb,
				  uint32_t cpu_milli, struct cay_err *err)
{
	auto_proc_view view = PROC_VIEW_INIT;
	int r = mount_stage_enter(&k->stage, err);

	if (r >= 0)
		r = proc_view_open(cpu_milli, NULL, &view, err);
	if (r >= 0 && keeper_sandbox_enter(sb, CLONE_NEWNS) < 0)
		return 0; /* it has no PID 1 */
	return r < 0 ? r : proc_view_mount(&view, true, err);
}

/* Counted per user, and all sandboxes share host root: see src/init/main.c.  Failures are ignored;
 * the unit file grants it. */
static void keeper_start_lift_rlimits(void)
{
	static const __rlimit_resource_t what[] = { RLIMIT_MEMLOCK, RLIMIT_MSGQUEUE,
						    RLIMIT_SIGPENDING, RLIMIT_NPROC };
	struct rlimit most = { RLIM_INFINITY, RLIM_INFINITY };

	for (size_t i = 0; i < ARRAY_SIZE(what); i++)
		(void)setrlimit(what[i], &most);
}

/*
 * start: run the runtime on a prepared sandbox.  An attacker who owns cayd chooses among the
 * runtimes that passed their probes and sets limits; it cannot choose what is run, with which
 * rights, or on which files.
 *
 * The worker first joins the sandbox's v1 cgroups, so that kernel memory of its namespaces and
 * mounts is charged to the sandbox.
 */
int verb_start(const struct keeper *k, const void *request, int, struct verb_result *result,
	       struct cay_err *err)
{
	const struct verb_start *q = request;
	struct cgroup_limits limits = { q->memory_bytes, q->cpu_milli, q->pids };
	CAY_CLEANUP(start_state_fini)
	struct start_state s = { .overlay = OVERLAY_INIT,
				 .how = { .memory = { q->disk_bytes, q->disk_inodes },
					  .read_only = q->read_only,
					  .writable = q->writable,
					  .mounts = q->mounts },
				 .listener = -EBADF,
				 .cgroup_inside = -EBADF,
				 .cgroup_shown = -EBADF,
				 .memory = -EBADF };
	auto_keeper_sandbox b = KEEPER_SANDBOX_INIT;
	int r;

	if (q->runtime >= RUNTIME_NUM || !(k->runtimes & 1u << q->runtime))
		return cay_fail(err, CAY_E_RUNTIME, "runtime %u is not usable on this machine",
				q->runtime);
	r = keeper_sandbox_open(k, &q->sandbox, q->generation, &b, err);
	if (r < 0)
		return r;
	if (!b.record.magic || b.cgroup.v2 < 0)
		return cay_fail(err, CAY_E_STATE, "%s was not prepared", b.name);
	if (sandbox_cgroup_is_populated(&b.cgroup) != 0)
		return cay_fail(err, CAY_E_STATE, "%s is already running", b.name);
	keeper_start_lift_rlimits();
	/* an anonymous keyring of its own; a runtime would create a named one, which the kernel
	 * compares with all others */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ||
	    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno,
				    "become a subreaper with a keyring");
	r = sandbox_cgroup_set_limits(&b.cgroup, &limits, err);
	if (r >= 0)
		r = sandbox_cgroup_join_v1(&b.cgroup, err);
	r = r < 0 ? r : failpoint_hit(FAULT_START_JOINED);
	if (r >= 0)
		r = keeper_start_prepare(k, &b, &s, err);
	if (r >= 0)
		r = keeper_start_run_on_stage(k, &b, &s, q, result, err);
	mount_stage_remove_bundle(&k->stage, b.name);
	return r < 0 ? r : failpoint_hit(FAULT_START_SEALED);
}
