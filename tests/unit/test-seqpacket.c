/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/seqpacket.h"
#include "unit.h"

static void pair(int ret[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret), 0);
}

static bool same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev;
}

static void a_message_arrives_whole_with_its_fd(void **)
{
	char in[16];
	unsigned n_fds;
	int s[2], fd;

	pair(s);
	assert_int_equal(seqpacket_receive(s[1], in, sizeof(in), &fd, &n_fds), -EAGAIN);
	assert_int_equal(seqpacket_send(s[0], "one", 3, -EBADF), 0);
	assert_int_equal(seqpacket_send(s[0], "three", 5, s[0]), 0);
	assert_int_equal(seqpacket_receive(s[1], in, sizeof(in), &fd, &n_fds), 3);
	assert_true(fd < 0 && n_fds == 0);
	assert_int_equal(seqpacket_receive(s[1], in, sizeof(in), &fd, &n_fds), 5);
	assert_memory_equal(in, "three", 5);
	assert_true(n_fds == 1 && same_file(fd, s[0]));
	close(fd);
	close(s[0]);
	assert_int_equal(seqpacket_receive(s[1], in, sizeof(in), &fd, &n_fds), 0);
	assert_int_equal(seqpacket_send(s[1], "x", 1, -EBADF), -EPIPE);
	close(s[1]);
}

/* Sends fds by hand: more than any message of ours has. */
static void send_fds(int sock, const int *fds, size_t n)
{
	alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
	struct iovec iov = { (char[]){ 'x' }, 1 };
	struct msghdr h = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = CMSG_SPACE(n * sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	assert_int_equal(sendmsg(sock, &h, 0), 1);
}

static void what_does_not_fit_is_told_and_nothing_stays_open(void **)
{
	char in[4];
	unsigned n_fds;
	int s[2], fd, before, many[6];

	pair(s);
	before = dup(s[0]);
	close(before);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = s[0];
	send_fds(s[0], many, 2);
	assert_int_equal(seqpacket_receive(s[1], in, sizeof(in), &fd, &n_fds), 1);
	assert_int_equal(n_fds, 2);
	close(fd);
	send_fds(s[0], many, ARRAY_SIZE(many));
	assert_int_equal(seqpacket_receive(s[1], in, sizeof(in), &fd, &n_fds), 1);
	assert_int_equal(n_fds, UINT_MAX);
	close(fd);
	assert_int_equal(seqpacket_send(s[0], "too long", 8, -EBADF), 0);
	assert_int_equal(seqpacket_receive(s[1], in, sizeof(in), &fd, &n_fds), 4);
	assert_int_equal(n_fds, UINT_MAX);
	assert_int_equal(dup(s[0]), before); /* the lowest free one is the same */
	close(before);
	close(s[0]);
	close(s[1]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_arrives_whole_with_its_fd),
		cmocka_unit_test(what_does_not_fit_is_told_and_nothing_stays_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
