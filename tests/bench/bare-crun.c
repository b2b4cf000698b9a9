/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bare-crun STATE DIGEST INIT CGROUP DIRECTORY N - what crun alone costs
 *
 * The baseline of cold_create: `crun run` of `echo hi` to its end, N times, with the
 * config.json, the overlay, the small mount namespace and the cgroups a sandbox
 * gets.  All that Cay prepares for each sandbox is prepared here once, before the
 * clock starts; the network namespace is crun's to make.
 *
 * DIRECTORY: an empty one, for upper, work and the stage.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/jsonw.h"
#include "base/spawn.h"
#include "base/str.h"
#include "keeper/overlay.h"
#include "keeper/runtime.h"
#include "keeper/start.h"
#include "text/hex.h"

#define NAME "bare"
#define SAMPLES_MAX 10000

static int open_dir(int at, const char *path, struct cay_err *err)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, errno, "open %s", path) : fd;
}

static int make_disk(int dir, struct cay_err *err)
{
	static const char *const parts[] = { "disk", "disk/upper", "disk/work", "stage" };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (mkdirat(dir, parts[i], 0755) < 0 ||
		    fchownat(dir, parts[i], VERB_RANGE_FOREIGN, VERB_RANGE_FOREIGN, 0) < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "make %s", parts[i]);
	return 0;
}

static int parse_digest(const char *hex, uint8_t ret[static 32], struct cay_err *err)
{
	return hex_decode(hex, strlen(hex), ret, 32) < 0
		       ? cay_fail(err, CAY_E_INVALID, "not a digest: %s", hex)
		       : 0;
}

static int run_once(int cgroup, uint64_t *ret_ns, struct cay_err *err)
{
	static const char *const argv[] = { "crun",
					    "--root=" STAGE_STATE,
					    "--cgroup-manager=disabled",
					    "run",
					    "--bundle=" STAGE_BUNDLE "/" NAME,
					    NAME,
					    NULL };
	struct spawn s = SPAWN_INIT(runtimes[RUNTIME_CRUN].path, argv);
	auto_child child = CHILD_INIT;
	char text[8] = "";
	int out[2], status = -1, r;
	uint64_t start;

	if (pipe2(out, O_CLOEXEC) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "pipe");
	s.fds[0] = -EBADF;
	s.fds[1] = out[1];
	s.fds[2] = STDERR_FILENO;
	s.n_fds = 3;
	s.cgroup_fd = cgroup;
	start = clk_boot_ns(&clk_system);
	r = child_start(&s, &child, err);
	if (r >= 0)
		r = child_wait(&child, &status);
	*ret_ns = clk_boot_ns(&clk_system) - start;
	cay_closep(&out[1]);
	if (r >= 0 &&
	    (status != 0 || read(out[0], text, sizeof(text)) != 3 || memcmp(text, "hi\n", 3) != 0))
		r = cay_fail(err, CAY_E_RUNTIME, "crun ended with %d and wrote '%.7s'", status,
			     text);
	cay_closep(&out[0]);
	return r;
}

static int measure(const struct mount_stage *stage, const struct sandbox *sb, size_t n,
		   struct cay_err *err)
{
	static const char *const args[] = { "/bin/echo", "hi", NULL };
	auto_buf filter = BUF_INIT(OCI_FILTER_MAX);
	int compiled = oci_filter_compile(&filter);
	struct oci_config o = { .host_id_base = keeper_sandbox_host_root_id(sb),
				.name = NAME,
				.root = STAGE_ROOT,
				.args = args,
				.shm_bytes = MIB(64),
				.nofile = 4096,
				.filter = filter.data,
				.own_network = true };
	auto_close int bundle = keeper_start_write_bundle(stage, &o, err);
	auto_buf text = BUF_INIT(MIB(1));
	struct jw w = jw_to(&text);

	if (bundle < 0 || compiled < 0)
		return bundle < 0 ? bundle : compiled;
	jw_object_begin(&w, NULL);
	jw_array_begin(&w, "ns");
	for (size_t i = 0; i < n; i++) {
		uint64_t ns = 0;
		int r = run_once(sb->cgroup.v2, &ns, err);

		if (r < 0)
			return r;
		jw_u64(&w, NULL, ns);
	}
	jw_end(&w);
	jw_end(&w);
	if (jw_finish(&w) < 0 || puts(text.data) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "print");
	return 0;
}

