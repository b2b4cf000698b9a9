/* SPDX-License-Identifier: Apache-2.0 */
#include "init/proc/processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/path.h"
#include "init/core/users.h"
#include "init/exec/exec.h"
#include "init/proc/proc-query.h"

#define STAT_MAX KIB(1)
#define STATUS_MAX KIB(4)
#define POOL_MAX MIB(8) /* PROCS_MAX rows, read and described, and the texts of PROCS_JSON */
#define ROW_JSON 420    /* of a row without its command and names */

int process_stat_parse(struct slice text, struct process_stat *ret)
{
	const char *open = memchr(text.p, '(', text.n);
	const char *close = memrchr(text.p, ')', text.n); /* the name may contain some */
	struct slice pid, rest, words[22];
	uint64_t user, kernel;

	if (!open || !close || close < open || open < text.p + 2)
		return -EPROTO;
	pid = (struct slice){ text.p, (size_t)(open - text.p) - 1 };
	rest = slice_trim((struct slice){ close + 1, text.n - (size_t)(close + 1 - text.p) });
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = slice_cut(&rest, ' ');
	*ret = (struct process_stat){ .state = words[0].n == 1 ? words[0].p[0] : '?',
				      .comm = { open + 1, (size_t)(close - open) - 1 } };
	if (str_parse_u64(pid, 1, UINT32_MAX, &ret->pid) < 0 ||
	    str_parse_u64(words[1], 0, UINT32_MAX, &ret->ppid) < 0 ||
	    str_parse_u64(words[11], 0, INT64_MAX / 2, &user) < 0 ||
	    str_parse_u64(words[12], 0, INT64_MAX / 2, &kernel) < 0 ||
	    str_parse_u64(words[17], 0, UINT32_MAX, &ret->threads) < 0 ||
	    str_parse_u64(words[19], 0, INT64_MAX, &ret->start) < 0 ||
	    str_parse_u64(words[21], 0, INT64_MAX / KIB(64), &ret->rss_pages) < 0)
		return -EPROTO;
	ret->cpu_ticks = user + kernel;
	return 0;
}

void process_text_to_utf8(const char *from, size_t n, char *ret, size_t max)
{
	static const char unknown[] = "\xef\xbf\xbd";
	size_t at = 0;

	while (n && !from[n - 1])
		n--;
	for (size_t i = 0; i < n;) {
		size_t len = utf8_len(from + i, n - i);
		const char *piece = len ? from + i : unknown;
		size_t take = len ? len : sizeof(unknown) - 1;

		if (len == 1 && ((unsigned char)from[i] < ' ' || from[i] == 0x7f))
			piece = " ";
		if (at + take > max)
			break;
		memcpy(ret + at, piece, take);
		at += take;
		i += len ? len : 1;
	}
	ret[at] = 0;
}

struct id process_exec_from_cgroup(struct slice cgroup)
{
	struct id found = {}, one;

	while (cgroup.p) {
		struct slice line = slice_cut(&cgroup, '\n');

		if (line.n < 3 || memcmp(line.p, "0::", 3) != 0)
			continue;
		while (line.p)
			if (id_parse(ID_EXEC, slice_cut(&line, '/'), &one) >= 0)
				found = one;
	}
	return found;
}

static ssize_t process_read_proc_file(uint64_t pid, const char *what, char *to, size_t max)
{
	char path[64];
	int n = snprintf(path, sizeof(path), "/proc/%llu/%s", (unsigned long long)pid, what);
	auto_close int fd = -EBADF;

	if (n < 0 || (size_t)n >= sizeof(path))
		return -EINVAL;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : read(fd, to, max);
}

static int process_read_stat(uint64_t pid, char text[static STAT_MAX], struct process_stat *ret)
{
	ssize_t n = process_read_proc_file(pid, "stat", text, STAT_MAX);

	return n < 0 ? (int)n : process_stat_parse((struct slice){ text, (size_t)n }, ret);
}

struct id process_find_exec(const struct init *in, uint64_t pid)
{
	char text[STATUS_MAX];
	ssize_t n = process_read_proc_file(pid, "cgroup", text, sizeof(text));
	struct id id =
		n < 0 ? (struct id){} : process_exec_from_cgroup((struct slice){ text, (size_t)n });

	/* services and internal execs have such cgroups as well */
	for (const struct exec *exec = in->newest_exec; id.noun && exec; exec = exec->prev)
		if (id_eq(&exec->id, &id))
			return exec_is_visible(exec) ? id : (struct id){};
	return (struct id){};
}

struct process_row {
	struct process_stat stat;
	uint64_t depth;
};

struct process_table {            /* of all processes but this one */
	struct process_row *rows; /* by parent, then number */
	size_t n;
	uint32_t *order; /* of the tree */
	uint64_t left_out;
};

static int process_compare_by_parent(const void *a, const void *b)
{
	const struct process_row *x = a, *y = b;

	if (x->stat.ppid != y->stat.ppid)
		return x->stat.ppid < y->stat.ppid ? -1 : 1;
	return x->stat.pid < y->stat.pid ? -1 : x->stat.pid > y->stat.pid;
}

