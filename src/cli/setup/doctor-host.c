/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>

#include "base/clock.h"
#include "base/spawn.h"
#include "cli/print/progress.h"
#include "cli/setup/doctor.h"
#include "wire/verb.h"

static const struct {
	unsigned long magic;
	const char *name;
	enum doctor_verdict verdict;
} filesystems[] = {
	{ EXT4_SUPER_MAGIC, "ext4", VERDICT_OK },
	{ BTRFS_SUPER_MAGIC, "btrfs", VERDICT_OK },
	{ XFS_SUPER_MAGIC, "xfs", VERDICT_OK },
	{ TMPFS_MAGIC, "tmpfs, gone after a restart", VERDICT_WARN },
	{ OVERLAYFS_SUPER_MAGIC, "overlay, which cannot be below another overlay", VERDICT_FAIL },
};

static void doctor_check_state_dir(struct cli *c, const struct doctor_check *row,
				   struct doctor_finding *f)
{
	auto_buf path = BUF_INIT(4097), free_text = BUF_INIT(32);
	const char *name = "another file system";
	enum doctor_verdict v = VERDICT_WARN;
	struct statfs s = {};
	uint64_t bytes;
	int r = buf_puts(&path, c->settings.state_dir);

	/* it may not be there yet: then where it will be */
	while (r >= 0 && path.len > 1 && statfs(buf_str(&path), &s) < 0) {
		size_t n = path.len;

		while (n > 1 && path.data[n - 1] != '/')
			n--;
		buf_truncate(&path, n > 1 ? n - 1 : 1);
	}
	if (r < 0 || (path.len <= 1 && statfs("/", &s) < 0)) {
		doctor_finding_report(f, row->bad, "cannot look at %s", c->settings.state_dir);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(filesystems); i++) {
		if ((unsigned long)s.f_type == filesystems[i].magic) {
			name = filesystems[i].name;
			v = filesystems[i].verdict;
		}
	}
	bytes = (uint64_t)s.f_bavail * (uint64_t)s.f_bsize;
	if (bytes < row->want && v == VERDICT_OK)
		v = VERDICT_WARN;
	if (bytes < row->want / 10)
		v = row->bad;
	if (byte_size_format(bytes, &free_text) >= 0)
		doctor_finding_report(f, v, "%s on %s, %s free", c->settings.state_dir, name,
				      buf_str(&free_text));
}

static void doctor_check_memory(struct cli *, const struct doctor_check *row,
				struct doctor_finding *f)
{
	auto_buf text = BUF_INIT(32);
	struct sysinfo s = {};
	uint64_t bytes;

	if (sysinfo(&s) < 0)
		return;
	bytes = (uint64_t)s.totalram * s.mem_unit;
	if (byte_size_format(bytes, &text) >= 0)
		doctor_finding_report(f, bytes < row->want ? row->bad : VERDICT_OK, "%s in all",
				      buf_str(&text));
}

static void doctor_check_daemon(struct cli *c, const struct doctor_check *row,
				struct doctor_finding *f)
{
	struct health health = {};
	struct cay_err why = {};

	if (api_call(&c->api, &(struct api_call){ .op = OP_SYSTEM_HEALTH }, &health, &why) < 0)
		doctor_finding_report(f, row->bad, "%s", why.msg);
	else if (!str_eq(health.version, CAY_VERSION))
		doctor_finding_report(f, VERDICT_WARN, "version %s answers, this is " CAY_VERSION,
				      health.version);
	else
		doctor_finding_report(f, VERDICT_OK, "version %s at %s", health.version,
				      c->api.dial.socket);
	c->api.hint[0] = 0;
}

/* What the keeper found; without a daemon nobody has looked. */
static void doctor_check_disk_quota(struct cli *c, const struct doctor_check *row,
				    struct doctor_finding *f)
{
	struct health health = {};
	struct cay_err why = {};

	if (api_call(&c->api, &(struct api_call){ .op = OP_SYSTEM_HEALTH }, &health, &why) < 0)
		doctor_finding_report(f, VERDICT_WARN, "not asked: %s", why.msg);
	else if (health.disk == VERB_DISK_NONE)
		doctor_finding_report(f, row->bad, "nothing limits what a sandbox writes");
	else
		doctor_finding_report(f, VERDICT_OK, "%s%s", disk_names[health.disk],
				      health.disk == VERB_DISK_BTRFS ? ", of bytes but not of files"
								     : "");
	c->api.hint[0] = 0;
}

/* Whether what it knows is what the machine has. */
static void doctor_check_fsck(struct cli *c, const struct doctor_check *row,
			      struct doctor_finding *f)
{
	struct fsck_list list = {};
	struct cay_err why = {};

	if (api_call(&c->api, &(struct api_call){ .op = OP_SYSTEM_FSCK }, &list, &why) < 0)
		doctor_finding_report(f, row->bad, "not compared: %s", why.msg);
	else
		doctor_finding_report(f, list.findings.n ? row->bad : VERDICT_OK,
				      "%llu sandboxes compared, %zu findings",
				      (unsigned long long)list.checked, list.findings.n);
	c->api.hint[0] = 0;
}

