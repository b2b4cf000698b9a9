/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_INTERRUPT_H
#define CAY_CLI_CLIENT_INTERRUPT_H
/*
 * interrupt - Ctrl-C and its relatives, read instead of suffered
 *
 * Commands that have something to pass on or to clean up take the signals from
 * an fd; all others die of them, as programs do.  Whoever waits polls the fd
 * with what it waits for.  The second signal within a second means it.
 */
#include <stdint.h>

#include "base/err.h"

struct interrupt {
	int fd;           /* -EBADF: signals are not taken */
	int signo;        /* the last one, 0: none yet */
	bool unseen;      /* nobody has asked about it yet */
	bool quit;        /* two within a second */
	uint64_t last_ns; /* boot time */
};

#define INTERRUPT_INIT ((struct interrupt){ .fd = -EBADF })

[[nodiscard]] int interrupt_open(struct interrupt *i, struct cay_err *err);
void interrupt_fini(struct interrupt *i);
/* Read what came; never blocks. */
void interrupt_read_signals(struct interrupt *i);
/* The signal that came since the last call, or 0. */
int interrupt_take_signal(struct interrupt *i);
/* Wait for events of fd until the deadline (boot ns, UINT64_MAX: for ever).
 * -ETIMEDOUT; -EINTR when the user means it. */
[[nodiscard]] int interrupt_wait(struct interrupt *i, int fd, short events, uint64_t deadline_ns);
/* Milliseconds until then, for poll(): -1 for ever. */
int deadline_to_poll_ms(uint64_t deadline_ns);
#endif
