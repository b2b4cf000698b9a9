/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent - a PID 1 that hates its host
 *
 * Stands in for cay-init: listens on fd 3, answers hello and claim well enough
 * to be trusted, and then does what its number says.  The number is the argument
 * or, in place of cay-init, the text of /behaviour in its image.  Every
 * connection has a process of its own, so that one that waits holds up nobody.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostile.h"

#define HEAD_BYTES 16384
#define BEHAVIOURS 40
#define DRIP_MS 1000
#define FLOOD_TIMES 100000
#define DEEP_TIMES 1000000
#define SECONDS_MAX 120 /* a forgotten one ends by itself */

enum when { START, ACCEPT, HELLO, EXEC };
enum then { CLOSE, HOLD, RESET, EXIT, CRASH, REPEAT, DRIP, FLOOD, DEEP };

static const struct behaviour {
	const char *name;
	enum when when;
	const char *say;
	size_t n_say;
	enum then then;
	const char *again;
	size_t n_again;
} behaviours[] = {
#define BEHAVIOUR(name, when, say, then, again) \
	{ name, when, say, sizeof(say) - 1, then, again, sizeof(again) - 1 },
#include "behaviours.def"
#undef BEHAVIOUR
};
static_assert(ARRAY_SIZE(behaviours) == BEHAVIOURS);

static bool put(int fd, const char *text, size_t n)
{
	while (n > 0) {
		ssize_t done = send(fd, text, n, MSG_NOSIGNAL);

		if (done < 0 && errno != EINTR)
			return false;
		text += done > 0 ? done : 0;
		n -= done > 0 ? (size_t)done : 0;
	}
	return true;
}

/* Until the other side goes away, or so long; true when the time is up. */
static bool still_there(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return poll(&p, 1, timeout_ms) == 0;
}

static void drip(int fd, const struct behaviour *b)
{
	for (size_t i = 0; i < b->n_again; i++) {
		if (!put(fd, b->again + i, 1) || !still_there(fd, DRIP_MS))
			return;
	}
}

static void deep(int fd)
{
	static char brackets[4096];
	char size[16];
	int n = snprintf(size, sizeof(size), "%zx\r\n", sizeof(brackets));

	memset(brackets, '[', sizeof(brackets));
	for (size_t done = 0; done < DEEP_TIMES; done += sizeof(brackets)) {
		if (!put(fd, size, (size_t)n) || !put(fd, brackets, sizeof(brackets)) ||
		    !put(fd, "\r\n", 2))
			return;
	}
	(void)put(fd, "0\r\n\r\n", 5);
}

/* fd is a connection, or -1 at the start. */
static void misbehave(int fd, const struct behaviour *b)
{
	struct linger now = { .l_onoff = 1 };

	if (fd >= 0 && !put(fd, b->say, b->n_say))
		return;
	switch (b->then) {
	case CLOSE:
		return;
	case HOLD:
		if (fd < 0)
			(void)pause();
		else
			(void)still_there(fd, -1);
		return;
	case RESET:
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		return;
	case EXIT:
		/* all of it: PID 1 is our parent, or ourselves */
		(void)kill(fd < 0 ? getpid() : getppid(), SIGUSR1);
		return;
	case CRASH:
		(void)kill(fd < 0 ? getpid() : getppid(), SIGUSR2);
		return;
	case REPEAT:
		while (put(fd, b->again, b->n_again))
			;
		return;
	case DRIP:
		return drip(fd, b);
	case FLOOD:
		for (unsigned i = 0; i < FLOOD_TIMES; i++) {
			if (!put(fd, b->again, b->n_again))
				return;
		}
		return;
	case DEEP:
		return deep(fd);
	default:
		return;
	}
}

/* The head of a request, to its empty line. */
static bool read_head(int fd, char head[static HEAD_BYTES])
{
	size_t n = 0;

	while (n < HEAD_BYTES - 1) {
		ssize_t got = recv(fd, head + n, HEAD_BYTES - 1 - n, 0);

		if (got <= 0)
			return false;
		n += (size_t)got;
		head[n] = '\0';
		if (strstr(head, "\r\n\r\n"))
			return true;
	}
	return false;
}

static void serve(int fd, const struct behaviour *b)
{
	static const char hello[] = "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.cay.hello\r\n"
				    "Content-Length: 32\r\n\r\nCAYH\1\0\1\0"
				    "\0\0\0\0\0\0\0\0hostile.hostile";
	static const char no_content[] = "HTTP/1.1 204 No Content\r\n\r\n";
	static char head[HEAD_BYTES];

	(void)alarm(SECONDS_MAX);
	if (b->when == ACCEPT)
		return misbehave(fd, b);
	while (read_head(fd, head)) {
		bool is_hello = strncmp(head, "GET /v1/hello ", 14) == 0;
		bool is_claim = strncmp(head, "POST /v1/claim ", 15) == 0;

		if (b->when == (is_hello || is_claim ? HELLO : EXEC))
			return misbehave(fd, b);
		if (is_hello ? !put(fd, hello, sizeof(hello))
			     : !put(fd, no_content, sizeof(no_content) - 1))
			return;
	}
}

static void on_exit_asked(int)
{
	_exit(3);
}

static void on_crash_asked(int)
{
	abort();
}

static size_t number_of(int argc, char **argv)
{
	char text[16] = "";

	if (argc > 1)
		return strtoul(argv[1], NULL, 10);
	if (file_get("/behaviour", text, sizeof(text)) <= 0)
		return 0;
	return strtoul(text, NULL, 10);
}

int mode_agent(int argc, char **argv)
{
	const struct behaviour *b;
	size_t number;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		static const char *const when[] = { "start", "accept", "hello", "exec" };

		for (size_t i = 0; i < BEHAVIOURS; i++)
			printf("%zu|%s|%s\n", i + 1, when[behaviours[i].when], behaviours[i].name);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "--wait") == 0) /* the keeper tries its runtimes */
		return pause();
	number = number_of(argc, argv);
	if (number < 1 || number > BEHAVIOURS)
		return 2;
	b = &behaviours[number - 1];
	(void)signal(SIGCHLD, SIG_IGN);
	(void)signal(SIGUSR1, on_exit_asked);
	(void)signal(SIGUSR2, on_crash_asked);
	if (b->when == START)
		misbehave(-1, b);
	for (;;) {
		int fd = accept4(FIRST_FD, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
			return 1;
		if (fd < 0)
			continue;
		if (fork() == 0) {
			(void)close(FIRST_FD);
			serve(fd, b);
			_exit(0);
		}
		(void)close(fd);
	}
}
