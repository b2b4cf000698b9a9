/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/keeper-sandbox.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/failpoint.h"
#include "base/path.h"
#include "base/seqpacket.h"
#include "keeper/id-page.h"
#include "keeper/start.h"
#include "keeper/trash.h"
#include "keeper/written.h"
#include "steer/steer.h"
#include "text/hex.h"

#define SANDBOX_RECORD_MAGIC UINT32_C(0x42594143) /* "CAYB" */
#define RECORD "box"
#define DISK SANDBOX_DISK
#define SANDBOX_PIDS_MAX 8 /* of its first processes, PID 1 is one */

void image_dir_name(const uint8_t digest[static 32], char ret[static DIGEST_HEX + 8])
{
	memcpy(ret, "sha256/", sizeof("sha256/"));
	hex_encode(digest, 32, ret + 7);
}

void keeper_sandbox_fini(struct sandbox *sb)
{
	cay_closep(&sb->dir);
	cgroup_fini(&sb->cgroup);
}

static void id_range_name(uint32_t range, char ret[static 12])
{
	int n = snprintf(ret, 12, "%u", range);

	if (n < 0 || n >= 12)
		ret[0] = 0;
}

int keeper_sandbox_read_record(int dir, struct keeper_sandbox_record *ret)
{
	auto_buf text = BUF_INIT(sizeof(*ret));
	int r = path_read(dir, RECORD, &text);

	*ret = (struct keeper_sandbox_record){};
	if (r < 0 && r != -ENOENT && r != -EFBIG && r != -EINVAL && r != -ELOOP)
		return r;
	if (text.len == sizeof(*ret))
		memcpy(ret, text.data, sizeof(*ret));
	if (ret->magic != SANDBOX_RECORD_MAGIC || ret->range > VERB_RANGE_MAX ||
	    !id_is_valid(&ret->tenant, ID_TENANT))
		*ret = (struct keeper_sandbox_record){};
	return 0;
}

/* Not synced: no sandbox survives a power loss; one with an incomplete record is only removed. */
static int keeper_sandbox_write_record(const struct sandbox *sb, struct cay_err *err)
{
	auto_close int fd = path_open(sb->dir, RECORD, O_WRONLY | O_CREAT | O_EXCL, 0600);
	int r = fd < 0 ? fd : fd_write_all(fd, &sb->record, sizeof(sb->record));

	return r < 0 ? cay_fail_sys(err, cay_code_from_disk_errno(r), -r, "write the record of %s",
				    sb->name)
		     : 0;
}

