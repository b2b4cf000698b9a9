/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd-template-build - build a Dockerfile with buildah into an image and a template
 *
 * buildah runs isolated from the user's settings: storage in a temporary directory, no
 * environment but proxy variables, no credentials but --authfile.  As root it runs in its
 * own mount, process and IPC namespaces; without root it creates them itself.  With a policy it
 * runs in the namespaces of a sandbox (build-network.h), on copies of the files it reads.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "base/spawn.h"
#include "cli/admin/build-network.h"
#include "cli/admin/build-root.h"
#include "cli/setup/run-program.h"

#define WORDS_MAX 600
#define TAG "localhost/cay-build"
#define CONF "containers.conf"
#define COPY_MS UINT64_C(600000)
#define FD_USER_NS 3 /* of buildah's first program */
#define FD_NET_NS 4

struct template_build_args {
	struct sandbox_create_args make; /* first, for create_request_init() */
	const char *file, *authfile;
	struct field_map args;
	struct field_texts build_egress;
};

static const struct opt rows[] = {
	{ "file", 'f', OPT_TEXT, offsetof(struct template_build_args, file),
	  .operand = OPERAND_FILE, .arg = "PATH",
	  .help = "The Dockerfile; by default Dockerfile in CONTEXT" },
	{ "build-arg", 0, OPT_PAIRS, offsetof(struct template_build_args, args), .arg = "KEY=VALUE",
	  .help = "Build argument; may be repeated" },
	{ "authfile", 0, OPT_TEXT, offsetof(struct template_build_args, authfile),
	  .operand = OPERAND_FILE, .arg = "PATH",
	  .help = "Registry credentials, as 'buildah login' writes them" },
	{ "build-egress", 0, OPT_TEXTS, offsetof(struct template_build_args, build_egress),
	  .arg = "PRESET|NAME[:PORTS]",
	  .help = "Where the build may connect to, and nowhere else; needs root; may be repeated" },
};

static const char *const proxies[] = { "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
				       "http_proxy", "https_proxy", "no_proxy" };

/* Arguments of a command, or its environment. */
struct buildah_args {
	struct arena *arena;
	const char *v[WORDS_MAX + 1];
	size_t n;
	bool full;
};

__attribute__((format(printf, 2, 3))) static void buildah_args_append(struct buildah_args *w,
								      const char *fmt, ...)
{
	auto_buf text = BUF_INIT(KIB(64));
	const char *word = NULL;
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = buf_vprintf(&text, fmt, ap);
	va_end(ap);
	if (w->n < WORDS_MAX && r >= 0)
		word = arena_strndup(w->arena, buf_str(&text), text.len);
	w->full |= !word;
	if (word)
		w->v[w->n++] = word;
}

static void buildah_args_append_all(struct buildah_args *w, const char *const *words)
{
	for (; *words; words++)
		buildah_args_append(w, "%s", *words);
}

struct buildah_workdir {
	const char *buildah, *unshare, *setpriv; /* the last two: NULL if not root */
	const char *nsenter;                     /* with a network only */
	struct build_network network;
	const char *authfile; /* with a network only; NULL: none */
	char top[48];         /* "": there is none */
	char dir[64];         /* below it: buildah's own */
	char home[64]; /* below it: of a program that no program of the build must configure */
};

/* In a root of its own and the namespaces of the sandbox. */
static void buildah_args_append_network(const struct buildah_workdir *s, struct buildah_args *w)
{
	static const char *const apart[] = { "--mount",
					     "--propagation=private",
					     "--pid",
					     "--fork",
					     "--kill-child",
					     "--",
					     "/bin/sh",
					     "-c",
					     NULL };

	buildah_args_append(w, "%s", s->unshare);
	buildah_args_append_all(w, apart);
	buildah_args_append_all(w, (const char *const[]){ build_root_script, "sh", s->top,
							  s->authfile ? s->authfile : "", NULL });
	buildah_args_append(w, "%u", s->network.root);
	buildah_args_append(w, "%s/context", s->dir);
	buildah_args_append(w, "%s", s->nsenter);
	buildah_args_append(w, "--user=/proc/self/fd/%d", FD_USER_NS);
	buildah_args_append(w, "--net=/proc/self/fd/%d", FD_NET_NS);
	buildah_args_append(w, "--");
}

