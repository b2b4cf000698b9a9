/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/sandbox-cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/path.h"
#include "cgroup/memory-share.h"

#define SMALL_FILE KIB(64)
#define CPU_PERIOD_US 100000u
/* Cgroups PID 1 may create below a sandbox's: execs and anything nested. */
#define DESCENDANTS "512"
/* Their depth: PID 1 needs one level, nested containers would need more. */
#define DEPTH "4"
#define LIMIT_XATTR "trusted.cay.memory"

static int sandbox_cgroup_write_file(int dirfd, const char *name, const char *text)
{
	auto_close int fd = path_open(dirfd, name, O_WRONLY, 0);
	ssize_t n;

	if (fd < 0)
		return fd;
	do /* a signal interrupts setting a memory limit */
		n = write(fd, text, strlen(text));
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static int sandbox_cgroup_write_u64(int dirfd, const char *name, uint64_t value)
{
	char text[24];

	if (snprintf(text, sizeof(text), "%llu", (unsigned long long)value) >= (int)sizeof(text))
		return -EINVAL;
	return sandbox_cgroup_write_file(dirfd, name, text);
}

/* Enable v2's controllers below.  A write walks all descendants even when nothing changes (2 ms
 * with 5,000 sandboxes), so read first. */
static int sandbox_cgroup_enable_controllers(int dirfd, const int v1[static CG_NUM])
{
	auto_buf have = BUF_INIT(SMALL_FILE);
	int r = path_read(dirfd, "cgroup.subtree_control", &have);

	if (have.len)
		buf_truncate(&have, have.len - 1);
	for (int i = 0; r >= 0 && i < CG_NUM; i++) {
		char word[16];

		if (v1[i] >= 0 || cgroup_list_has_word((struct slice){ buf_str(&have), have.len },
						       ' ', cgroup_controllers[i]))
			continue;
		r = snprintf(word, sizeof(word), "+%s", cgroup_controllers[i]);
		if (r >= 0)
			r = sandbox_cgroup_write_file(dirfd, "cgroup.subtree_control", word);
	}
	return r;
}

/* Create each directory of path below root; v1 has the controllers that are not v2's. */
static int sandbox_cgroup_make_path(int root, const char *path, const int *v1, struct cay_err *err)
{
	struct slice rest = slice_of(path + 1);
	int fd = fcntl(root, F_DUPFD_CLOEXEC, 3);

	while (fd >= 0 && rest.p) {
		auto_close int here = fd;
		auto_buf name = BUF_INIT(256);
		struct slice part = slice_cut(&rest, '/');

		if (!part.n)
			return cay_fail(err, CAY_E_INVALID, "cgroup.path '%s': empty name", path);
		if (buf_append(&name, part.p, part.n) < 0)
			return cay_fail(err, CAY_E_INVALID, "cgroup.path '%s': too long", path);
		int r = v1 ? sandbox_cgroup_enable_controllers(here, v1) : 0;

		if (r < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, -r,
					    "enable cgroup controllers below '%s'", path);
		if (mkdirat(here, name.data, 0755) < 0 && errno != EEXIST)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create cgroup '%s'", path);
		fd = path_open(here, name.data, O_RDONLY | O_DIRECTORY, 0);
	}
	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -fd, "open cgroup '%s'", path);
	return fd;
}

/* Moving a process waits for all CPUs to schedule (6 to 8 ms) unless some hierarchy has
 * favordynmods: ours is empty, mounted nowhere and ends with the keeper.  A kernel before 6.0 is
 * only slower (docs/adr/0018). */
