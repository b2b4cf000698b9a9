/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_SPOOL_INTERNAL_H
#define CAY_INIT_EXEC_SPOOL_INTERNAL_H
/*
 * What spool.c (PID 1) and spool-child.c (the spooler) share.  The list of files is made by
 * PID 1 and copied by the fork; from then on each has its own.
 *
 * A message is one packet: this head, and n bytes behind it in WRITE and DATA.  The spooler is a
 * process of the sandbox: PID 1 checks all it says.
 */
#include "init/exec/spool.h"

struct spools;

#define SPOOL_PIECE KIB(32)

enum spool_msg_type : uint32_t {
	/* to the spooler */
	SPOOL_WRITE, /* id, pos; the file is made by the first */
	SPOOL_READ,  /* id, pos, n: how much; tag */
	SPOOL_CLOSE, /* id */
	/* from it */
	SPOOL_READY,  /* once */
	SPOOL_OPENED, /* id; with a descriptor, where closing that waits for nobody */
	SPOOL_WROTE,  /* id, pos: up to here */
	SPOOL_FAILED, /* id: what was written before can be read */
	SPOOL_DATA,   /* id, pos, tag, and the bytes; none: they cannot be read */
};

struct spool_msg {
	enum spool_msg_type type;
	uint32_t n;
	uint64_t id, pos, tag;
};

struct spool {
	struct spool *next;
	uint64_t id;
	int fd; /* of the file, or -EBADF */

	/* in PID 1 */
	struct init *init;
	struct output *output; /* NULL: the spooler is to be told to close it */
	uint64_t sent;
	bool opened; /* there is a file */
	bool lost;   /* and it went with its spooler: readers are to be told */
};

/* What a reader gets of the file, piece by piece. */
struct spool_window {
	uint64_t pos, tag;
	size_t n;
	bool requested;    /* the bytes are not here yet */
	bool request_sent; /* and the spooler knows */
	uint8_t data[SPOOL_PIECE];
};

/* What the spooler says: a head, n bytes, SPOOL_PIECE at the most, and perhaps a descriptor, which
 * is taken if it is wanted.  False when it makes no sense. */
[[nodiscard]] bool spool_handle_message(struct spools *all, const struct spool_msg *m,
					const uint8_t *bytes, size_t n, int *fd);
/* The spooler, with the files there are, in its cgroup or to move there.  Never returns: it ends
 * with its socket. */
[[noreturn]] void child_spooler_run(struct init *in, int socket, int cgroup);
#endif