/* The arguments before the subcommand. */
static void buildah_args_begin(const struct buildah_workdir *s, struct buildah_args *w)
{
	static const char *const apart[] = {
		"--mount", "--propagation=private", "--pid", "--mount-proc", "--ipc", "--uts",
		"--fork",  "--kill-child",          NULL
	};

	/* should this program be killed */
	if (s->setpriv) {
		buildah_args_append(w, "%s", s->setpriv);
		buildah_args_append_all(w, (const char *const[]){ "--pdeathsig=KILL", "--", NULL });
	}
	if (s->network.open)
		buildah_args_append_network(s, w);
	if (s->unshare) {
		buildah_args_append(w, "%s", s->unshare);
		buildah_args_append_all(w, apart);
	}
	buildah_args_append(w, "%s", s->buildah);
	buildah_args_append(w, "--storage-driver=vfs");
	buildah_args_append(w, "--root=%s/root", s->dir);
	buildah_args_append(w, "--runroot=%s/run", s->dir);
}

static void buildah_env_fill(const struct buildah_workdir *s, struct buildah_args *env)
{
	buildah_args_append(env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin");
	buildah_args_append(env, "HOME=%s", s->home);
	buildah_args_append(env, "TMPDIR=%s", s->home);
	buildah_args_append(env, "XDG_RUNTIME_DIR=%s", s->home);
	buildah_args_append(env, "LANG=C.UTF-8");
	buildah_args_append(env, "CONTAINERS_CONF=%s/" CONF, s->top);
	for (size_t i = 0; i < ARRAY_SIZE(proxies); i++) {
		const char *value = getenv(proxies[i]); /* NOLINT(concurrency-mt-unsafe) */

		if (value)
			buildah_args_append(env, "%s=%s", proxies[i], value);
	}
}

/* Its session, and with it the namespaces. */
static void buildah_kill(const struct child *child)
{
	pid_t pid = pidfd_getpid(child->pidfd);

	if (pid > 0)
		(void)kill(-pid, SIGKILL);
	(void)child_kill(child, SIGKILL);
}

/* Until it ends, or a signal comes. */
static int buildah_wait(struct cli *c, const struct buildah_workdir *s, struct child *child,
			int *ret_status, struct cay_err *err)
{
	struct interrupt *intr = &c->api.intr;
	struct pollfd p[2] = { { .fd = child->pidfd, .events = POLLIN },
			       { .fd = intr->fd, .events = POLLIN } };
	siginfo_t si;
	int r;

	while (!intr->signo && (poll(p, ARRAY_SIZE(p), -1) <= 0 || !p[0].revents))
		interrupt_read_signals(intr);
	if (intr->signo)
		buildah_kill(child);
	r = child_wait(child, ret_status);
	/* the first process of the namespaces is ours now, and ends after all the others */
	while (intr->signo && s->unshare && (waitid(P_ALL, 0, &si, WEXITED) == 0 || errno == EINTR))
		;
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "wait for buildah");
	return intr->signo ? cay_fail(err, CAY_E_UNAVAILABLE, "interrupted") : 0;
}

/* Its output goes to standard error.  A session of its own has no terminal: programs of the build
 * could type into the shell that started this one. */
static int buildah_run_command(struct cli *c, const struct buildah_workdir *s,
			       struct buildah_args *w, const char *what, struct cay_err *err)
{
	struct buildah_args env = { .arena = w->arena };
	struct spawn spawn = SPAWN_INIT(w->v[0], w->v);
	auto_child child = CHILD_INIT;
	int status, r;