static int sandbox_cgroup_mount_favordynmods(void)
{
	auto_close int fs = fsopen("cgroup", FSOPEN_CLOEXEC);
	int fd;

	if (fs < 0 || fsconfig(fs, FSCONFIG_SET_FLAG, "none", NULL, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "name", "cay", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_FLAG, "favordynmods", NULL, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

/* The kernel spreads a group's weight over its CPUs: with the default, all sandboxes together would
 * weigh less on a CPU than one process of the host, and a busy one would take half of that from a
 * quiet one (docs/adr/0033).  Below a unit of systemd the keeper alone is beside them, and busy
 * sandboxes must not delay the start of another: both weigh the same there. */
static int sandbox_cgroup_set_top_weight(const struct cgroup *top, const char *path)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t n = strchr(path + 1, '/') ? 1 : 4 * (uint64_t)(cpus > 0 ? cpus : 1);

	if (top->v1[CG_CPU] >= 0)
		return sandbox_cgroup_write_u64(top->v1[CG_CPU], "cpu.shares",
						1024 * (n < 256 ? n : 256));
	return sandbox_cgroup_write_u64(top->v2, "cpu.weight", 100 * (n < 100 ? n : 100));
}

int sandbox_cgroups_open(const char *path, struct cgroups *ret, struct cay_err *err)
{
	auto_cgroup roots = CGROUP_INIT;
	int r = cgroup_open_roots(&roots, err);

	if (r < 0)
		return r;
	*ret = (struct cgroups){ CGROUP_INIT, -EBADF };
	for (int i = 0; i < CG_NUM; i++) {
		if (roots.v1[i] < 0)
			continue;
		ret->top.v1[i] = sandbox_cgroup_make_path(roots.v1[i], path, NULL, err);
		if (ret->top.v1[i] < 0)
			return ret->top.v1[i];
		if (ret->favordynmods_fd < 0)
			ret->favordynmods_fd = sandbox_cgroup_mount_favordynmods();
	}
	ret->top.v2 = sandbox_cgroup_make_path(roots.v2, path, ret->top.v1, err);
	if (ret->top.v2 < 0)
		return ret->top.v2;
	r = sandbox_cgroup_enable_controllers(ret->top.v2, ret->top.v1);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "enable cgroup controllers");
	r = sandbox_cgroup_set_top_weight(&ret->top, path);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "set the weight of all sandboxes") : 0;
}

