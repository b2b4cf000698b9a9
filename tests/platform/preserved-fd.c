/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preserved-fd - PID 1's socket and cgroup are inherited fds, not paths
 *
 * Leans on it: the way from the edge to cay-init (docs/architecture.md, "PID 1's socket is
 * an inherited fd").  The keeper binds a listening unix socket in a directory
 * only the host sees and passes it as fd 3.  No directory is shared with the
 * sandbox, so nothing inside can plant a link or another socket where the host
 * will dial, and no uid inside can dial PID 1.  The sandbox's cgroup comes as
 * fd 4: of a detached clone, cgroup-kill.c says why.
 *
 * Checked, for crun and for runc, with a user namespace: `run --preserve-fds=2`
 * hands the listening socket through; PID 1 of the container accepts on it and
 * answers a client of the host; the path does not exist inside; through fd 4 a
 * cgroup can be made and ".." leads nowhere; a further fd which the runtime had
 * does not come along.  Both runtimes pass an ordinary directory fd on as well,
 * and ".." from it leads out: what is passed is the keeper's responsibility.
 *
 * If it failed: the socket would have to lie in a tiny tmpfs shared with the
 * sandbox, dialled with O_NOFOLLOW and S_ISSOCK checks, as runsc needs anyway.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "oci.h"

#define REPLY_MAX 256
#define REPLY_TIMEOUT_MS 10000

static struct sockaddr_un address(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	NEED(strlen(path) < sizeof(un.sun_path), "a short socket path");
	memcpy(un.sun_path, path, strlen(path) + 1);
	return un;
}

static int listen_at(const char *path)
{
	struct sockaddr_un un = address(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	NEED(fd >= 0 && bind(fd, (struct sockaddr *)&un, sizeof(un)) == 0 && listen(fd, 8) == 0,
	     "listen at %s", path);
	return fd;
}

/* The reply's length; 0 when nothing came in time. */
static size_t ask(const char *path, char ret[static REPLY_MAX])
{
	struct sockaddr_un un = address(path);
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	ssize_t n = 0;

	NEED(fd >= 0 && connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0, "connect");
	NEED(write(fd, "hello", 5) == 5, "ask");
	if (poll(&pfd, 1, REPLY_TIMEOUT_MS) == 1)
		n = read(fd, ret, REPLY_MAX - 1);
	ret[n > 0 ? n : 0] = 0;
	return n > 0 ? (size_t)n : 0;
}

static int cgroup_for_sandbox(const char *name)
{
	auto_free char *path = platform_format("%s/box-%s", OCI_CGROUP, name);
	int fd;

	platform_mkdir(AT_FDCWD, path, 0755);
	NEED(chown(path, LIVE_A, LIVE_A) == 0, "chown %s", path);
	fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	NEED(fd >= 0, "clone %s", path);
	return fd;
}

static void try_runtime(const struct plat *p, const struct oci_runtime *rt)
{
	auto_free char *path = platform_format("%s/%s.sock", p->work, rt->name);
	const char *const args[] = { "/guest", "serve", path, NULL };
	auto_close int listener = listen_at(path);
	auto_close int cgroup = cgroup_for_sandbox(rt->name);
	const int fds[] = { listener, cgroup, p->work_fd };
	unsigned pid = 0, uid = 1, map = 0, more_fds = 1, closed = 0;
	auto_child c = CHILD_INIT;
	char reply[REPLY_MAX];
	int stat_errno = 0, mkdir_errno = -1;

	oci_bundle(p, rt->name, &(struct oci){ .args = args, .live = LIVE_A, .dev_tmpfs = true });
	oci_start(p,
		  &(struct oci_call){ .rt = rt,
				      .bundle = rt->name,
				      .fds = fds,
				      .n_fds = ARRAY_SIZE(fds),
				      .n_keep = 2 },
		  STDERR_FILENO, &c);
	CHECK(ask(path, reply) > 0, "%s: PID 1 accepts on fd 3 and answers", rt->name);
	NEED(sscanf(reply, "pid %u uid %u map %u more-fds %u stat %d mkdir %d closed %u", &pid,
		    &uid, &map, &more_fds, &stat_errno, &mkdir_errno, &closed) == 7,
	     "%s: the whole answer", rt->name);
	CHECK(pid == 1 && uid == 0 && map == LIVE_A,
	      "%s: it is PID 1, root of a user namespace at %u", rt->name, map);
	CHECK(stat_errno == ENOENT, "%s: the socket's path does not exist inside", rt->name);
	CHECK(mkdir_errno == 0 && faccessat(cgroup, "exec-1/cgroup.procs", F_OK, 0) == 0,
	      "%s: PID 1 made a cgroup through fd 4 (errno %d)", rt->name, mkdir_errno);
	CHECK(closed == 1, "%s: \"..\" from fd 4 leads nowhere", rt->name);
	CHECK(more_fds == 0, "%s: a third fd the runtime had did not come along", rt->name);
	CHECK(platform_reap(&c) == 0, "%s: exit status 0", rt->name);
}

static void body(const struct plat *p)
{
	for (size_t i = 0; i < OCI_NUM_RUNTIMES; i++)
		platform_require((const char *const[]){ oci_runtimes[i].name, NULL });
	oci_show_cgroup(p);
	for (size_t i = 0; i < OCI_NUM_RUNTIMES; i++)
		try_runtime(p, &oci_runtimes[i]);
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
