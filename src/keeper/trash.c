/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/trash.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/ioprio.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/path.h"
#include "base/rmtree.h"

#define LOCK_TRIES 20
#define LOCK_WAIT_MS 10
#define TRASH_NAME_MAX (ID_TEXT_LEN + 1 + 16 + 1)
#define STUCK_MARK '!'
/* One entry's turn: small ones do not wait for a large one. */
#define TURN_NS NS_PER_S
/* Idle must not mean never: an entry this old is removed at the usual priority. */
#define OLD_S 60
#define INODES_RESERVED 1024
#define DISK_RESERVED_MAX (UINT64_C(1) << 30)

static bool trash_name_is_of(const char *name, const char *id)
{
	return strncmp(name, id, ID_TEXT_LEN) == 0 && name[ID_TEXT_LEN] == '.';
}

static bool trash_name_is_stuck(const char *name)
{
	size_t n = strlen(name);

	return n && name[n - 1] == STUCK_MARK;
}

static int on_trash_entry_compare(void *id, int, const char *name)
{
	return trash_name_is_of(name, id);
}

bool trash_has_sandbox(const struct keeper *k, const char *id)
{
	/* unreadable does not mean absent */
	return path_for_each_entry(k->trash, on_trash_entry_compare, (void *)(uintptr_t)id) != 0;
}

struct trash_stuck_count {
	uint32_t n;
	struct id *id;
};

static int on_trash_entry_count_stuck(void *arg, int, const char *name)
{
	struct trash_stuck_count *c = arg;
	struct id id;

	if (trash_name_is_stuck(name) && strlen(name) > ID_TEXT_LEN &&
	    id_parse(ID_NONE, (struct slice){ name, ID_TEXT_LEN }, &id) == 0 &&
	    (id.noun == ID_SANDBOX || id.noun == ID_VOLUME)) {
		*c->id = id;
		c->n++;
	}
	return 0;
}

uint32_t trash_count_stuck(const struct keeper *k, struct id *ret)
{
	struct trash_stuck_count c = { .id = ret };

	(void)path_for_each_entry(k->trash, on_trash_entry_count_stuck, &c);
	return c.n;
}

/* dir is the entry, locked; negative: it is no directory.  The record goes last, because it leads
 * to the id range.  The range may be another sandbox's already when this is repeated, so its quota
 * is not touched here. */
static int trash_entry_remove(const struct keeper *k, const char *name, int dir, uint64_t until_ns)
{
	struct keeper_sandbox_record record = {};
	char id[ID_TEXT_LEN + 1] = "";
	int r = dir < 0 ? 0 : keeper_sandbox_read_record(dir, &record);

	memcpy(id, name, strnlen(name, ID_TEXT_LEN));
	if (r >= 0 && dir >= 0) {
		disk_remove(&k->disk, dir, SANDBOX_DISK, 0);
		r = rmtree_at_until(dir, SANDBOX_DISK, until_ns);
	}
	r = r < 0 ? r : failpoint_hit(FAULT_TRASH_DISK);
	if (r < 0)
		return r;
	id_range_release(k, id, &record);
	r = failpoint_hit(FAULT_TRASH_RANGE);
	return r < 0 ? r : rmtree_at_until(k->trash, name, until_ns);
}

static int trash_rename(const struct keeper *k, int from, const char *id,
			char ret[static TRASH_NAME_MAX + 1])
{
	uint64_t number = clk_boot_ns(&clk_system);
	int r;

	do {
		int n = snprintf(ret, TRASH_NAME_MAX + 1, "%s.%" PRIx64, id, number++);

		if (n < 0 || n > TRASH_NAME_MAX)
			return -ENAMETOOLONG;
		r = renameat2(from, id, k->trash, ret, RENAME_NOREPLACE) < 0 ? -errno : 0;
	} while (r == -EEXIST);
	return r;
}

int trash_add(const struct keeper *k, const struct trash_item *item, bool *ret_left)
{
	char name[TRASH_NAME_MAX + 1];
	int r = trash_rename(k, item->from, item->name, name);

	if (r < 0) { /* there is none, or no room for another name */
		r = rmtree_at(item->from, item->name);
		if (r >= 0 && !trash_has_sandbox(k, item->name))
			id_range_release(k, item->name, item->record);
		return r;
	}
	*ret_left = true;
	r = failpoint_hit(FAULT_REMOVE_TRASHED);
	if (r >= 0)
		*ret_left = trash_entry_remove(k, name, item->dir,
					       clk_boot_ns(&clk_system) + TRASH_INLINE_NS) < 0;
	return r;
}

