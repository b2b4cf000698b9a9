/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_PROOF_H
#define CAY_TESTS_PROOF_H
/*
 * proof - a harness for CBMC: a local variable that nobody wrote is anything at
 * all, and every claim holds for all of them or the run fails
 *
 * dev/proof reads from each proof-*.c which sources it needs and how often
 * loops go round; --unwinding-assertions proves that the number is enough.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

size_t nondet_size(void);
void __CPROVER_assume(_Bool condition);
void __CPROVER_assert(_Bool condition, const char *text);

#define assume(cond) __CPROVER_assume(cond)
#define prove(cond) __CPROVER_assert(cond, #cond)

/* n bytes, anything in them, and nothing behind: a read past n is a failure. */
static inline void *bytes_of(size_t n)
{
	void *p = malloc(n);

	assume(p != NULL);
	return p;
}

#endif
