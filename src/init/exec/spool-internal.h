/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_SPOOL_INTERNAL_H
#define CAY_INIT_EXEC_SPOOL_INTERNAL_H
/*
 * Shared by spool.c (PID 1) and spool-child.c (the spooler).  PID 1 creates the list of files
 * and the fork copies it; from then on each process has its own.
 *
 * A message is one packet: a head, followed by n bytes in WRITE and DATA.  The spooler is a
 * process of the sandbox, so PID 1 checks every message.
 */
#include "init/exec/spool.h"

struct spools;

#define SPOOL_PIECE KIB(32)

enum spool_msg_type : uint32_t {
	/* to the spooler */
	SPOOL_WRITE, /* id, pos; the first creates the file */
	SPOOL_READ,  /* id, pos, n, tag */
	SPOOL_CLOSE, /* id */
	/* from it */
	SPOOL_READY,  /* once */
	SPOOL_OPENED, /* id; with a descriptor, if closing that cannot block */
	SPOOL_WROTE,  /* id, pos: written up to here */
	SPOOL_FAILED, /* id: bytes written before can be read */
	SPOOL_DATA,   /* id, pos, tag, bytes; none: they cannot be read */
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
	struct output *output; /* NULL: closed, and the spooler must be told */
	uint64_t sent;
	bool opened; /* the file exists */
	bool lost;   /* it went with its spooler: readers must be told */
};

/* A reader's piece of the file. */
struct spool_window {
	uint64_t pos, tag;
	size_t n;
	bool requested;    /* and not arrived yet */
	bool request_sent; /* to the spooler */
	uint8_t data[SPOOL_PIECE];
};

/* A message of the spooler: a head, at most SPOOL_PIECE bytes, perhaps a descriptor, which is
 * taken if needed.  False: it violates the protocol. */
[[nodiscard]] bool spool_handle_message(struct spools *all, const struct spool_msg *m,
					const uint8_t *bytes, size_t n, int *fd);
/* The spooler, with the existing files; cgroup as in helper_child_setup().  It exits when its
 * socket is closed. */
[[noreturn]] void child_spooler_run(struct init *in, int socket, int cgroup);
#endif
