/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a child that was taken over can do: one probe each, in a confined child
 * of its own, which ends with 0 when it could not.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "unit.h"
#include "unpack/unpack-confine.h"

#define FILE_MAX KIB(64)
#define KEPT_FD 5 /* 3 and 4 are the parent's and the tree's, closed by then */

struct probe {
	const char *name;
	int (*run)(int kept); /* inside */
	int want;             /* exit status, or -signal */
	int kept, tree;
};

struct fixture {
	char base[64];
	int fd;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || snprintf(f->base, sizeof(f->base), "/tmp/cay-confine-XXXXXX") < 0 ||
	    !mkdtemp(f->base))
		return -1;
	f->fd = open(f->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fchmod(f->fd, 0755) < 0 || mkdirat(f->fd, "rootfs", 0755) < 0 ||
	    fchownat(f->fd, "rootfs", FOREIGN_BASE, FOREIGN_BASE, 0) < 0)
		return -1;
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	int r = rmtree_contents(f->fd);

	(void)close(f->fd);
	r |= rmdir(f->base);
	free(f);
	return r;
}

static int run_probe(void *arg, int parent)
{
	struct probe *p = arg;
	struct confine c = {
		.tree_fd = p->tree,
		.keep = { &p->kept },
		.n_keep = 1,
		.file_max = FILE_MAX,
	};
	struct cay_err err = {};

	if (confine_self(&c, parent, &err) < 0)
		return 100;
	return p->run(p->kept);
}

