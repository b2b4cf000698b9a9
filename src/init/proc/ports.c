/* SPDX-License-Identifier: Apache-2.0 */
#include "init/proc/ports.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "init/proc/proc-query.h"
#include "init/proc/processes.h"

#define LISTENS SLICE("0A")
#define LOOK_NS (20 * NS_PER_MS)

static int proc_net_parse_hex(struct slice s, uint64_t *ret)
{
	*ret = 0;
	if (!s.n || s.n > 8)
		return -EINVAL;
	for (size_t i = 0; i < s.n; i++) {
		const char *at = s.p[i] ? strchr("0123456789ABCDEF", s.p[i]) : NULL;

		if (!at)
			return -EINVAL;
		*ret = *ret << 4 | (unsigned)(at - &"0123456789ABCDEF"[0]);
	}
	return 0;
}

/* Words of the kernel, each a number in this machine's byte order. */
static int proc_net_parse_address(struct slice s, bool v6, uint8_t ret[static 16])
{
	size_t words = v6 ? 4 : 1;
	uint64_t v;

	memset(ret, 0, 16);
	if (s.n != 8 * words)
		return -EINVAL;
	for (size_t i = 0; i < words; i++) {
		uint32_t word;

		if (proc_net_parse_hex((struct slice){ s.p + 8 * i, 8 }, &v) < 0)
			return -EINVAL;
		word = (uint32_t)v;
		memcpy(ret + 4 * i, &word, sizeof(word));
	}
	return 0;
}

/* 1: it listens; 0: it does not. */
static int proc_net_parse_row(struct slice line, bool v6, struct listener *ret)
{
	struct slice words[10], address;
	uint64_t port;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		line = slice_trim(line);
		words[i] = slice_cut(&line, ' ');
	}
	address = slice_cut(&words[1], ':');
	if (proc_net_parse_address(address, v6, ret->address) < 0 ||
	    proc_net_parse_hex(words[1], &port) < 0 || port > UINT16_MAX ||
	    str_parse_u64(words[7], 0, UINT32_MAX, &ret->uid) < 0 ||
	    str_parse_u64(words[9], 0, INT64_MAX, &ret->inode) < 0)
		return -EPROTO;
	ret->port = (uint16_t)port;
	ret->v6 = v6;
	return slice_eq(words[3], LISTENS);
}

size_t listeners_parse(struct slice text, bool v6, struct listener *ret, size_t max, bool *ret_more)
{
	size_t n = 0;

	*ret_more = false;
	(void)slice_cut(&text, '\n'); /* column titles */
	while (n < max) {
		struct slice line = slice_cut(&text, '\n');

		*ret_more = !text.p; /* cut off in the middle, or at a line's end */
		if (!text.p || proc_net_parse_row(line, v6, &ret[n]) != 1)
			break;
		n++;
	}
	return n;
}

