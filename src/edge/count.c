/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/count.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/path.h"
#include "edge/edge.h"

void counts_open(struct counts *c)
{
	auto_close int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	c->statm = proc < 0 ? -EBADF : path_open(proc, "statm", O_RDONLY, 0);
	c->fds = proc < 0 ? -EBADF : path_open(proc, "fd", O_RDONLY | O_DIRECTORY, 0);
}

bool count_answered(struct request *rq, int status, enum cay_code code, bool, void *arg)
{
	struct edge *e = arg;
	unsigned outcome = !status                  ? METRICS_LEFT
			   : !code && status >= 400 ? METRICS_INSIDE
						    : (unsigned)code;

	metrics_answer(&e->counts.now.answers, rq->match.op, outcome, uv_hrtime() - rq->begun_ns);
	return false;
}

static void read_memory(struct counts *c)
{
	char text[128];
	ssize_t n = c->statm < 0 ? -1 : pread(c->statm, text, sizeof(text), 0);
	struct slice rest = { text, n > 0 ? (size_t)n : 0 };
	uint64_t pages;

	(void)slice_cut(&rest, ' ');
	if (str_u64(slice_cut(&rest, ' '), 0, UINT64_MAX / KIB(64), &pages) >= 0)
		c->now.memory = pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void counts_look(struct edge *e)
{
	struct counts *c = &e->counts;
	struct stat st;

	c->now.conns = 0;
	for (unsigned i = 0; i < e->n_servers; i++)
		c->now.conns += server_connections(e->servers[i]);
	c->now.open = e->n_guests;
	c->now.log_lost = e->log.lost;
	read_memory(c);
	/* how many it has is the directory's size (Linux 6.2); before it there is nothing */
	if (c->fds >= 0 && fstat(c->fds, &st) >= 0)
		c->now.fds = (uint64_t)st.st_size;
}

bool counts_next(struct counts *c, struct push *ret)
{
	for (uint64_t n = 0; metrics_cell(&c->now, n); n++) {
		uint64_t i = metrics_cell(&c->now, c->at) ? c->at : 0;
		uint64_t value = *metrics_cell(&c->now, i), *told = metrics_cell(&c->told, i);

		c->at = i + 1;
		if (value == *told)
			continue;
		*told = value;
		*ret = (struct push){ .kind = PUSH_COUNT, .number = (uint32_t)i, .time = value };
		return true;
	}
	return false;
}

void counts_untold(struct counts *c)
{
	c->told = (struct metrics_edge){};
}