/* The process */

static bool trash_disk_is_short(const struct keeper *k)
{
	struct statvfs fs;
	uint64_t size, reserved;

	if (fstatvfs(k->trash, &fs) < 0)
		return false;
	size = (uint64_t)fs.f_blocks * fs.f_frsize;
	reserved = size / 20 < DISK_RESERVED_MAX ? size / 20 : DISK_RESERVED_MAX;
	if (k->settings.node_disk)
		reserved = k->settings.node_disk;
	/* twice what cayd keeps: before creates are refused */
	return (uint64_t)fs.f_bavail * fs.f_frsize < 2 * reserved ||
	       (fs.f_files && fs.f_favail < 2UL * INODES_RESERVED);
}

static int on_trash_entry_check_age(void *now, int trash, const char *name)
{
	struct stat st; /* the rename set ctime */

	return fstatat(trash, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !trash_name_is_stuck(name) &&
	       st.st_ctime + OLD_S < *(const time_t *)now;
}

static bool trash_is_urgent(const struct keeper *k)
{
	time_t now = (time_t)(clk_wall_ns(&clk_system) / NS_PER_S);

	return trash_disk_is_short(k) ||
	       path_for_each_entry(k->trash, on_trash_entry_check_age, &now) > 0;
}

/* A process cannot always undo this, so one that must hurry is a new one. */
static void trash_set_idle(const struct keeper *k, bool idle)
{
	auto_close int fd = path_open(k->trash_cgroup.v2, "cpu.idle", O_WRONLY, 0);

	if (fd >= 0) /* cgroups compete by their weights, whatever their processes are */
		(void)fd_write_all(fd, idle ? "1" : "0", 1);
	if (!idle)
		return;
	(void)sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){});
	(void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0,
		      IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

struct trash_pass {
	struct keeper *k;
	bool urgent;
	uint64_t checked_ns; /* when urgency was checked */
	bool more, stuck;
};

static void trash_mark_stuck(struct trash_pass *p, const char *name, int why)
{
	char marked[TRASH_NAME_MAX + 2];
	int n = snprintf(marked, sizeof(marked), "%s%c", name, STUCK_MARK);

	p->stuck = true;
	if (trash_name_is_stuck(name))
		return;
	log_error(&p->k->log, "cannot remove trash/%s, will retry: %s", name,
		  strerror(-why)); /* NOLINT(concurrency-mt-unsafe): no threads */
	if (n > 0 && n < (int)sizeof(marked))
		(void)renameat2(p->k->trash, name, p->k->trash, marked, RENAME_NOREPLACE);
}

/* The worker that put it here removes its files for a moment, or is being killed: its report may
 * come before the kernel drops its lock. */
static bool trash_entry_lock(int dir)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(dir, LOCK_EX | LOCK_NB) == 0)
			return true;
		(void)poll(NULL, 0, LOCK_WAIT_MS);
	}
	return false;
}

/* Positive: end the pass. */
static int on_trash_entry(void *arg, int trash, const char *name)
{
	struct trash_pass *p = arg;
	auto_close int dir = path_open(trash, name, O_RDONLY | O_DIRECTORY, 0);
	uint64_t now = clk_boot_ns(&clk_system);
	int r;

	if (now - p->checked_ns > NS_PER_S) {
		p->checked_ns = now;
		p->more = trash_is_urgent(p->k) != p->urgent;
		if (p->more)
			return 1;
	}
	if (dir == -ENOENT)
		return 0;
	if (dir >= 0 && !trash_entry_lock(dir)) {
		p->stuck = true; /* look again later */
		return 0;
	}
	r = trash_entry_remove(p->k, name, dir, now + TURN_NS);
	if (r == -ETIME)
		p->more = true;
	else if (r < 0)
		trash_mark_stuck(p, name, r);
	return 0;
}

enum trash_report trash_empty(struct keeper *k)
{
	struct trash_pass p = { .k = k,
				.urgent = trash_is_urgent(k),
				.checked_ns = clk_boot_ns(&clk_system) };

	trash_set_idle(k, !p.urgent);
	if (failpoint_hit(FAULT_TRASH_BEGUN) < 0 ||
	    path_for_each_entry(k->trash, on_trash_entry, &p) < 0)
		return TRASH_STUCK;
	return p.more ? TRASH_MORE : p.stuck ? TRASH_STUCK : TRASH_EMPTY;
}
