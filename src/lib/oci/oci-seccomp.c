/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/oci-seccomp.h"

#include <errno.h>
#include <linux/netlink.h>
#include <sched.h>

#include "oci/oci-config.h"

/* The ABI of this machine; system calls of other ABIs are not allowed. */
#if defined(__x86_64__)
#define NATIVE "SCMP_ARCH_X86_64"
#define IS_X86 true
#elif defined(__aarch64__)
#define NATIVE "SCMP_ARCH_AARCH64"
#define IS_X86 false
#else
#define NATIVE ""
#define IS_X86 false
static_assert(false, "syscalls.def has no column for this architecture");
#endif
#define IS_ALL true

static const char *const allowed[] = {
#define CAY_ALLOW(where, name) IS_##where ? #name : NULL,
#define CAY_DENY(name)
#include "oci/syscalls.def"
#undef CAY_ALLOW
#undef CAY_DENY
};

static const char *const denied[] = {
#define CAY_ALLOW(where, name)
#define CAY_DENY(name) #name,
#include "oci/syscalls.def"
#undef CAY_ALLOW
#undef CAY_DENY
};

#define NAMESPACES \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)

/* <sys/socket.h> and <sys/ioctl.h> are not for pure code; the kernel's own headers lack these. */
enum family { UNIX = 1, INET = 2, INET6 = 10, NETLINK = 16 };
enum type { STREAM = 1, DGRAM = 2, RAW = 3, TYPE_MASK = 15 };
enum protocol { ICMP = 1, TCP = 6, UDP = 17, ICMP6 = 58 };
enum flag { OOB = 1 };
enum rlimit_resource { CORE = 4, RESOURCE_MASK = 15 };

#define EQ(arg, value) { arg, false, value, 0 }
#define BITS(arg, mask, value) { arg, true, mask, value }
#define FAMILY(family, type, protocol) \
	{ "socket", { EQ(0, family), BITS(1, TYPE_MASK, type), EQ(2, protocol) }, 3 }
/* Any limit but that of cores, whatever the bits that the kernel ignores. */
#define NOT_CORE(name, arg) \
	{ name, { BITS(arg, 8, 8) }, 1 }, { name, { BITS(arg, 4, 0) }, 1 }, \
		{ name, { BITS(arg, 2, 2) }, 1 }, { name, { BITS(arg, 1, 1) }, 1 }

/* Allowed when every condition of a row holds; several rows are alternatives.  A condition on a
 * number of which the kernel takes 32 bits looks at no others. */
static const struct seccomp_rule conditional[] = {
	{ "clone", { BITS(0, NAMESPACES, 0) }, 1 },
	{ "socket", { EQ(0, UNIX) }, 1 },
	{ "socketpair", { EQ(0, UNIX) }, 1 },
	/* For any other pair of type and protocol (SCTP, DCCP, MPTCP, a stream of UDP) the kernel
	 * has root's modprobe look for a module. */
	FAMILY(INET, STREAM, 0),
	FAMILY(INET, STREAM, TCP),
	FAMILY(INET, DGRAM, 0),
	FAMILY(INET, DGRAM, UDP),
	FAMILY(INET, DGRAM, ICMP),
	FAMILY(INET, RAW, ICMP), /* to which the kernel says EPERM */
	FAMILY(INET6, STREAM, 0),
	FAMILY(INET6, STREAM, TCP),
	FAMILY(INET6, DGRAM, 0),
	FAMILY(INET6, DGRAM, UDP),
	FAMILY(INET6, DGRAM, ICMP6),
	FAMILY(INET6, RAW, ICMP6),
	{ "socket", { EQ(0, NETLINK), EQ(2, NETLINK_ROUTE) }, 2 },
	/* out-of-band bytes of a unix socket: rarely used code with a history of faults */
	{ "sendto", { BITS(3, OOB, 0) }, 1 },
	{ "sendmsg", { BITS(2, OOB, 0) }, 1 },
	{ "sendmmsg", { BITS(3, OOB, 0) }, 1 },
	{ "recvfrom", { BITS(3, OOB, 0) }, 1 },
	{ "recvmsg", { BITS(2, OOB, 0) }, 1 },
	{ "recvmmsg", { BITS(3, OOB, 0) }, 1 },
	/* RLIMIT_CORE stays as oci-config.c sets it; a query is allowed */
	NOT_CORE("setrlimit", 0),
	NOT_CORE("prlimit64", 1),
	{ "prlimit64", { EQ(2, 0) }, 1 },
	/* the query, and the values setarch -R and 32-bit uname need; not READ_IMPLIES_EXEC */
	{ "personality", { EQ(0, 0) }, 1 },
	{ "personality", { EQ(0, 0x0008) }, 1 },
	{ "personality", { EQ(0, 0x40000) }, 1 },
	{ "personality", { EQ(0, 0xffffffff) }, 1 },
};

/* Does nothing and succeeds: programs that turn cores off must not take it for a failure.  A query
 * by prlimit64 is allowed above; with one more condition here libseccomp drops the row. */
static const struct seccomp_rule ignored[] = {
	{ "setrlimit", { BITS(0, RESOURCE_MASK, CORE) }, 1 },
	{ "prlimit64", { BITS(1, RESOURCE_MASK, CORE) }, 1 },
};

/* Requests by which a process has the host act, or acts as another: all that end in these 16 bits.
 * tests/attack tries every number. */