bool listener_is_on_loopback(const struct listener *l)
{
	static const uint8_t any[16], one6[16] = { [15] = 1 }, one4[] = { 127, 0, 0, 1 },
				      mapped[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

	if (!l->v6)
		return memcmp(l->address, any, 4) == 0 || memcmp(l->address, one4, 4) == 0;
	return memcmp(l->address, any, 16) == 0 || memcmp(l->address, one6, 16) == 0 ||
	       memcmp(l->address, mapped, 16) == 0;
}

/* Up to the first row that does not listen: no later one does. */
static size_t listeners_read_file(bool v6, char *to, struct listener *ret, size_t max)
{
	auto_close int fd = open(v6 ? "/proc/self/net/tcp6" : "/proc/self/net/tcp",
				 O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	size_t n = 0, rows = 0;
	bool more = true;

	while (fd >= 0 && more && n < PORTS_TEXT_MAX) {
		ssize_t got = read(fd, to + n, PORTS_TEXT_MAX - n);

		if (got <= 0)
			break;
		n += (size_t)got;
		rows = listeners_parse((struct slice){ to, n }, v6, ret, max, &more);
	}
	return rows;
}

static size_t listeners_read_all(struct listener *ret, size_t max)
{
	char *text = malloc(PORTS_TEXT_MAX);
	size_t n = 0;

	if (text)
		n = listeners_read_file(false, text, ret, max);
	if (text)
		n += listeners_read_file(true, text, ret + n, max - n);
	free(text);
	return n;
}

bool port_is_open(uint16_t port)
{
	static struct listener all[PORTS_MAX]; /* static: not reentered */
	static uint64_t looked_ns;
	static size_t n;
	bool found = false;

	if (!looked_ns || clk_boot_ns(&clk_system) - looked_ns >= LOOK_NS) {
		n = listeners_read_all(all, PORTS_MAX);
		looked_ns = clk_boot_ns(&clk_system);
	}
	for (size_t i = 0; i < n && !found; i++)
		found = all[i].port == port && listener_is_on_loopback(&all[i]);
	return found;
}

struct port_owners {
	const struct listener *all;
	uint64_t *pids; /* of each; 0: unknown */
	size_t n, left;
	uint64_t end_ns;
};

static void port_owners_check_fd(struct port_owners *o, int dir, const char *name, uint64_t pid)
{
	static const char prefix[] = "socket:[";
	char text[64];
	ssize_t n = readlinkat(dir, name, text, sizeof(text));
	uint64_t inode;

	if (n <= (ssize_t)sizeof(prefix) || memcmp(text, prefix, sizeof(prefix) - 1) != 0 ||
	    str_parse_u64((struct slice){ text + sizeof(prefix) - 1, (size_t)n - sizeof(prefix) },
			  1, INT64_MAX, &inode) < 0)
		return;
	for (size_t i = 0; i < o->n; i++)
		if (o->all[i].inode == inode && !o->pids[i]) {
			o->pids[i] = pid;
			o->left--;
		}
}

static bool port_owners_can_continue(const struct port_owners *o)
{
	return o->left && clk_boot_ns(&clk_system) < o->end_ns;
}

static void port_owners_check_process(struct port_owners *o, uint64_t pid)
{
	char path[64];
	int n = snprintf(path, sizeof(path), "/proc/%llu/fd", (unsigned long long)pid);
	DIR *d = n > 0 && (size_t)n < sizeof(path) ? opendir(path) : NULL;
	struct dirent *e;

	while (d && port_owners_can_continue(o) && (e = readdir(d)))
		port_owners_check_fd(o, dirfd(d), e->d_name, pid);
	if (d)
		(void)closedir(d);
}

static void port_owners_find(struct port_owners *o)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	uint64_t pid;

	while (d && port_owners_can_continue(o) && (e = readdir(d)))
		if (str_parse_u64(slice_of(e->d_name), 1, UINT32_MAX, &pid) >= 0)
			port_owners_check_process(o, pid);
	if (d)
		(void)closedir(d);
}

static int listener_compare(const void *a, const void *b)
{
	const struct listener *x = a, *y = b;

	return x->port != y->port ? x->port - y->port : x->v6 - y->v6;
}

int child_port_list(void *arg)
{
	const struct proc_query *q = arg;
	static struct listener all[PORTS_MAX];
	static struct port rows[PORTS_MAX];
	static char texts[PORTS_MAX][INET6_ADDRSTRLEN];
	static uint64_t pids[PORTS_MAX];
	size_t n = listeners_read_all(all, PORTS_MAX);
	struct port_list reply = { .ports = { rows, n } };
	struct port_owners o = { all, pids, n, n,
				 clk_boot_ns(&clk_system) + PORTS_OWNERS_MS * NS_PER_MS };

	qsort(all, n, sizeof(all[0]), listener_compare);
	port_owners_find(&o);
	for (size_t i = 0; i < n; i++) {
		if (!inet_ntop(all[i].v6 ? AF_INET6 : AF_INET, all[i].address, texts[i],
			       sizeof(texts[i])))
			return 1;
		rows[i] = (struct port){ .port = all[i].port,
					 .address = texts[i],
					 .reached = listener_is_on_loopback(&all[i]),
					 .uid = all[i].uid,
					 .pid = pids[i],
					 .has_pid = pids[i] };
		if (pids[i])
			rows[i].exec = process_find_exec(q->init, pids[i]);
	}
	return proc_query_write_json(&port_list_table, &reply, KIB(256));
}
