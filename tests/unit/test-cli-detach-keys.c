/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/detach-keys.h"

#include "unit.h"

static void names_are_read(void **)
{
	static const struct {
		const char *text;
		int n; /* -1: refused */
		uint8_t v[KEYS_MAX];
	} rows[] = {
		{ "", 0, {} },
		{ DETACH_KEYS_DEFAULT, 2, { 16, 17 } },
		{ "ctrl-],d", 2, { 29, 'd' } },
		{ "ctrl-@", 1, { 0 } },
		{ "a,b,c,d,e,f,g,h", 8, { 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' } },
		{ "a,b,c,d,e,f,g,h,i", -1, {} },
		{ "ctrl-", -1, {} },
		{ "ctrl-1", -1, {} },
		{ "ctrl-pp", -1, {} },
		{ "alt-x", -1, {} },
		{ "a,,b", -1, {} },
		{ "\x1b", -1, {} },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cay_err err = {};
		struct detach_keys k;
		int r = detach_keys_parse(rows[i].text, &k, &err);

		row_check(i, (r < 0) == (rows[i].n < 0) && (r >= 0) == !err.code);
		if (r >= 0)
			row_check(i, k.n == (size_t)rows[i].n && !memcmp(k.v, rows[i].v, k.n));
	}
}

/* Typed in any pieces: what is passed on, and whether it was left. */
static void they_are_found(void **)
{
	static const struct {
		const char *keys, *typed, *passed;
		bool left;
	} rows[] = {
		{ DETACH_KEYS_DEFAULT, "ls\n", "ls\n", false },
		{ DETACH_KEYS_DEFAULT,
		  "a\x10\x11"
		  "b",
		  "a\x10", true },
		{ DETACH_KEYS_DEFAULT, "\x10x\x11", "\x10x\x11", false },
		{ DETACH_KEYS_DEFAULT, "\x10\x10\x11", "\x10\x10", true },
		{ DETACH_KEYS_DEFAULT, "\x11\x10", "\x11\x10", false },
		{ "", "\x10\x11", "\x10\x11", false },
		{ "q", "abcq", "abc", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t n = strlen(rows[i].typed), want = strlen(rows[i].passed);

		for (size_t piece = 1; piece <= n; piece++) {
			struct cay_err err = {};
			struct detach_keys k;
			bool left = false;
			size_t passed = 0;

			row_check(i, detach_keys_parse(rows[i].keys, &k, &err) == 0);
			for (size_t at = 0; at < n && !left; at += piece) {
				size_t m = n - at < piece ? n - at : piece;
				size_t got = detach_keys_scan(
					&k, (const uint8_t *)rows[i].typed + at, m);

				left = got < m;
				passed += got;
			}
			row_check(i, left == rows[i].left && passed == want);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_read),
		cmocka_unit_test(they_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
