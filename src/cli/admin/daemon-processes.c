/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/admin/daemon-processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/str.h"
#include "wire/verb.h"

#define EXE_MAX 4200

static const char deleted[] = " (deleted)";

/* The name of its program without the directory.  False: it cannot be read. */
static bool daemon_process_read_exe(int proc, const char *pid, char exe[static EXE_MAX],
				    struct slice *ret_name, bool *ret_replaced)
{
	size_t tail = sizeof(deleted) - 1, from = 0;
	char path[32];
	int n = snprintf(path, sizeof(path), "%s/exe", pid);
	ssize_t len = n < 0 || n >= (int)sizeof(path) ? -1 : readlinkat(proc, path, exe, EXE_MAX);

	if (len <= 0 || len == EXE_MAX)
		return false;
	*ret_replaced = (size_t)len > tail && memcmp(exe + len - tail, deleted, tail) == 0;
	if (*ret_replaced)
		len -= (ssize_t)tail;
	for (size_t i = 0; i < (size_t)len; i++)
		if (exe[i] == '/')
			from = i + 1;
	*ret_name = (struct slice){ exe + from, (size_t)len - from };
	return true;
}

static void daemon_process_add(int proc, const char *pid, struct daemon_processes *all)
{
	char exe[EXE_MAX];
	struct slice name;
	struct stat st;
	bool replaced;

	/* processes of sandboxes have ids of their own, and names of their choice */
	if (fstatat(proc, pid, &st, 0) < 0 || st.st_uid >= VERB_RANGE_BASE ||
	    !daemon_process_read_exe(proc, pid, exe, &name, &replaced))
		return;
	for (unsigned i = 0; i < DAEMON_NUM; i++) {
		if (!slice_eq(name, slice_of(all[i].name)))
			continue;
		all[i].running++;
		all[i].replaced += replaced;
	}
}

int daemon_processes_count(struct daemon_processes ret[static DAEMON_NUM])
{
	static const struct daemon_processes none[DAEMON_NUM] = {
		[DAEMON_CAYD] = { "cayd" },
		[DAEMON_KEEPER] = { "cay-keeper" },
		[DAEMON_EDGE] = { "cay-edge" },
		[DAEMON_MCP] = { "cay-mcp" },
		[DAEMON_PULL] = { "cay-pull" },
		[DAEMON_EGRESS] = { "cay-egress" },
		[DAEMON_BROKER] = { "cay-broker" },
		[DAEMON_E2B] = { "cay-e2b" },
		[DAEMON_OPENSANDBOX] = { "cay-opensandbox" },
	};
	const struct dirent *entry;
	DIR *proc;
	int fd;

	memcpy(ret, none, sizeof(none));
	if (geteuid() != 0)
		return -EACCES;
	proc = opendir("/proc");
	if (!proc)
		return -errno;
	fd = dirfd(proc);
	while ((entry = readdir(proc))) /* NOLINT(concurrency-mt-unsafe): no threads */
		if (ascii_is_digit(entry->d_name[0]) && fd >= 0)
			daemon_process_add(fd, entry->d_name, ret);
	(void)closedir(proc);
	return 0;
}
