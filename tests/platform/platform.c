/* SPDX-License-Identifier: Apache-2.0 */
#include "platform.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/loop.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/path.h"

/* Below meson's 60 s, so that it is the frame which ends a program that hangs
 * and not meson, which would leave a cgroup behind. */
#define TIME_LIMIT_MS 50000
#define GUEST_LIMIT_MS (8 * TIME_LIMIT_MS) /* a processor that is emulated (dev/guest) */
#define DIE_STATUS 125
#define CGROUP_ROOT_MAX 256

static struct {
	unsigned n, failed;
} tap;

__attribute__((format(printf, 2, 0))) static void tap_line(bool ok, const char *fmt, va_list ap)
{
	printf("%s %u - ", ok ? "ok" : "not ok", ++tap.n);
	vprintf(fmt, ap);
	putchar('\n');
	if (!ok)
		tap.failed++;
}

bool platform_check(bool cond, const char *file, int line, const char *fmt, ...)
{
	int errnum = errno;
	va_list ap;

	va_start(ap, fmt);
	tap_line(cond, fmt, ap);
	va_end(ap);
	if (!cond)
		printf("#   at %s:%d, errno was \"%s\"\n", file, line, strerror(errnum));
	fflush(stdout);
	return cond;
}

void platform_give_up(const char *file, int line, const char *fmt, ...)
{
	int errnum = errno;
	va_list ap;

	va_start(ap, fmt);
	tap_line(false, fmt, ap);
	va_end(ap);
	printf("#   at %s:%d, errno was \"%s\", cannot go on\n", file, line, strerror(errnum));
	printf("1..%u\n", tap.n);
	fflush(stdout);
	_exit(1);
}

void platform_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("# ", stdout);
	vprintf(fmt, ap);
	putchar('\n');
	va_end(ap);
	fflush(stdout);
}

void platform_skip(const char *fmt, ...)
{
	const char *must = getenv("CAY_MUST_WORK");
	bool fail = must && strcmp(must, "1") == 0;
	va_list ap;

	va_start(ap, fmt);
	fputs(fail ? "Bail out! CAY_MUST_WORK=1, but " : "1..0 # SKIP ", stdout);
	vprintf(fmt, ap);
	putchar('\n');
	va_end(ap);
	fflush(stdout);
	_exit(fail);
}

void platform_die(const char *fmt, ...)
{
	int errnum = errno;
	va_list ap;

	va_start(ap, fmt);
	fputs("# child: ", stderr);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, ": %s\n", strerror(errnum));
	fflush(stderr);
	_exit(DIE_STATUS);
}

uint64_t platform_now_ns(void)
{
	return clk_boot_ns(&clk_system);
}

bool platform_wait(bool (*cond)(void *arg), void *arg, unsigned timeout_ms)
{
	uint64_t end = platform_now_ns() + timeout_ms * NS_PER_MS;

	for (;;) {
		bool late = platform_now_ns() >= end;

		if (cond(arg))
			return true;
		if (late)
			return false;
		(void)poll(NULL, 0, 1);
	}
}

pid_t platform_fork(struct child *ret)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	NEED(pid >= 0, "fork");
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		return 0;
	}
	ret->pidfd = pidfd_open(pid, 0);
	NEED(ret->pidfd >= 0, "pidfd of a child");
	return pid;
}

int platform_reap(struct child *c)
{
	int status = 0, r = child_wait(c, &status);

	errno = -r;
	NEED(r >= 0, "wait for a child");
	return status;
}

int platform_in_child(int (*fn)(void *arg), void *arg)
{
	auto_child c = CHILD_INIT;

	if (platform_fork(&c) == 0)
		_exit(fn(arg));
	return platform_reap(&c);
}

char *platform_format(const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	NEED(n >= 0, "memory");
	return text;
}

