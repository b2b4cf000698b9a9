/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_SIPHASH_H
#define CAY_BASE_SIPHASH_H
/* siphash - SipHash-2-4: collisions can only be found with the key */
#include <stddef.h>
#include <stdint.h>

#define SIPHASH_KEY_LEN 16

uint64_t siphash(const uint8_t key[static SIPHASH_KEY_LEN], const void *p, size_t n);
#endif