static int sandbox_cgroup_make_dir(int dirfd, const char *name)
{
	if (mkdirat(dirfd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	return path_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
}

static int sandbox_cgroup_make_pair(int top, const char *tenant, const char *sandbox, const int *v1)
{
	auto_close int fd = sandbox_cgroup_make_dir(top, tenant);
	int r = fd < 0 ? fd : v1 ? sandbox_cgroup_enable_controllers(fd, v1) : 0;

	return r < 0 ? r : sandbox_cgroup_make_dir(fd, sandbox);
}

int sandbox_cgroup_create(const struct cgroups *all, const struct id *tenant,
			  const struct id *sandbox, uid_t root, struct cgroup *c,
			  struct cay_err *err)
{
	static const char *const given[] = { "", "cgroup.procs" };
	char tn[ID_TEXT_LEN + 1], sb[ID_TEXT_LEN + 1];

	id_format(tenant, tn);
	id_format(sandbox, sb);
	c->v2 = sandbox_cgroup_make_pair(all->top.v2, tn, sb, all->top.v1);
	if (c->v2 < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -c->v2, "create the cgroup of %s", sb);
	for (int i = 0; i < CG_NUM; i++) {
		if (all->top.v1[i] < 0)
			continue;
		c->v1[i] = sandbox_cgroup_make_pair(all->top.v1[i], tn, sb, NULL);
		if (c->v1[i] < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, -c->v1[i],
					    "create the %s cgroup of %s", cgroup_controllers[i],
					    sb);
	}
	for (size_t i = 0; i < ARRAY_SIZE(given); i++)
		if (fchownat(c->v2, given[i], root, root,
			     AT_SYMLINK_NOFOLLOW | (given[i][0] ? 0 : AT_EMPTY_PATH)) < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "chown the cgroup of %s",
					    sb);
	if (sandbox_cgroup_write_file(c->v2, "cgroup.max.descendants", DESCENDANTS) < 0 ||
	    sandbox_cgroup_write_file(c->v2, "cgroup.max.depth", DEPTH) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "limit the cgroups below %s", sb);
	return 0;
}

static int on_sandbox_cgroup_tenant_dir(void *arg, int top, const char *tenant)
{
	struct id *ids = arg; /* the sandbox and its tenant */
	char sb[ID_TEXT_LEN + 1];
	auto_close int fd = -EBADF;

	id_format(&ids[0], sb);
	if (id_parse(ID_TENANT, slice_of(tenant), &ids[1]) >= 0)
		fd = cgroup_open_sandbox_dir(top, tenant, sb);
	return fd >= 0;
}

int sandbox_cgroup_find_tenant(const struct cgroups *all, const struct id *sandbox,
			       struct id *ret_tenant)
{
	struct id ids[2] = { *sandbox };
	int r = path_for_each_entry(all->top.v2, on_sandbox_cgroup_tenant_dir, ids);

	*ret_tenant = ids[1];
	return r;
}

/* v1 refuses a limit below the usage when nothing more can be reclaimed; v2 would kill. */
static int sandbox_cgroup_reclaim_memory(int fd, uint64_t bytes)
{
	uint64_t now = 0;

	for (int i = 0; i < 2; i++) {
		auto_buf text = BUF_INIT(SMALL_FILE);
		int r = path_read(fd, "memory.current", &text);

		if (r >= 0)
			r = text.len ? str_parse_u64((struct slice){ text.data, text.len - 1 }, 0,
						     UINT64_MAX, &now)
				     : -EINVAL;
		if (r < 0 || now <= bytes)
			return r;
		if (!i)
			(void)sandbox_cgroup_write_u64(fd, "memory.reclaim", now - bytes);
	}
	return -EBUSY;
}

/* memory.max may be less than the limit, by its pages in swap: so the limit is written beside it,
 * where no process of the sandbox can, whose root owns the directory. */
static int sandbox_cgroup_read_limit(const struct cgroup *c, uint64_t *ret)
{
	auto_buf file = BUF_INIT(SMALL_FILE);
	char text[24];
	ssize_t n = fgetxattr(c->v2, LIMIT_XATTR, text, sizeof(text));
	int r = 0;

	if (n > 0)
		return str_parse_u64((struct slice){ text, (size_t)n }, 0, UINT64_MAX, ret);
	/* one that was started by a keeper that did not write it, and changed no memory.max */
	r = path_read(c->v2, "memory.max", &file);
	if (r < 0 || !file.len)
		return r < 0 ? r : -EINVAL;
	*ret = UINT64_MAX;
	return str_eq(buf_str(&file), "max\n")
		       ? 0
		       : str_parse_u64((struct slice){ file.data, file.len - 1 }, 0, UINT64_MAX,
				       ret);
}

static int sandbox_cgroup_write_limit(const struct cgroup *c, uint64_t bytes)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);

	if (n <= 0 || n >= (int)sizeof(text))
		return -EINVAL;
	return fsetxattr(c->v2, LIMIT_XATTR, text, (size_t)n, 0) < 0 ? -errno : 0;
}

/* Swap first: what does not fit into the memory any more still finds room in it. */
static int sandbox_cgroup_write_split(const struct cgroup *c, const struct memory_split *s)
{
	int r = sandbox_cgroup_write_u64(c->v2, "memory.swap.max", s->swap);

	if (r < 0 && r != -ENOENT) /* without swap accounting */
		return r;
	return sandbox_cgroup_write_u64(c->v2, "memory.max", s->memory);
}

static int sandbox_cgroup_limit_memory_v2(const struct cgroup *c, uint64_t bytes)
{
	uint64_t in_swap = 0;
	int r = cgroup_read_swap(c->v2, &in_swap);
	struct memory_split s = memory_split_limit(bytes, in_swap);

	if (r >= 0)
		r = sandbox_cgroup_reclaim_memory(c->v2, s.memory);
	if (r >= 0)
		r = sandbox_cgroup_write_limit(c, bytes);
	return r < 0 ? r : sandbox_cgroup_write_split(c, &s);
}

