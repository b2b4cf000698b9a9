/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdlib.h>

#include "oci/oci-config.h"
#include "oci/oci-seccomp.h"
#include "text/base64.h"

#define CALLS_MAX 1024 /* numbers of system calls */
#define RULES_MAX 512
#define CODE_MAX 1024
#define NEAR 250 /* of 255, how far a jump goes: an instruction or two may come between */

#define LOAD(offset) ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset)))

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#define X32_CALLS UINT32_C(0x40000000) /* from here on, numbers of a foreign ABI */
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif

struct filter_rule {
	struct seccomp_rule rule;
	int call;
	uint32_t action;
};

/* Numbers of calls from here to the next span: code that decides, or an action where at is 0. */
struct filter_span {
	uint32_t from, action;
	size_t at;
};

/* The program is written from its end to its beginning: jumps lead forward only, so where one leads
 * has been written before it.  Such a place is the number of instructions from there to the end. */
struct filter {
	struct sock_filter code[CODE_MAX]; /* the last n */
	size_t n;
	struct filter_rule rules[RULES_MAX];
	size_t n_rules;
	struct filter_span spans[CALLS_MAX + 3];
	size_t n_spans;
};

static size_t filter_put(struct filter *f, struct sock_filter code)
{
	if (f->n < CODE_MAX)
		f->code[CODE_MAX - ++f->n] = code;
	return f->n;
}

static size_t filter_return(struct filter *f, uint32_t action)
{
	for (size_t at = f->n; at && f->n - at < NEAR; at--) {
		const struct sock_filter *c = &f->code[CODE_MAX - at];

		if (c->code == (BPF_RET | BPF_K) && c->k == action)
			return at;
	}
	return filter_put(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

static size_t filter_bring_near(struct filter *f, size_t at)
{
	if (f->n - at < NEAR)
		return at;
	return filter_put(f, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)(f->n - at)));
}

static size_t filter_branch(struct filter *f, uint16_t op, uint32_t k, size_t yes, size_t no)
{
	yes = filter_bring_near(f, yes);
	no = filter_bring_near(f, no);
	return filter_put(f, (struct sock_filter)BPF_JUMP(BPF_JMP | op | BPF_K, k,
							  (uint8_t)(f->n - yes),
							  (uint8_t)(f->n - no)));
}

/* The place after the load, where that is what has been loaded already. */
static size_t filter_skip_load(const struct filter *f, size_t at, uint32_t offset, uint32_t mask)
{
	const struct sock_filter *c = &f->code[CODE_MAX - at];

	if (at < 3 || c[0].code != (BPF_LD | BPF_W | BPF_ABS) || c[0].k != offset)
		return at;
	if (mask == UINT32_MAX)
		return at - 1;
	return c[1].code == (BPF_ALU | BPF_AND | BPF_K) && c[1].k == mask ? at - 2 : at;
}

static size_t filter_compare_word(struct filter *f, size_t offset, uint64_t mask, uint64_t value,
				  size_t yes, size_t no)
{
	uint32_t m = (uint32_t)mask, k = (uint32_t)offset;

	if (!m)
		return (uint32_t)value ? no : yes;
	(void)filter_branch(f, BPF_JEQ, (uint32_t)value, yes, filter_skip_load(f, no, k, m));
	if (m != UINT32_MAX)
		(void)filter_put(f, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, m));
	return filter_put(f, LOAD(k));
}

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "an argument's lower half is the first");

static size_t filter_test(struct filter *f, const struct seccomp_condition *c, size_t yes,
			  size_t no)
{
	size_t low = offsetof(struct seccomp_data, args) + 8 * (size_t)c->arg;
	uint64_t mask = c->masked ? c->value : UINT64_MAX;
	uint64_t value = c->masked ? c->value_two : c->value;

	yes = filter_compare_word(f, low + 4, mask >> 32, value >> 32, yes, no);
	return filter_compare_word(f, low, mask, value, yes, no);
}

