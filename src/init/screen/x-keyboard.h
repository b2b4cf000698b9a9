/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SCREEN_X_KEYBOARD_H
#define CAY_INIT_SCREEN_X_KEYBOARD_H
/*
 * x-keyboard - which key gives which keysym, and keys for those that no key gives
 *
 * A keysym without a key gets a spare one: programs read the new map before the key.  The map is
 * left as it is, because a program may read it late; a spare key is known by the columns that only
 * we give it, and is used again.
 */
#include "init/screen/x-screen.h"

#define X_KEYS 256
#define X_SPARES_MAX 128

struct x_keyboard {
	struct x_conn *conn;
	uint32_t keysyms[X_KEYS][2]; /* without and with Shift */
	uint8_t spares[X_SPARES_MAX];
	size_t n_spares; /* those without a meaning first, then n_stale that we gave one */
	size_t n_stale, n_used;
};

struct x_key {
	uint8_t code;
	bool shift;
};

[[nodiscard]] int x_keyboard_read(struct x_conn *c, struct x_keyboard *ret, struct cay_err *err);
bool x_keyboard_find(const struct x_keyboard *k, uint32_t keysym, struct x_key *ret);
/* Give the keysym a spare key; -ENOSPC: none is left.  Programs have the map after
 * X_KEYBOARD_SETTLE_MS. */
#define X_KEYBOARD_SETTLE_MS 20
[[nodiscard]] int x_keyboard_add(struct x_keyboard *k, uint32_t keysym, struct cay_err *err);
#endif
