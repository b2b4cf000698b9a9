/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/interrupt.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

int interrupt_open_signalfd(const int *signals, size_t n, int *ret_fd, struct cay_err *err)
{
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t k = 0; k < n; k++)
		(void)sigaddset(&set, signals[k]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "block signals");
	*ret_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return *ret_fd < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a signalfd") : 0;
}

int interrupt_open(struct interrupt *i, struct cay_err *err)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

	*i = INTERRUPT_INIT;
	return interrupt_open_signalfd(signals, ARRAY_SIZE(signals), &i->fd, err);
}

void interrupt_fini(struct interrupt *i)
{
	cay_closep(&i->fd);
	i->fd = -EBADF;
}

void interrupt_read_signals(struct interrupt *i)
{
	struct signalfd_siginfo info;

	while (i->fd >= 0 && read(i->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		uint64_t now = clk_boot_ns(&clk_system);

		if (i->signo && now - i->last_ns < NS_PER_S)
			i->quit = true;
		i->signo = (int)info.ssi_signo;
		i->unseen = true;
		i->last_ns = now;
	}
}

int interrupt_take_signal(struct interrupt *i)
{
	if (!i->unseen)
		return 0;
	i->unseen = false;
	return i->signo;
}

int deadline_to_poll_ms(uint64_t deadline_ns)
{
	uint64_t now = clk_boot_ns(&clk_system), ms;

	if (deadline_ns == UINT64_MAX)
		return -1;
	ms = deadline_ns > now ? (deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS : 0;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

int interrupt_wait(struct interrupt *i, int fd, short events, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd p[2] = { { .fd = fd, .events = events },
				       { .fd = i->fd, .events = POLLIN } };
		int n = poll(p, ARRAY_SIZE(p), deadline_to_poll_ms(deadline_ns));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -ETIMEDOUT;
		if (n > 0 && p[1].revents)
			interrupt_read_signals(i);
		if (i->quit)
			return -EINTR;
		if (n > 0 && p[0].revents)
			return 0;
	}
}
