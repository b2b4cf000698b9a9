/* SPDX-License-Identifier: Apache-2.0 */
#include "init/view.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/sysinfo.h>

#include "base/str.h"
#include "init/init.h"
#include "init/job.h"

#define EVERY_MS 1000
#define SELDOM_MS 16000

/* No swap, and nothing of the kernel's that could be given back but the cache. */
static int write_meminfo(struct init *in)
{
	struct memory_now m = {};
	struct sysinfo host;
	auto_buf text = BUF_INIT(KIB(4));
	uint64_t all, cache, idle;
	int r = memory_read(&in->memory, &m);

	if (r < 0 || sysinfo(&host) < 0)
		return r < 0 ? r : -errno;
	all = (uint64_t)host.totalram * host.mem_unit;
	all = m.limit < all ? m.limit : all;
	idle = m.used < all ? all - m.used : 0;
	cache = memory_cache(&in->memory);
	cache = cache < m.used ? cache : m.used;
	r = buf_printf(&text,
		       "MemTotal:       %12llu kB\nMemFree:        %12llu kB\n"
		       "MemAvailable:   %12llu kB\nBuffers:                   0 kB\n"
		       "Cached:         %12llu kB\nSwapCached:                0 kB\n"
		       "SwapTotal:                 0 kB\nSwapFree:                  0 kB\n"
		       "Shmem:                     0 kB\nSlab:                      0 kB\n"
		       "SReclaimable:              0 kB\nSUnreclaim:                0 kB\n",
		       (unsigned long long)(all >> 10), (unsigned long long)(idle >> 10),
		       (unsigned long long)((idle + cache) >> 10),
		       (unsigned long long)(cache >> 10));
	in->view.used = m.used;
	/* of one length always: nobody sees the end of another */
	if (r >= 0 && pwrite(in->view.meminfo, text.data, text.len, 0) != (ssize_t)text.len)
		r = -errno;
	in->view.written_ms = uv_now(&in->loop);
	return r;
}

/* A command or a service. */
static bool somebody_runs(const struct init *in)
{
	const struct job *j = in->oldest;

	while (j && j->pid <= 0)
		j = j->next;
	return j;
}

static void on_tick(uv_timer_t *t)
{
	struct init *in = t->data;
	struct view *v = &in->view;
	uint64_t before = v->used;

	if (!somebody_runs(in) || write_meminfo(in) < 0)
		return;
	/* where nothing changes somebody only waits */
	v->every_ms = v->used / 100 == before / 100 ? 2 * v->every_ms : EVERY_MS;
	if (v->every_ms > SELDOM_MS)
		v->every_ms = SELDOM_MS;
	(void)uv_timer_start(t, on_tick, v->every_ms, 0);
}

void view_start(struct init *in)
{
	if (in->view.meminfo < 0)
		return;
	(void)uv_timer_init(&in->loop, &in->view.timer);
	in->view.timer.data = in;
	(void)write_meminfo(in);
}

void view_wake(struct init *in)
{
	struct view *v = &in->view;

	if (v->meminfo < 0)
		return;
	if (uv_now(&in->loop) - v->written_ms >= EVERY_MS)
		(void)write_meminfo(in);
	if (uv_is_active((const uv_handle_t *)&v->timer) && v->every_ms == EVERY_MS)
		return;
	v->every_ms = EVERY_MS;
	(void)uv_timer_start(&v->timer, on_tick, EVERY_MS, 0);
}

/* "0" or "0-7" */
static unsigned cpus_shown(void)
{
	auto_close int fd = open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
	char text[32];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	struct slice rest = { text, n > 0 ? (size_t)n - 1 : 0 }, from;
	uint64_t last = 0;

	if (n <= 0)
		return CPU_SETSIZE;
	from = slice_cut(&rest, '-');
	if (str_u64(rest.p ? rest : from, 0, CPU_SETSIZE - 1, &last) < 0)
		return CPU_SETSIZE;
	return (unsigned)last + 1;
}

void view_pin(void)
{
	cpu_set_t may, keep;
	unsigned n = cpus_shown();
	int here = sched_getcpu();

	if (here < 0 || sched_getaffinity(0, sizeof(may), &may) < 0 ||
	    n >= (unsigned)CPU_COUNT(&may))
		return;
	CPU_ZERO(&keep);
	for (size_t i = 0; i < CPU_SETSIZE && n; i++) {
		size_t cpu = ((size_t)here + i) % CPU_SETSIZE;

		if (!CPU_ISSET(cpu, &may))
			continue;
		CPU_SET(cpu, &keep);
		n--;
	}
	(void)sched_setaffinity(0, sizeof(keep), &keep);
}
