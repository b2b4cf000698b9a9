/* SPDX-License-Identifier: Apache-2.0 */
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

/* <sys/socket.h> is not for pure code; the kernel's own header has them not. */
enum family { UNIX = 1, INET = 2, INET6 = 10, NETLINK = 16 };
enum protocol { ICMP = 1, TCP = 6, UDP = 17, ICMP6 = 58 };

struct seccomp_condition {
	unsigned arg;
	const char *op;
	uint64_t value, value_two;
};

#define FAMILY(family, protocol) \
	{ "socket", { { 0, "SCMP_CMP_EQ", family, 0 }, { 2, "SCMP_CMP_EQ", protocol, 0 } }, 2 }

/* Allowed when every condition of a row holds; several rows are alternatives. */
static const struct {
	const char *name;
	struct seccomp_condition when[2];
	unsigned n;
} conditional[] = {
	{ "clone", { { 0, "SCMP_CMP_MASKED_EQ", NAMESPACES, 0 } }, 1 },
	{ "socket", { { 0, "SCMP_CMP_EQ", UNIX, 0 } }, 1 },
	{ "socketpair", { { 0, "SCMP_CMP_EQ", UNIX, 0 } }, 1 },
	/* not SCTP, L2TP, MPTCP and the like, each a module of the kernel's to be loaded */
	FAMILY(INET, 0),
	FAMILY(INET, ICMP),
	FAMILY(INET, TCP),
	FAMILY(INET, UDP),
	FAMILY(INET6, 0),
	FAMILY(INET6, ICMP6),
	FAMILY(INET6, TCP),
	FAMILY(INET6, UDP),
	FAMILY(NETLINK, NETLINK_ROUTE),
	/* the query, and the values setarch -R and 32-bit uname need; not READ_IMPLIES_EXEC */
	{ "personality", { { 0, "SCMP_CMP_EQ", 0, 0 } }, 1 },
	{ "personality", { { 0, "SCMP_CMP_EQ", 0x0008, 0 } }, 1 },
	{ "personality", { { 0, "SCMP_CMP_EQ", 0x40000, 0 } }, 1 },
	{ "personality", { { 0, "SCMP_CMP_EQ", 0xffffffff, 0 } }, 1 },
};

static void oci_seccomp_begin_rule(struct jw *w, const char *action)
{
	jw_object_begin(w, NULL);
	jw_str(w, "action", action);
	jw_array_begin(w, "names");
}

static void oci_seccomp_write_conditional(struct jw *w)
{
	for (size_t i = 0; i < ARRAY_SIZE(conditional); i++) {
		oci_seccomp_begin_rule(w, "SCMP_ACT_ALLOW");
		jw_str(w, NULL, conditional[i].name);
		jw_end(w);
		jw_array_begin(w, "args");
		for (unsigned k = 0; k < conditional[i].n; k++) {
			const struct seccomp_condition *c = &conditional[i].when[k];

			jw_object_begin(w, NULL);
			jw_u64(w, "index", c->arg);
			jw_u64(w, "value", c->value);
			jw_u64(w, "valueTwo", c->value_two);
			jw_str(w, "op", c->op);
			jw_end(w);
		}
		jw_end(w);
		jw_end(w);
	}
}

void oci_config_write_seccomp(struct jw *w)
{
	jw_object_begin(w, "seccomp");
	jw_str(w, "defaultAction", "SCMP_ACT_ERRNO");
	jw_u64(w, "defaultErrnoRet", ENOSYS);
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
	oci_seccomp_write_conditional(w);
	jw_end(w);
	jw_end(w);
}
