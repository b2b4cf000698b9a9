/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filter-arguments - which bits of an argument the kernel uses, and a filter must look at
 *
 * Leans on it: the rules on ioctl, send*, recv*, setrlimit and prlimit64 (docs/adr/0063,
 * oci-seccomp.c).  A filter sees arguments as 64 bits; of a number or flags the kernel uses 32.
 *
 * Checked, without a filter: ioctl with bit 32 set does what it does without; MSG_OOB with bit
 * 32 set is out of band, in the argument of each of the six calls that the rules name; in the
 * msg_flags of a message it is ignored, so that no rule need see memory.  With a filter: one
 * that compares all 64 bits is passed by bit 32 (the trap), one that masks is not, and calls
 * that it does not mean still work, also those of the C library.
 *
 * If it failed: no rule by number, and the calls refused altogether.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "platform.h"

#define BIT_32 (UINT64_C(1) << 32)

struct rule {
	long nr;
	unsigned arg;
	uint32_t mask, value;
	bool whole; /* the upper 32 bits must be 0, too */
};

#define LOW(arg) (offsetof(struct seccomp_data, args) + 8 * (arg))
#define RULE_LEN 8

/* ENOSYS when a rule holds; all else is allowed.  Little endian only, as Cay is. */
static void set_filter(const struct rule *rules, size_t n)
{
	struct sock_filter code[8 * RULE_LEN + 1];
	struct sock_fprog prog = { .filter = code };

	for (size_t i = 0; i < n; i++) {
		const struct rule *r = &rules[i];
		const struct sock_filter one[RULE_LEN] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r->nr, 0, 6),
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)LOW(r->arg) + 4),
			BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, r->whole ? UINT32_MAX : 0, 4, 0),
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)LOW(r->arg)),
			BPF_STMT(BPF_ALU | BPF_AND | BPF_K, r->mask),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->value, 0, 1),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		};

		memcpy(&code[prog.len], one, sizeof(one));
		prog.len += RULE_LEN;
	}
	code[prog.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		platform_die("set a filter");
}

/* -- numbers of ioctl */

static int count_bytes(uint64_t number)
{
	int p[2], n = -1, r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) < 0 || write(p[0], "abc", 3) != 3)
		platform_die("socketpair");
	r = syscall(SYS_ioctl, p[1], number, &n) < 0 ? -errno : n;
	(void)close(p[0]);
	(void)close(p[1]);
	return r;
}

static int under_whole(void *arg)
{
	(void)arg;
	set_filter(&(struct rule){ SYS_ioctl, 1, UINT32_MAX, FIONREAD, true }, 1);
	return !(count_bytes(FIONREAD) == -ENOSYS && count_bytes(BIT_32 | FIONREAD) == 3);
}

static int under_masked(void *arg)
{
	(void)arg;
	set_filter(&(struct rule){ SYS_ioctl, 1, 0xffff, FIONREAD, false }, 1);
	return !(count_bytes(FIONREAD) == -ENOSYS && count_bytes(BIT_32 | FIONREAD) == -ENOSYS &&
		 count_bytes(0x40000000 | FIONREAD) == -ENOSYS && count_bytes(TIOCOUTQ) == 0);
}

static void try_ioctl(void)
{
	CHECK(count_bytes(FIONREAD) == 3 && count_bytes(BIT_32 | FIONREAD) == 3,
	      "ioctl: bit 32 of a number is ignored");
	CHECK(platform_in_child(under_whole, NULL) == 0,
	      "trap: a filter that compares 64 bits is passed by it");
	CHECK(platform_in_child(under_masked, NULL) == 0,
	      "one that masks 16 bits is not, whatever the rest; other numbers pass");
}

/* -- flags of send and receive */

struct oob {
	char byte;
	struct iovec iov;
	struct mmsghdr m;
	int p[2];
};

static void oob_open(struct oob *o)
{
	*o = (struct oob){ .byte = 'x' };
	o->iov = (struct iovec){ &o->byte, 1 };
	o->m.msg_hdr = (struct msghdr){ .msg_iov = &o->iov, .msg_iovlen = 1 };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, o->p) < 0)
		platform_die("socketpair");
}

static void oob_close(struct oob *o)
{
	(void)close(o->p[0]);
	(void)close(o->p[1]);
}

enum way { SENDTO, SENDMSG, SENDMMSG, RECVFROM, RECVMSG, RECVMMSG, NUM_WAYS };

static const struct {
	const char *name;
	struct rule rule;
} ways[NUM_WAYS] = {
	[SENDTO] = { "sendto", { SYS_sendto, 3, MSG_OOB, MSG_OOB, false } },
	[SENDMSG] = { "sendmsg", { SYS_sendmsg, 2, MSG_OOB, MSG_OOB, false } },
	[SENDMMSG] = { "sendmmsg", { SYS_sendmmsg, 3, MSG_OOB, MSG_OOB, false } },
	[RECVFROM] = { "recvfrom", { SYS_recvfrom, 3, MSG_OOB, MSG_OOB, false } },
	[RECVMSG] = { "recvmsg", { SYS_recvmsg, 2, MSG_OOB, MSG_OOB, false } },
	[RECVMMSG] = { "recvmmsg", { SYS_recvmmsg, 3, MSG_OOB, MSG_OOB, false } },
};

