/* SPDX-License-Identifier: Apache-2.0 */
#include "file/temp.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "file/at.h"

int temp_name(char ret[static TEMP_NAME_LEN + 1])
{
	static const char front[] = ".cay-";
	unsigned char bits[TEMP_NAME_LEN - sizeof(front) + 1];

	if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		return -EIO;
	memcpy(ret, front, sizeof(front) - 1);
	for (size_t i = 0; i < sizeof(bits); i++)
		ret[sizeof(front) - 1 + i] = "0123456789abcdefghijklmnopqrstuv"[bits[i] & 31];
	ret[TEMP_NAME_LEN] = 0;
	return 0;
}

/* The name that a SIGTERM takes away. */
static struct {
	volatile sig_atomic_t dir;
	char name[TEMP_NAME_LEN + 1];
} leftover = { .dir = -1 };

static void on_term(int)
{
	if (leftover.dir >= 0)
		(void)unlinkat(leftover.dir, leftover.name, 0);
	_exit(128 + SIGTERM);
}

void temp_undisturbed(bool yes)
{
	static sigset_t before;
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	if (yes)
		(void)sigprocmask(SIG_BLOCK, &set, &before);
	else
		(void)sigprocmask(SIG_SETMASK, &before, NULL);
}

static void watch_name(const struct temp *t)
{
	struct sigaction sa = { .sa_handler = on_term };

	memcpy(leftover.name, t->name, sizeof(leftover.name));
	leftover.dir = t->dir;
	(void)sigaction(SIGTERM, &sa, NULL);
}

static void forget_name(void)
{
	leftover.dir = -1;
}

static volatile sig_atomic_t stopped;

static void on_stop(int)
{
	stopped = 1;
}

void temp_may_stop(void)
{
	struct sigaction sa = { .sa_handler = on_stop };

	(void)sigaction(SIGTERM, &sa, NULL);
}

bool temp_stopped(void)
{
	return stopped;
}

int temp_open(struct temp *t, int dir)
{
	struct stat st;
	int r;

	t->dir = dir;
	/* without /proc such a file could never get a name */
	if (!t->no_tmpfile && stat("/proc/self/fd", &st) >= 0) {
		t->fd = file_open(dir, ".", O_TMPFILE | O_RDWR, 0600);
		if (t->fd >= 0 || t->fd == -EACCES || t->fd == -ENOSPC || t->fd == -EDQUOT ||
		    t->fd == -EROFS)
			return t->fd;
	}
	r = temp_name(t->name);
	if (r < 0)
		return r;
	temp_undisturbed(true);
	t->fd = file_open(dir, t->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	t->named = t->fd >= 0;
	if (t->named && !t->deaf)
		watch_name(t);
	temp_undisturbed(false);
	return t->fd;
}

static int link_as(const struct temp *t, const char *name)
{
	char from[64];
	int n = snprintf(from, sizeof(from), "/proc/self/fd/%d", t->fd);

	if (n < 0 || (size_t)n >= sizeof(from))
		return -EINVAL;
	return linkat(AT_FDCWD, from, t->dir, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int exchange(struct temp *t, const char *name, enum temp_how how)
{
	int r;

	if (!t->named) {
		/* nobody to replace, as far as we know: then one step does */
		r = how == TEMP_REPLACE ? -EEXIST : link_as(t, name);
		if (r != -EEXIST || how == TEMP_NEW)
			return r;
		r = temp_name(t->name);
		if (r >= 0)
			r = link_as(t, t->name);
		if (r < 0)
			return r;
		t->named = true;
	}
	r = renameat2(t->dir, t->name, t->dir, name, how == TEMP_NEW ? RENAME_NOREPLACE : 0);
	if (r < 0)
		return -errno;
	t->named = false;
	forget_name();
	return 0;
}

int temp_place(struct temp *t, const char *name, enum temp_how how)
{
	int r;

	temp_undisturbed(true);
	r = exchange(t, name, how);
	if (t->named && unlinkat(t->dir, t->name, 0) >= 0)
		t->named = false;
	temp_undisturbed(false);
	return r;
}

void temp_fini(struct temp *t)
{
	if (t->named)
		(void)unlinkat(t->dir, t->name, 0);
	forget_name();
	cay_closep(&t->fd);
}
