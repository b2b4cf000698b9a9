/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dial - a program inside a sandbox that makes many connections and questions of DNS, and counts
 *them
 *
 *	dial until NAME                   ask for NAME until it has an address
 *	dial connect NAME PORT N PER_S    connect N times, read a line each, close; NAME may be an
 *address dial denied ADDRESS PORT N PER_S  the same to what resets each connection dial names
 *SUFFIX N PER_S         ask for N names below SUFFIX that do not exist
 *
 * It prints how many went as they should.  Static, and without a resolver of libc.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SERVER "192.0.0.1"
#define QUESTION_MAX 300

static int socket_open(int type)
{
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		exit(1);
	return fd;
}

static void wait_ms(int ms)
{
	(void)poll(NULL, 0, ms);
}

/* The end of a name, type A, class IN. */
static const uint8_t a_in[] = { 0, 0, 1, 0, 1 };

static size_t question_write(const char *name, uint8_t *p)
{
	static uint16_t id;
	size_t at = 12;

	id++;
	memset(p, 0, 12);
	memcpy(p, &id, 2);
	p[2] = 1; /* recursion desired */
	p[5] = 1;
	while (*name && at < QUESTION_MAX - 70) {
		size_t n = strcspn(name, ".");

		p[at++] = (uint8_t)n;
		memcpy(p + at, name, n);
		at += n;
		name += n + (name[n] == '.');
	}
	memcpy(p + at, a_in, sizeof(a_in));
	return at + sizeof(a_in);
}

/* The rcode, or -1; *ret is 0 without an address. */
static int ask(const char *name, struct in_addr *ret)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(53) };
	struct timeval patience = { .tv_sec = 5 };
	uint8_t out[QUESTION_MAX], in[512] = {};
	size_t n = question_write(name, out);
	int fd = socket_open(SOCK_DGRAM);
	ssize_t got;

	*ret = (struct in_addr){};
	(void)inet_pton(AF_INET, SERVER, &to.sin_addr);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	got = sendto(fd, out, n, 0, (const struct sockaddr *)&to, sizeof(to));
	if (got > 0)
		got = recv(fd, in, sizeof(in), 0);
	(void)close(fd);
	if (got < (ssize_t)n || memcmp(in, out, 2) != 0)
		return -1;
	if (in[7] == 1 && got >= (ssize_t)n + 16) /* a pointer, type, class, TTL, length */
		memcpy(ret, in + n + 12, sizeof(*ret));
	return in[3] & 15;
}

static struct in_addr address_of(const char *name)
{
	struct in_addr at;

	if (inet_pton(AF_INET, name, &at) != 1 && (ask(name, &at) != 0 || !at.s_addr)) {
		fprintf(stderr, "no address of %s\n", name);
		exit(1);
	}
	return at;
}

/* Whether a line came. */
static int dial(struct in_addr at, uint16_t port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = at };
	int fd = socket_open(SOCK_STREAM);
	char c = 0;

	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
		while (c != '\n' && recv(fd, &c, 1, 0) == 1)
			continue;
	(void)close(fd);
	return c == '\n';
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";
	const int names = strcmp(mode, "names") == 0;
	const long n = argc > 4 + !names ? atol(argv[argc - 2]) : 0;
	const int each_ms = n ? 1000 / atoi(argv[argc - 1]) + 1 : 0;
	struct in_addr at;
	long right = 0;

	if (strcmp(mode, "until") == 0) {
		while (ask(argv[2], &at) != 0 || !at.s_addr)
			wait_ms(100);
		return 0;
	}
	if (!n) {
		fprintf(stderr, "dial: see the source for its arguments\n");
		return 1;
	}
	if (!names)
		at = address_of(argv[2]);
	for (long i = 0; i < n; i++) {
		char name[128];

		if (names) {
			right += snprintf(name, sizeof(name), "n%ld.%s", i, argv[2]) <
					 (int)sizeof(name) &&
				 ask(name, &at) == 3;
		} else {
			right +=
				dial(at, (uint16_t)atoi(argv[3])) == (strcmp(mode, "connect") == 0);
		}
		wait_ms(each_ms);
	}
	printf("%ld\n", right);
	return 0;
}
