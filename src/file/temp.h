/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_TEMP_H
#define CAY_FILE_TEMP_H
/*
 * temp - a file that has no name until it is whole
 *
 *	temp_open() -> write to fd -> temp_place()
 *	                   `-> temp_fini() alone: as if nothing had been
 *
 * Who dies in the middle leaves nothing.  Where the file system has no files without a name
 * there is a hidden one beside the place, which goes with us, on SIGTERM too: the process is
 * this operation's own, and only SIGKILL leaves it.  One such file at a time.  Who is `deaf`
 * sees to SIGTERM itself.
 */
#include <errno.h>

#define TEMP_NAME_LEN 22

struct temp {
	int dir; /* the caller's, as long as this is used */
	int fd;
	bool deaf;
	bool no_tmpfile; /* as where the file system has none (tests) */
	bool named;      /* name is there */
	char name[TEMP_NAME_LEN + 1];
};

#define TEMP_INIT ((struct temp){ .dir = -EBADF, .fd = -EBADF })

enum temp_how {
	TEMP_NEW,     /* nothing may be there: -EEXIST */
	TEMP_ANY,     /* probably nothing is */
	TEMP_REPLACE, /* something is */
};

/* For both, mode 0600. */
[[nodiscard]] int temp_open(struct temp *t, int dir);
/* It is what that name means from now on, in one step. */
[[nodiscard]] int temp_place(struct temp *t, const char *name, enum temp_how how);
void temp_fini(struct temp *t);

/* A name nobody has thought of, hidden. */
[[nodiscard]] int temp_name(char ret[static TEMP_NAME_LEN + 1]);
/* While a name must not be left behind: a SIGTERM waits. */
void temp_undisturbed(bool yes);
/* For work of many steps: from here on a SIGTERM only asks for the end. */
void temp_may_stop(void);
bool temp_stopped(void);
#endif
