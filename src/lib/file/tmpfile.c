/* SPDX-License-Identifier: Apache-2.0 */
#include "file/tmpfile.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "file/path-at.h"

int tmpfile_random_name(char ret[static TMPFILE_NAME_LEN + 1])
{
	static const char front[] = ".cay-";
	unsigned char bits[TMPFILE_NAME_LEN - sizeof(front) + 1];

	if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		return -EIO;
	memcpy(ret, front, sizeof(front) - 1);
	for (size_t i = 0; i < sizeof(bits); i++)
		ret[sizeof(front) - 1 + i] = "0123456789abcdefghijklmnopqrstuv"[bits[i] & 31];
	ret[TMPFILE_NAME_LEN] = 0;
	return 0;
}

/* The name that a SIGTERM removes. */
static struct {
	volatile sig_atomic_t dir;
	char name[TMPFILE_NAME_LEN + 1];
} leftover = { .dir = -1 };

static void on_tmpfile_sigterm(int)
{
	if (leftover.dir >= 0)
		(void)unlinkat(leftover.dir, leftover.name, 0);
	_exit(128 + SIGTERM);
}

void tmpfile_block_sigterm(bool yes)
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

static void tmpfile_unlink_on_sigterm(const struct tmpfile *t)
{
	struct sigaction sa = { .sa_handler = on_tmpfile_sigterm };

	memcpy(leftover.name, t->name, sizeof(leftover.name));
	leftover.dir = t->dir;
	(void)sigaction(SIGTERM, &sa, NULL);
}

static void tmpfile_forget_name(void)
{
	leftover.dir = -1;
}

static volatile sig_atomic_t stopped;

static void on_deferred_sigterm(int)
{
	stopped = 1;
}

void tmpfile_defer_sigterm(void)
{
	struct sigaction sa = { .sa_handler = on_deferred_sigterm };

	(void)sigaction(SIGTERM, &sa, NULL);
}

bool tmpfile_sigterm_was_received(void)
{
	return stopped;
}

int tmpfile_open(struct tmpfile *t, int dir)
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
	r = tmpfile_random_name(t->name);
	if (r < 0)
		return r;
	tmpfile_block_sigterm(true);
	t->fd = file_open(dir, t->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	t->named = t->fd >= 0;
	if (t->named && !t->ignores_sigterm)
		tmpfile_unlink_on_sigterm(t);
	tmpfile_block_sigterm(false);
	return t->fd;
}

static int tmpfile_link_as(const struct tmpfile *t, const char *name)
{
	char from[64];
	int n = snprintf(from, sizeof(from), "/proc/self/fd/%d", t->fd);

	if (n < 0 || (size_t)n >= sizeof(from))
		return -EINVAL;
	return linkat(AT_FDCWD, from, t->dir, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int tmpfile_replace_name(struct tmpfile *t, const char *name, enum tmpfile_replace_mode how)
{
	int r;

	if (!t->named) {
		/* no file to replace was seen: then one step is enough */
		r = how == TMPFILE_REPLACE ? -EEXIST : tmpfile_link_as(t, name);
		if (r != -EEXIST || how == TMPFILE_CREATE)
			return r;
		r = tmpfile_random_name(t->name);
		if (r >= 0)
			r = tmpfile_link_as(t, t->name);
		if (r < 0)
			return r;
		t->named = true;
	}
	r = renameat2(t->dir, t->name, t->dir, name, how == TMPFILE_CREATE ? RENAME_NOREPLACE : 0);
	if (r < 0)
		return -errno;
	t->named = false;
	tmpfile_forget_name();
	return 0;
}

int tmpfile_commit(struct tmpfile *t, const char *name, enum tmpfile_replace_mode how)
{
	int r;

	tmpfile_block_sigterm(true);
	r = tmpfile_replace_name(t, name, how);
	if (t->named && unlinkat(t->dir, t->name, 0) >= 0)
		t->named = false;
	tmpfile_block_sigterm(false);
	return r;
}

void tmpfile_fini(struct tmpfile *t)
{
	if (t->named)
		(void)unlinkat(t->dir, t->name, 0);
	tmpfile_forget_name();
	cay_closep(&t->fd);
}
