/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/meminfo.h"

#include <stdio.h>
#include <sys/sysinfo.h>

#include "init/exec/exec.h"

#define EVERY_MS 1000
#define SELDOM_MS 16000

/* No swap, and nothing reclaimable but the cache. */
static int meminfo_write(struct init *in)
{
	struct memory_usage m = {};
	struct sysinfo host;
	auto_buf text = BUF_INIT(KIB(4));
	uint64_t all, cache, idle;
	int r = memory_read_usage(&in->memory, &m);

	if (r < 0 || sysinfo(&host) < 0)
		return r < 0 ? r : -errno;
	all = (uint64_t)host.totalram * host.mem_unit;
	all = m.limit < all ? m.limit : all;
	idle = m.used < all ? all - m.used : 0;
	cache = memory_cache_bytes(&in->memory);
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
	in->meminfo.last_used = m.used;
	/* of constant length, so that no reader sees the rest of an older text */
	if (r >= 0 && pwrite(in->meminfo.fd, text.data, text.len, 0) != (ssize_t)text.len)
		r = -errno;
	in->meminfo.written_ms = uv_now(&in->loop);
	return r;
}

/* An exec or a service. */
static bool init_has_live_exec(const struct init *in)
{
	const struct exec *exec = in->oldest_exec;

	while (exec && exec->pid <= 0)
		exec = exec->next;
	return exec;
}

static void on_meminfo_timer(uv_timer_t *t)
{
	struct init *in = t->data;
	struct meminfo *v = &in->meminfo;
	uint64_t before = v->last_used;

	if (!init_has_live_exec(in) || meminfo_write(in) < 0)
		return;
	/* while usage does not change, programs are only waiting */
	v->interval_ms = v->last_used / 100 == before / 100 ? 2 * v->interval_ms : EVERY_MS;
	if (v->interval_ms > SELDOM_MS)
		v->interval_ms = SELDOM_MS;
	(void)uv_timer_start(t, on_meminfo_timer, v->interval_ms, 0);
}

void meminfo_start(struct init *in)
{
	if (in->meminfo.fd < 0)
		return;
	(void)uv_timer_init(&in->loop, &in->meminfo.timer);
	in->meminfo.timer.data = in;
	(void)meminfo_write(in);
}

void meminfo_wake(struct init *in)
{
	struct meminfo *v = &in->meminfo;

	if (v->fd < 0)
		return;
	if (uv_now(&in->loop) - v->written_ms >= EVERY_MS)
		(void)meminfo_write(in);
	if (uv_is_active((const uv_handle_t *)&v->timer) && v->interval_ms == EVERY_MS)
		return;
	v->interval_ms = EVERY_MS;
	(void)uv_timer_start(&v->timer, on_meminfo_timer, EVERY_MS, 0);
}
