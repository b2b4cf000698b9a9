/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_EXEC_DETACH_KEYS_H
#define CAY_CLI_EXEC_DETACH_KEYS_H
/*
 * keys - the keys that leave a terminal, found in what is typed
 *
 *	"ctrl-p,ctrl-q"   "ctrl-],d"   "" (none)
 *
 * What is typed is passed on at once, also a key that may turn out to have been the
 * first of these; only the last one is kept back.
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
/* How many of these bytes are to be passed on; fewer than n: the keys were pressed. */
size_t detach_keys_scan(struct detach_keys *k, const uint8_t *in, size_t n);
#endif
