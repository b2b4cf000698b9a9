/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/written.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/path.h"

#define PROCS_MAX KIB(256)
#define IO_MAX KIB(1)
#define DEPTH 4 /* an exec's cgroup is the first below; deeper ones are the sandbox's choice */

static uint64_t pid_read_written(int proc, struct slice pid)
{
	auto_buf text = BUF_INIT(IO_MAX);
	uint64_t written = 0, cancelled = 0;
	char path[32];
	struct slice rest;
	int n = snprintf(path, sizeof(path), "%.*s/io", (int)pid.n, pid.p);

	if (n < 0 || n >= (int)sizeof(path) || path_read(proc, path, &text) < 0)
		return 0; /* it has ended */
	rest = (struct slice){ buf_str(&text), text.len };
	while (rest.p) {
		struct slice line = slice_cut(&rest, '\n'), word = slice_cut(&line, ' ');

		if (slice_eq(word, SLICE("write_bytes:")))
			(void)str_parse_u64(line, 0, UINT64_MAX, &written);
		else if (slice_eq(word, SLICE("cancelled_write_bytes:")))
			(void)str_parse_u64(line, 0, UINT64_MAX, &cancelled);
	}
	return written > cancelled ? written - cancelled : 0;
}

struct written_walk {
	int proc;
	unsigned depth;
	uint64_t sum;
};

static int written_add_cgroup(void *arg, int parent, const char *name)
{
	struct written_walk *w = arg;
	auto_close int dir = path_open(parent, name, O_RDONLY | O_DIRECTORY, 0);
	auto_buf procs = BUF_INIT(PROCS_MAX);
	struct slice rest;
	struct stat st;

	if (dir < 0 || fstat(dir, &st) < 0 || path_read(dir, "cgroup.procs", &procs) < 0)
		return 0;
	rest = (struct slice){ buf_str(&procs), procs.len };
	while (rest.n)
		w->sum += pid_read_written(w->proc, slice_cut(&rest, '\n'));
	if (w->depth++ < DEPTH && st.st_nlink > 2)
		(void)path_for_each_entry(dir, written_add_cgroup, w);
	w->depth--;
	return 0;
}

uint64_t cgroup_read_written(const struct cgroup *c)
{
	struct written_walk w = { .proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) };

	if (w.proc >= 0)
		(void)written_add_cgroup(&w, c->v2, ".");
	cay_closep(&w.proc);
	return w.sum;
}