static int sandbox_cgroup_limit_memory(const struct cgroup *c, uint64_t bytes)
{
	int fd = c->v1[CG_MEMORY], r;

	if (fd < 0)
		return sandbox_cgroup_limit_memory_v2(c, bytes);
	r = sandbox_cgroup_write_u64(fd, "memory.limit_in_bytes", bytes);
	if (r >= 0) {
		/* absent without swap accounting; raising needs memsw first */
		int s = sandbox_cgroup_write_u64(fd, "memory.memsw.limit_in_bytes", bytes);

		if (s < 0 && s != -ENOENT)
			r = s;
	} else if (sandbox_cgroup_write_u64(fd, "memory.memsw.limit_in_bytes", bytes) >= 0) {
		r = sandbox_cgroup_write_u64(fd, "memory.limit_in_bytes", bytes);
	}
	return r;
}

int sandbox_cgroup_allow_swap(const struct cgroup *c)
{
	uint64_t limit = 0;
	int r = c->v1[CG_MEMORY] >= 0 ? 0 : sandbox_cgroup_read_limit(c, &limit);

	if (r < 0 || c->v1[CG_MEMORY] >= 0)
		return r;
	r = sandbox_cgroup_write_u64(c->v2, "memory.swap.max", limit);
	return r == -ENOENT ? 0 : r; /* without swap accounting */
}

int sandbox_cgroup_settle_swap(const struct cgroup *c)
{
	uint64_t limit = 0, in_swap = 0;
	struct memory_split s;
	int r = c->v1[CG_MEMORY] >= 0 ? 0 : sandbox_cgroup_read_limit(c, &limit);

	if (r < 0 || c->v1[CG_MEMORY] >= 0)
		return r;
	r = cgroup_read_swap(c->v2, &in_swap);
	s = memory_split_limit(limit, in_swap);
	return r < 0 ? r : sandbox_cgroup_write_split(c, &s);
}

static int sandbox_cgroup_limit_cpu(const struct cgroup *c, uint32_t milli)
{
	uint64_t quota = (uint64_t)milli * CPU_PERIOD_US / 1000;
	char text[48];

	if (quota < 1000)
		quota = 1000; /* the kernel's minimum */
	if (c->v1[CG_CPU] >= 0)
		return sandbox_cgroup_write_u64(c->v1[CG_CPU], "cpu.cfs_quota_us", quota);
	if (snprintf(text, sizeof(text), "%llu %u", (unsigned long long)quota, CPU_PERIOD_US) >=
	    (int)sizeof(text))
		return -EINVAL;
	return sandbox_cgroup_write_file(c->v2, "cpu.max", text);
}

/* Memory comes last: after an earlier failure it is not raised, so that memory used meanwhile
 * cannot prevent a rollback. */
int sandbox_cgroup_set_limits(const struct cgroup *c, const struct cgroup_limits *limits,
			      struct cay_err *err)
{
	int r = limits->cpu_milli ? sandbox_cgroup_limit_cpu(c, limits->cpu_milli) : 0;

	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "limit cpu");
	if (limits->pids)
		r = sandbox_cgroup_write_u64(c->v1[CG_PIDS] >= 0 ? c->v1[CG_PIDS] : c->v2,
					     "pids.max", limits->pids);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "limit pids");
	if (limits->memory_bytes)
		r = sandbox_cgroup_limit_memory(c, limits->memory_bytes);
	if (r == -EBUSY)
		return cay_fail(err, CAY_E_STATE, "the sandbox uses more memory than that");
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "limit memory") : 0;
}

int sandbox_cgroup_join_v1(const struct cgroup *c, struct cay_err *err)
{
	for (int i = 0; i < CG_NUM; i++) {
		int r = c->v1[i] < 0 ? 0 : sandbox_cgroup_write_file(c->v1[i], "cgroup.procs", "0");

		if (r < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, -r, "join the %s cgroup",
					    cgroup_controllers[i]);
	}
	return 0;
}

