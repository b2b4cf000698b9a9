/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_EXEC_DETACH_KEYS_H
#define CAY_CLI_EXEC_DETACH_KEYS_H
/*
 * detach-keys - find the key sequence that detaches from a terminal
 *
 *	"ctrl-p,ctrl-q"   "ctrl-],d"   "" (none)
 *
 * Keys are passed on at once, even the first ones of the sequence; only its last key is held back.
 */
#include <stdint.h>

#include "base/err.h"

#define KEYS_MAX 8
#define DETACH_KEYS_DEFAULT "ctrl-p,ctrl-q"

struct detach_keys {
	uint8_t v[KEYS_MAX];
	size_t n, matched;
};

[[nodiscard]] int detach_keys_parse(const char *text, struct detach_keys *ret, struct cay_err *err);
/* How many bytes to pass on; fewer than n: the sequence was typed. */
size_t detach_keys_scan(struct detach_keys *k, const uint8_t *in, size_t n);
#endif
