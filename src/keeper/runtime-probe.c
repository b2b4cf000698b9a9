/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/runtime-probe.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/mount.h"
#include "base/path.h"
#include "base/rmtree.h"
#include "base/spawn.h"
#include "keeper/runtime.h"
#include "keeper/start.h"

/* The range after the last; no sandbox gets it. */
#define LIVE (VERB_RANGE_BASE + (VERB_RANGE_MAX + 1) * VERB_RANGE_IDS)
#define CANARY "canary"
/* Milliseconds of work.  A runtime that fails for time is refused until the keeper starts again, so
 * a machine that is busy while it boots gets many times that; two runtimes stay below the start
 * timeout of a unit. */
#define PROBE_MS 30000
#define PROBE_TRIES 2500

static const char *const probe_init_args[] = { OCI_INIT, "--wait", NULL };

/* Expected in /proc/<pid>/status of PID 1, seen from the host. */
static const char *const probe_status_lines[] = {
	"\nNoNewPrivs:\t1\n",
	"\nSeccomp:\t2\n",
	"\nSeccomp_filters:\t1\n",
	"\nCapInh:\t0000000000000000\n",
	"\nCapAmb:\t0000000000000000\n",
	/* CHOWN DAC_OVERRIDE FOWNER KILL SETGID SETUID NET_BIND_SERVICE */
	"\nCapBnd:\t00000000000004eb\n",
	"\nCapPrm:\t00000000000004eb\n",
};

static const char *const probe_namespaces[] = {
	"user", "pid", "mnt", "ipc", "uts", "cgroup", "net"
};

/* A root file system on the stage; link: the target of /dev, or NULL. */
static int probe_make_root(const char *link, struct cay_err *err)
{
	auto_close int root = -EBADF;
	bool ok;

	if (mount("probe", STAGE_ROOT, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "mount");
	root = open(STAGE_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ok = root >= 0 && mkdirat(root, "proc", 0755) == 0 && mkdirat(root, "sys", 0755) == 0 &&
	     (link ? symlinkat(link, root, "dev") : mkdirat(root, "dev", 0755)) == 0 &&
	     fchown(root, LIVE, LIVE) == 0;
	return ok ? 0 : cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a root to probe with");
}

static bool probe_namespace_is_same(int theirs, int ours, const char *name)
{
	auto_buf path = BUF_INIT(32);
	struct stat a, b;

	if (buf_printf(&path, "ns/%s", name) < 0)
		return true;
	return fstatat(theirs, path.data, &a, 0) < 0 || fstatat(ours, path.data, &b, 0) < 0 ||
	       a.st_ino == b.st_ino;
}

static int probe_check_pid1(pid_t pid, struct cay_err *err)
{
	auto_buf path = BUF_INIT(32), status = BUF_INIT(KIB(16)), map = BUF_INIT(KIB(4)),
		 want = BUF_INIT(64);
	auto_close int proc = -EBADF, self = open("/proc/self", O_PATH | O_CLOEXEC);

	if (buf_printf(&path, "/proc/%d", pid) < 0 ||
	    buf_printf(&want, "%10u %10u %10u\n", 0u, LIVE, VERB_RANGE_IDS) < 0)
		return -ENOMEM;
	proc = open(path.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0 || self < 0 || path_read(proc, "status", &status) < 0 ||
	    path_read(proc, "uid_map", &map) < 0)
		return cay_fail(err, CAY_E_RUNTIME, "cannot inspect PID 1");
	for (size_t i = 0; i < ARRAY_SIZE(probe_status_lines); i++)
		if (!strstr(buf_str(&status), probe_status_lines[i]))
			return cay_fail(err, CAY_E_RUNTIME, "PID 1 lacks '%.*s'",
					(int)strlen(probe_status_lines[i]) - 2,
					probe_status_lines[i] + 1);
	if (strcmp(buf_str(&map), want.data) != 0)
		return cay_fail(err, CAY_E_RUNTIME, "PID 1 has the wrong ids");
	for (size_t i = 0; i < ARRAY_SIZE(probe_namespaces); i++)
		if (probe_namespace_is_same(proc, self, probe_namespaces[i]) !=
		    str_eq(probe_namespaces[i], "net"))
			return cay_fail(err, CAY_E_RUNTIME, "PID 1 is in the wrong %s namespace",
					probe_namespaces[i]);
	return 0;
}

static int probe_enter_stage(const struct keeper *k, const struct cgroup *cgroup,
			     struct cay_err *err)
{
	auto_close int tree = mount_clone(cgroup->v2, "", 0, -EBADF);
	int r = tree < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -tree, "clone the cgroup")
			 : mount_stage_enter(&k->stage, err);

	if (r >= 0)
		r = keeper_start_make_netns(err);
	if (r >= 0)
		r = keeper_start_mount_cgroup(tree, err);
	return r;
}

static int probe_start_runtime(const struct keeper *k, const struct runtime *rt,
			       const struct cgroup *cgroup, int *ret_pidfd, struct cay_err *err)
{
	struct oci_config o = { .host_id_base = LIVE,
				.name = "probe",
				.root = STAGE_ROOT,
				.shm_bytes = MIB(1),
				.nofile = 1024,
				.filter = rt->takes_filter ? k->filter.data : NULL,
				.args = probe_init_args };
	auto_close int bundle = keeper_start_write_bundle(&k->stage, &o, err);
	struct runtime_run job = { .runtime = rt,
				   .name = o.name,
				   .cgroup = cgroup->v2,
				   .fds = { -EBADF, -EBADF },
				   .bundle = bundle,
				   .timeout_ms = PROBE_MS };

	return bundle < 0 ? bundle : runtime_run(&job, ret_pidfd, err);
}

/* It runs our OCI config, and PID 1 matches it. */
static int probe_template(const struct keeper *k, const struct runtime *rt,
			  const struct cgroup *cgroup, struct cay_err *err)
{
	auto_close int pidfd = -EBADF;
	siginfo_t info = {};
	pid_t pid;
	int r = probe_make_root(NULL, err);

	if (r >= 0)
		r = probe_start_runtime(k, rt, cgroup, &pidfd, err);
	if (r < 0)
		return r;
	/* crun reports success just before PID 1 has its final restrictions */
	for (int i = 0; i < PROBE_TRIES; i++) {
		*err = (struct cay_err){};
		(void)sandbox_cgroup_count_processes(cgroup, &pid);
		r = probe_check_pid1(pid, err);
		if (r >= 0)
			break;
		(void)poll(NULL, 0, 2);
	}
	(void)sandbox_cgroup_kill(cgroup, PROBE_MS, NULL);
	(void)waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED);
	return r;
}