static void process_table_read_proc(struct process_table *a)
{
	DIR *d = opendir("/proc");
	char text[STAT_MAX];
	struct dirent *e;
	uint64_t pid;

	while (d && (e = readdir(d))) {
		struct process_row *r = &a->rows[a->n];

		if (str_parse_u64(slice_of(e->d_name), 1, UINT32_MAX, &pid) < 0 ||
		    pid == (uint64_t)getpid())
			continue;
		if (a->n == PROCS_MAX)
			a->left_out++;
		else if (process_read_stat(pid, text, &r->stat) >= 0)
			a->n++;
	}
	if (d)
		(void)closedir(d);
	qsort(a->rows, a->n, sizeof(*a->rows), process_compare_by_parent);
}

/* The index of its first child. */
static size_t process_table_first_child(const struct process_table *a, uint64_t pid)
{
	size_t from = 0, to = a->n;

	while (from < to) {
		size_t mid = (from + to) / 2;

		if (a->rows[mid].stat.ppid < pid)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/* Append the rows below root to order, from `at` on; returns the new number of rows.  Rows
 * still to visit are kept in `wait`; no row is in it twice. */
static size_t process_table_order_tree(struct process_table *a, uint32_t *wait, uint32_t root,
				       uint64_t depth, size_t at)
{
	size_t n = 0;

	wait[n++] = root;
	a->rows[root].depth = depth;
	while (n && at < a->n) {
		uint32_t row = wait[--n];
		uint64_t pid = a->rows[row].stat.pid;
		size_t from = process_table_first_child(a, pid), to = from;

		a->order[at++] = row;
		while (to < a->n && a->rows[to].stat.ppid == pid)
			to++;
		while (to-- > from && n < a->n) {
			a->rows[to].depth = a->rows[row].depth + 1;
			wait[n++] = (uint32_t)to;
		}
	}
	return at;
}

static bool process_table_has_parent(const struct process_table *a, const struct process_row *r)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->rows[i].stat.pid == r->stat.ppid)
			return true;
	return false;
}

/* Processes come and go while they are read, so this need not be one tree: a process without a
 * parent starts another. */
static int process_table_load(struct process_table *a, struct arena *arena)
{
	uint32_t *wait = arena_alloc(arena, PROCS_MAX + 1, sizeof(*wait));
	size_t n = 0;

	a->rows = arena_alloc(arena, PROCS_MAX + 1, sizeof(*a->rows));
	a->order = arena_alloc(arena, PROCS_MAX, sizeof(*a->order));
	if (!a->rows || !a->order || !wait)
		return -ENOMEM;
	process_table_read_proc(a);
	for (uint32_t i = 0; i < a->n; i++)
		if (a->rows[i].stat.ppid == 0 || !process_table_has_parent(a, &a->rows[i]))
			n = process_table_order_tree(a, wait, i, 0, n);
	a->left_out += a->n - n;
	a->n = n;
	return 0;
}

struct passwd_cache {
	char passwd[KIB(64)];
	size_t n;
	uint64_t uid; /* the last one looked up */
	char name[64 + 1];
};

