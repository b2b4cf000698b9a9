/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "base/buf.h"
#include "base/path.h"
#include "cgroup/cgroup.h"

#define SMALL_FILE KIB(8)
/* The kernel charges several pages at once, and kills when they do not fit. */
#define CGROUP_LIMIT_SLACK MIB(1)

static int cgroup_read_number(int dirfd, const char *name, uint64_t *ret)
{
	auto_buf text = BUF_INIT(SMALL_FILE);
	int r = path_read(dirfd, name, &text);

	if (r < 0 || !text.len)
		return r < 0 ? r : -EINVAL;
	return str_parse_u64((struct slice){ text.data, text.len - 1 }, 0, UINT64_MAX, ret);
}

/* A line "word number" of a file that has several. */
static int cgroup_read_keyed_number(int dirfd, const char *name, const char *word, uint64_t *ret)
{
	auto_buf text = BUF_INIT(SMALL_FILE);
	int r = path_read(dirfd, name, &text);
	struct slice rest = { buf_str(&text), text.len };

	while (r >= 0 && rest.p) {
		struct slice line = slice_cut(&rest, '\n');

		if (slice_eq(slice_cut(&line, ' '), slice_of(word)))
			return str_parse_u64(line, 0, UINT64_MAX, ret);
	}
	return r < 0 ? r : -ENOENT;
}

int cgroup_read_memory_usage(int dir, bool v1, uint64_t *ret)
{
	return cgroup_read_number(dir, v1 ? "memory.usage_in_bytes" : "memory.current", ret);
}

int cgroup_read_swap(int dir, uint64_t *ret)
{
	int r = cgroup_read_number(dir, "memory.swap.current", ret);

	if (r == -ENOENT)
		*ret = 0;
	return r == -ENOENT ? 0 : r;
}

/* The third number of mm_stat: with what the allocator needs itself. */
static int on_cgroup_block_device(void *arg, int block_dir, const char *name)
{
	uint64_t *sum = arg, used = 0;
	auto_close int dir = -EBADF;
	auto_buf text = BUF_INIT(SMALL_FILE);
	struct slice rest, word = {};

	if (strncmp(name, "zram", 4) != 0)
		return 0;
	dir = path_open(block_dir, name, O_RDONLY | O_DIRECTORY, 0);
	if (dir < 0 || path_read(dir, "mm_stat", &text) < 0)
		return 0; /* it has gone */
	rest = (struct slice){ buf_str(&text), text.len };
	for (unsigned n = 0; n < 3 && rest.p;) {
		word = slice_cut(&rest, ' ');
		n += word.n > 0; /* columns are filled with spaces */
	}
	if (str_parse_u64(word, 0, UINT64_MAX - *sum, &used) >= 0)
		*sum += used;
	return 0;
}

int cgroup_read_compressed(int block_dir, uint64_t *ret)
{
	*ret = 0;
	return path_for_each_entry(block_dir, on_cgroup_block_device, ret);
}

bool cgroup_v1_has_waiters(int dir)
{
	uint64_t n = 0;

	return cgroup_read_keyed_number(dir, "memory.oom_control", "under_oom", &n) >= 0 && n;
}

int cgroup_read_memory_cache(int dir, bool v1, uint64_t *ret)
{
	auto_buf text = BUF_INIT(SMALL_FILE);
	int r = path_read(dir, "memory.stat", &text);
	struct slice rest = { buf_str(&text), text.len };

	*ret = 0;
	while (r >= 0 && rest.p) {
		struct slice line = slice_cut(&rest, '\n'), name = slice_cut(&line, ' ');
		uint64_t n = 0;

		if (v1 && name.n > 6 && strncmp(name.p, "total_", 6) == 0)
			name = (struct slice){ name.p + 6, name.n - 6 };
		else if (v1)
			continue;
		if (slice_eq(name, SLICE("active_file")) || slice_eq(name, SLICE("inactive_file")))
			r = str_parse_u64(line, 0, UINT64_MAX, &n);
		*ret += n;
	}
	return r;
}

/* v1 does not count where swap is limited as well; what was ever used remains. */
static bool cgroup_v1_reached_limit(int dir, uint64_t peak)
{
	uint64_t limit = 0;

	return cgroup_read_number(dir, "memory.limit_in_bytes", &limit) >= 0 &&
	       peak + CGROUP_LIMIT_SLACK >= limit;
}

static int cgroup_read_memory_peak(const struct cgroup *c, uint64_t *ret)
{
	int r;

	if (c->v1[CG_MEMORY] >= 0)
		return cgroup_read_number(c->v1[CG_MEMORY], "memory.max_usage_in_bytes", ret);
	r = cgroup_read_number(c->v2, "memory.peak", ret);
	/* memory.peak exists from Linux 5.19 on */
	return r < 0 ? cgroup_read_number(c->v2, "memory.current", ret) : r;
}

static int cgroup_read_memory(const struct cgroup *c, struct cgroup_usage *ret)
{
	int fd = c->v1[CG_MEMORY];
	int r = cgroup_read_memory_usage(fd < 0 ? c->v2 : fd, fd >= 0, &ret->memory_bytes);

	if (r >= 0)
		r = cgroup_read_memory_peak(c, &ret->memory_peak);
	if (fd >= 0) {
		ret->limit_hits = r >= 0 && cgroup_v1_reached_limit(fd, ret->memory_peak);
		return r < 0 ? r
			     : cgroup_read_keyed_number(fd, "memory.oom_control", "oom_kill",
							&ret->oom_kills);
	}
	(void)cgroup_read_keyed_number(c->v2, "memory.events", "oom", &ret->limit_hits);
	return r < 0 ? r
		     : cgroup_read_keyed_number(c->v2, "memory.events", "oom_kill",
						&ret->oom_kills);
}

/* v2 counts CPU time wherever its controller is. */
static int cgroup_read_cpu_time(const struct cgroup *c, uint64_t *ret_ns)
{
	uint64_t us = 0;
	int r = cgroup_read_keyed_number(c->v2, "cpu.stat", "usage_usec", &us);

	*ret_ns = us * 1000;
	return r;
}

int cgroup_read_spent(const struct cgroup *c, struct cgroup_usage *ret)
{
	int r = cgroup_read_cpu_time(c, &ret->cpu_ns);

	return r < 0 ? r : cgroup_read_memory_peak(c, &ret->memory_peak);
}

static int cgroup_read_cpu(const struct cgroup *c, struct cgroup_usage *ret)
{
	uint64_t us;
	int r = cgroup_read_cpu_time(c, &ret->cpu_ns);

	if (r < 0)
		return r;
	if (c->v1[CG_CPU] >= 0)
		return cgroup_read_keyed_number(c->v1[CG_CPU], "cpu.stat", "throttled_time",
						&ret->throttled_ns);
	r = cgroup_read_keyed_number(c->v2, "cpu.stat", "throttled_usec", &us);
	ret->throttled_ns = us * 1000;
	return r;
}

int cgroup_read_usage(const struct cgroup *c, struct cgroup_usage *ret, struct cay_err *err)
{
	int r = cgroup_read_memory(c, ret);

	if (r >= 0)
		r = cgroup_read_cpu(c, ret);
	if (r >= 0)
		r = cgroup_read_number(c->v1[CG_PIDS] >= 0 ? c->v1[CG_PIDS] : c->v2, "pids.current",
				       &ret->processes);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "read the usage of a sandbox") : 0;
}