static int on_probe_canary_entry(void *, int, const char *)
{
	return 1;
}

/* A link at /dev leads a careless runtime to the host (CVE-2026-41579 and similar).  Whether it
 * starts does not matter, only what it touched. */
static int probe_dev_symlink(const struct keeper *k, const struct runtime *rt,
			     const struct cgroup *cgroup, struct cay_err *err)
{
	auto_close int pidfd = -EBADF, canary = -EBADF;
	int r = probe_make_root(STAGE_STATE "/" CANARY, err);

	if (r < 0)
		return r;
	if (mkdirat(k->stage.state, CANARY, 0777) < 0 && errno != EEXIST)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a canary");
	(void)probe_start_runtime(k, rt, cgroup, &pidfd, NULL);
	(void)sandbox_cgroup_kill(cgroup, PROBE_MS, NULL);
	canary = path_open(k->stage.state, CANARY, O_RDONLY | O_DIRECTORY, 0);
	r = canary < 0 ? canary : path_for_each_entry(canary, on_probe_canary_entry, NULL);
	(void)rmtree_at(k->stage.state, CANARY);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_RUNTIME, -r, "the canary is gone");
	if (r > 0)
		return cay_fail(err, CAY_E_RUNTIME, "it followed a link in the image to the host");
	return 0;
}

typedef int probe_fn(const struct keeper *k, const struct runtime *rt, const struct cgroup *cgroup,
		     struct cay_err *err);

static const struct {
	const char *name;
	probe_fn *fn;
} runtime_probes[] = {
	{ "template", probe_template },
	{ "symlinked /dev", probe_dev_symlink },
};

/* In a forked process, like a worker. */
static bool probe_run_forked(struct keeper *k, const struct runtime *rt,
			     const struct cgroup *cgroup, unsigned probe)
{
	struct cay_err err = {};
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		int r = prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? -errno
							     : probe_enter_stage(k, cgroup, &err);

		if (r >= 0)
			r = runtime_probes[probe].fn(k, rt, cgroup, &err);
		if (r < 0)
			log_warn(&k->log, "%s fails the probe '%s': %s", rt->name,
				 runtime_probes[probe].name, err.msg);
		_exit(r < 0 ? 1 : 0);
	}
	(void)waitpid(pid, &status, 0);
	mount_stage_remove_bundle(&k->stage, "probe");
	return pid > 0 && status == 0;
}

uint32_t runtime_probe_all(struct keeper *k)
{
	auto_cgroup cgroup = CGROUP_INIT;
	struct cay_err err = {};
	uint32_t good = 0;

	for (unsigned i = 0; i < RUNTIME_NUM; i++) {
		bool ok = access(runtimes[i].path, X_OK) == 0;

		if (!ok)
			log_info(&k->log, "%s is not installed", runtimes[i].path);
		for (unsigned p = 0; ok && p < ARRAY_SIZE(runtime_probes); p++) {
			ok = keeper_cgroup_recreate(&k->cgroups, "probe", &cgroup, &err) >= 0;
			if (!ok)
				log_error(&k->log, "%s", err.msg);
			ok = ok && probe_run_forked(k, &runtimes[i], &cgroup, p);
		}
		if (ok) {
			good |= 1u << i;
			log_info(&k->log, "%s passes its probes", runtimes[i].name);
		}
	}
	keeper_cgroup_remove(&k->cgroups, "probe");
	return good;
}
