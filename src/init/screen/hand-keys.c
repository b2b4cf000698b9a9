/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of a hand: typed text and combinations */
#include "init/screen/screen.h"

#define REUSE_MS 200 /* until programs have read the map for the keys before */

static int hand_key(struct hand *a, uint8_t code, bool down, struct cay_err *err)
{
	if (down)
		a->held[a->n_held++] = code;
	else
		a->n_held--;
	return x_fake_input(a->conn, down ? X_KEY_DOWN : X_KEY_UP, code, 0, 0, err);
}

int hand_release(struct hand *a, struct cay_err *err)
{
	int r = 0;

	while (a->n_held && r >= 0)
		r = hand_key(a, a->held[(a->n_held - 1)], false, err);
	return r;
}

/* Map the keysyms to press that have no key. *ret is how many of the keysyms there is a key for. */
static int hand_map(struct hand *a, const uint32_t *keysyms, size_t n, size_t *ret,
		    struct cay_err *err)
{
	struct x_keyboard *k = &a->keyboard;
	struct x_key key;
	bool stale;
	int r = x_keyboard_read(a->conn, k, err);

	stale = k->n_stale;
	for (*ret = 0; r >= 0 && *ret < n; ++*ret) {
		if (x_keyboard_find(k, keysyms[*ret], &key))
			continue;
		if (stale)
			r = hand_pause(a, REUSE_MS, err);
		stale = false;
		if (r >= 0)
			r = x_keyboard_add(k, keysyms[*ret], err);
		if (r == -ENOSPC)
			break;
	}
	if (r < 0 && r != -ENOSPC)
		return r;
	if (!*ret)
		return cay_fail(err, CAY_E_UNSUPPORTED,
				"the keyboard of the X server has no key left for a character");
	r = k->n_used ? x_sync(a->conn, err) : 0;
	return r < 0 || !k->n_used ? r : hand_pause(a, X_KEYBOARD_SETTLE_MS, err);
}

static int hand_press_keysym(struct hand *a, uint32_t keysym, struct cay_err *err)
{
	struct x_key key, shift;
	int r = 0;

	if (!x_keyboard_find(&a->keyboard, keysym, &key))
		return x_fail(err, "changed its keyboard map");
	if (key.shift && x_keyboard_find(&a->keyboard, KEYSYM_SHIFT, &shift))
		r = hand_key(a, shift.code, true, err);
	return r < 0 ? r : hand_key(a, key.code, true, err);
}

int hand_press(struct hand *a, const struct key_combination *k, struct cay_err *err)
{
	size_t mapped;
	int r = hand_map(a, k->keysyms, k->n, &mapped, err);

	for (size_t i = 0; r >= 0 && i < k->n; i++)
		r = hand_press_keysym(a, k->keysyms[i], err);
	return r;
}

static int hand_type_keysyms(struct hand *a, const uint32_t *keysyms, size_t n, struct cay_err *err)
{
	size_t mapped;
	int r = 0;

	for (size_t at = 0; r >= 0 && at < n; at += mapped) {
		r = hand_map(a, keysyms + at, n - at, &mapped, err);
		for (size_t i = 0; r >= 0 && i < mapped; i++) {
			r = hand_press_keysym(a, keysyms[at + i], err);
			if (r >= 0)
				r = hand_release(a, err);
		}
		if (r >= 0)
			r = x_sync(a->conn, err);
	}
	return r;
}

int hand_type(struct hand *a, const char *text, struct cay_err *err)
{
	auto_free uint32_t *keysyms = calloc(strlen(text) + 1, sizeof(*keysyms));
	size_t n = 0;

	if (!keysyms)
		return cay_no_memory(err);
	while (*text)
		keysyms[n++] = keysym_of_character(utf8_next(&text));
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): its cleanup frees it */
	return hand_type_keysyms(a, keysyms, n, err);
}