/* The directory may be removed meanwhile, so check that the name still refers to the locked one. */
int keeper_lock_dir(int parent, const char *name, int lock)
{
	for (;;) {
		auto_close int dir = path_open(parent, name, O_RDONLY | O_DIRECTORY, 0);
		struct stat mine, now;

		if (dir < 0)
			return dir;
		if (flock(dir, lock) < 0 || fstat(dir, &mine) < 0)
			return -errno;
		if (fstatat(parent, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
		    now.st_ino == mine.st_ino && now.st_dev == mine.st_dev)
			return cay_take_fd(&dir);
	}
}

int keeper_sandbox_open(const struct keeper *k, const struct id *id, uint64_t generation,
			struct sandbox *sb, struct cay_err *err)
{
	int r;

	sb->id = *id;
	id_format(id, sb->name);
	sb->dir = keeper_lock_dir(k->sandboxes, sb->name, LOCK_EX);
	if (sb->dir == -ENOENT)
		return cay_fail(err, CAY_E_NOT_FOUND, "no such sandbox: %s", sb->name);
	r = sb->dir < 0 ? sb->dir : keeper_sandbox_read_record(sb->dir, &sb->record);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read the record of %s", sb->name);
	/* without a record it was left by a crash, and has no generation */
	if (sb->record.magic && sb->record.generation != generation)
		return cay_fail(err, CAY_E_NOT_FOUND, "%s has another generation", sb->name);
	if (sb->record.magic)
		(void)cgroup_open_sandbox(&k->cgroups.top, &sb->record.tenant, id, &sb->cgroup);
	return 0;
}

static int keeper_sandbox_make_disk(const struct keeper *k, const struct sandbox *sb,
				    const struct verb_prepare *q, struct cay_err *err)
{
	static const char *const parts[] = { DISK, DISK "/upper", DISK "/work" };
	struct disk_size limit = { q->disk_bytes, q->disk_inodes };
	int r = disk_create(&k->disk, sb->dir, DISK, keeper_sandbox_host_root_id(sb), &limit);

	if (r < 0)
		return cay_fail_sys(err, r == -ENOTSUP ? CAY_E_UNSUPPORTED : CAY_E_INTERNAL, -r,
				    "create the disk of %s", sb->name);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if ((i && mkdirat(sb->dir, parts[i], 0755) < 0) ||
		    fchownat(sb->dir, parts[i], VERB_RANGE_FOREIGN, VERB_RANGE_FOREIGN,
			     AT_SYMLINK_NOFOLLOW) < 0)
			return cay_fail_sys(err, cay_code_from_disk_errno(errno), errno,
					    "create %s/%s", sb->name, parts[i]);
	return 0;
}

static int id_range_claim(const struct keeper *k, const struct sandbox *sb, struct cay_err *err)
{
	char name[12], owner[ID_TEXT_LEN + 1] = "";
	struct stat st;

	id_range_name(sb->record.range, name);
	/* a link to an absent sandbox was left by a power loss */
	if (readlinkat(k->ranges, name, owner, sizeof(owner)) == ID_TEXT_LEN &&
	    fstatat(k->sandboxes, owner, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT &&
	    !trash_has_sandbox(k, owner))
		(void)unlinkat(k->ranges, name, 0);
	if (symlinkat(sb->name, k->ranges, name) < 0)
		return cay_fail_sys(
			err, errno == EEXIST ? CAY_E_CONFLICT : cay_code_from_disk_errno(errno),
			errno, "id range %s", name);
	return 0;
}

/*
 * prepare: directory, id range, cgroups.  An attacker who owns cayd can fill the disk with small
 * directories and use up id ranges; it cannot have two sandboxes of one range, nor an image
 * that image_add did not create.
 */
int verb_prepare(const struct keeper *k, const void *request, int, struct verb_result *,
		 struct cay_err *err)
{
	const struct verb_prepare *q = request;
	char image[DIGEST_HEX + 8];
	auto_keeper_sandbox b = KEEPER_SANDBOX_INIT;
	struct stat st;
	int r;

	image_dir_name(q->image, image);
	if (fstatat(k->images, image, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, "no such image: %s", image);
	b.id = q->sandbox;
	id_format(&b.id, b.name);
	b.record = (struct keeper_sandbox_record){
		SANDBOX_RECORD_MAGIC, q->range, q->generation, q->tenant, {}
	};
	memcpy(b.record.image, q->image, sizeof(q->image));
	if (mkdirat(k->sandboxes, b.name, 0700) < 0)
		return cay_fail_sys(
			err, errno == EEXIST ? CAY_E_CONFLICT : cay_code_from_disk_errno(errno),
			errno, "create %s", b.name);
	b.dir = failpoint_hit(FAULT_PREPARE_MADE) < 0
			? -EIO
			: keeper_lock_dir(k->sandboxes, b.name, LOCK_EX);
	if (b.dir < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -b.dir, "lock %s", b.name);
	r = keeper_sandbox_write_record(&b, err);
	r = r < 0 ? r : failpoint_hit(FAULT_PREPARE_RECORD);
	if (r >= 0)
		r = id_range_claim(k, &b, err);
	r = r < 0 ? r : failpoint_hit(FAULT_PREPARE_RANGE);
	if (r >= 0 && !q->memory)
		r = keeper_sandbox_make_disk(k, &b, q, err);
	if (r >= 0)
		r = sandbox_cgroup_create(&k->cgroups, &b.record.tenant, &b.id,
					  keeper_sandbox_host_root_id(&b), &b.cgroup, err);
	return r < 0 ? r : failpoint_hit(FAULT_PREPARE_CGROUPS);
}

/* kill: SIGKILL every process of one sandbox, by its cgroup.  An attacker who owns cayd can end any
 * sandbox, but no process outside one. */
int verb_kill(const struct keeper *k, const void *request, int, struct verb_result *,
	      struct cay_err *err)
{
	const struct verb_sandbox *q = request;
	auto_keeper_sandbox b = KEEPER_SANDBOX_INIT;
	int r = keeper_sandbox_open(k, &q->sandbox, q->generation, &b, err);

	if (r < 0 || b.cgroup.v2 < 0)
		return r;
	return sandbox_cgroup_kill(&b.cgroup, SANDBOX_KILL_MS, err);
}

/* Right after a start the runtime is in the cgroup as well: it is exiting, and has no namespaces
 * any more.  A pid that is listed again after its pidfd is open has not been reused. */
int keeper_sandbox_enter(const struct sandbox *sb, int namespaces)
{
	pid_t pids[SANDBOX_PIDS_MAX], again[SANDBOX_PIDS_MAX];
	unsigned n = sandbox_cgroup_list_pids(&sb->cgroup, pids, SANDBOX_PIDS_MAX);

	for (unsigned i = 0; i < n; i++) {
		auto_close int pidfd = pidfd_open(pids[i], 0);
		unsigned m = sandbox_cgroup_list_pids(&sb->cgroup, again, SANDBOX_PIDS_MAX);

		while (m > 0 && again[m - 1] != pids[i])
			m--;
		if (pidfd >= 0 && m > 0 && setns(pidfd, namespaces) == 0)
			return 0;
	}
	return -ESRCH;
}

static int keeper_sandbox_open_running(const struct keeper *k, const struct id *id,
				       uint64_t generation, struct sandbox *sb, struct cay_err *err)
{
	int r = keeper_sandbox_open(k, id, generation, sb, err);

	if (r >= 0 && sb->cgroup.v2 < 0)
		return cay_fail(err, CAY_E_STATE, "%s is not running", sb->name);
	return r;
}

static int keeper_sandbox_set_frozen(const struct keeper *k, const struct verb_sandbox *q,
				     bool frozen, struct cay_err *err)
{
	auto_keeper_sandbox b = KEEPER_SANDBOX_INIT;
	int r = keeper_sandbox_open_running(k, &q->sandbox, q->generation, &b, err);

	if (r < 0)
		return r;
	if (!frozen) /* before it: while it is frozen it takes no memory */
		r = sandbox_cgroup_settle_swap(&b.cgroup);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "limit the swap of %s", b.name);
	r = sandbox_cgroup_freeze(&b.cgroup, frozen, err);
	return r < 0 ? r : failpoint_hit(FAULT_FREEZE_DONE);
}

/* freeze: stop every process of one sandbox; less than kill does. */
int verb_freeze(const struct keeper *k, const void *request, int, struct verb_result *,
		struct cay_err *err)
{
	return keeper_sandbox_set_frozen(k, request, true, err);
}

/* thaw: undoes freeze. */
int verb_thaw(const struct keeper *k, const void *request, int, struct verb_result *,
	      struct cay_err *err)
{
	return keeper_sandbox_set_frozen(k, request, false, err);
}

int keeper_sandbox_limit_disk(const struct keeper *k, const struct sandbox *sb,
			      const struct verb_limits *q, struct cay_err *err)
{
	struct disk_size disk = { q->disk_bytes, q->disk_inodes };
	int r = 0;

	if (disk.bytes || disk.inodes)
		r = disk_set_limit(&k->disk, sb->dir, DISK, keeper_sandbox_host_root_id(sb), &disk);
	if (r >= 0)
		return 0;
	return cay_fail_sys(err, r == -ENOTSUP ? CAY_E_UNSUPPORTED : CAY_E_INTERNAL, -r,
			    "limit the disk of %s", sb->name);
}

/* limits: memory, cpu, pids and disk of one sandbox.  An attacker who owns cayd can let a sandbox
 * use the whole machine, or starve it; it cannot choose which cgroup is written. */
int verb_limits(const struct keeper *k, const void *request, int, struct verb_result *result,
		struct cay_err *err)
{
	const struct verb_limits *q = request;
	struct cgroup_limits limits = { q->memory_bytes, q->cpu_milli, q->pids };
	auto_keeper_sandbox b = KEEPER_SANDBOX_INIT;
	int r = keeper_sandbox_open_running(k, &q->sandbox, q->generation, &b, err);

	if (r >= 0)
		r = keeper_sandbox_limit_disk(k, &b, q, err);
	if (r < 0)
		return r;
	r = sandbox_cgroup_set_limits(&b.cgroup, &limits, err);
	if (r >= 0 && q->cpu_milli)
		return keeper_start_update_proc_view(k, &b, q->cpu_milli, err);
	result->worker_reusable = r >= 0; /* it entered no namespace; a failed one exits */
	return r;
}

/* net: steer every connection of one sandbox to listeners in its network namespace.  An attacker
 * who owns cayd gets these listeners, and with them what the sandbox sends: it cannot attach to the
 * host's namespace.  The worker executes nothing in there, and returns from it or exits. */
int verb_net(const struct keeper *k, const void *request, int, struct verb_result *result,
	     struct cay_err *err)
{
	const struct verb_sandbox *q = request;
	const struct verb_net_message message = { q->sandbox };
	auto_keeper_sandbox b = KEEPER_SANDBOX_INIT;
	auto_close int near = -EBADF, home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int fds[STEER_NUM], pair[2], r;

	r = keeper_sandbox_open_running(k, &q->sandbox, q->generation, &b, err);
	if (r < 0)
		return r;
	if (keeper_sandbox_enter(&b, CLONE_NEWNET) < 0)
		return cay_fail(err, CAY_E_STATE, "%s is not running", b.name);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a pair of sockets");
	near = pair[0];
	result->fd = pair[1];
	r = steer_attach(fds, err);
	if (r < 0)
		return r;
	r = seqpacket_send_fds(near, &message, sizeof(message), fds, STEER_NUM);
	for (size_t i = 0; i < STEER_NUM; i++)
		cay_closep(&fds[i]);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "send the listeners");
	result->worker_reusable = setns(home, CLONE_NEWNET) == 0;
	return 0;
}

/* Usage of an upper in memory: statfs of its root, an overlay over that tmpfs. */
static int keeper_sandbox_memory_usage(const struct sandbox *sb, struct disk_size *ret)
{
	auto_close int root = -EBADF;
	struct statfs st;
	char path[32];
	pid_t first = 0;
	int n;

	if (sb->cgroup.v2 >= 0)
		(void)sandbox_cgroup_count_processes(&sb->cgroup, &first);
	n = snprintf(path, sizeof(path), "/proc/%d/root", first);
	if (!first || n < 0 || n >= (int)sizeof(path))
		return -ENOTSUP;
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || fstatfs(root, &st) < 0)
		return -ENOTSUP; /* it is about to end */
	*ret = (struct disk_size){ (st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize,
				   st.f_files - st.f_ffree };
	return 0;
}

/* usage: disk usage of an existing sandbox; two numbers. */
int verb_usage(const struct keeper *k, const void *request, int, struct verb_result *result,
	       struct cay_err *err)
{
	const struct verb_sandbox *q = request;
	struct disk_size now = { DISK_UNKNOWN, DISK_UNKNOWN };
	auto_keeper_sandbox b = KEEPER_SANDBOX_INIT;
	int r = keeper_sandbox_open(k, &q->sandbox, q->generation, &b, err);

	if (r < 0)
		return r;
	r = disk_read_usage(&k->disk, b.dir, DISK, keeper_sandbox_host_root_id(&b), &now);
	if (r == -ENOENT)
		r = keeper_sandbox_memory_usage(&b, &now);
	if (r < 0 && r != -ENOTSUP)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read the usage of the disk of %s",
				    b.name);
	result->usage.disk_bytes = now.bytes;
	result->usage.disk_inodes = now.inodes;
	return 0;
}