static void passwd_cache_read(struct passwd_cache *p)
{
	auto_close int fd = open("/etc/passwd", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	p->uid = UINT64_MAX;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	n = read(fd, p->passwd, sizeof(p->passwd));
	p->n = n > 0 ? (size_t)n : 0;
}

static const char *passwd_cache_user_name(struct passwd_cache *p, uint64_t uid)
{
	struct slice rest = { p->passwd, p->n };

	if (p->uid == uid)
		return p->name[0] ? p->name : NULL;
	p->uid = uid;
	p->name[0] = 0;
	while (rest.n) {
		struct slice line = slice_cut(&rest, '\n'), name = slice_cut(&line, ':');
		uint64_t found;

		(void)slice_cut(&line, ':');
		if (name.n && name.n < sizeof(p->name) && utf8_is_valid(name.p, name.n) &&
		    !memchr(name.p, 0, name.n) &&
		    str_parse_u64(slice_cut(&line, ':'), 0, USERS_ID_MAX, &found) >= 0 &&
		    found == uid) {
			memcpy(p->name, name.p, name.n);
			p->name[name.n] = 0;
			return p->name;
		}
	}
	return NULL;
}

static uint64_t process_read_uid(uint64_t pid)
{
	char text[STATUS_MAX + 1];
	ssize_t n = process_read_proc_file(pid, "status", text, STATUS_MAX);
	const char *at;
	struct slice line;
	uint64_t uid = 0;

	text[n > 0 ? n : 0] = 0;
	at = strstr(text, "\nUid:\t"); /* the name before it contains no line end */
	if (!at)
		return 0;
	line = slice_of(at + 6);
	(void)slice_cut(&line, '\t');
	return str_parse_u64(slice_cut(&line, '\t'), 0, UINT32_MAX, &uid) < 0 ? 0 : uid;
}

/* Its command line, or its name in brackets if it has none. */
static const char *process_read_command(uint64_t pid, struct arena *arena)
{
	char raw[PROCS_COMMAND + 1], text[STAT_MAX];
	ssize_t n = process_read_proc_file(pid, "cmdline", raw, PROCS_COMMAND);
	char *ret = arena_alloc(arena, 1, PROCS_COMMAND + 1);
	struct process_stat s;

	if (!ret)
		return "";
	if (n > 0) {
		process_text_to_utf8(raw, (size_t)n, ret, PROCS_COMMAND);
	} else if (process_read_stat(pid, text, &s) >= 0 && s.comm.n < sizeof(raw) - 2) {
		raw[0] = '[';
		memcpy(raw + 1, s.comm.p, s.comm.n);
		raw[s.comm.n + 1] = ']';
		process_text_to_utf8(raw, s.comm.n + 2, ret, PROCS_COMMAND);
	}
	return ret;
}

static void process_describe(const struct init *in, const struct process_row *r,
			     struct passwd_cache *users, struct arena *arena, struct process *ret)
{
	static char letters[256][2];
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK), boot = clk_boot_ns(&clk_system);
	uint64_t begun = r->stat.start * (NS_PER_S / hz), age_ms;
	unsigned char state = (unsigned char)r->stat.state;
	const char *user;

	letters[state][0] = state > ' ' && state < 0x7f ? (char)state : '?';
	age_ms = boot > begun ? (boot - begun) / NS_PER_MS : 0;
	*ret = (struct process){
		.pid = r->stat.pid,
		.ppid = r->stat.ppid,
		.depth = r->depth,
		.uid = process_read_uid(r->stat.pid),
		.state = letters[state],
		.command = process_read_command(r->stat.pid, arena),
		.threads = r->stat.threads,
		.cpu_ms = r->stat.cpu_ticks * (1000 / hz),
		.rss_bytes = r->stat.rss_pages * (uint64_t)sysconf(_SC_PAGESIZE),
		.started_ns = clk_wall_ns(&clk_system) - age_ms * NS_PER_MS,
		.start = r->stat.start,
		.exec = process_find_exec(in, r->stat.pid),
	};
	ret->cpu_milli = age_ms ? ret->cpu_ms * 1000 / age_ms : 0;
	user = passwd_cache_user_name(users, ret->uid);
	ret->user = user ? arena_strndup(arena, user, strlen(user)) : NULL;
}

int child_process_list(void *arg)
{
	const struct proc_query *q = arg;
	auto_arena arena = ARENA_INIT(POOL_MAX);
	struct passwd_cache *users = arena_alloc(&arena, 1, sizeof(*users));
	struct process_list reply = {};
	struct process *rows;
	struct process_table a = {};
	size_t sum = 0;

	static_assert(PROCS_MAX * (sizeof(*rows) + sizeof(*a.rows)) < POOL_MAX - 2 * PROCS_JSON);
	if (!users || process_table_load(&a, &arena) < 0)
		return 1;
	rows = arena_alloc(&arena, a.n + 1, sizeof(*rows));
	if (!rows)
		return 1;
	passwd_cache_read(users);
	for (size_t i = 0; i < a.n && sum < PROCS_JSON; i++) {
		struct process *to = &rows[reply.processes.n++];

		process_describe(q->init, &a.rows[a.order[i]], users, &arena, to);
		sum += ROW_JSON + 2 * strlen(to->command) + 2 * sizeof(users->name);
	}
	reply.processes.v = rows;
	reply.left_out = a.left_out + a.n - reply.processes.n;
	return proc_query_write_json(&process_list_table, &reply, PROCS_JSON + KIB(64));
}

int child_process_descendants(void *arg)
{
	const struct proc_query *q = arg;
	auto_arena arena = ARENA_INIT(POOL_MAX);
	struct process_table a = {};
	uint64_t depth = 0;
	bool in_it = false;

	if (process_table_load(&a, &arena) < 0)
		return 1;
	for (size_t i = 0; i < a.n; i++) {
		const struct process_row *r = &a.rows[a.order[i]];
		struct process_ref one = { r->stat.pid, r->stat.start };

		if (r->stat.pid == q->pid)
			in_it = true;
		else if (in_it && r->depth <= depth)
			break;
		if (r->stat.pid == q->pid)
			depth = r->depth;
		if (in_it && fd_write_all(STDOUT_FILENO, &one, sizeof(one)) < 0)
			return 1;
	}
	return 0;
}

/* The pidfd is opened first: if the line read afterwards has the right start time, it belongs
 * to the process of the pidfd, or that process is dead. */
int process_send_signal(uint64_t pid, const uint64_t *start, int sig)
{
	auto_close int fd = -EBADF;
	char text[STAT_MAX];
	struct process_stat now;

	if (pid <= 1 || pid > INT32_MAX)
		return -EPERM;
	fd = (int)syscall((long)SYS_pidfd_open, (pid_t)pid, 0);
	if (fd < 0)
		return errno == EINVAL ? -ESRCH : -errno;
	if (start && process_read_stat(pid, text, &now) < 0)
		return -ESRCH;
	if (start && now.start != *start)
		return -ESRCH;
	return syscall((long)SYS_pidfd_send_signal, fd, sig, NULL, 0) < 0 ? -errno : 0;
}