/* As the start verb does it, once. */
static int prepare(struct keeper *k, struct sandbox *sb, const char *init, const char *stage_dir,
		   struct cay_err *err)
{
	auto_overlay overlay = OVERLAY_INIT;
	auto_close int tree = -EBADF;
	int r = mount_stage_create(stage_dir, init, &k->stage, err);

	if (r >= 0)
		r = sandbox_cgroup_join_v1(&sb->cgroup, err);
	if (r >= 0)
		r = overlay_open(k, sb, &(struct overlay_options){}, &overlay, err);
	if (r < 0)
		return r;
	tree = open_tree(sb->cgroup.v2, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (tree < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "clone the cgroup's directory");
	r = mount_stage_enter(&k->stage, err);
	if (r >= 0)
		r = overlay_mount(&overlay, keeper_sandbox_host_root_id(sb),
				  &(struct overlay_options){}, err);
	return r < 0 ? r : keeper_start_mount_cgroup(tree, err);
}

/* In a child, which is in the cgroups until it ends. */
static int bench(struct keeper *k, struct sandbox *sb, char **argv, size_t n, struct cay_err *err)
{
	auto_buf images = BUF_INIT(256), stage = BUF_INIT(256);
	int r = parse_digest(argv[2], sb->record.image, err);

	if (r < 0)
		return r;
	if (buf_printf(&images, "%s/images", argv[1]) < 0 ||
	    buf_printf(&stage, "%s/stage", argv[5]) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "names");
	k->images = open_dir(AT_FDCWD, images.data, err);
	sb->dir = k->images < 0 ? -EBADF : open_dir(AT_FDCWD, argv[5], err);
	if (sb->dir < 0)
		return -ENOENT;
	r = make_disk(sb->dir, err);
	if (r >= 0)
		r = prepare(k, sb, argv[3], stage.data, err);
	return r < 0 ? r : measure(&k->stage, sb, n, err);
}

static void in_child(struct keeper *k, struct sandbox *sb, char **argv, size_t n)
{
	struct cay_err err = {};
	int r = bench(k, sb, argv, n, &err);

	if (r < 0)
		(void)fprintf(stderr, "bare-crun: %s\n", err.msg);
	_exit(r < 0 || fflush(stdout) != 0 ? 1 : 0);
}

static int run(char **argv, size_t n, struct cay_err *err)
{
	static struct keeper k;
	/* the tenant of all that cayd makes: its cgroup is there and stays */
	static const struct id tenant = { .noun = ID_TENANT };
	auto_keeper_sandbox b = KEEPER_SANDBOX_INIT;
	int status = -1, r = id_generate(ID_SANDBOX, 0, 0, &b.id);
	pid_t pid;

	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "an id");
	id_format(&b.id, b.name);
	b.record.range = VERB_RANGE_MAX; /* cayd counts from the other end */
	r = sandbox_cgroups_open(argv[4], &k.cgroups, err);
	if (r >= 0)
		r = sandbox_cgroup_create(&k.cgroups, &tenant, &b.id,
					  keeper_sandbox_host_root_id(&b), &b.cgroup, err);
	if (r < 0)
		return r;
	pid = fork();
	if (pid == 0)
		in_child(&k, &b, argv, n);
	if (pid > 0)
		(void)waitpid(pid, &status, 0);
	r = sandbox_cgroup_remove(&k.cgroups, &tenant, &b.id, err);
	return status ? -EIO : r;
}

int main(int argc, char **argv)
{
	struct cay_err err = {};
	uint64_t n;

	if (argc != 7 || str_parse_u64(slice_of(argv[6]), 1, SAMPLES_MAX, &n) < 0) {
		(void)fprintf(stderr, "bare-crun STATE DIGEST INIT CGROUP DIRECTORY N\n");
		return 2;
	}
	if (run(argv, n, &err) < 0) {
		(void)fprintf(stderr, "bare-crun: %s\n", err.code ? err.msg : "see above");
		return 1;
	}
	return 0;
}