static char *tool_path(const char *name)
{
	static const char *const dirs[] = { "/usr/sbin", "/usr/bin", "/sbin", "/bin" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		auto_free char *path = platform_format("%s/%s", dirs[i], name);

		if (access(path, X_OK) == 0)
			return cay_take(path);
	}
	return NULL;
}

void platform_require(const char *const *tools)
{
	for (; *tools; tools++) {
		auto_free char *path = tool_path(*tools);

		if (!path)
			platform_skip("%s is not installed", *tools);
	}
}

void platform_start(const char *const *argv, int out_fd, const int *fds, unsigned n_fds,
		    struct child *ret)
{
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
					   NULL };
	auto_free char *path = tool_path(argv[0]);
	struct spawn s = { .path = path ? path : argv[0],
			   .argv = argv,
			   .env = env,
			   .fds = { -EBADF, out_fd, out_fd },
			   .n_fds = 3 + n_fds,
			   .cgroup_fd = -EBADF };
	struct cay_err err = {};

	NEED(s.n_fds <= ARRAY_SIZE(s.fds), "fds to pass on");
	for (unsigned i = 0; i < n_fds; i++)
		s.fds[3 + i] = fds[i];
	NEED(child_start(&s, ret, &err) >= 0, "start %s: %s", argv[0], err.msg);
}

void platform_slurp(int fd, struct buf *ret)
{
	for (off_t at = 0;;) {
		char chunk[4096];
		ssize_t n = pread(fd, chunk, sizeof(chunk), at);

		NEED(n >= 0, "read back output");
		if (n == 0 || buf_append(ret, chunk, (size_t)n) < 0)
			return;
		at += n;
	}
}

int platform_run(const char *const *argv, struct buf *out)
{
	auto_close int fd = memfd_create("out", MFD_CLOEXEC);
	auto_buf own = BUF_INIT(KIB(64));
	auto_child c = CHILD_INIT;
	int status;

	NEED(fd >= 0, "memfd");
	platform_start(argv, fd, NULL, 0, &c);
	status = platform_reap(&c);
	platform_slurp(fd, out ? out : &own);
	if (!out && own.len)
		platform_note("%s: %.*s", argv[0], (int)strcspn(buf_str(&own), "\n"),
			      buf_str(&own));
	return status;
}