/* The first rule that holds decides. */
static size_t filter_decide_call(struct filter *f, int call)
{
	size_t no = filter_return(f, SECCOMP_RET_ERRNO | SECCOMP_DEFAULT_ERRNO);

	for (size_t i = f->n_rules; i--;) {
		const struct filter_rule *kept = &f->rules[i];
		size_t yes;

		if (kept->call != call)
			continue;
		yes = filter_return(f, kept->action);
		for (unsigned k = kept->rule.n; k--;)
			yes = filter_test(f, &kept->rule.when[k], yes, no);
		no = yes;
	}
	return no;
}

static struct filter_span filter_span_of(struct filter *f, uint32_t call)
{
	struct filter_span s = { call, SECCOMP_RET_ERRNO | SECCOMP_DEFAULT_ERRNO, 0 };

	for (size_t i = 0; i < f->n_rules; i++) {
		if (f->rules[i].call != (int)call)
			continue;
		if (f->rules[i].rule.n) {
			s.at = filter_decide_call(f, (int)call);
			return s;
		}
		s.action = f->rules[i].action;
	}
	return s;
}

static void filter_add_span(struct filter *f, struct filter_span s)
{
	const struct filter_span *last = f->n_spans ? &f->spans[f->n_spans - 1] : NULL;

	if (!last || last->at || s.at || last->action != s.action)
		f->spans[f->n_spans++] = s;
}

static void filter_find_spans(struct filter *f)
{
	uint32_t otherwise = SECCOMP_RET_ERRNO | SECCOMP_DEFAULT_ERRNO;

	for (uint32_t call = 0; call < CALLS_MAX; call++)
		filter_add_span(f, filter_span_of(f, call));
	filter_add_span(f, (struct filter_span){ CALLS_MAX, otherwise, 0 });
#ifdef X32_CALLS
	filter_add_span(f, (struct filter_span){ X32_CALLS, SECCOMP_RET_KILL_THREAD, 0 });
	filter_add_span(f, (struct filter_span){ UINT32_MAX, otherwise, 0 }); /* no call: -1 */
#endif
}

/* A binary search among n spans. */
static size_t filter_search(struct filter *f, const struct filter_span *s, size_t n)
{
	size_t yes, no;

	if (n == 1)
		return s->at ? s->at : filter_return(f, s->action);
	yes = filter_search(f, s + n / 2, n - n / 2);
	no = filter_search(f, s, n / 2);
	return filter_branch(f, BPF_JGE, s[n / 2].from, yes, no);
}

static void filter_write(struct filter *f)
{
	size_t native, foreign;

	filter_find_spans(f);
	(void)filter_search(f, f->spans, f->n_spans);
	native = filter_put(f, LOAD(offsetof(struct seccomp_data, nr)));
	foreign = filter_return(f, SECCOMP_RET_KILL_THREAD);
	(void)filter_branch(f, BPF_JEQ, NATIVE, native, foreign);
	(void)filter_put(f, LOAD(offsetof(struct seccomp_data, arch)));
}

/* A name that this libseccomp does not know is left out, so that the call fails: as runtimes do. */
static int on_seccomp_rule_keep(void *filter, const struct seccomp_rule *rule, int error)
{
	uint32_t action = error < 0 ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | (uint32_t)error;
	int call = seccomp_syscall_resolve_name(rule->name);
	struct filter *f = filter;

	if (call < 0)
		return 0;
	if (call >= CALLS_MAX || f->n_rules == RULES_MAX)
		return -E2BIG;
	f->rules[f->n_rules++] = (struct filter_rule){ *rule, call, action };
	return 0;
}

int oci_filter_compile(struct buf *ret)
{
	auto_free struct filter *f = calloc(1, sizeof(*f));
	size_t bytes;
	int r;

	if (!f)
		return -ENOMEM;
	r = oci_seccomp_each_rule(on_seccomp_rule_keep, f);
	if (r < 0)
		return r;
	filter_write(f);
	if (f->n == CODE_MAX)
		return -E2BIG;
	bytes = f->n * sizeof(*f->code);
	r = buf_reserve(ret, BASE64_TEXT(bytes));
	if (r < 0)
		return r;
	base64_encode((const uint8_t *)&f->code[CODE_MAX - f->n], bytes, ret->data + ret->len);
	ret->len += BASE64_TEXT(bytes);
	ret->data[ret->len] = 0;
	return 0;
}