static int oob_call(struct oob *o, enum way way, uint64_t flags)
{
	long r = -1;

	errno = EINVAL;
	if (way == SENDTO)
		r = syscall(SYS_sendto, o->p[0], &o->byte, 1, flags, NULL, 0);
	else if (way == SENDMSG)
		r = syscall(SYS_sendmsg, o->p[0], &o->m.msg_hdr, flags);
	else if (way == SENDMMSG)
		r = syscall(SYS_sendmmsg, o->p[0], &o->m, 1, flags);
	else if (way == RECVFROM)
		r = syscall(SYS_recvfrom, o->p[1], &o->byte, 1, flags, NULL, NULL);
	else if (way == RECVMSG)
		r = syscall(SYS_recvmsg, o->p[1], &o->m.msg_hdr, flags);
	else if (way == RECVMMSG)
		r = syscall(SYS_recvmmsg, o->p[1], &o->m, 1, flags, NULL);
	return r < 0 ? -errno : (int)r;
}

/* Whether a byte that was sent by this call is out of band, or one that is is received by it. */
static bool is_out_of_band(enum way way, uint64_t flags)
{
	bool sends = way < RECVFROM, yes;
	struct oob o;

	oob_open(&o);
	if (oob_call(&o, sends ? way : SENDTO, sends ? flags : MSG_OOB) != 1)
		platform_die("send");
	yes = oob_call(&o, sends ? RECVFROM : way, sends ? MSG_OOB : flags) == 1;
	oob_close(&o);
	return yes;
}

static bool message_flag_counts(enum way way)
{
	struct oob o;
	bool yes;

	oob_open(&o);
	o.m.msg_hdr.msg_flags = MSG_OOB;
	if (oob_call(&o, way, 0) != 1)
		platform_die("send");
	yes = oob_call(&o, RECVFROM, MSG_OOB) == 1;
	oob_close(&o);
	return yes;
}

static int under_flags(void *arg)
{
	struct rule rules[NUM_WAYS];
	struct oob o;
	bool good = true;

	(void)arg;
	for (unsigned i = 0; i < NUM_WAYS; i++)
		rules[i] = ways[i].rule;
	oob_open(&o);
	set_filter(rules, NUM_WAYS);
	for (unsigned i = 0; i < NUM_WAYS; i++)
		good = good && oob_call(&o, i, MSG_OOB) == -ENOSYS &&
		       oob_call(&o, i, BIT_32 | MSG_OOB | MSG_NOSIGNAL) == -ENOSYS;
	for (unsigned i = 0; i < RECVFROM; i++)
		good = good && oob_call(&o, i, MSG_NOSIGNAL) == 1 &&
		       oob_call(&o, RECVFROM + i, MSG_DONTWAIT) == 1;
	good = good && send(o.p[0], "x", 1, MSG_OOB) < 0 && errno == ENOSYS &&
	       recv(o.p[1], &o.byte, 1, MSG_OOB) < 0 && errno == ENOSYS;
	return !good;
}

static void try_flags(void)
{
	for (unsigned i = 0; i < NUM_WAYS; i++)
		CHECK(is_out_of_band(i, MSG_OOB) && is_out_of_band(i, BIT_32 | MSG_OOB) &&
			      !is_out_of_band(i, BIT_32),
		      "%s: its flags are argument %u, and bit 32 of them is ignored", ways[i].name,
		      ways[i].rule.arg);
	CHECK(!message_flag_counts(SENDMSG) && !message_flag_counts(SENDMMSG),
	      "MSG_OOB in the flags of a message is ignored");
	CHECK(platform_in_child(under_flags, NULL) == 0,
	      "a filter on these arguments refuses it, of the C library too, and nothing else");
}

/* -- which limit */

static void try_resources(void)
{
	struct rlimit a = {}, b = {};

	CHECK(syscall(SYS_prlimit64, 0, BIT_32 | RLIMIT_CORE, NULL, &a) == 0 &&
		      syscall(SYS_getrlimit, BIT_32 | RLIMIT_NOFILE, &b) == 0 && b.rlim_cur > 0,
	      "prlimit64, getrlimit: bit 32 of a resource is ignored");
	CHECK(syscall(SYS_prlimit64, 0, RLIMIT_CORE + 16, NULL, &a) < 0 && errno == EINVAL,
	      "and there are no more than sixteen, as a mask of four bits needs");
}

static void body(const struct plat *p)
{
	(void)p;
	try_ioctl();
	try_flags();
	try_resources();
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