struct id_range_owner {
	const struct keeper *k;
	const char *id;
};

/* Whether a sandbox of this id has the range now, in a later life. */
static bool id_range_is_live(const struct id_range_owner *o, const char *range)
{
	auto_close int dir = path_open(o->k->sandboxes, o->id, O_RDONLY | O_DIRECTORY, 0);
	struct keeper_sandbox_record record;
	char live[12];

	if (dir < 0 || keeper_sandbox_read_record(dir, &record) < 0)
		return dir != -ENOENT && dir != -ENOTDIR && dir != -ELOOP;
	id_range_name(record.range, live);
	return record.magic && strcmp(live, range) == 0;
}

static int id_range_release_if_owner(void *arg, int ranges, const char *name)
{
	const struct id_range_owner *o = arg;
	char owner[ID_TEXT_LEN + 2];
	ssize_t n = readlinkat(ranges, name, owner, sizeof(owner));

	if (n == ID_TEXT_LEN && memcmp(owner, o->id, ID_TEXT_LEN) == 0 &&
	    !id_range_is_live(o, name))
		(void)unlinkat(ranges, name, 0);
	return 0;
}

void id_range_release(const struct keeper *k, const char *id,
		      const struct keeper_sandbox_record *record)
{
	struct id_range_owner o = { k, id };
	char name[12];

	id_range_name(record->range, name);
	(void)(record->magic ? id_range_release_if_owner(&o, k->ranges, name)
			     : path_for_each_entry(k->ranges, id_range_release_if_owner, &o));
}

