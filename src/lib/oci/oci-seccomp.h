/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OCI_OCI_SECCOMP_H
#define CAY_OCI_OCI_SECCOMP_H
/* oci-seccomp - the rules on system calls, one by one
 *
 * oci_config_write_seccomp() writes them as text for any runtime, oci_filter_compile() makes the
 * program from them that the kernel runs. */
#include <errno.h>
#include <stdint.h>

struct seccomp_condition {
	unsigned arg;
	bool masked; /* value is a mask, and value_two what the argument has below it */
	uint64_t value, value_two;
};

/* Holds when every condition does. */
struct seccomp_rule {
	const char *name;
	struct seccomp_condition when[3];
	unsigned n;
};

#define SECCOMP_DEFAULT_ERRNO ENOSYS /* of calls without a rule */
#define SECCOMP_ALLOW (-1)

/* error: what the call fails with, 0 to succeed without effect, or SECCOMP_ALLOW. */
typedef int seccomp_rule_fn(void *arg, const struct seccomp_rule *rule, int error);

/* In the order in which they decide: the first that holds.  Until fn returns a negative number,
 * which is returned. */
[[nodiscard]] int oci_seccomp_each_rule(seccomp_rule_fn *fn, void *arg);
#endif