int sandbox_cgroup_freeze(const struct cgroup *c, bool frozen, struct cay_err *err)
{
	int r = sandbox_cgroup_write_file(c->v2, "cgroup.freeze", frozen ? "1" : "0");

	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "freeze or thaw") : 0;
}

static int sandbox_cgroup_file_has(int fd, const char *what)
{
	char text[256];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n < 0)
		return -errno;
	text[n] = 0;
	return strstr(text, what) != NULL;
}

int sandbox_cgroup_is_populated(const struct cgroup *c)
{
	auto_close int fd = path_open(c->v2, "cgroup.events", O_RDONLY, 0);

	return fd < 0 ? fd : sandbox_cgroup_file_has(fd, "populated 1");
}

bool sandbox_cgroup_is_frozen(const struct cgroup *c)
{
	/* the requested state; processes stop a moment later */
	auto_close int fd = path_open(c->v2, "cgroup.freeze", O_RDONLY, 0);

	return fd >= 0 && sandbox_cgroup_file_has(fd, "1") > 0;
}

/* Wait until its events lack this text. */
static int sandbox_cgroup_wait_without(int events, const char *text, int timeout_ms)
{
	uint64_t end = clk_boot_ns(&clk_system) + (uint64_t)timeout_ms * NS_PER_MS;

	for (;;) {
		struct pollfd p = { .fd = events, .events = POLLPRI };
		int r = sandbox_cgroup_file_has(events, text);
		uint64_t now = clk_boot_ns(&clk_system);

		if (r <= 0)
			return r;
		if (now >= end)
			return -ETIMEDOUT;
		/* an event may come between the read and the poll, so poll briefly */
		(void)poll(&p, 1, (int)((end - now) / NS_PER_MS < 100 ? 10 : 100));
	}
}

int sandbox_cgroup_wait_frozen(const struct cgroup *c, int timeout_ms, struct cay_err *err)
{
	auto_close int events = path_open(c->v2, "cgroup.events", O_RDONLY, 0);
	int r = events < 0 ? events : sandbox_cgroup_wait_without(events, "frozen 0", timeout_ms);

	if (r == -ETIMEDOUT)
		return cay_fail(err, CAY_E_TIMEOUT, "a process still ran %d ms after the freeze",
				timeout_ms);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "wait for a freeze") : 0;
}

int sandbox_cgroup_kill(const struct cgroup *c, int timeout_ms, struct cay_err *err)
{
	auto_close int events = path_open(c->v2, "cgroup.events", O_RDONLY, 0);
	int r = events < 0 ? events : sandbox_cgroup_write_file(c->v2, "cgroup.kill", "1");

	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "kill a cgroup");
	r = sandbox_cgroup_wait_without(events, "populated 1", timeout_ms);
	if (r == -ETIMEDOUT)
		return cay_fail(err, CAY_E_TIMEOUT, "processes still exist %d ms after SIGKILL",
				timeout_ms);
	return r;
}

/* The file is as long as the sandbox likes, so only its beginning is read. */
unsigned sandbox_cgroup_list_pids(const struct cgroup *c, pid_t *ret, unsigned max)
{
	auto_close int fd = path_open(c->v2, "cgroup.procs", O_RDONLY, 0);
	char text[256];
	ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof(text));
	struct slice rest = { text, len > 0 ? (size_t)len : 0 };
	unsigned n = 0;

	while (n < max && memchr(rest.p, '\n', rest.n)) { /* the last line may be cut */
		uint64_t pid;

		if (str_parse_u64(slice_cut(&rest, '\n'), 1, INT32_MAX, &pid) == 0)
			ret[n++] = (pid_t)pid;
	}
	return n;
}

