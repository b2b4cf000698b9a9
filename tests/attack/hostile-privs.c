/* SPDX-License-Identifier: Apache-2.0 */
/*
 * privs - what processes in here hold, and whether a set-uid program adds to it
 *
 * Every process that can be seen is looked at, not only this one: an exec, a
 * child of PID 1 or a hook may have been forgotten.  The driver looks at the same
 * processes from the host.
 */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile.h"

/* CHOWN DAC_OVERRIDE FOWNER KILL SETGID SETUID NET_BIND_SERVICE */
#define ROOT_CAPS 0x4ebu
#define USER_ID 1000
#define STATUS_BYTES 8192

static bool status_value(const char *status, const char *key, int base, unsigned long long *ret)
{
	const char *at = strstr(status, key);

	if (!at)
		return false;
	*ret = strtoull(at + strlen(key), NULL, base);
	return true;
}

struct rule {
	const char *key; /* with the newline before it, so that only a whole key matches */
	int base;
	enum { SUBSET, EQUALS, AT_LEAST } how;
	unsigned long long root, other;
};

static const struct rule rules[] = {
	{ "\nCapInh:", 16, SUBSET, 0, 0 },
	{ "\nCapPrm:", 16, SUBSET, ROOT_CAPS, 0 },
	{ "\nCapEff:", 16, SUBSET, ROOT_CAPS, 0 },
	{ "\nCapBnd:", 16, SUBSET, ROOT_CAPS, ROOT_CAPS },
	{ "\nCapAmb:", 16, SUBSET, 0, 0 },
	{ "\nNoNewPrivs:", 10, EQUALS, 1, 1 },
	{ "\nSeccomp:", 10, EQUALS, 2, 2 },
	{ "\nSeccomp_filters:", 10, AT_LEAST, 1, 1 },
};

static bool kept(const struct rule *r, bool root, unsigned long long value)
{
	unsigned long long want = root ? r->root : r->other;

	switch (r->how) {
	case SUBSET:
		return (value & ~want) == 0;
	case EQUALS:
		return value == want;
	case AT_LEAST:
		return value >= want;
	default:
		return false;
	}
}

static void look_at(pid_t pid)
{
	char path[64], status[STATUS_BYTES], name[96];
	unsigned long long value, uid = 0;

	if (!fill(path, "/proc/%d/status", pid) || file_get(path, status, sizeof(status)) <= 0)
		return; /* it ended meanwhile */
	if (!status_value(status, "\nUid:", 10, &uid))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		if (!fill(name, "pid %d%s %s", pid, pid == getpid() ? " (own)" : "",
			  rules[i].key + 1))
			return;
		if (!status_value(status, rules[i].key, rules[i].base, &value))
			through(name, "no such line");
		else if (kept(&rules[i], uid == 0, value))
			held(name, "%llx", value);
		else
			through(name, "%llx, uid %llu", value, uid);
	}
}

/* Run by the set-uid copy: says what it gained by its exit status. */
int mode_suid(int, char **)
{
	char status[STATUS_BYTES];
	unsigned long long caps = 0;

	if (file_get("/proc/self/status", status, sizeof(status)) > 0)
		(void)status_value(status, "\nCapPrm:", 16, &caps);
	fact("suid: uid %u euid %u gid %u egid %u caps %llx", getuid(), geteuid(), getgid(),
	     getegid(), caps);
	return geteuid() != getuid() || getegid() != getgid() || caps ? 1 : 0;
}

static void try_suid(const char *name, const char *program)
{
	int status;
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid == 0) {
		char *args[] = { (char *)(uintptr_t)"hostile", (char *)(uintptr_t)"suid", NULL };

		if (getuid() == 0 &&
		    (setgroups(0, NULL) < 0 || setgid(USER_ID) < 0 || setuid(USER_ID) < 0))
			_exit(3);
		(void)execv(program, args);
		_exit(errno == ENOENT ? 4 : 5);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return through(name, "cannot try: %s", strerrorname_np(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
		through(name, "it gained an id or a capability");
	else
		held(name, "status %d", status);
}

int mode_privs(int, char **)
{
	static const char copy[] = "/tmp/hostile-suid-copy";
	pid_t pids[PIDS_MAX];
	size_t n = pids_visible(pids, ARRAY_SIZE(pids));
	int made;

	fact("own uid %u gid %u, %zu processes in sight", getuid(), getgid(), n);
	for (size_t i = 0; i < n; i++)
		look_at(pids[i]);
	/* one that came with the image, and one that root in here can make */
	try_suid("set-uid program of the image", "/hostile-suid");
	made = file_copy_self(copy, 06755);
	if (made == 0) {
		try_suid("set-uid copy of our own", copy);
		(void)unlink(copy);
	} else {
		fact("no set-uid copy: %s", result_text(made));
	}
	return mode_end("privs");
}