int keeper_sandbox_end_run(const struct keeper *k, const struct sandbox *b,
			   struct verb_remove_reply *ret_spent, struct cay_err *err)
{
	struct cgroup_usage used;
	int r = b->cgroup.v2 >= 0 ? sandbox_cgroup_kill(&b->cgroup, SANDBOX_KILL_MS, err) : 0;

	r = r < 0 ? r : failpoint_hit(FAULT_REMOVE_KILLED);
	if (r < 0)
		return r;
	if (b->cgroup.v2 >= 0 && cgroup_read_spent(&b->cgroup, &used) >= 0) {
		ret_spent->cpu_ns = used.cpu_ns;
		ret_spent->memory_peak = used.memory_peak;
	}
	(void)unlinkat(k->sockets, b->name, 0);
	mount_stage_remove_bundle(&k->stage, b->name);
	if (b->record.magic || b->cgroup.v2 >= 0)
		r = sandbox_cgroup_remove(&k->cgroups, &b->record.tenant, &b->id, err);
	return r < 0 ? r : failpoint_hit(FAULT_REMOVE_CGROUPS);
}

/*
 * remove: the one clean-up path, by kernel state and names; may be repeated.  An attacker who
 * owns cayd can remove any sandbox with its files.
 *
 * The directory, which leads to the rest, goes last: into the trash, whatever it contains, so that
 * the time this takes is not the sandbox's choice.  Without it, or without its record, the rest is
 * searched for.
 */