uint32_t sandbox_cgroup_count_processes(const struct cgroup *c, pid_t *ret_first)
{
	auto_buf current = BUF_INIT(SMALL_FILE);
	int pids = c->v1[CG_PIDS] >= 0 ? c->v1[CG_PIDS] : c->v2;
	uint64_t n = 0;

	if (path_read(pids, "pids.current", &current) == 0 && current.len)
		(void)str_parse_u64((struct slice){ current.data, current.len - 1 }, 0, UINT32_MAX,
				    &n);
	if (!sandbox_cgroup_list_pids(c, ret_first, 1))
		*ret_first = 0;
	return (uint32_t)n;
}

/* Remove the cgroups below, then itself.  Their names are the sandbox's choice; their depth is
 * bounded by DEPTH. */
static int sandbox_cgroup_remove_tree(int parent, const char *name, unsigned depth)
{
	auto_close int fd = path_open(parent, name, O_RDONLY | O_DIRECTORY, 0);
	DIR *d;
	const struct dirent *e;
	int copy;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	d = copy < 0 ? NULL : fdopendir(copy);
	if (!d) {
		cay_closep(&copy);
		return -errno;
	}
	while (depth && (e = readdir(d))) /* NOLINT(concurrency-mt-unsafe) */
		if (e->d_type == DT_DIR && strcmp(e->d_name, ".") != 0 &&
		    strcmp(e->d_name, "..") != 0)
			(void)sandbox_cgroup_remove_tree(fd, e->d_name, depth - 1);
	(void)closedir(d);
	if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}

#define REMOVE_TRIES 200
#define REMOVE_DEPTH 16

/* The last process was killed, but disappears a moment later. */
static int sandbox_cgroup_remove_retry(int dir, const char *name)
{
	int r = -EBUSY;

	for (int i = 0; i < REMOVE_TRIES && r == -EBUSY; i++) {
		r = sandbox_cgroup_remove_tree(dir, name, REMOVE_DEPTH);
		if (r == -EBUSY)
			(void)poll(NULL, 0, i < 20 ? 1 : 10);
	}
	return r;
}

static int sandbox_cgroup_remove_pair(int top, const char *tenant, const char *sandbox)
{
	auto_close int fd = path_open(top, tenant, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	return sandbox_cgroup_remove_retry(fd, sandbox);
}

int sandbox_cgroup_remove(const struct cgroups *all, const struct id *tenant,
			  const struct id *sandbox, struct cay_err *err)
{
	char tn[ID_TEXT_LEN + 1], sb[ID_TEXT_LEN + 1];
	int r = 0;

	id_format(tenant, tn);
	id_format(sandbox, sb);
	for (int i = 0; r >= 0 && i < CG_NUM; i++)
		if (all->top.v1[i] >= 0)
			r = sandbox_cgroup_remove_pair(all->top.v1[i], tn, sb);
	if (r >= 0)
		r = sandbox_cgroup_remove_pair(all->top.v2, tn, sb);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "remove the cgroups of %s", sb) : 0;
}

#define RENEW_MS 10000

int keeper_cgroup_recreate(const struct cgroups *all, const char *name, struct cgroup *c,
			   struct cay_err *err)
{
	int r = 0;

	cgroup_fini(c);
	*c = CGROUP_INIT;
	c->v2 = path_open(all->top.v2, name, O_RDONLY | O_DIRECTORY, 0);
	if (c->v2 >= 0) {
		r = sandbox_cgroup_kill(c, RENEW_MS, err);
		if (r >= 0)
			r = sandbox_cgroup_remove_retry(all->top.v2, name);
		cay_closep(&c->v2);
	}
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "remove the cgroup '%s'", name);
	c->v2 = sandbox_cgroup_make_dir(all->top.v2, name);
	if (c->v2 < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -c->v2, "create the cgroup '%s'", name);
	return 0;
}

int keeper_cgroup_join(const struct cgroup *c)
{
	return sandbox_cgroup_write_file(c->v2, "cgroup.procs", "0");
}

void keeper_cgroup_remove(const struct cgroups *all, const char *name)
{
	(void)sandbox_cgroup_remove_retry(all->top.v2, name);
}
