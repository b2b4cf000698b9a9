/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_TMPFILE_H
#define CAY_FILE_TMPFILE_H
/* tmpfile - a file that has no name until it is complete
 *
 *	tmpfile_open() -> write to fd -> tmpfile_commit()
 *	                   `-> tmpfile_fini() alone: no change
 *
 * A process that dies before the commit leaves nothing.  On a file system without unnamed files, a
 * hidden one beside the place is used and removed with the process, also on SIGTERM: the process
 * belongs to this operation, and only SIGKILL leaves the file.  One such file at a time.  After
 * tmpfile_defer_sigterm() the caller handles SIGTERM itself. */
#include <errno.h>

#define TMPFILE_NAME_LEN 22

struct tmpfile {
	int dir; /* the caller's, as long as this is used */
	int fd;
	bool ignores_sigterm;
	bool no_tmpfile; /* as where the file system has none (tests) */
	bool named;      /* name exists */
	char name[TMPFILE_NAME_LEN + 1];
};

#define TMPFILE_INIT ((struct tmpfile){ .dir = -EBADF, .fd = -EBADF })

enum tmpfile_replace_mode {
	TMPFILE_CREATE,            /* no file may exist: -EEXIST */
	TMPFILE_CREATE_OR_REPLACE, /* probably nothing is */
	TMPFILE_REPLACE,           /* something is */
};

/* For both, mode 0600. */
[[nodiscard]] int tmpfile_open(struct tmpfile *t, int dir);
/* Give the file that name, in one step. */
[[nodiscard]] int tmpfile_commit(struct tmpfile *t, const char *name,
				 enum tmpfile_replace_mode how);
void tmpfile_fini(struct tmpfile *t);

/* A random hidden name. */
[[nodiscard]] int tmpfile_random_name(char ret[static TMPFILE_NAME_LEN + 1]);
/* While a name must not be left over: block SIGTERM. */
void tmpfile_block_sigterm(bool yes);
/* For work of many steps: from here on a SIGTERM only requests the end. */
void tmpfile_defer_sigterm(void);
bool tmpfile_sigterm_was_received(void);
#endif