	buildah_env_fill(s, &env);
	if (w->full || env.full)
		return cay_fail(err, CAY_E_NO_MEMORY, "too many arguments for buildah");
	w->v[w->n] = env.v[env.n] = NULL;
	spawn.env = env.v;
	spawn.session = true;
	spawn.fds[0] = -1;
	spawn.fds[1] = spawn.fds[2] = STDERR_FILENO;
	spawn.n_fds = 3;
	if (s->network.open) {
		spawn.fds[FD_USER_NS] = s->network.user_ns;
		spawn.fds[FD_NET_NS] = s->network.net_ns;
		spawn.n_fds = FD_NET_NS + 1;
	}
	r = child_start(&spawn, &child, err);
	if (r < 0)
		return r;
	r = buildah_wait(c, s, &child, &status, err);
	if (r < 0)
		return r;
	if (status)
		return cay_fail(err, CAY_E_BUILD, "buildah failed to %s: %s %d", what,
				status < 0 ? "signal" : "status", status < 0 ? -status : status);
	return 0;
}

/* Without these buildah raises its limits above ours, and fails. */
static void buildah_args_append_ulimits(struct buildah_args *w)
{
	static const struct {
		const char *name;
		int which;
	} limits[] = { { "nofile", RLIMIT_NOFILE }, { "nproc", RLIMIT_NPROC } };

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit l;

		if (getrlimit((__rlimit_resource_t)limits[i].which, &l) == 0 &&
		    l.rlim_max != RLIM_INFINITY)
			buildah_args_append(w, "--ulimit=%s=%llu:%llu", limits[i].name,
					    (unsigned long long)l.rlim_cur,
					    (unsigned long long)l.rlim_max);
	}
}

/* What buildah reads. */
struct buildah_input {
	const char *context, *file, *authfile; /* all but the first may be NULL */
};

static int buildah_build_image(struct cli *c, const struct buildah_workdir *s,
			       const struct template_build_args *a, const struct buildah_input *in,
			       struct cay_err *err)
{
	static const char *const words[] = { "build",
					     "--isolation=chroot",
					     "--network=host",
					     "--format=oci",
					     "--layers=false",
					     "--tag",
					     TAG,
					     NULL };
	struct buildah_args w = { .arena = &c->arena };

	buildah_args_begin(s, &w);
	buildah_args_append_all(&w, words);
	buildah_args_append_ulimits(&w);
	if (in->file)
		buildah_args_append(&w, "--file=%s", in->file);
	if (in->authfile)
		buildah_args_append(&w, "--authfile=%s", in->authfile);
	for (size_t i = 0; i < ARRAY_SIZE(proxies); i++)
		if (getenv(proxies[i])) /* NOLINT(concurrency-mt-unsafe); its value is in the env */
			buildah_args_append(&w, "--build-arg=%s", proxies[i]);
	for (size_t i = 0; i < a->args.n; i++)
		buildah_args_append(&w, "--build-arg=%s=%s", a->args.keys[i], a->args.values[i]);
	buildah_args_append(&w, "--");
	buildah_args_append(&w, "%s", in->context);
	return buildah_run_command(c, s, &w, "build the image", err);
}

static int buildah_push_archive(struct cli *c, const struct buildah_workdir *s, const char *archive,
				struct cay_err *err)
{
	static const char *const words[] = { "push", "--quiet", "--format=oci", TAG, NULL };
	struct buildah_args w = { .arena = &c->arena };

	buildah_args_begin(s, &w);
	buildah_args_append_all(&w, words);
	buildah_args_append(&w, "oci-archive:%s", archive);
	return buildah_run_command(c, s, &w, "write the image", err);
}