void platform_write(int dirfd, const char *path, const char *text)
{
	auto_close int fd = openat(dirfd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	NEED(fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0, "write %s", path);
}

void platform_mkdir(int dirfd, const char *path, mode_t mode)
{
	NEED(mkdirat(dirfd, path, mode) == 0 && fchmodat(dirfd, path, mode, 0) == 0, "mkdir %s",
	     path);
}

int platform_put(int dirfd, const char *path, const char *text)
{
	auto_close int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

bool platform_get(int dirfd, const char *path, struct buf *ret)
{
	auto_close int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	do {
		if (buf_reserve(ret, 512) < 0)
			return false;
		n = read(fd, ret->data + ret->len, 512);
		if (n > 0)
			ret->len += (size_t)n;
	} while (n > 0);
	if (ret->data)
		ret->data[ret->len] = 0;
	return n == 0;
}

unsigned platform_count_lines(const char *path)
{
	FILE *f = fopen(path, "re");
	unsigned lines = 0;

	NEED(f, "open %s", path);
	for (int c; (c = getc(f)) != EOF;)
		lines += c == '\n';
	(void)fclose(f);
	return lines;
}

int platform_userns(uint32_t inside, uint32_t live)
{
	auto_free char *map = platform_format("%u %u %u\n", inside, live, LIVE_IDS);
	auto_child c = CHILD_INIT;
	int made[2], fd;
	char byte;
	pid_t pid;

	NEED(pipe2(made, O_CLOEXEC) == 0, "pipe");
	pid = platform_fork(&c);
	if (pid == 0) {
		if (unshare(CLONE_NEWUSER) < 0 || write(made[1], "u", 1) != 1)
			platform_die("user namespace");
		(void)pause();
		_exit(0);
	}
	(void)close(made[1]);
	NEED(read(made[0], &byte, 1) == 1, "a user namespace");
	(void)close(made[0]);
	for (int i = 0; i < 3; i++) {
		static const char *const what[] = { "uid_map", "gid_map", "ns/user" };
		auto_free char *path = platform_format("/proc/%d/%s", pid, what[i]);

		fd = open(path, (i < 2 ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
		NEED(fd >= 0, "open %s", path);
		if (i == 2)
			break;
		NEED(fd_write_all(fd, map, strlen(map)) == 0, "write %s", path);
		(void)close(fd);
	}
	return fd;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

struct cgroup_name {
	int parent;
	const char *name;
};

static void cgroup_remove_below(int fd, unsigned depth)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy >= 0 ? fdopendir(copy) : NULL;

	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));) {
		auto_close int sub = -EBADF;

		if (e->d_type != DT_DIR || e->d_name[0] == '.' || depth == 8)
			continue;
		sub = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (sub >= 0)
			cgroup_remove_below(sub, depth + 1);
		(void)unlinkat(fd, e->d_name, AT_REMOVEDIR);
	}
	(void)closedir(d);
}

static bool cgroup_removed(void *arg)
{
	const struct cgroup_name *c = arg;
	auto_close int fd = openat(c->parent, c->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT;
	(void)platform_put(fd, "cgroup.freeze", "0");
	(void)platform_put(fd, "cgroup.kill", "1");
	cgroup_remove_below(fd, 0);
	return unlinkat(c->parent, c->name, AT_REMOVEDIR) == 0;
}

/* The root of the v2 hierarchy, hybrid or pure, or negative. */
static int cgroup2_open(char ret_path[static CGROUP_ROOT_MAX])
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t cap = 0;
	int fd = -EBADF;

	/* mount id, parent, device, root, mount point, ... - type source options */
	while (f && fd < 0 && getline(&line, &cap, f) > 0)
		if (strstr(line, " - cgroup2 ") &&
		    sscanf(line, "%*d %*d %*s %*s %255s", ret_path) == 1)
			fd = open(ret_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(line);
	if (f)
		(void)fclose(f);
	return fd;
}

static void plat_init(struct plat *p, int cgroup2, const char *root)
{
	unsigned number = 0;

	/* two build roots have the same pids but share the cgroup tree */
	NEED(getrandom(&number, sizeof(number), 0) == (ssize_t)sizeof(number), "random");
	NEED((unsigned)snprintf(p->name, sizeof(p->name), "cay-test-%d-%08x", getpid(), number) <
		     sizeof(p->name),
	     "name");
	NEED((unsigned)snprintf(p->work, sizeof(p->work), "/var/tmp/%s", p->name) < sizeof(p->work),
	     "name");
	NEED((unsigned)snprintf(p->cgroup, sizeof(p->cgroup), "%s/%s", root, p->name) <
		     sizeof(p->cgroup),
	     "name");
	if (mkdirat(cgroup2, p->name, 0755) < 0)
		platform_skip("no cgroup can be made here: %s", strerror(errno));
	platform_mkdir(AT_FDCWD, p->work, 0755);
	p->work_fd = open(p->work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	NEED(p->work_fd >= 0, "open %s", p->work);
	p->cgroup_fd = openat(cgroup2, p->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	NEED(p->cgroup_fd >= 0, "open cgroup %s", p->name);
}

static void reopen(const char *path, int *fd)
{
	(void)close(*fd);
	*fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	NEED(*fd >= 0, "open %s", path);
}

static _Noreturn void run_body(struct plat *p, void (*body)(const struct plat *p))
{
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	NEED(platform_put(p->cgroup_fd, "cgroup.procs", "0") == 0, "enter our cgroup");
	NEED(unshare(CLONE_NEWNS) == 0, "unshare mounts");
	NEED(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "private mounts");
	NEED(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0,
	     "mount /proc");
	/* the fds are of the mount namespace just left, where nothing can be cloned */
	reopen(p->work, &p->work_fd);
	reopen(p->cgroup, &p->cgroup_fd);
	body(p);
	printf("1..%u\n", tap.n);
	fflush(stdout);
	exit(tap.failed ? 1 : 0); /* not _exit: the leak checker runs at exit */
}

/* Not unshare() and fork(): who unshared pids can fork no more once that PID 1
 * is gone, and the leak checker does. */
static pid_t fork_pid1(struct child *ret)
{
	struct clone_args args = { .flags = CLONE_NEWPID | CLONE_PIDFD,
				   .pidfd = (uintptr_t)&ret->pidfd,
				   .exit_signal = SIGCHLD };
	pid_t pid;

	fflush(stdout);
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	NEED(pid >= 0, "a pid namespace");
	return pid;
}

/* The body's exit status; anything but an orderly end is 1. */
static int watch_body(struct child *c, int signals)
{
	struct pollfd fds[] = { { .fd = c->pidfd, .events = POLLIN },
				{ .fd = signals, .events = POLLIN } };
	int n = poll(fds, ARRAY_SIZE(fds), getenv("CAY_GUEST") ? GUEST_LIMIT_MS : TIME_LIMIT_MS);
	int status = 1;

	if (n <= 0 || !fds[0].revents) {
		printf("Bail out! %s\n", n == 0 ? "time limit" : "interrupted");
		(void)child_kill(c, SIGKILL);
	}
	if (child_wait(c, &status) < 0 || status < 0) {
		if (n > 0 && fds[0].revents)
			printf("Bail out! died of signal %d\n", -status);
		return 1;
	}
	return status;
}

int platform_main(int argc, char **argv, void (*body)(const struct plat *p))
{
	struct plat p = { .guest = argc > 1 ? argv[1] : NULL };
	auto_close int cgroup2 = -EBADF, signals = -EBADF;
	char root[CGROUP_ROOT_MAX];
	auto_child c = CHILD_INIT;
	sigset_t stop;
	int status;

	(void)umask(022);
	if (geteuid() != 0)
		platform_skip("it needs root");
	cgroup2 = cgroup2_open(root);
	if (cgroup2 < 0)
		platform_skip("no cgroup v2 hierarchy is mounted");
	(void)sigemptyset(&stop);
	(void)sigaddset(&stop, SIGINT);
	(void)sigaddset(&stop, SIGTERM);
	(void)sigaddset(&stop, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &stop, NULL);
	signals = signalfd(-1, &stop, SFD_CLOEXEC);
	NEED(signals >= 0, "signalfd");
	plat_init(&p, cgroup2, root);
	if (fork_pid1(&c) == 0)
		run_body(&p, body);
	status = watch_body(&c, signals);

	if (!platform_wait(cgroup_removed, &(struct cgroup_name){ cgroup2, p.name }, 5000)) {
		printf("# left behind: cgroup %s: %s\n", p.name, strerror(errno));
		status = 1;
	}
	if (nftw(p.work, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) != 0) {
		printf("# left behind: %s: %s\n", p.work, strerror(errno));
		status = 1;
	}
	(void)close(p.work_fd);
	(void)close(p.cgroup_fd);
	return status;
}

int platform_loop(int backing, char **ret_path)
{
	auto_close int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	for (int tries = 0; control >= 0 && tries < 16; tries++) {
		struct loop_config config = { .fd = (unsigned)backing,
					      .info.lo_flags = LO_FLAGS_AUTOCLEAR };
		int number = ioctl(control, LOOP_CTL_GET_FREE);
		auto_free char *path = platform_format("/dev/loop%d", number);
		auto_close int fd = open(path, O_RDWR | O_CLOEXEC);

		NEED(number >= 0 && fd >= 0, "open %s", path);
		if (ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
			*ret_path = cay_take(path);
			return cay_take_fd(&fd);
		}
		NEED(errno == EBUSY, "attach %s", path);
	}
	return -EBUSY;
}
