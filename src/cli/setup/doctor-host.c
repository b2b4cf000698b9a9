/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <linux/landlock.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

#include "cli/core/settings-file.h"
#include "cli/print/progress.h"
#include "cli/setup/doctor.h"
#include "cli/setup/run-program.h"
#include "wire/puller.h"
#include "wire/verb.h"

static const struct {
	unsigned long magic;
	const char *name;
	enum doctor_verdict verdict;
} filesystems[] = {
	{ EXT4_SUPER_MAGIC, "ext4", VERDICT_OK },
	{ BTRFS_SUPER_MAGIC, "btrfs", VERDICT_OK },
	{ XFS_SUPER_MAGIC, "xfs", VERDICT_OK },
	{ TMPFS_MAGIC, "tmpfs, lost at a reboot", VERDICT_WARN },
	{ OVERLAYFS_SUPER_MAGIC, "overlay, which cannot be a layer of another overlay",
	  VERDICT_FAIL },
};

static void doctor_check_state_dir(struct doctor_finding *f)
{
	auto_buf path = BUF_INIT(4097), free_text = BUF_INIT(32);
	const char *name = "another file system";
	enum doctor_verdict v = VERDICT_WARN;
	struct statfs s = {};
	uint64_t bytes;
	int r = buf_puts(&path, f->cli->settings.state_dir);

	/* if it does not exist yet, check its nearest parent */
	while (r >= 0 && path.len > 1 && statfs(buf_str(&path), &s) < 0) {
		size_t n = path.len;

		while (n > 1 && path.data[n - 1] != '/')
			n--;
		buf_truncate(&path, n > 1 ? n - 1 : 1);
	}
	if (r < 0 || (path.len <= 1 && statfs("/", &s) < 0)) {
		finding_set(f, f->row->bad, "cannot read %s", f->cli->settings.state_dir);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(filesystems); i++) {
		if ((unsigned long)s.f_type == filesystems[i].magic) {
			name = filesystems[i].name;
			v = filesystems[i].verdict;
		}
	}
	bytes = (uint64_t)s.f_bavail * (uint64_t)s.f_bsize;
	if (bytes < f->row->want && v == VERDICT_OK)
		v = VERDICT_WARN;
	if (bytes < f->row->want / 10)
		v = f->row->bad;
	if (byte_size_format(bytes, &free_text) >= 0)
		finding_set(f, v, "%s on %s, %s free", f->cli->settings.state_dir, name,
			    buf_str(&free_text));
}

#define ZRAM "/dev/zram"

/* Words are separated by spaces, tabs or both. */
static struct slice doctor_cut_word(struct slice *line)
{
	struct slice rest = slice_trim(*line), word = rest;

	word.n = 0;
	while (word.n < rest.n && rest.p[word.n] != ' ' && rest.p[word.n] != '\t')
		word.n++;
	*line = (struct slice){ rest.p + word.n, rest.n - word.n };
	return word;
}

static void doctor_check_memory(struct doctor_finding *f)
{
	auto_buf text = BUF_INIT(32);
	struct sysinfo s = {};
	uint64_t bytes;

	if (sysinfo(&s) < 0)
		return;
	bytes = (uint64_t)s.totalram * s.mem_unit;
	if (byte_size_format(bytes, &text) >= 0)
		finding_set(f, bytes < f->row->want ? f->row->bad : VERDICT_OK, "%s in total",
			    buf_str(&text));
}