/* What the program prints when asked for its version, within five seconds. */
static int doctor_program_version_read(const char *path, struct buf *ret)
{
	const char *const argv[] = { path, "--version", NULL };
	uint64_t deadline = clk_boot_ns(&clk_system) + 5 * NS_PER_S;
	struct spawn s = SPAWN_INIT(path, argv);
	auto_child child = CHILD_INIT;
	auto_close int in = -EBADF, out = -EBADF;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	in = fds[0];
	out = fds[1];
	s.fds[0] = -1;
	s.fds[1] = out;
	s.fds[2] = -1;
	s.n_fds = 3;
	r = child_start(&s, &child, NULL);
	if (r < 0)
		return r;
	cay_closep(&out);
	out = -EBADF;
	while (ret->len + 256 < ret->max) {
		struct pollfd p = { .fd = in, .events = POLLIN };
		ssize_t n;

		if (poll(&p, 1, deadline_to_poll_ms(deadline)) <= 0)
			return -ETIMEDOUT;
		r = buf_reserve(ret, 256);
		if (r < 0)
			return r;
		n = read(in, ret->data + ret->len, 256);
		if (n <= 0)
			break;
		ret->len += (size_t)n;
		ret->data[ret->len] = 0;
	}
	return ret->len ? 0 : -ENODATA;
}

/* What the keeper found when it ran it; nothing, when there is no daemon to ask. */
static const char *doctor_runtime_probe_describe(struct cli *c, const char *name,
						 enum doctor_verdict *bad)
{
	struct health health = {};
	struct cay_err quiet = {};

	if (api_call(&c->api, &(struct api_call){ .op = OP_SYSTEM_HEALTH }, &health, &quiet) < 0) {
		c->api.hint[0] = 0;
		return "";
	}
	for (size_t i = 0; i < health.runtimes.n; i++)
		if (str_eq(health.runtimes.v[i], name))
			return ", passes its probes";
	*bad = VERDICT_FAIL;
	return ", did not pass the keeper's probes: its log says which";
}

/* "crun version 1.28", "runc version 1.3.6+ds1" */
static void doctor_check_runtime(struct cli *c, const struct doctor_check *row,
				 struct doctor_finding *f)
{
	static const char *const where[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
					     "/usr/bin" };

	for (size_t i = 0; i < ARRAY_SIZE(where); i++) {
		auto_buf path = BUF_INIT(256), text = BUF_INIT(KIB(8));
		enum doctor_verdict verdict = VERDICT_OK;
		struct slice line, word = {};
		const char *probed;

		if (buf_printf(&path, "%s/%s", where[i], row->path) < 0 ||
		    access(buf_str(&path), X_OK) < 0)
			continue;
		if (doctor_program_version_read(buf_str(&path), &text) < 0) {
			doctor_finding_report(f, row->bad, "%s does not tell its version",
					      buf_str(&path));
			return;
		}
		line = (struct slice){ buf_str(&text), text.len };
		line = slice_cut(&line, '\n');
		while (line.p)
			word = slice_cut(&line, ' ');
		if (!word.n || !ascii_is_digit(word.p[0])) {
			doctor_finding_report(f, row->bad, "%s does not tell its version",
					      buf_str(&path));
			return;
		}
		buf_truncate(&text, (size_t)(word.p - text.data) + word.n);
		if (doctor_version_compare(word.p, row->version) < 0)
			verdict = row->bad;
		probed = doctor_runtime_probe_describe(c, row->path, &verdict);
		doctor_finding_report(f, verdict, "%s %s, want %s or later%s", buf_str(&path),
				      word.p, row->version, probed);
		return;
	}
	doctor_finding_report(f, row->bad, "not installed");
}

#define GIB(n) ((uint64_t)(n) << 30)

/* clang-format off */
const struct doctor_check doctor_host[] = {
	{ "crun",    doctor_check_runtime, "crun", .version = "1.28",  .bad = VERDICT_FAIL, .advice = "install crun 1.28 or later; earlier ones follow links of an image" },
	{ "runc",    doctor_check_runtime, "runc", .version = "1.3.6", .bad = VERDICT_WARN, .advice = "install runc 1.3.6 or later if sandboxes are to be made with it" },
	{ "memory",  doctor_check_memory, .want = GIB(2), .bad = VERDICT_WARN, .advice = "a node wants memory: a sandbox may use 512 MiB unless it is told otherwise" },
	{ "state",   doctor_check_state_dir, .want = GIB(10), .bad = VERDICT_FAIL, .advice = "paths.state wants ext4, btrfs or xfs with room for images and sandboxes" },
	{ "quota",   doctor_check_disk_quota, .bad = VERDICT_WARN, .advice = "put paths.state on btrfs ('btrfs quota enable --simple') or on ext4 or xfs mounted with prjquota, and restart cay-keeper" },
	{ "daemon",  doctor_check_daemon, .bad = VERDICT_WARN, .advice = "start cayd; CAY_SOCKET or paths.run in cay.conf say where it listens" },
	{ "journal", doctor_check_fsck, .bad = VERDICT_WARN, .advice = "'cay fsck' lists what differs; it needs the daemon" },
	{ NULL },
};
/* clang-format on */
