/* SPDX-License-Identifier: Apache-2.0 */
#include "oci.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "base/jsonw.h"

const struct oci_runtime oci_runtimes[OCI_NUM_RUNTIMES] = {
	{ "crun", "--cgroup-manager=disabled" },
	{ "runc", NULL },
};

static void copy_guest(const struct plat *p, int rootfs)
{
	auto_close int from = -EBADF, to = -EBADF;
	struct stat st;

	NEED(p->guest, "the path of platform-guest as first argument");
	from = open(p->guest, O_RDONLY | O_CLOEXEC);
	NEED(from >= 0 && fstat(from, &st) == 0, "open %s", p->guest);
	to = openat(rootfs, "guest", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	NEED(to >= 0, "create guest");
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = sendfile(to, from, NULL, (size_t)left);

		NEED(n > 0, "copy guest");
		left -= n;
	}
}

static void write_map(struct jw *w, const char *key, uint32_t live)
{
	jw_array_begin(w, key);
	jw_object_begin(w, NULL);
	jw_u64(w, "containerID", 0);
	jw_u64(w, "hostID", live);
	jw_u64(w, "size", LIVE_IDS);
	jw_end(w);
	jw_end(w);
}

static void write_process(struct jw *w, const struct oci *o)
{
	static const char *const sets[] = { "bounding", "effective", "permitted", "inheritable" };

	jw_object_begin(w, "process");
	jw_array_begin(w, "args");
	for (const char *const *arg = o->args; *arg; arg++)
		jw_str(w, NULL, *arg);
	jw_end(w);
	jw_str(w, "cwd", "/");
	jw_object_begin(w, "user");
	jw_u64(w, "uid", 0);
	jw_u64(w, "gid", 0);
	jw_end(w);
	jw_object_begin(w, "capabilities");
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		jw_array_begin(w, sets[i]);
		jw_end(w);
	}
	jw_end(w);
	jw_bool(w, "noNewPrivileges", true);
	jw_end(w);
}

static void write_mount(struct jw *w, const char *at, const char *type, const char *option)
{
	jw_object_begin(w, NULL);
	jw_str(w, "destination", at);
	jw_str(w, "type", type);
	jw_str(w, "source", type);
	jw_array_begin(w, "options");
	jw_str(w, NULL, "nosuid");
	jw_str(w, NULL, option);
	jw_end(w);
	jw_end(w);
}

static void write_linux(struct jw *w, const struct oci *o)
{
	static const char *const spaces[] = { "user", "pid", "mount", "network",
					      "ipc",  "uts", "cgroup" };
	size_t first = o->live ? 0 : 1;

	jw_object_begin(w, "linux");
	if (o->live) {
		write_map(w, "uidMappings", o->live);
		write_map(w, "gidMappings", o->live);
	}
	jw_array_begin(w, "namespaces");
	for (size_t i = first; i < ARRAY_SIZE(spaces); i++) {
		jw_object_begin(w, NULL);
		jw_str(w, "type", spaces[i]);
		jw_end(w);
	}
	jw_end(w);
	jw_end(w);
}

static void write_config(int bundle, const struct oci *o)
{
	auto_buf text = BUF_INIT(KIB(64));
	struct jw w = jw_to(&text);

	jw_object_begin(&w, NULL);
	jw_str(&w, "ociVersion", "1.0.2");
	write_process(&w, o);
	jw_object_begin(&w, "root");
	jw_str(&w, "path", "rootfs");
	jw_end(&w);
	jw_array_begin(&w, "mounts");
	write_mount(&w, "/proc", "proc", "nodev");
	if (o->dev_tmpfs)
		write_mount(&w, "/dev", "tmpfs", "mode=755");
	jw_end(&w);
	write_linux(&w, o);
	jw_end(&w);
	NEED(jw_finish(&w) == 0, "write config.json");
	platform_write(bundle, "config.json", buf_str(&text));
}

void oci_bundle(const struct plat *p, const char *name, const struct oci *o)
{
	auto_close int bundle = -EBADF, rootfs = -EBADF;

	platform_mkdir(p->work_fd, name, 0755);
	bundle = openat(p->work_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	platform_mkdir(bundle, "rootfs", 0755);
	rootfs = openat(bundle, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	platform_mkdir(rootfs, "proc", 0755);
	if (o->dev_link)
		NEED(symlinkat(o->dev_link, rootfs, "dev") == 0, "symlink dev");
	else
		platform_mkdir(rootfs, "dev", 0755);
	copy_guest(p, rootfs);
	/* the runtime makes device nodes' mount points as the sandbox's root */
	NEED(fchown(rootfs, o->live, o->live) == 0 &&
		     fchownat(rootfs, "dev", o->live, o->live, AT_SYMLINK_NOFOLLOW) == 0,
	     "chown rootfs");
	write_config(bundle, o);
}

void oci_show_cgroup(const struct plat *p)
{
	NEED(mount(p->cgroup, OCI_CGROUP, NULL, MS_BIND, NULL) == 0, "our cgroup on " OCI_CGROUP);
}

void oci_start(const struct plat *p, const struct oci_call *call, int out_fd, struct child *ret)
{
	auto_free char *root = platform_format("--root=%s/run-%s", p->work, call->rt->name);
	auto_free char *dir = platform_format("--bundle=%s/%s", p->work, call->bundle);
	auto_free char *keep = platform_format("--preserve-fds=%u", call->n_keep);
	auto_free char *pid = platform_format("--pid-file=%s/%s.pid", p->work, call->bundle);
	auto_free char *id = platform_format("%s-%s", p->name, call->bundle);
	const char *argv[10];
	size_t n = 0;

	argv[n++] = call->rt->name;
	argv[n++] = root;
	if (call->rt->option)
		argv[n++] = call->rt->option;
	argv[n++] = "run";
	if (call->detach)
		argv[n++] = "--detach";
	argv[n++] = keep;
	argv[n++] = pid;
	argv[n++] = dir;
	argv[n++] = id;
	argv[n] = NULL;
	platform_start(argv, out_fd, call->fds, call->n_fds, ret);
}

int oci_run(const struct plat *p, const struct oci_call *call, struct buf *out)
{
	auto_close int fd = memfd_create("out", MFD_CLOEXEC);
	auto_child c = CHILD_INIT;
	int status;

	NEED(fd >= 0, "memfd");
	oci_start(p, call, fd, &c);
	status = platform_reap(&c);
	platform_slurp(fd, out);
	return status;
}