/* "/dev/zram0  partition  8388604  0  100" below a line of titles.  What dozes is written there. */
static void doctor_check_swap(struct doctor_finding *f)
{
	auto_buf text = BUF_INIT(KIB(64)), size = BUF_INIT(32);
	struct slice rest, line, name, disk = {};
	uint64_t kib, sum = 0;

	if (doctor_proc_file_read(f->row->path, &text) < 0)
		buf_clear(&text);
	rest = (struct slice){ buf_str(&text), text.len };
	(void)slice_cut(&rest, '\n');
	while ((line = slice_cut(&rest, '\n')).n) {
		name = doctor_cut_word(&line);
		(void)doctor_cut_word(&line);
		if (str_parse_u64(doctor_cut_word(&line), 0, UINT64_MAX >> 10, &kib) < 0)
			continue;
		sum += kib << 10;
		if (name.n < strlen(ZRAM) || memcmp(name.p, ZRAM, strlen(ZRAM)) != 0)
			disk = name;
	}
	if (!sum)
		finding_set(f, VERDICT_OK,
			    "none: the memory of sandboxes that doze stays; 'cay setup --swap "
			    "8Gi' compresses it");
	else if (byte_size_format(sum, &size) >= 0 && disk.n)
		finding_set(f, f->row->bad, "%s, of it on %.*s", buf_str(&size), (int)disk.n,
			    disk.p);
	else if (size.len)
		finding_set(f, VERDICT_OK, "%s, compressed in memory", buf_str(&size));
}

/* An operation without parameters.  Its hint is dropped: the row has the advice. */
static int doctor_call(struct doctor_finding *f, enum op_id op, void *ret, struct cay_err *err)
{
	int r = api_call(&f->cli->api, &(struct api_call){ .op = op }, ret, err);

	f->cli->api.hint[0] = 0;
	return r;
}

static void doctor_check_daemon(struct doctor_finding *f)
{
	struct health health = {};
	struct cay_err why = {};

	if (doctor_call(f, OP_SYSTEM_HEALTH, &health, &why) < 0)
		finding_set(f, f->row->bad, "%s", why.msg);
	else if (!str_eq(health.version, CAY_VERSION))
		finding_set(f, VERDICT_WARN, "cayd has version %s, cay has " CAY_VERSION,
			    health.version);
	else
		finding_set(f, VERDICT_OK, "version %s at %s", health.version,
			    f->cli->api.dial.socket);
}

static void doctor_check_proxy(struct doctor_finding *f)
{
	const struct settings *s = &f->cli->settings;

	if (!s->edge_plain)
		finding_set(f, VERDICT_OK, "edge.plain is not set");
	else if (s->edge_trusted[0])
		finding_set(f, VERDICT_OK, "clients of %s", s->edge_trusted);
	else
		finding_set(f, f->row->bad, "all clients have the address of the proxy");
}

/* The keeper detects quota; without a daemon it is not known. */
static void doctor_check_disk_quota(struct doctor_finding *f)
{
	struct health health = {};
	struct cay_err why = {};

	if (doctor_call(f, OP_SYSTEM_HEALTH, &health, &why) < 0)
		finding_set(f, VERDICT_WARN, "not known: %s", why.msg);
	else if (health.disk == VERB_DISK_NONE)
		finding_set(f, f->row->bad, "no limit on what sandboxes write");
	else
		finding_set(f, VERDICT_OK, "%s%s", disk_names[health.disk],
			    health.disk == VERB_DISK_BTRFS ? ", bytes only, not the number of files"
							   : "");
}

static void doctor_check_fsck(struct doctor_finding *f)
{
	struct fsck_list list = {};
	struct cay_err why = {};

	if (doctor_call(f, OP_SYSTEM_FSCK, &list, &why) < 0)
		finding_set(f, f->row->bad, "not compared: %s", why.msg);
	else
		finding_set(f, list.findings.n ? f->row->bad : VERDICT_OK,
			    "%llu sandboxes compared, %zu findings",
			    (unsigned long long)list.checked, list.findings.n);
}

/* The result of the keeper's probes; "" without a daemon. */
static const char *doctor_describe_probe(struct doctor_finding *f, enum doctor_verdict *bad)
{
	struct health health = {};
	struct cay_err quiet = {};

	if (doctor_call(f, OP_SYSTEM_HEALTH, &health, &quiet) < 0)
		return "";
	for (size_t i = 0; i < health.runtimes.n; i++)
		if (str_eq(health.runtimes.v[i], f->row->path))
			return ", passes its probes";
	*bad = VERDICT_FAIL;
	return ", failed the keeper's probes: see its log";
}

