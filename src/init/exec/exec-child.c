/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/exec-child.h"

#include <assert.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/path.h"
#include "init/core/init-cgroup.h"
#include "init/core/users.h"
#include "init/exec/script-args.h"

#define ENV_MAX 1024
#define ENV_BYTES MIB(2)
#define PASS_MAX 4

const int child_ignored[CHILD_IGNORED_N] = { SIGPIPE, SIGHUP, SIGINT, SIGQUIT, SIGTERM };

static constexpr uint32_t KEPT = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL;

static int exec_child_set_caps(bool all)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	data[0].effective = data[0].permitted & (all ? UINT32_MAX : KEPT);
	data[1].effective = all ? data[1].permitted : 0;
	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

int init_caps_lower(void)
{
	return exec_child_set_caps(/* all= */ false);
}

pid_t exec_child_fork(int *cgroup)
{
	struct clone_args args = { .flags = CLONE_INTO_CGROUP,
				   .exit_signal = SIGCHLD,
				   .cgroup = (unsigned)*cgroup };
	pid_t pid = *cgroup < 0 ? -1 : (pid_t)syscall((long)SYS_clone3, &args, sizeof(args));

	if (pid >= 0)
		*cgroup = -EBADF;
	return pid >= 0 ? pid : fork();
}

[[noreturn]] static void exec_child_exit_failed(const struct exec_child_plan *plan,
						const struct cay_err *err)
{
	struct exec_child_report report = { .code = err->code, .errnum = err->errnum };
	size_t n = strnlen(err->field, sizeof(report.field) - 1);

	if (plan->on_fail) {
		plan->on_fail(plan->arg, plan->report_fd, err);
		_exit(127);
	}
	memcpy(report.field, err->field, n);
	memcpy(report.msg, err->msg, sizeof(report.msg));
	(void)fd_write_all(plan->report_fd, &report, sizeof(report));
	_exit(127);
}

static void exec_child_require(const struct exec_child_plan *plan, int r, const char *what)
{
	struct cay_err err = {};

	if (r >= 0)
		return;
	(void)cay_fail_sys(&err, CAY_E_INTERNAL, -r, "%s", what);
	exec_child_exit_failed(plan, &err);
}

int image_file_read(const char *path, struct buf *ret)
{
	auto_close int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	for (;;) {
		ssize_t n;
		int r = buf_reserve(ret, KIB(4));

		if (r < 0)
			return r;
		n = read(fd, ret->data + ret->len, KIB(4));
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		ret->len += (size_t)n;
	}
}

static struct slice exec_child_read_image_file(const char *path, struct buf *b,
					       const struct exec_child_plan *plan)
{
	struct cay_err err = {};
	int r = image_file_read(path, b);

	/* without these files an image has only numeric users */
	if (r == -ENOENT || r == -ENOTDIR)
		return (struct slice){};
	if (r < 0) {
		(void)cay_fail_field(&err, CAY_E_INVALID, "user", "cannot read %s: %s", path,
				     strerror(-r));
		exec_child_exit_failed(plan, &err);
	}
	return (struct slice){ b->data, b->len };
}

static void exec_child_become_user(const struct exec_child_plan *plan, const struct user *u)
{
	struct cay_err err = {};

	if (setgroups(u->n_groups, u->groups) < 0 || setresgid(u->gid, u->gid, u->gid) < 0 ||
	    setresuid(u->uid, u->uid, u->uid) < 0) {
		(void)cay_fail_field(&err, CAY_E_INVALID, "user", "cannot become uid %u gid %u: %s",
				     u->uid, u->gid, strerror(errno));
		exec_child_exit_failed(plan, &err);
	}
	/* root gets all that PID 1 is permitted; other users have just lost it */
	if (u->uid == 0)
		exec_child_require(plan, exec_child_set_caps(/* all= */ true),
				   "raise capabilities");
}

struct child_env {
	char *v[ENV_MAX + 1];
	size_t n, bytes;
	bool lost; /* out of room */
};

static bool child_env_has(const struct child_env *e, const char *key)
{
	size_t n = strlen(key);

	for (size_t i = 0; i < e->n; i++)
		if (strncmp(e->v[i], key, n) == 0 && e->v[i][n] == '=')
			return true;
	return false;
}