/* Files of the host are not there, by whatever name. */
static int host_files(int)
{
	static const char *const names[] = {
		"/etc/passwd",
		"../../../../etc/passwd",
		"/proc/self/status",
		"/dev/null",
		"/tmp",
		"rootfs/../../etc",
		"/sys",
		"/proc/1/root",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (openat(AT_FDCWD, names[i], O_RDONLY) >= 0 || errno != ENOENT)
			return 1 + (int)i;
	return 0;
}

/* Only below rootfs may it make anything. */
static int beside_rootfs(int)
{
	if (mkdirat(AT_FDCWD, "/x", 0755) == 0 || errno != EACCES)
		return 1;
	if (openat(AT_FDCWD, "/x", O_WRONLY | O_CREAT, 0600) >= 0 || errno != EACCES)
		return 2;
	if (unlinkat(AT_FDCWD, "/rootfs", AT_REMOVEDIR) == 0 || errno != EACCES)
		return 3;
	return 0;
}

static int file_inside(int)
{
	int fd = openat(AT_FDCWD, "/rootfs/f", O_WRONLY | O_CREAT | O_EXCL, 0600);

	if (fd < 0 || fchown(fd, 65535, 65535) < 0 || fchmod(fd, 04755) < 0)
		return 1;
	return fchown(fd, 65536, 0) == 0 || errno != EINVAL;
}

static int only_kept_fds(int kept)
{
	for (int fd = 0; fd < 1024; fd++)
		if ((fcntl(fd, F_GETFL) >= 0) != (fd <= 2 || fd == kept))
			return 1 + fd % 100;
	return kept == KEPT_FD ? 0 : 120;
}

static int few_fds(int)
{
	for (int i = 0; i < 100; i++)
		if (openat(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY) < 0)
			return errno == EMFILE && i > 10 ? 0 : 1;
	return 2;
}

static int large_files(int)
{
	int fd = openat(AT_FDCWD, "/rootfs/large", O_WRONLY | O_CREAT | O_EXCL, 0600);

	if (pwrite(fd, "x", 1, FILE_MAX - 1) != 1)
		return 1;
	return ftruncate(fd, FILE_MAX + 1) == 0 || errno != EFBIG;
}

static int much_memory(int)
{
	return mmap(NULL, MIB(600), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

static int executable_memory(int)
{
	(void)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return 1;
}

static int make_executable(int)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)mprotect(p, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	return 1;
}

static int seal(int kept)
{
	(void)fcntl(kept, F_ADD_SEALS, F_SEAL_SEAL);
	return 1;
}

#define CALL(name, ...) \
	static int call_##name(int) \
	{ \
		(void)syscall(SYS_##name, __VA_ARGS__); \
		return 1; \
	}
CALL(socket, AF_INET, SOCK_STREAM, 0)
CALL(socketpair, AF_UNIX, SOCK_STREAM, 0, NULL)
CALL(execve, "/rootfs/x", NULL, NULL)
CALL(execveat, 0, "", NULL, NULL, AT_EMPTY_PATH)
CALL(clone, SIGCHLD, 0, 0, 0, 0)
CALL(clone3, NULL, 0)
CALL(unshare, CLONE_NEWUSER)
CALL(setns, 0, 0)
CALL(mount, "x", "/rootfs", "tmpfs", 0, NULL)
CALL(umount2, "/rootfs", 0)
CALL(chroot, "/rootfs")
CALL(pivot_root, ".", ".")
CALL(ptrace, PTRACE_TRACEME, 0, 0, 0)
CALL(kill, 1, 0)
CALL(mknodat, AT_FDCWD, "/rootfs/n", S_IFCHR, 0)
CALL(setxattr, "/rootfs", "user.x", "", 0, 0)
CALL(fsetxattr, 0, "user.x", "", 0, 0)
CALL(setresuid, 1, 1, 1)
CALL(capset, NULL, NULL)
CALL(ioctl, 0, 0, 0)
CALL(bpf, 0, NULL, 0)
CALL(io_uring_setup, 1, NULL)
CALL(memfd_create, "x", 0)
CALL(open_by_handle_at, 0, NULL, 0)
CALL(keyctl, 0, 0, 0, 0, 0)
CALL(userfaultfd, 0)
CALL(perf_event_open, NULL, 0, 0, 0, 0)

static struct probe probes[] = {
	{ "host files", host_files, 0 },
	{ "beside rootfs", beside_rootfs, 0 },
	{ "file inside", file_inside, 0 },
	{ "only kept fds", only_kept_fds, 0 },
	{ "few fds", few_fds, 0 },
	{ "large files", large_files, 0 },
#if !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
	{ "much memory", much_memory, 0 },
#endif
	{ "executable memory", executable_memory, -SIGSYS },
	{ "make executable", make_executable, -SIGSYS },
	{ "seal", seal, -SIGSYS },
#define ROW(name) { #name, call_##name, -SIGSYS }
	ROW(socket),
	ROW(socketpair),
	ROW(execve),
	ROW(execveat),
	ROW(clone),
	ROW(clone3),
	ROW(unshare),
	ROW(setns),
	ROW(mount),
	ROW(umount2),
	ROW(chroot),
	ROW(pivot_root),
	ROW(ptrace),
	ROW(kill),
	ROW(mknodat),
	ROW(setxattr),
	ROW(fsetxattr),
	ROW(setresuid),
	ROW(capset),
	ROW(ioctl),
	ROW(bpf),
	ROW(io_uring_setup),
	ROW(memfd_create),
	ROW(open_by_handle_at),
	ROW(keyctl),
	ROW(userfaultfd),
	ROW(perf_event_open),
};

static void nothing_else_is_left(void **state)
{
	struct fixture *f = *state;

	(void)much_memory; /* sanitizers need terabytes themselves */
	for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
		auto_close int tree = confine_clone_tree(f->fd), kept = -EBADF;
		auto_confined c = CONFINED_INIT;
		struct cay_err err = {};
		int status = -1;

		kept = memfd_create("kept", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		probes[i].kept = kept;
		probes[i].tree = tree;
		assert_true(tree >= 0);
		assert_int_equal(confine_start_child(run_probe, &probes[i], &c, &err), 0);
		assert_int_equal(child_wait(&c.child, &status), 0);
		if (status != probes[i].want)
			fail_msg("%s: %d", probes[i].name, status);
	}
}

static void files_belong_to_the_foreign_range(void **state)
{
	struct fixture *f = *state;
	auto_close int tree = confine_clone_tree(f->fd), kept = dup(f->fd);
	struct probe p = { "file", file_inside, 0, kept, tree };
	auto_confined c = CONFINED_INIT;
	struct stat st;
	int status = -1;

	assert_int_equal(confine_start_child(run_probe, &p, &c, NULL), 0);
	assert_int_equal(child_wait(&c.child, &status), 0);
	assert_int_equal(status, 0);
	assert_int_equal(fstatat(f->fd, "rootfs/f", &st, 0), 0);
	assert_int_equal(st.st_uid, FOREIGN_BASE + 65535);
	assert_int_equal(st.st_gid, FOREIGN_BASE + 65535);
	assert_int_equal(st.st_mode & 07777, 04755);
}

static int for_ever(int kept)
{
	while (write(kept, "x", 1) == 1 || errno == EAGAIN)
		;
	return 1;
}

/* path_read() wants a file system's file; these say that they are empty. */
static int read_proc(const char *path, struct buf *ret)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 1;

	while (n > 0) {
		char some[4096];

		n = read(fd, some, sizeof(some));
		if (n > 0 && buf_append(ret, some, (size_t)n) < 0)
			return -ENOBUFS;
	}
	return n < 0 ? -errno : 0;
}

/* What is in the pipe, and then its end; a writer that lives fills it for ever. */
static bool ends(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char some[4096];

	for (int i = 0; i < 100; i++)
		if (poll(&p, 1, 10000) != 1)
			return false;
		else if (read(fd, some, sizeof(some)) == 0)
			return true;
	return false;
}

/* kept is the writing end of a pipe: at its end nobody is left who holds it. */
static void it_dies_with_its_parent(void **state)
{
	struct fixture *f = *state;
	int pipes[2], status;
	pid_t pid;
	char c;

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(fcntl(pipes[1], F_SETFL, O_NONBLOCK), 0);
	pid = fork();
	if (pid == 0) {
		struct probe p = { "for ever", for_ever, 0, pipes[1], confine_clone_tree(f->fd) };
		struct confined child;

		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
		    confine_start_child(run_probe, &p, &child, NULL) < 0)
			_exit(1);
		(void)close(pipes[1]);
		(void)poll(NULL, 0, -1);
	}
	(void)close(pipes[1]);
	assert_int_equal(read(pipes[0], &c, 1), 1); /* it runs */
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(ends(pipes[0]));
	(void)close(pipes[0]);
}

static pid_t pid_of(const struct child *c)
{
	auto_buf b = BUF_INIT(4096);
	char path[64];
	uint64_t pid;
	struct slice text;

	assert_true(snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", c->pidfd) > 0);
	assert_int_equal(read_proc(path, &b), 0);
	text = slice_of(strstr(b.data, "\nPid:\t") + 6);
	assert_int_equal(str_parse_u64(slice_cut(&text, '\n'), 1, 1 << 30, &pid), 0);
	return (pid_t)pid;
}

/* As the kernel sees it, from outside. */
static void rights_are_gone(void **state)
{
	static const char *const status[] = {
		"CapInh:\t0000000000000000\n",
		"CapPrm:\t000000000000001b\n",
		"CapEff:\t000000000000001b\n",
		"CapBnd:\t000000000000001b\n",
		"CapAmb:\t0000000000000000\n",
		"NoNewPrivs:\t1\n",
		"Seccomp:\t2\n",
		"Uid:\t2147352576\t2147352576\t2147352576\t2147352576\n",
		"Groups:\t \n",
	};
	static const char *const namespaces[] = { "user", "mnt", "pid",   "net",
						  "ipc",  "uts", "cgroup" };
	struct fixture *f = *state;
	auto_close int tree = confine_clone_tree(f->fd);
	auto_confined child = CONFINED_INIT;
	auto_buf text = BUF_INIT(KIB(64)), mounts = BUF_INIT(KIB(64));
	char path[64], c;
	struct probe p;
	int pipes[2];

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(fcntl(pipes[1], F_SETFL, O_NONBLOCK), 0);
	p = (struct probe){ "for ever", for_ever, 0, pipes[1], tree };
	assert_int_equal(confine_start_child(run_probe, &p, &child, NULL), 0);
	(void)close(pipes[1]);
	assert_int_equal(read(pipes[0], &c, 1), 1);
	assert_true(snprintf(path, sizeof(path), "/proc/%d/status", pid_of(&child.child)) > 0);
	assert_int_equal(read_proc(path, &text), 0);
	for (size_t i = 0; i < ARRAY_SIZE(status); i++)
		if (!strstr(text.data, status[i]))
			fail_msg("not %sin\n%s", status[i], text.data);
	assert_true(snprintf(path, sizeof(path), "/proc/%d/mountinfo", pid_of(&child.child)) > 0);
	assert_int_equal(read_proc(path, &mounts), 0);
	assert_ptr_equal(strchr(mounts.data, '\n'), mounts.data + mounts.len - 1); /* one line */
	assert_non_null(strstr(mounts.data, "nosuid,nodev,noexec"));
	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
		struct stat ours, its;

		assert_true(snprintf(path, sizeof(path), "/proc/self/ns/%s", namespaces[i]) > 0);
		assert_int_equal(stat(path, &ours), 0);
		assert_true(snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid_of(&child.child),
				     namespaces[i]) > 0);
		assert_int_equal(stat(path, &its), 0);
		row_check(i, ours.st_ino != its.st_ino);
	}
	(void)close(pipes[0]);
}

/* Before it had its ids, too. */
static void letting_go_kills_it(void **state)
{
	struct fixture *f = *state;
	int pipes[2];
	char c;

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(fcntl(pipes[1], F_SETFL, O_NONBLOCK), 0);
	{
		auto_close int tree = confine_clone_tree(f->fd);
		struct probe p = { "for ever", for_ever, 0, pipes[1], tree };
		auto_confined child = CONFINED_INIT;

		assert_int_equal(confine_start_child(run_probe, &p, &child, NULL), 0);
		(void)close(pipes[1]);
		assert_int_equal(read(pipes[0], &c, 1), 1);
	}
	assert_true(ends(pipes[0]));
	(void)close(pipes[0]);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(nothing_else_is_left), T(files_belong_to_the_foreign_range),
		T(rights_are_gone),      T(it_dies_with_its_parent),
		T(letting_go_kills_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
