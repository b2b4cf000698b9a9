/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/core/node-space.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cayd/core/cayd.h"

#define PROC_FILE_MAX KIB(4)
#define INODES_RESERVED 1024

/* The number after a word of a /proc file; the first number when the word is "". */
static uint64_t proc_file_read_number(const char *path, const char *word)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t n = ADMIT_UNKNOWN;
	char text[PROC_FILE_MAX];
	ssize_t len = fd < 0 ? fd : read(fd, text, sizeof(text) - 1);
	const char *at;
	struct slice s;

	if (len < 0)
		return n;
	text[len] = 0;
	at = strstr(text, word);
	if (!at)
		return n;
	at += strlen(word);
	at += strspn(at, " \t");
	s = (struct slice){ at, strspn(at, "0123456789") };
	return str_parse_u64(s, 0, UINT64_MAX, &n) < 0 ? ADMIT_UNKNOWN : n;
}

static uint64_t node_room_subtract(uint64_t a, uint64_t b)
{
	if (a == ADMIT_UNKNOWN || b == ADMIT_UNKNOWN)
		return ADMIT_UNKNOWN;
	return a > b ? a - b : 0;
}

static uint64_t node_space_disk_reserve(const struct cayd *c, const struct statvfs *fs)
{
	return c->settings.node_disk
		       ? c->settings.node_disk
		       : node_room_disk_reserve((uint64_t)fs->f_blocks * fs->f_frsize);
}

bool node_space_read_disk(const struct cayd *c, uint64_t *ret_free, uint64_t *ret_reserve)
{
	struct statvfs fs;

	if (fstatvfs(c->tmp, &fs) < 0)
		return false;
	*ret_free = (uint64_t)fs.f_bavail * fs.f_frsize;
	*ret_reserve = node_space_disk_reserve(c, &fs);
	return true;
}

static void node_space_measure(struct cayd *c)
{
	struct node_room *free = &c->node_space.free, *reserved = &c->node_space.reserved;
	uint64_t memory = proc_file_read_number("/proc/meminfo", "MemAvailable:");
	struct statvfs fs;

	/* loadavg is "0.00 0.01 0.05 1/234 567": 234 is the number of all threads */
	*free = (struct node_room){
		.of = { [ADMIT_MEMORY] = memory == ADMIT_UNKNOWN ? memory : memory * KIB(1),
			[ADMIT_PIDS] = node_room_subtract(
				proc_file_read_number("/proc/sys/kernel/pid_max", ""),
				proc_file_read_number("/proc/loadavg", "/")),
			[ADMIT_DISK] = ADMIT_UNKNOWN,
			[ADMIT_INODES] = ADMIT_UNKNOWN }
	};
	*reserved = (struct node_room){ .of = { [ADMIT_MEMORY] = c->settings.node_memory,
						[ADMIT_PIDS] = c->settings.node_pids } };
	if (fstatvfs(c->tmp, &fs) < 0)
		return;
	free->of[ADMIT_DISK] = (uint64_t)fs.f_bavail * fs.f_frsize;
	reserved->of[ADMIT_DISK] = node_space_disk_reserve(c, &fs);
	if (!fs.f_files)
		return; /* btrfs allocates inodes on demand */
	free->of[ADMIT_INODES] = fs.f_favail;
	reserved->of[ADMIT_INODES] =
		fs.f_files / 20 < INODES_RESERVED ? fs.f_files / 20 : INODES_RESERVED;
}

int node_space_open(struct cayd *c, struct cay_err *err)
{
	uint64_t memory = proc_file_read_number("/proc/meminfo", "MemTotal:");
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	struct statvfs fs;

	if (memory == ADMIT_UNKNOWN)
		return cay_fail(err, CAY_E_INTERNAL, "/proc/meminfo has no MemTotal");
	if (fstatvfs(c->tmp, &fs) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "statvfs of paths.state");
	c->node_space.memory_total = memory * KIB(1);
	c->node_space.disk_total = (uint64_t)fs.f_blocks * fs.f_frsize;
	c->node_space.cores = cores > 0 ? (unsigned)cores : 1;
	return 0;
}

static void node_space_refresh(struct cayd *c)
{
	uint64_t now = clk_boot_ns(c->clk);

	if (now >= c->node_space.valid_until_ns) {
		node_space_measure(c);
		c->node_space.valid_until_ns = now + NODE_SPACE_NS;
	}
}

int node_space_check(struct cayd *c, struct cay_err *err)
{
	node_space_refresh(c);
	return node_room_require(&c->node_space.free, &c->node_space.reserved, err);
}

int node_space_check_disk(struct cayd *c, struct cay_err *err)
{
	struct node_room reserved;

	node_space_refresh(c);
	reserved = c->node_space.reserved;
	reserved.of[ADMIT_MEMORY] = reserved.of[ADMIT_PIDS] = 0;
	return node_room_require(&c->node_space.free, &reserved, err);
}

void node_space_expire(struct cayd *c)
{
	c->node_space.valid_until_ns = 0;
}