int verb_remove(const struct keeper *k, const void *request, int, struct verb_result *result,
		struct cay_err *err)
{
	const struct verb_sandbox *q = request;
	auto_keeper_sandbox b = KEEPER_SANDBOX_INIT;
	int r = keeper_sandbox_open(k, &q->sandbox, q->generation, &b, err);

	result->removed.cpu_ns = UINT64_MAX;
	if (r == -ENOENT || b.dir == -ENOTDIR || b.dir == -ELOOP) {
		*err = (struct cay_err){};
		if (b.dir >= 0)
			return 0; /* another generation */
		r = 0;
	}
	if (r >= 0 && !b.record.magic &&
	    sandbox_cgroup_find_tenant(&k->cgroups, &b.id, &b.record.tenant) > 0)
		r = cgroup_open_sandbox(&k->cgroups.top, &b.record.tenant, &b.id, &b.cgroup);
	if (r >= 0)
		r = keeper_sandbox_end_run(k, &b, &result->removed, err);
	if (r < 0)
		return r;
	disk_remove(&k->disk, b.dir, DISK, b.record.magic ? keeper_sandbox_host_root_id(&b) : 0);
	r = trash_add(k, &(struct trash_item){ k->sandboxes, b.dir, b.name, &b.record },
		      &result->trash_left);
	r = r < 0 ? r : failpoint_hit(FAULT_REMOVE_GONE);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "remove %s", b.name) : 0;
}

