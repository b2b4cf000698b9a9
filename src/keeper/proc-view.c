/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/proc-view.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mount.h"
#include "base/path.h"
#include "base/rmtree.h"
#include "keeper/mount-stage.h"

#define CPUINFO_MAX MIB(4)

static const struct {
	const char *file, *at;
} proc_view_files[PROC_VIEW_NUM] = {
	[PROC_VIEW_CPUINFO] = { "cpuinfo", "/proc/cpuinfo" },
	[PROC_VIEW_STAT] = { "stat", "/proc/stat" },
	[PROC_VIEW_ONLINE] = { "online", "/sys/devices/system/cpu/online" },
	[PROC_VIEW_POSSIBLE] = { "online", "/sys/devices/system/cpu/possible" },
	[PROC_VIEW_PRESENT] = { "online", "/sys/devices/system/cpu/present" },
	[PROC_VIEW_MEMINFO] = { NULL, "/proc/meminfo" },
};

void proc_view_fini(struct proc_view *v)
{
	for (int i = 0; i < PROC_VIEW_NUM; i++)
		cay_closep(&v->trees[i]);
	cay_closep(&v->meminfo);
}

static unsigned proc_view_count_cpus(uint32_t milli)
{
	long most = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned n = milli / 1000 + (milli % 1000 != 0);

	return most > 0 && n > (unsigned long)most ? (unsigned)most : n ? n : 1;
}

/* The machine's first n blocks; each ends in an empty line. */
static int proc_view_write_cpuinfo(int dir, unsigned n)
{
	auto_close int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_buf text = BUF_INIT(CPUINFO_MAX);
	int r = proc < 0 ? -errno : path_read(proc, "cpuinfo", &text);
	const char *end = r < 0 ? NULL : buf_str(&text);

	for (unsigned i = 0; end && i < n; i++) {
		end = strstr(end, "\n\n");
		end = end ? end + 2 : NULL;
	}
	if (r >= 0 && end)
		buf_truncate(&text, (size_t)(end - text.data));
	return r < 0 ? r : path_write_atomic(dir, "cpuinfo", text.data, text.len, 0444);
}

/* Without times, which are the machine's; with the boot time: ages of processes count from it. */
static int proc_view_write_stat(int dir, unsigned n)
{
	auto_close int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_buf host = BUF_INIT(CPUINFO_MAX), text = BUF_INIT(MIB(1));
	int r = proc < 0 ? -errno : path_read(proc, "stat", &host);
	const char *boot = r < 0 ? NULL : strstr(buf_str(&host), "\nbtime ");

	if (r >= 0)
		r = buf_puts(&text, "cpu  0 0 0 0 0 0 0 0 0 0\n");
	for (unsigned i = 0; r >= 0 && i < n; i++)
		r = buf_printf(&text, "cpu%u 0 0 0 0 0 0 0 0 0 0\n", i);
	if (r >= 0)
		r = buf_printf(&text,
			       "intr 0\nctxt 0\n%.*s\nprocesses 0\nprocs_running 1\n"
			       "procs_blocked 0\nsoftirq 0\n",
			       boot ? (int)strcspn(boot + 1, "\n") : 0, boot ? boot + 1 : "");
	return r < 0 ? r : path_write_atomic(dir, "stat", text.data, text.len, 0444);
}

static int proc_view_write_online(int dir, unsigned n)
{
	auto_buf text = BUF_INIT(32);
	int r = n > 1 ? buf_printf(&text, "0-%u\n", n - 1) : buf_puts(&text, "0\n");

	return r < 0 ? r : path_write_atomic(dir, "online", text.data, text.len, 0444);
}

/* Created under another name and renamed, so that it appears whole. */
static int proc_view_make_files(int top, unsigned n, const char *name)
{
	auto_buf draft = BUF_INIT(64);
	auto_close int dir = -EBADF;
	int r = buf_printf(&draft, "%u.%d", n, getpid());

	if (r >= 0) /* left by a killed worker with our pid */
		(void)rmtree_at(top, draft.data);
	if (r < 0 || mkdirat(top, draft.data, 0755) < 0)
		return r < 0 ? r : -errno;
	dir = path_open(top, draft.data, O_RDONLY | O_DIRECTORY, 0);
	r = dir < 0 ? dir : proc_view_write_cpuinfo(dir, n);
	if (r >= 0)
		r = proc_view_write_stat(dir, n);
	if (r >= 0)
		r = proc_view_write_online(dir, n);
	if (r >= 0 && renameat(top, draft.data, top, name) < 0 && errno != EEXIST &&
	    errno != ENOTEMPTY)
		r = -errno;
	(void)rmtree_at(top, draft.data);
	return r;
}

static int proc_view_open_files(unsigned n)
{
	auto_close int top = open(STAGE_CPUS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[16];
	int dir, r = snprintf(name, sizeof(name), "%u", n);

	if (top < 0 || r < 0)
		return top < 0 ? -errno : -EINVAL;
	dir = path_open(top, name, O_RDONLY | O_DIRECTORY, 0);
	if (dir != -ENOENT)
		return dir;
	r = proc_view_make_files(top, n, name);
	return r < 0 ? r : path_open(top, name, O_RDONLY | O_DIRECTORY, 0);
}

static int proc_view_clone_file(int dir, const char *name)
{
	return mount_clone(dir, name,
			   MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
				   MOUNT_ATTR_NOEXEC,
			   -EBADF);
}

int proc_view_open(uint32_t cpu_milli, const char *name, struct proc_view *v, struct cay_err *err)
{
	unsigned n = proc_view_count_cpus(cpu_milli);
	auto_close int files = proc_view_open_files(n), dir = -EBADF;
	auto_buf path = BUF_INIT(128);
	int r = files < 0 ? files : mount_stage_make_own(err);

	r = dir = r < 0 ? r : proc_view_open_files(n);

	for (int i = 0; r >= 0 && i < PROC_VIEW_CPUS; i++)
		r = v->trees[i] = proc_view_clone_file(dir, proc_view_files[i].file);
	if (r >= 0 && name) {
		/* the name goes with the bundle, the file with the sandbox */
		r = buf_printf(&path, STAGE_BUNDLE "/%s/meminfo", name);
		v->meminfo =
			r < 0 ? r : open(path.data, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
		r = v->meminfo < 0 ? -errno : proc_view_clone_file(AT_FDCWD, path.data);
		v->trees[PROC_VIEW_MEMINFO] = r;
	}
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "create files that show the limits")
		     : 0;
}

int proc_view_mount(const struct proc_view *v, bool replace, struct cay_err *err)
{
	for (int i = 0; i < PROC_VIEW_NUM; i++) {
		if (v->trees[i] < 0)
			continue;
		if (replace)
			(void)umount2(proc_view_files[i].at, MNT_DETACH | UMOUNT_NOFOLLOW);
		if (move_mount(v->trees[i], "", AT_FDCWD, proc_view_files[i].at,
			       MOVE_MOUNT_F_EMPTY_PATH) < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "mount %s",
					    proc_view_files[i].at);
	}
	return 0;
}