/* buildah requires a network helper even with --network=host: /bin/true stands in for it. */
static int buildah_workdir_write_config(const struct buildah_workdir *s, struct cay_err *err)
{
	auto_close int dir = open(s->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_buf text = BUF_INIT(256);
	int r = buf_printf(&text, "[engine]\nhelper_binaries_dir = [\"%s\"]\n", s->top);

	if (r >= 0 && dir >= 0)
		r = path_write_atomic(dir, CONF, text.data, text.len, 0644);
	if (dir < 0 || r < 0 || symlinkat("/bin/true", dir, "netavark") < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, r < 0 ? -r : errno,
				    "write settings for buildah");
	return 0;
}

static int buildah_find_programs(struct cli *c, const struct template_build_args *a,
				 struct buildah_workdir *s, struct cay_err *err)
{
	const char *const names[] = { "buildah", "unshare", "setpriv", "nsenter" };
	const char **const at[] = { &s->buildah, &s->unshare, &s->setpriv, &s->nsenter };
	const size_t n = a->build_egress.n ? 4 : geteuid() == 0 ? 3 : 1;

	for (size_t i = 0; i < n; i++)
		*at[i] = run_program_find_path(&c->arena, names[i]);
	if (!s->buildah)
		return cay_fail(err, CAY_E_UNSUPPORTED,
				"buildah is not installed; install it, or build elsewhere and use "
				"'cay image import'");
	for (size_t i = 1; i < n; i++)
		if (!*at[i])
			return cay_fail(err, CAY_E_UNSUPPORTED, "%s (util-linux) is not installed",
					names[i]);
	return 0;
}

/* Only `dir` is buildah's: what a program of the build leaves in it is not read by path. */
static int buildah_workdir_open(struct cli *c, const struct template_build_args *a,
				struct buildah_workdir *s, struct cay_err *err)
{
	static const char template[] = "/var/tmp/cay-build-XXXXXX", below[] = "/buildah";
	int r = buildah_find_programs(c, a, s, err);

	if (r < 0)
		return r;
	memcpy(s->top, template, sizeof(template));
	if (!mkdtemp(s->top)) {
		s->top[0] = 0;
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a directory in /var/tmp");
	}
	static_assert(sizeof(template) + sizeof(below) <= sizeof(s->dir));
	memcpy(s->dir, s->top, sizeof(template));
	memcpy(s->dir + sizeof(template) - 1, below, sizeof(below));
	memcpy(s->home, s->dir, sizeof(s->home));
	if (chmod(s->top, 0711) < 0 || mkdir(s->dir, 0700) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create '%s'", s->dir);
	return buildah_workdir_write_config(s, err);
}

/* Without root, some files belong to subordinate ids: only buildah can remove them. */
static void buildah_workdir_remove(struct cli *c, const struct buildah_workdir *s)
{
	struct buildah_args w = { .arena = &c->arena };
	auto_close int top = -EBADF;

	if (!s->top[0])
		return;
	if (!s->unshare) {
		buildah_args_begin(s, &w);
		buildah_args_append_all(&w,
					(const char *const[]){ "rmi", "--all", "--force", NULL });
		(void)buildah_run_command(c, s, &w, "clean up", NULL);
	}
	top = open("/var/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0 || rmtree_at(top, s->top + sizeof("/var/tmp")) < 0)
		(void)fprintf(stderr, "cay: cannot remove %s\n", s->top);
}

static int program_run(struct cli *c, const char *const *argv, struct cay_err *err)
{
	auto_buf said = BUF_INIT(KIB(4));
	int r = run_program_to_end(&c->arena, argv, NULL, COPY_MS, &said, err);

	return r <= 0 ? r
		      : cay_fail(err, CAY_E_BUILD, "%s failed: %.*s", argv[0],
				 (int)slice_trim((struct slice){ buf_str(&said), said.len }).n,
				 buf_str(&said));
}

/* The name of a copy in the directory of buildah; NULL if there is no such file.  Links of a
 * directory stay links. */
static int buildah_copy(struct cli *c, const struct buildah_workdir *s, const char *from,
			const char *rest, const char *name, const char **ret, struct cay_err *err)
{
	struct buildah_args w = { .arena = &c->arena };

	if (!from || access(from, F_OK) < 0) {
		*ret = from; /* buildah reports the error */
		return 0;
	}
	buildah_args_append_all(&w,
				(const char *const[]){ "cp", rest[0] ? "-a" : "-L", "--", NULL });
	buildah_args_append(&w, "%s%s", from, rest);
	buildah_args_append(&w, "%s/%s", s->dir, name);
	if (w.full)
		return cay_no_memory(err);
	w.v[w.n] = NULL;
	*ret = w.v[w.n - 1];
	return program_run(c, w.v, err);
}

/* root copies devices too, and those of a disk would belong to the build. */
static int buildah_context_check(struct cli *c, const char *copy, struct cay_err *err)
{
	const char *const argv[] = { "find", copy, "!",     "-type", "f",      "!",     "-type",
				     "d",    "!",  "-type", "l",     "-print", "-quit", NULL };
	auto_buf found = BUF_INIT(KIB(8));
	int r = run_program_to_end(&c->arena, argv, NULL, COPY_MS, &found, err);

	if (r < 0)
		return r;
	return !r && !found.len
		       ? 0
		       : cay_fail(err, CAY_E_INVALID,
				  "the context has a device, a FIFO or a socket, which no build "
				  "gets: 'find CONTEXT ! -type f ! -type d ! -type l' prints it");
}

/* In a sandbox's namespaces buildah may read and write nothing else of this machine. */
static int buildah_input_copy(struct cli *c, struct buildah_workdir *s, struct buildah_input *in,
			      struct cay_err *err)
{
	struct buildah_args w = { .arena = &c->arena };
	int r = buildah_copy(c, s, in->context, "/.", "context", &in->context, err);

	if (r >= 0)
		r = buildah_context_check(c, in->context, err);
	if (r >= 0)
		r = buildah_copy(c, s, in->file, "", "Dockerfile", &in->file, err);
	s->authfile = in->authfile; /* it is copied into memory */
	if (in->authfile)
		in->authfile = BUILD_ROOT_AUTHFILE;
	buildah_args_append_all(&w, (const char *const[]){ "chown", "-hR", "--", NULL });
	buildah_args_append(&w, "%u:%u", s->network.root, s->network.root);
	buildah_args_append(&w, "%s", s->dir);
	if (r >= 0 && w.full)
		r = cay_no_memory(err);
	w.v[w.n] = NULL;
	return r < 0 ? r : program_run(c, w.v, err);
}

static int buildah_network_open(struct cli *c, const struct template_build_args *a,
				struct buildah_workdir *s, struct buildah_input *in,
				struct cay_err *err)
{
	struct egress_spec policy;
	int r = egress_words_apply(c, &a->build_egress, &policy, err);

	if (r >= 0)
		r = build_network_open(c, &policy, s->top, &s->network, err);
	return r < 0 ? r : buildah_input_copy(c, s, in, err);
}

static int buildah_mkdir(const struct buildah_workdir *s, const char *path, struct cay_err *err)
{
	if (mkdir(path, 0700) < 0 ||
	    (s->network.open && chown(path, s->network.root, s->network.root) < 0))
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create '%s'", path);
	return 0;
}

/* Whatever wrote it: a file, and one of the build's. */
static int buildah_open_archive(const struct buildah_workdir *s, const char *path,
				struct cay_err *err)
{
	uid_t owner = s->network.open ? s->network.root : geteuid();
	auto_close int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cay_fail_sys(err, CAY_E_BUILD, errno, "open '%s'", path);
	if (!S_ISREG(st.st_mode) || st.st_uid != owner)
		return cay_fail(err, CAY_E_BUILD, "buildah did not write '%s'", path);
	return cay_take_fd(&fd);
}

/* It is written by a program with a home, and into a directory, that no program of the build has
 * seen.  Returns the fd of the archive. */
static int buildah_make_archive(struct cli *c, struct buildah_workdir *s, struct cay_err *err)
{
	struct buildah_args w = { .arena = &c->arena };
	int n = snprintf(s->home, sizeof(s->home), "%s/push", s->top), r;

	buildah_args_append(&w, "%s/archive", s->top);
	buildah_args_append(&w, "%s/archive/image.tar", s->top);
	if (w.full || n < 0 || (size_t)n >= sizeof(s->home))
		return cay_no_memory(err);
	r = buildah_mkdir(s, s->home, err);
	if (r >= 0)
		r = buildah_mkdir(s, w.v[0], err);
	if (r >= 0)
		r = buildah_push_archive(c, s, w.v[1], err);
	return r < 0 ? r : buildah_open_archive(s, w.v[1], err);
}

static int cmd_template_build_and_send(struct cli *c, struct buildah_workdir *s,
				       const struct template_build_args *a,
				       const struct opt_words *w, struct template_info *ret,
				       struct cay_err *err)
{
	struct buildah_input in = { w->operands[0], a->file, a->authfile };
	auto_close int archive = -EBADF;
	const char *name = w->operands[1];
	struct image_info image = {};
	char path[32];
	int r = a->build_egress.n ? buildah_network_open(c, a, s, &in, err) : 0;

	if (r < 0)
		return r;
	r = buildah_build_image(c, s, a, &in, err);
	if (r < 0 && s->network.open)
		build_network_print_denied(c, &s->network);
	if (r >= 0)
		r = archive = buildah_make_archive(c, s, err);
	if (r >= 0 && snprintf(path, sizeof(path), "/proc/self/fd/%d", archive) < 0)
		r = cay_no_memory(err);
	if (r >= 0)
		r = image_import_send(c, path, name, &image, err);
	return r < 0 ? r : template_create_send(c, NULL, name, name, &a->make, w, ret, err);
}

static int cmd_template_build_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct template_build_args *a = c->args;
	struct template_info made = {};
	struct buildah_workdir s = { .network = BUILD_NETWORK_INIT };
	int r = interrupt_open(&c->api.intr, err);

	/* what an interrupted build leaves running is waited for */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (r >= 0)
		r = buildah_workdir_open(c, a, &s, err);
	if (r >= 0)
		r = cmd_template_build_and_send(c, &s, a, w, &made, err);
	/* cleaning up is not interrupted */
	c->api.intr.signo = 0;
	c->api.intr.quit = false;
	build_network_close(c, &s.network);
	buildah_workdir_remove(c, &s);
	return r < 0 ? r : reply_print(c, OP_TEMPLATE_CREATE, &made, "id", err);
}

const struct cmd cmd_template_build = {
	CMD_USAGE("template build", "[OPTION...] CONTEXT NAME [-- COMMAND...]"),
	CMD_OPERANDS(2, 2, OPERAND_FILE),
	.rest = REST_OPTIONAL,
	CMD_OPTIONS(template_build_args, OPTS(rows, 0),
		    OPTS(opts_create, offsetof(struct template_build_args, make))),
	.init_args = create_request_init,
	.help = "Build a Dockerfile into an image and a template",
	.more = "CONTEXT is the directory that COPY and ADD read. The image and the template are "
		"called NAME. buildah runs on this machine with temporary storage. HTTP_PROXY, "
		"HTTPS_PROXY and NO_PROXY are passed on, also as build arguments; set mirrors with "
		"--build-arg. With --build-egress the build is in a sandbox's namespaces: it "
		"connects where that policy and the bounds of the node and the tenant let it. It "
		"sees no process of this machine, and of its files those of CONTEXT, the "
		"Dockerfile, --authfile and the programs in /usr.",
	.run = cmd_template_build_run,
};
