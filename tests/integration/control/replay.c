/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay - a PID 1 that says what another one said
 *
 * Stands in for cay-init with what is in its image: /exchanges/N is the first line of a
 * request with {sandbox} for the id, N.body its body, N.reply the bytes of the answer.
 * A request is one of them when line and body are equal: headers may be added, a member
 * that an old cay-init would refuse may not.  Each request is kept as /seen-N; one that
 * is none of them gets no answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LISTENER 3 /* as the keeper gives it */
#define REQUEST_MAX 65536
#define EXCHANGES 64
#define ID_LEN 26
#define MASK "{sandbox}"

static size_t get(const char *name, char *ret, size_t max)
{
	FILE *f = fopen(name, "re");
	size_t n = f ? fread(ret, 1, max - 1, f) : 0;

	ret[n] = 0;
	if (f)
		(void)fclose(f);
	return n;
}

static void put(const char *name, const char *data, size_t n)
{
	FILE *f = fopen(name, "we");

	if (!f)
		return;
	(void)fwrite(data, 1, n, f);
	(void)fclose(f);
}

/* Head and as much body as it says; what there was when the peer stopped. */
static size_t read_request(int fd, char *ret)
{
	size_t n = 0, whole = REQUEST_MAX - 1;

	while (n < whole) {
		ssize_t got = recv(fd, ret + n, whole - n, 0);
		const char *end, *length;

		if (got <= 0)
			break;
		n += (size_t)got;
		ret[n] = 0;
		end = strstr(ret, "\r\n\r\n");
		if (!end)
			continue;
		length = strcasestr(ret, "\r\ncontent-length:");
		whole = (size_t)(end + 4 - ret);
		if (length && length < end)
			whole += strtoul(length + 17, NULL, 10);
		if (whole > REQUEST_MAX - 1)
			whole = REQUEST_MAX - 1;
	}
	return n;
}

/* The first line with the sandbox's id masked. */
static void line_of(const char *request, char *ret, size_t max)
{
	static const char before[] = "/v1/sandboxes/sb";
	const char *at = strstr(request, before), *end = strstr(request, "\r\n");
	int n;

	if (!end || (at && at > end))
		at = NULL;
	if (at)
		at += sizeof(before) - 3;
	if (at && strlen(at) > ID_LEN)
		n = snprintf(ret, max, "%.*s" MASK "%.*s", (int)(at - request), request,
			     (int)(end - at - ID_LEN), at + ID_LEN);
	else
		n = snprintf(ret, max, "%.*s", end ? (int)(end - request) : 0, request);
	if (n < 0 || (size_t)n >= max)
		ret[0] = 0;
}

static size_t get_part(unsigned exchange, const char *part, char *ret, size_t max)
{
	char name[64];
	int n = snprintf(name, sizeof(name), "/exchanges/%u%s", exchange, part);

	return n > 0 && n < (int)sizeof(name) ? get(name, ret, max) : 0;
}

/* True when it was answered. */
static bool answer(int fd, const char *request)
{
	static char line[1024], want[1024], body[REQUEST_MAX], reply[REQUEST_MAX];
	const char *given = strstr(request, "\r\n\r\n");

	line_of(request, line, sizeof(line));
	for (unsigned i = 0; i < EXCHANGES && given; i++) {
		size_t n;

		if (!get_part(i, "", want, sizeof(want)) || strcmp(want, line) != 0)
			continue;
		(void)get_part(i, ".body", body, sizeof(body));
		if (strcmp(body, given + 4) != 0)
			continue;
		n = get_part(i, ".reply", reply, sizeof(reply));
		return send(fd, reply, n, MSG_NOSIGNAL) == (ssize_t)n;
	}
	return false;
}

int main(int argc, char **argv)
{
	static char request[REQUEST_MAX];

	if (argc == 2 && strcmp(argv[1], "--wait") == 0) /* the keeper tries its runtimes */
		return pause();
	for (unsigned seen = 0;; seen++) {
		int fd = accept4(LISTENER, NULL, NULL, SOCK_CLOEXEC);
		char name[32];

		if (fd < 0)
			continue;
		if (snprintf(name, sizeof(name), "/seen-%u", seen) > 0)
			put(name, request, read_request(fd, request));
		if (answer(fd, request))
			(void)close(fd); /* the others are kept open, and unanswered */
	}
}
