/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SCREEN_KEYSYM_H
#define CAY_INIT_SCREEN_KEYSYM_H
/* keysym - X's numbers for what keys mean, by the names that xdotool takes, and of characters
 *
 * Pure.  "ctrl+shift+t" is a combination; "ctrl+a Delete" two, one after the other. */
#include "base/err.h"
#include "base/str.h"

#define KEYSYM_SHIFT 0xffe1u /* Shift_L */
#define KEY_COMBINATION_MAX 8
#define KEY_COMBINATIONS_MAX 64

struct key_combination {
	uint32_t keysyms[KEY_COMBINATION_MAX];
	size_t n;
};

/* Of a character; 0: a control character other than line feed and tab. */
uint32_t keysym_of_character(uint32_t c);
/* "Return", "ctrl", "F5", "a", "é", "U20AC"; 0: there is no such key.  Case counts only where
 * two names differ by it. */
uint32_t keysym_of_name(struct slice name);
/* *ret_n of them. */
[[nodiscard]] int key_combinations_parse(const char *text,
					 struct key_combination ret[static KEY_COMBINATIONS_MAX],
					 size_t *ret_n, struct cay_err *err);
/* The character at *at of valid UTF-8, and move behind it; a carriage return before a line feed is
 * skipped. */
uint32_t utf8_next(const char **at);
#endif
