/* SPDX-License-Identifier: Apache-2.0 */
#include "init/screen/x-keyboard.h"

#include "base/endian.h"

#define HEAD 32
#define VOID_SYMBOL 0xffffffu
#define COLUMNS 4 /* of a key that we map: the keysym twice, and twice VOID_SYMBOL */

#define XF86_KEYS 0x10080000u
#define KEYPAD_FIRST 0xff80u /* KP_Space */
#define KEYPAD_LAST 0xffbdu  /* KP_Equal */

enum { REQUEST_CHANGE_KEYBOARD_MAPPING = 100, REQUEST_GET_KEYBOARD_MAPPING = 101 };

/* Whether nobody would type with this key: it has no meaning, one of ours, or is one for media. */
static bool x_key_is_spare(const uint8_t *columns, size_t n)
{
	bool empty = true;

	if ((le32_get(columns) & ~0xffffu) == XF86_KEYS)
		return true;
	for (size_t i = 0; i < n; i++)
		empty &= le32_get(columns + i * 4) == 0;
	return empty ||
	       (n >= COLUMNS && le32_get(columns) == le32_get(columns + 4) &&
		le32_get(columns + 8) == VOID_SYMBOL && le32_get(columns + 12) == VOID_SYMBOL);
}

int x_keyboard_read(struct x_conn *c, struct x_keyboard *ret, struct cay_err *err)
{
	size_t n = (size_t)(c->max_keycode - c->min_keycode) + 1, per;
	uint8_t used[X_SPARES_MAX] = {};
	uint8_t request[8] = {
		REQUEST_GET_KEYBOARD_MAPPING, [4] = c->min_keycode, [5] = (uint8_t)n
	};
	int r = x_require(c, request, sizeof(request), HEAD, HEAD + X_KEYS * 255 * 4, err);

	if (r < 0)
		return r;
	*ret = (struct x_keyboard){ .conn = c };
	per = x_reply(c)[1];
	if (!per || c->reply.len != HEAD + n * per * 4)
		return x_fail(err, "sent a keyboard map of another size");
	for (size_t i = 0; i < n; i++) {
		const uint8_t *columns = x_reply(c) + HEAD + i * per * 4;
		size_t code = c->min_keycode + i;

		if (!x_key_is_spare(columns, per)) {
			for (size_t k = 0; k < 2 && k < per; k++)
				ret->keysyms[code][k] = le32_get(columns + k * 4);
		} else if (ret->n_spares + ret->n_stale < X_SPARES_MAX) {
			uint32_t keysym = le32_get(columns);

			if (keysym && (keysym & ~0xffffu) != XF86_KEYS)
				used[ret->n_stale++] = (uint8_t)code;
			else
				ret->spares[ret->n_spares++] = (uint8_t)code;
		}
	}
	memcpy(ret->spares + ret->n_spares, used, ret->n_stale);
	ret->n_spares += ret->n_stale;
	return 0;
}

bool x_keyboard_find(const struct x_keyboard *k, uint32_t keysym, struct x_key *ret)
{
	/* what Shift does on the keypad depends on Num_Lock */
	unsigned columns = keysym >= KEYPAD_FIRST && keysym <= KEYPAD_LAST ? 1 : 2;

	for (unsigned shift = 0; shift < columns; shift++)
		for (unsigned code = k->conn->min_keycode; code <= k->conn->max_keycode; code++)
			if (k->keysyms[code][shift] == keysym) {
				*ret = (struct x_key){ (uint8_t)code, shift };
				return true;
			}
	return false;
}

int x_keyboard_add(struct x_keyboard *k, uint32_t keysym, struct cay_err *err)
{
	uint8_t request[8 + COLUMNS * 4] = { REQUEST_CHANGE_KEYBOARD_MAPPING, 1, [5] = COLUMNS };
	uint8_t code;

	if (k->n_used == k->n_spares)
		return -ENOSPC;
	code = k->spares[k->n_used++];
	request[4] = code;
	for (size_t i = 0; i < COLUMNS; i++)
		le32_put(request + 8 + i * 4, i < 2 ? keysym : VOID_SYMBOL);
	k->keysyms[code][0] = k->keysyms[code][1] = keysym;
	return x_send(k->conn, request, sizeof(request), err);
}
