/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_FUZZ_H
#define CAY_TESTS_FUZZ_H
/*
 * fuzz - what every fuzzer has: one function, and a loud CHECK for properties
 *
 * The same source builds twice: with libFuzzer (make fuzz), and with
 * replay-main.c as a test that runs its corpus.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
			abort(); \
		} \
	} while (0)

/* The input in memory of exactly its size, so that one byte too far is seen. */
static inline void *fuzz_copy(const uint8_t *data, size_t size)
{
	void *p = calloc(1, size ? size : 1);

	CHECK(p);
	if (size)
		memcpy(p, data, size);
	return p;
}
#endif
