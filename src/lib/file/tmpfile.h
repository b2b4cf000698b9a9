/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_TMPFILE_H
#define CAY_FILE_TMPFILE_H
/*
 * temp - a file that has no name until it is whole
 *
 *	tmpfile_open() -> write to fd -> tmpfile_commit()
 *	                   `-> tmpfile_fini() alone: as if nothing had been
 *
 * Who dies in the middle leaves nothing.  Where the file system has no files without a name
 * there is a hidden one beside the place, which goes with us, on SIGTERM too: the process is
 * this operation's own, and only SIGKILL leaves it.  One such file at a time.  Who is `deaf`
 * sees to SIGTERM itself.
 */
#include <errno.h>

#define TMPFILE_NAME_LEN 22

struct tmpfile {
	int dir; /* the caller's, as long as this is used */
	int fd;
	bool ignores_sigterm;
	bool no_tmpfile; /* as where the file system has none (tests) */
	bool named;      /* name is there */
	char name[TMPFILE_NAME_LEN + 1];
};

#define TMPFILE_INIT ((struct tmpfile){ .dir = -EBADF, .fd = -EBADF })

enum tmpfile_replace_mode {
	TMPFILE_CREATE,            /* nothing may be there: -EEXIST */
	TMPFILE_CREATE_OR_REPLACE, /* probably nothing is */
	TMPFILE_REPLACE,           /* something is */
};

/* For both, mode 0600. */
[[nodiscard]] int tmpfile_open(struct tmpfile *t, int dir);
/* It is what that name means from now on, in one step. */
[[nodiscard]] int tmpfile_commit(struct tmpfile *t, const char *name,
				 enum tmpfile_replace_mode how);
void tmpfile_fini(struct tmpfile *t);

/* A name nobody has thought of, hidden. */
[[nodiscard]] int tmpfile_random_name(char ret[static TMPFILE_NAME_LEN + 1]);
/* While a name must not be left behind: a SIGTERM waits. */
void tmpfile_block_sigterm(bool yes);
/* For work of many steps: from here on a SIGTERM only asks for the end. */
void tmpfile_defer_sigterm(void);
bool tmpfile_sigterm_was_received(void);
#endif