/* The first value of a key wins. */
static void child_env_add(struct child_env *e, const char *key, struct slice value)
{
	size_t n = strlen(key);
	char *text;

	if (child_env_has(e, key))
		return;
	text = e->n < ENV_MAX && e->bytes + n + value.n <= ENV_BYTES ? malloc(n + value.n + 2)
								     : NULL;
	if (!text) {
		e->lost = true;
		return;
	}
	memcpy(text, key, n);
	text[n] = '=';
	memcpy(text + n + 1, value.p, value.n);
	text[n + 1 + value.n] = 0;
	e->v[e->n++] = text;
	e->bytes += n + value.n;
}

static void child_env_fill(struct child_env *e, const struct exec_child_plan *plan,
			   const struct user *u)
{
	for (size_t k = ARRAY_SIZE(plan->env); k-- > 0;) {
		for (size_t i = 0; plan->env[k] && i < plan->env[k]->n; i++)
			child_env_add(e, plan->env[k]->keys[i], slice_of(plan->env[k]->values[i]));
		/* TERM of the sandbox's environment is for programs without a terminal */
		if (plan->term_name)
			child_env_add(e, "TERM", slice_of(plan->term_name));
	}
	child_env_add(e, "HOME", u->home);
	if (u->name.n) {
		child_env_add(e, "USER", u->name);
		child_env_add(e, "LOGNAME", u->name);
	}
	child_env_add(e, "PATH",
		      SLICE("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
}

/* Programs open the terminal by name, so the user owns it. */
static void exec_child_chown_terminal(const struct exec_child_plan *plan, const struct user *u)
{
	if (!plan->term_name || u->uid == 0)
		return;
	exec_child_require(plan, exec_child_set_caps(/* all= */ true), "raise capabilities");
	exec_child_require(plan, fchown(STDIN_FILENO, u->uid, (gid_t)-1) < 0 ? -errno : 0,
			   "chown the terminal");
}

static void exec_child_reset_signals(void)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (size_t i = 0; i < CHILD_IGNORED_N; i++)
		(void)sigaction(child_ignored[i], &sa, NULL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The kernel kills children of PID 1 before PID 1 when memory runs out. */
static void exec_child_raise_oom_score(void)
{
	auto_close int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)fd_write_all(fd, "1000", 4);
}

/* "0" or "0-7" */
static unsigned online_cpus_count(void)
{
	auto_close int fd = open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
	char text[32];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	struct slice rest = { text, n > 0 ? (size_t)n - 1 : 0 }, from;
	uint64_t last = 0;

	if (n <= 0)
		return CPU_SETSIZE;
	from = slice_cut(&rest, '-');
	if (str_parse_u64(rest.p ? rest : from, 0, CPU_SETSIZE - 1, &last) < 0)
		return CPU_SETSIZE;
	return (unsigned)last + 1;
}

/* As many CPUs as /sys/devices/system/cpu/online says, from the current one on, so that
 * programs that count them see the limit.  The quota holds whatever a program sets. */
static void child_limit_cpus(void)
{
	cpu_set_t may, keep;
	unsigned n = online_cpus_count();
	int here = sched_getcpu();

	if (here < 0 || sched_getaffinity(0, sizeof(may), &may) < 0 ||
	    n >= (unsigned)CPU_COUNT(&may))
		return;
	CPU_ZERO(&keep);
	for (size_t i = 0; i < CPU_SETSIZE && n; i++) {
		size_t cpu = ((size_t)here + i) % CPU_SETSIZE;

		if (!CPU_ISSET(cpu, &may))
			continue;
		CPU_SET(cpu, &keep);
		n--;
	}
	(void)sched_setaffinity(0, sizeof(keep), &keep);
}

/* Closed, not only close-on-exec: the requested cwd and program may be paths such as
 * /proc/self/fd/4, which must not reach PID 1's cgroup or socket. */
static void exec_child_close_fds(struct exec_child_plan *plan)
{
	int fd = fcntl(plan->report_fd, F_DUPFD_CLOEXEC, 3), passed[PASS_MAX];

	assert(plan->n_pass <= PASS_MAX);
	/* first out of the range they are moved to */
	for (size_t i = 0; i < plan->n_pass; i++) {
		passed[i] = fcntl(plan->pass_fds[i], F_DUPFD_CLOEXEC, CHILD_PASS + PASS_MAX);
		exec_child_require(plan, passed[i] < 0 ? -errno : 0, "duplicate a descriptor");
	}
	exec_child_require(plan, fd < 0 ? -errno : 0, "duplicate the report pipe");
	plan->report_fd = fd;
	if (fd > 3) {
		exec_child_require(plan, dup3(fd, 3, O_CLOEXEC) < 0 ? -errno : 0,
				   "duplicate the report pipe");
		plan->report_fd = 3;
	}
	for (size_t i = 0; i < plan->n_pass; i++)
		exec_child_require(plan,
				   dup3(passed[i], CHILD_PASS + (int)i,
					plan->programs_get_them ? 0 : O_CLOEXEC) < 0
					   ? -errno
					   : 0,
				   "duplicate a descriptor");
	exec_child_require(
		plan, syscall(SYS_close_range, CHILD_PASS + plan->n_pass, ~0u, 0) < 0 ? -errno : 0,
		"close other descriptors");
}

/* The controlling terminal, for ctrl-c and job control. */
static void exec_child_set_ctty(const struct exec_child_plan *plan)
{
	if (plan->term_name)
		exec_child_require(plan, ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0 ? -errno : 0,
				   "set the controlling terminal");
}

static void exec_child_setup(struct exec_child_plan *plan)
{
	exec_child_reset_signals();
	exec_child_require(plan, setsid() < 0 ? -errno : 0, "new session");
	if (plan->cgroup >= 0)
		exec_child_require(plan, init_cgroup_join(plan->cgroup), "join the cgroup");
	exec_child_raise_oom_score();
	child_limit_cpus();
	for (int i = 0; i < 3; i++)
		exec_child_require(plan, dup2(plan->stdio[i], i) < 0 ? -errno : 0,
				   "standard streams");
	exec_child_set_ctty(plan);
	exec_child_close_fds(plan);
	(void)umask(022);
	(void)setrlimit(RLIMIT_NOFILE, plan->nofile);
}

/* Only PID 1 may use clone3: a child that starts in its cgroup need not move there, which
 * costs an RCU grace period after a quiet time.  A filter cannot see clone3's flags, so clone3
 * does not exist for children; C libraries then use clone, whose flags the sandbox's filter
 * checks. */
static int exec_child_block_clone3(void)
{
	static const struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { ARRAY_SIZE(rules), (struct sock_filter *)(uintptr_t)rules };

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}

int helper_child_setup(int cgroup)
{
	int r = cgroup < 0 ? 0 : init_cgroup_join(cgroup);

	(void)signal(SIGCHLD, SIG_DFL);
	exec_child_raise_oom_score();
	return r < 0 ? r : exec_child_block_clone3();
}

void exec_child_run(const struct exec_child_plan *given)
{
	struct exec_child_plan copy = *given, *plan = &copy;
	static struct child_env env; /* static: too large for the stack */
	static struct user user;
	struct buf passwd = BUF_INIT(USERS_FILE_MAX), group = BUF_INIT(USERS_FILE_MAX);
	struct cay_err err = {};
	struct slice pw, gr;

	exec_child_setup(plan);
	pw = exec_child_read_image_file("/etc/passwd", &passwd, plan);
	gr = exec_child_read_image_file("/etc/group", &group, plan);
	if (user_find(slice_of(plan->user), pw, gr, &user, &err) < 0)
		exec_child_exit_failed(plan, &err);
	exec_child_chown_terminal(plan, &user);
	exec_child_become_user(plan, &user);
	if (chdir(plan->cwd) < 0) {
		(void)cay_fail_field(&err, CAY_E_INVALID, "cwd", "cannot start in '%s': %s",
				     plan->cwd, strerror(errno));
		exec_child_exit_failed(plan, &err);
	}
	child_env_fill(&env, plan, &user);
	environ = env.v;
	exec_child_require(plan, env.lost ? -E2BIG : 0, "environment");
	exec_child_require(plan, exec_child_block_clone3(), "close clone3");
	if (plan->child_main) {
		/* like exec: the loop's handler is PID 1's */
		(void)signal(SIGCHLD, SIG_DFL);
		(void)close(plan->report_fd);
		_exit(plan->child_main(plan->arg));
	}
	plan->argv = script_args_split(plan->argv);
	exec_child_require(plan, plan->argv ? 0 : -ENOMEM, "arguments");
	(void)execvp(plan->argv[0], (char *const *)(uintptr_t)plan->argv);
	(void)cay_fail_field(&err, CAY_E_INVALID, "argv", "cannot execute '%s': %s", plan->argv[0],
			     strerror(errno));
	exec_child_exit_failed(plan, &err);
}