uint64_t pid_start_boot_ns(pid_t pid)
{
	auto_buf path = BUF_INIT(32), text = BUF_INIT(KIB(4));
	auto_close int dir = -EBADF;
	struct slice rest;
	const char *end;
	uint64_t ticks = 0;
	long hz = sysconf(_SC_CLK_TCK);

	if (buf_printf(&path, "/proc/%d", pid) < 0)
		return 0;
	dir = open(path.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || path_read(dir, "stat", &text) < 0 || !text.len)
		return 0;
	end = strrchr(text.data, ')'); /* the name before it may contain anything */
	if (!end || hz <= 0)
		return 0;
	rest = slice_of(end + 1);
	for (int i = 0; i < 20; i++)
		(void)slice_cut(&rest, ' ');
	if (str_parse_u64(slice_cut(&rest, ' '), 0, UINT64_MAX / NS_PER_S, &ticks) < 0)
		return 0;
	return ticks * (NS_PER_S / (uint64_t)hz);
}

static void keeper_sandbox_list_disk(const struct keeper *k, int dir,
				     const struct keeper_sandbox_record *record,
				     struct verb_list_row *row)
{
	uint32_t number = VERB_RANGE_BASE + record->range * VERB_RANGE_IDS;
	struct disk_size now;

	if (disk_read_usage(&k->disk, dir, DISK, number, &now) >= 0)
		row->disk_bytes = now.bytes;
}

/* list: ids and numbers of all sandboxes. */
int verb_list(const struct keeper *k, const void *request, int, struct verb_result *result,
	      struct cay_err *err)
{
	const struct verb_list *q = request;
	struct id_page names = { .noun = ID_SANDBOX, .after = q->after };
	int r = id_page_read(&names, k->sandboxes);

	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read boxes/");
	result->list.more = names.more;
	result->list.n_stuck = trash_count_stuck(k, &result->list.stuck);
	for (uint32_t i = 0; i < names.n; i++) {
		struct verb_list_row *row = &result->list.rows[result->list.n_rows];
		char name[ID_TEXT_LEN + 1];
		auto_close int dir = -EBADF;
		auto_cgroup cgroup = CGROUP_INIT;
		struct keeper_sandbox_record record;
		pid_t first;

		id_format(&names.ids[i], name);
		dir = path_open(k->sandboxes, name, O_RDONLY | O_DIRECTORY, 0);
		r = dir < 0 ? dir : keeper_sandbox_read_record(dir, &record);
		if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
			continue; /* removed meanwhile, or not a sandbox */
		if (r < 0)        /* unreadable does not mean absent */
			return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read %s", name);
		*row = (struct verb_list_row){ .sandbox = names.ids[i],
					       .generation = record.generation,
					       .range = record.range,
					       .disk_bytes = DISK_UNKNOWN };
		if (q->usage && record.magic)
			keeper_sandbox_list_disk(k, dir, &record, row);
		if (record.magic && cgroup_open_sandbox(&k->cgroups.top, &record.tenant,
							&row->sandbox, &cgroup) == 0) {
			row->processes = sandbox_cgroup_count_processes(&cgroup, &first);
			row->started_boot_ns = first ? pid_start_boot_ns(first) : 0;
			row->pid = row->started_boot_ns ? (uint32_t)first : 0;
			row->frozen = sandbox_cgroup_is_frozen(&cgroup);
			row->written_bytes = q->usage ? cgroup_read_written(&cgroup) : 0;
		}
		result->list.n_rows++;
	}
	return 0;
}