/* "crun version 1.28", "runc version 1.3.6+ds1" */
static void doctor_check_runtime(struct doctor_finding *f)
{
	static const char *const where[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
					     "/usr/bin" };

	for (size_t i = 0; i < ARRAY_SIZE(where); i++) {
		auto_buf path = BUF_INIT(256), text = BUF_INIT(KIB(8));
		enum doctor_verdict verdict = VERDICT_OK;
		const char *argv[] = { NULL, "--version", NULL }, *probed;
		struct slice line, word = {};
		struct cay_err none = {};

		if (buf_printf(&path, "%s/%s", where[i], f->row->path) < 0 ||
		    access(buf_str(&path), X_OK) < 0)
			continue;
		argv[0] = buf_str(&path);
		if (run_program_to_end(&f->cli->arena, argv, NULL, 5000, &text, &none) < 0)
			buf_clear(&text);
		line = (struct slice){ buf_str(&text), text.len };
		line = slice_cut(&line, '\n');
		while (line.p)
			word = slice_cut(&line, ' ');
		if (!word.n || !ascii_is_digit(word.p[0])) {
			finding_set(f, f->row->bad, "cannot determine the version of %s",
				    buf_str(&path));
			return;
		}
		buf_truncate(&text, (size_t)(word.p - text.data) + word.n);
		if (doctor_version_compare(word.p, f->row->version) < 0)
			verdict = f->row->bad;
		probed = doctor_describe_probe(f, &verdict);
		finding_set(f, verdict, "%s %s, want %s or later%s", buf_str(&path), word.p,
			    f->row->version, probed);
		return;
	}
	finding_set(f, f->row->bad, "not installed");
}

/* What a node needs that pulls images; one that names no registry needs nothing. */
static void doctor_check_pull(struct doctor_finding *f)
{
	const struct settings *s = &f->cli->settings;
	auto_buf socket = BUF_INIT(128);

	if (!s->images_registries[0])
		finding_set(f, VERDICT_OK, "images.registries names no registry");
	else if (access(s->images_skopeo, X_OK) < 0)
		finding_set(f, f->row->bad, "%s is not installed", s->images_skopeo);
	else if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) <
		 (long)f->row->want)
		finding_set(f, f->row->bad, "the kernel has no Landlock of version %" PRIu64,
			    f->row->want);
	else if (buf_printf(&socket, "%s/" PULLER_SOCKET, s->run_dir) >= 0 &&
		 access(buf_str(&socket), F_OK) < 0 && errno == ENOENT)
		finding_set(f, f->row->bad, "cay-pull is not running");
	else
		finding_set(f, VERDICT_OK, "%s, run by cay-pull", s->images_skopeo);
}

/* Credentials that the key of the node does not open. */
static void doctor_check_registries(struct doctor_finding *f)
{
	struct registry_list list = {};
	const struct registry *rows;
	struct cay_err why = {};
	const char *closed = NULL;
	size_t n = 0;

	if (doctor_call(f, OP_REGISTRY_LIST, &list, &why) < 0) {
		finding_set(f, f->row->bad, "not checked: %s", why.msg);
		return;
	}
	rows = list.registries.v;
	for (size_t i = 0; i < list.registries.n; i++)
		if (rows[i].unreadable && n++ == 0)
			closed = rows[i].registry;
	if (n)
		finding_set(f, f->row->bad,
			    "the credentials of %zu registries cannot be opened, of '%s' first", n,
			    closed);
	else
		finding_set(f, VERDICT_OK, "credentials of %zu registries", list.registries.n);
}