#define IOCTL_BITS 16
#define IOCTL_MASK ((UINT32_C(1) << IOCTL_BITS) - 1)
static const uint16_t ioctls_denied[] = {
	0x5412,                         /* TIOCSTI: types at a terminal */
	0x541c,                         /* TIOCLINUX: the console's selection */
	0x5423,                         /* TIOCSETD: loads a line discipline */
	0x8940, 0x8941,                 /* SIOCGIFBR, SIOCSIFBR: load the bridge module */
	0x8982, 0x8983,                 /* SIOCGIFVLAN, SIOCSIFVLAN: load 8021q */
	0x89a0, 0x89a1, 0x89a2, 0x89a3, /* SIOCBR*: load the bridge module */
};

static int oci_seccomp_each_conditional(seccomp_rule_fn *fn, void *arg)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(conditional); i++)
		r = fn(arg, &conditional[i], SECCOMP_ALLOW);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(ignored); i++)
		r = fn(arg, &ignored[i], 0);
	return r;
}

int oci_seccomp_each_rule(seccomp_rule_fn *fn, void *arg)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(allowed); i++)
		if (allowed[i])
			r = fn(arg, &(struct seccomp_rule){ .name = allowed[i] }, SECCOMP_ALLOW);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(denied); i++)
		r = fn(arg, &(struct seccomp_rule){ .name = denied[i] }, EPERM);
	if (r >= 0)
		r = oci_seccomp_each_conditional(fn, arg);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(ioctls_denied); i++)
		r = fn(arg,
		       &(struct seccomp_rule){
			       "ioctl", { BITS(1, IOCTL_MASK, ioctls_denied[i]) }, 1 },
		       SECCOMP_DEFAULT_ERRNO);
	return r < 0 ? r : fn(arg, &(struct seccomp_rule){ .name = "ioctl" }, SECCOMP_ALLOW);
}

static void oci_seccomp_begin_rule(struct jw *w, const char *action)
{
	jw_object_begin(w, NULL);
	jw_str(w, "action", action);
	jw_array_begin(w, "names");
}

static int on_seccomp_rule_write(void *arg, const struct seccomp_rule *rule, int error)
{
	struct jw *w = arg;

	oci_seccomp_begin_rule(w, error < 0 ? "SCMP_ACT_ALLOW" : "SCMP_ACT_ERRNO");
	jw_str(w, NULL, rule->name);
	jw_end(w);
	if (error >= 0)
		jw_u64(w, "errnoRet", (uint64_t)error);
	jw_array_begin(w, "args");
	for (unsigned k = 0; k < rule->n; k++) {
		const struct seccomp_condition *c = &rule->when[k];

		jw_object_begin(w, NULL);
		jw_u64(w, "index", c->arg);
		jw_u64(w, "value", c->value);
		jw_u64(w, "valueTwo", c->value_two);
		jw_str(w, "op", c->masked ? "SCMP_CMP_MASKED_EQ" : "SCMP_CMP_EQ");
		jw_end(w);
	}
	jw_end(w);
	jw_end(w);
	return 0;
}

static bool oci_seccomp_denies_ioctl(uint32_t from, unsigned free_bits)
{
	for (size_t i = 0; i < ARRAY_SIZE(ioctls_denied); i++)
		if ((uint32_t)ioctls_denied[i] >> free_bits == from >> free_bits)
			return true;
	return false;
}

/* A rule of a runtime cannot name two values that one argument must not have, so the others are
 * allowed: by every largest block of numbers, from `from` and with its last bits free, that has no
 * denied number. */
static void oci_seccomp_write_ioctls(struct jw *w, uint32_t from, unsigned free_bits)
{
	uint32_t mask = IOCTL_MASK + 1 - (UINT32_C(1) << free_bits);

	if (!oci_seccomp_denies_ioctl(from, free_bits)) {
		(void)on_seccomp_rule_write(
			w, &(struct seccomp_rule){ "ioctl", { BITS(1, mask, from) }, 1 },
			SECCOMP_ALLOW);
	} else if (free_bits) {
		oci_seccomp_write_ioctls(w, from, free_bits - 1);
		oci_seccomp_write_ioctls(w, from | UINT32_C(1) << (free_bits - 1), free_bits - 1);
	}
}

void oci_config_write_seccomp(struct jw *w)
{
	jw_object_begin(w, "seccomp");
	jw_str(w, "defaultAction", "SCMP_ACT_ERRNO");
	jw_u64(w, "defaultErrnoRet", SECCOMP_DEFAULT_ERRNO);
	jw_array_begin(w, "architectures");
	jw_str(w, NULL, NATIVE);
	jw_end(w);
	jw_array_begin(w, "syscalls");
	oci_seccomp_begin_rule(w, "SCMP_ACT_ALLOW");
	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
		if (allowed[i])
			jw_str(w, NULL, allowed[i]);
	jw_end(w);
	jw_end(w);
	oci_seccomp_begin_rule(w, "SCMP_ACT_ERRNO");
	for (size_t i = 0; i < ARRAY_SIZE(denied); i++)
		jw_str(w, NULL, denied[i]);
	jw_end(w);
	jw_u64(w, "errnoRet", EPERM);
	jw_end(w);
	(void)oci_seccomp_each_conditional(on_seccomp_rule_write, w);
	oci_seccomp_write_ioctls(w, 0, IOCTL_BITS);
	jw_end(w);
	jw_end(w);
}
