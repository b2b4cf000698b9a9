/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_INTERRUPT_H
#define CAY_CLI_CLIENT_INTERRUPT_H
/*
 * interrupt - SIGINT, SIGTERM and SIGHUP read from an fd
 *
 * Commands that forward signals or clean up poll this fd; all others die by the signal.
 * A second signal within a second makes waits fail with -EINTR.
 */
#include <stdint.h>

#include "base/err.h"

struct interrupt {
	int fd;           /* -EBADF: signals have their default action */
	int signo;        /* the last one, 0: none yet */
	bool unseen;      /* interrupt_take_signal() has not returned it yet */
	bool quit;        /* two within a second */
	uint64_t last_ns; /* boot time */
};

#define INTERRUPT_INIT ((struct interrupt){ .fd = -EBADF })

[[nodiscard]] int interrupt_open(struct interrupt *i, struct cay_err *err);
/* Block the signals and read them from an fd that does not block. */
[[nodiscard]] int interrupt_open_signalfd(const int *signals, size_t n, int *ret_fd,
					  struct cay_err *err);
void interrupt_fini(struct interrupt *i);
/* Read pending signals; never blocks. */
void interrupt_read_signals(struct interrupt *i);
/* The signal that came since the last call, or 0. */
int interrupt_take_signal(struct interrupt *i);
/* Wait for events of fd until the deadline (boot ns, UINT64_MAX: for ever).
 * -ETIMEDOUT; -EINTR after a second signal within a second. */
[[nodiscard]] int interrupt_wait(struct interrupt *i, int fd, short events, uint64_t deadline_ns);
/* Milliseconds until then, for poll(): -1 for UINT64_MAX. */
int deadline_to_poll_ms(uint64_t deadline_ns);
#endif
