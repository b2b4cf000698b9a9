/* SPDX-License-Identifier: Apache-2.0 */
#include <seccomp.h>

#include "oci/oci-config.h"
#include "oci/oci-seccomp.h"
#include "text/base64.h"

#define PROGRAM_MAX KIB(32)    /* the kernel's maximum: 4,096 instructions */
#define OPTIMIZE_BINARY_TREE 2 /* find a call's rule in 9 steps, not in up to 300 */

static void oci_filter_free(scmp_filter_ctx *f)
{
	seccomp_release(*f);
}

/* A name that this libseccomp does not know is left out, so that the call fails: as runtimes do. */
static int on_seccomp_rule_add(void *filter, const struct seccomp_rule *rule, int error)
{
	uint32_t action = error < 0 ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO((unsigned)error);
	int call = seccomp_syscall_resolve_name(rule->name);
	struct scmp_arg_cmp when[ARRAY_SIZE(rule->when)];

	for (unsigned i = 0; i < rule->n; i++)
		when[i] = (struct scmp_arg_cmp){
			.arg = rule->when[i].arg,
			.op = rule->when[i].masked ? SCMP_CMP_MASKED_EQ : SCMP_CMP_EQ,
			.datum_a = rule->when[i].value,
			.datum_b = rule->when[i].value_two,
		};
	return call == __NR_SCMP_ERROR
		       ? 0
		       : seccomp_rule_add_array(filter, action, call, rule->n, when);
}

int oci_filter_compile(struct buf *ret)
{
	CAY_CLEANUP(oci_filter_free)
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(SECCOMP_DEFAULT_ERRNO));
	auto_buf program = BUF_INIT(PROGRAM_MAX);
	size_t n = PROGRAM_MAX;
	int r = f ? buf_reserve(&program, n) : -ENOMEM;

	if (r >= 0)
		r = seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, OPTIMIZE_BINARY_TREE);
	if (r >= 0)
		r = oci_seccomp_each_rule(on_seccomp_rule_add, f);
	if (r >= 0)
		r = seccomp_export_bpf_mem(f, program.data, &n);
	if (r >= 0)
		r = buf_reserve(ret, BASE64_TEXT(n));
	if (r < 0)
		return r;
	base64_encode((const uint8_t *)program.data, n, ret->data + ret->len);
	ret->len += BASE64_TEXT(n);
	ret->data[ret->len] = 0;
	return 0;
}