/* Credentials of the caller's tenant that cay-broker cannot set. */
static void doctor_check_credentials(struct doctor_finding *f)
{
	struct credential_list list = {};
	const struct credential_info *rows;
	struct cay_err why = {};
	const char *closed = NULL;
	size_t n = 0;

	if (doctor_call(f, OP_CREDENTIAL_LIST, &list, &why) < 0) {
		finding_set(f, f->row->bad, "not checked: %s", why.msg);
		return;
	}
	rows = list.credentials.v;
	for (size_t i = 0; i < list.credentials.n; i++)
		if (!rows[i].ready && n++ == 0)
			closed = rows[i].name;
	if (n)
		finding_set(f, f->row->bad, "%zu credentials are not ready, '%s' first", n, closed);
	else
		finding_set(f, VERDICT_OK, "%zu credentials", list.credentials.n);
}

static void doctor_check_settings(struct doctor_finding *f)
{
	if (f->cli->settings_error.code)
		finding_set(f, f->row->bad, "%s", f->cli->settings_error.msg);
	else
		finding_set(f, VERDICT_OK, "%s",
			    access(SETTINGS_FILE, F_OK) == 0 ? SETTINGS_FILE
							     : "every setting has its default");
}

#define GIB(n) ((uint64_t)(n) << 30)

/* clang-format off */
const struct doctor_check doctor_host[] = {
	{ "settings", doctor_check_settings, .bad = VERDICT_FAIL, .advice = "correct cay.conf and run 'cay config check'; the other checks assume the defaults" },
	{ "crun",    doctor_check_runtime, "crun", .version = "1.28",  .bad = VERDICT_FAIL, .advice = "install crun 1.28 or later; earlier versions follow symbolic links of an image" },
	{ "runc",    doctor_check_runtime, "runc", .version = "1.3.6", .bad = VERDICT_WARN, .advice = "install runc 1.3.6 or later to run sandboxes with it" },
	{ "memory",  doctor_check_memory, .want = GIB(2), .bad = VERDICT_WARN, .advice = "add memory: the default limit of a sandbox is 512 MiB" },
	{ "swap",    doctor_check_swap, "/proc/swaps", .bad = VERDICT_WARN, .advice = "if that is not encrypted, memory of sandboxes that doze is on the disk in clear: use 'cay setup --swap 8Gi', which makes swap in memory, or encrypted swap" },
	{ "state",   doctor_check_state_dir, .want = GIB(10), .bad = VERDICT_FAIL, .advice = "put paths.state on ext4, btrfs or xfs with room for images and sandboxes" },
	{ "quota",   doctor_check_disk_quota, .bad = VERDICT_WARN, .advice = "run 'cay setup' as root, or put paths.state on btrfs ('btrfs quota enable --simple') or on ext4 or xfs mounted with prjquota, and restart cay-keeper" },
	{ "pull",    doctor_check_pull, .want = 3, .bad = VERDICT_WARN, .advice = "images cannot be pulled: install skopeo, use Linux 6.2 or later with 'landlock' in lsm=, and start cay-pull" },
	{ "daemon",  doctor_check_daemon, .bad = VERDICT_WARN, .advice = "start cayd; CAY_SOCKET or paths.run in cay.conf set where it listens" },
	{ "registries", doctor_check_registries, .bad = VERDICT_WARN, .advice = "put secret/node.key of paths.state back and restart cayd, or run 'cay image login' for each registry; it needs the daemon" },
	{ "credentials", doctor_check_credentials, .bad = VERDICT_WARN, .advice = "start cay-broker, put broker/broker.key of paths.state back and restart it, or run 'cay credential put' for each; it needs the daemon" },
	{ "proxy",   doctor_check_proxy, .bad = VERDICT_WARN, .advice = "set edge.trusted to the addresses of the proxy before cay-edge; with edge.plain every client counts as the proxy otherwise" },
	{ "journal", doctor_check_fsck, .bad = VERDICT_WARN, .advice = "run 'cay fsck' for the differences; it needs the daemon" },
	{ NULL },
};
/* clang-format on */
