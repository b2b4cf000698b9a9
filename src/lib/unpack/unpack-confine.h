/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_UNPACK_CONFINE_H
#define CAY_UNPACK_UNPACK_CONFINE_H
/* unpack-confine - a child process that does no harm if it is taken over
 *
 * Unpacking an image parses untrusted bytes with third-party libraries, so it runs in a process
 * without other access: confine_start_child() in root's process creates it, confine_self() in the
 * child drops its privileges, in stages whose order matters:
 *
 *	clone    user, mount, pid, network, ipc, uts and cgroup namespaces of its own
 *	fds      only those named; 0 to 2 are /dev/null
 *	ids      65,536 foreign ids are all the users there are, and it is their root
 *	root     its file system is one directory, nosuid nodev noexec; the rest is gone
 *	rights   CHOWN FOWNER DAC_OVERRIDE FSETID within its namespace, for ever; it
 *	         dies with its parent.  Not SETFCAP: extended attributes are not restored
 *	limits   memory, CPU time, file size, fds, processes
 *	calls    a seccomp list for unpacking; any other call kills it.
 *	         No executable memory, so nothing can be loaded any more
 *
 * What packs a tree has less: DAC_READ_SEARCH only, a read-only root, and calls for that.
 *
 * The directory that becomes its root belongs to real root, so that it can create entries only
 * below the directory put there for it.
 *
 * It is cloned, not executed: it has a copy of its parent's memory, so the parent keeps no secrets
 * and has one thread. */
#include <stdint.h>

#include "base/err.h"
#include "base/spawn.h"

/* systemd's foreign range: ids on disk that no process of the host ever has. */
#define FOREIGN_BASE 0x7FFE0000u
#define FOREIGN_IDS 65536u

#define CONFINE_FDS_MAX 8

struct confine {
	int tree_fd;                /* detached mount of the directory */
	int *keep[CONFINE_FDS_MAX]; /* fds of the child; they get new numbers */
	unsigned n_keep;
	uint64_t file_max; /* largest file in bytes */
	bool packs;        /* its work is to read a tree and write one fd */
};

struct confined {
	struct child child;
	int alive; /* closing it signals the child that its parent has ended */
};

/* What a child says of its end; nothing in it is trusted. */
struct confined_report {
	uint32_t code; /* enum cay_code */
	char msg[CAY_ERR_MSG_MAX];
};

#define auto_confined CAY_CLEANUP(confined_fini) struct confined
#define CONFINED_INIT ((struct confined){ .child = CHILD_INIT, .alive = -EBADF })

/* A detached mount of a directory, for the child's root. */
[[nodiscard]] int confine_clone_tree(int dirfd);
/* The same, read-only. */
[[nodiscard]] int confine_clone_tree_readonly(int dirfd);
/* run() is called in the child, which exits with its return value; it must first call
 * confine_self() with the fd it is given. */
[[nodiscard]] int confine_start_child(int (*run)(void *arg, int parent), void *arg,
				      struct confined *ret, struct cay_err *err);
[[nodiscard]] int confine_self(struct confine *c, int parent, struct cay_err *err);
/* In the child: r is what its work returned. */
void confined_report_fill(struct confined_report *report, int r, const struct cay_err *err);
/* In its parent: 0, or the failure with a code that such work may have and a printable message. */
[[nodiscard]] int confined_report_check(struct confined_report *report, struct cay_err *err);
void confined_fini(struct confined *c);
#endif
