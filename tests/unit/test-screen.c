/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, pictures and requests of a screen, and an X server that lies: its bytes are in a file */
#include <fcntl.h>
#include <sys/mman.h>

#include "base/endian.h"
#include "init/screen/screen.h"
#include "unit.h"

/* Numbers are those of X11's keysymdef.h. */
static void keys_have_the_numbers_of_x(void **)
{
	static const struct {
		const char *name;
		uint32_t keysym;
	} rows[] = {
		{ "Return", 0xff0d },
		{ "enter", 0xff0d },
		{ "ctrl", 0xffe3 },
		{ "F12", 0xffc9 },
		{ "Prior", 0xff55 },
		{ "KP_9", 0xffb9 },
		{ "a", 'a' },
		{ "A", 'A' },
		{ "eacute", 0xe9 },
		{ "\xc3\xa9", 0xe9 },
		{ "U20AC", 0x10020ac },
		{ "0xff1b", 0xff1b },
		{ "Agrave", 0xc0 },
		{ "agrave", 0xe0 },
		{ "XF86Back", 0x1008ff26 },
		{ "nokey", 0 },
		{ "", 0 },
		{ "U110000", 0 },
		{ "0xg", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		row_check(i, keysym_of_name(slice_of(rows[i].name)) == rows[i].keysym);
	assert_int_equal(keysym_of_character('\n'), 0xff0d);
	assert_int_equal(keysym_of_character(0x1f600), 0x101f600);
	assert_int_equal(keysym_of_character(7), 0);
	assert_int_equal(keysym_of_character(0x85), 0);
}

static void combinations_are_read_as_xdotool_reads_them(void **)
{
	static const struct {
		const char *text;
		size_t n, keys;
	} rows[] = { { "ctrl+s", 1, 2 },
		     { "a b  c", 3, 1 },
		     { "ctrl++", 1, 2 },
		     { "+", 1, 1 },
		     { " ", 1, 1 },
		     { "ctrl+nokey", 0, 0 },
		     { "a+b+c+d+e+f+g+h+i", 0, 0 } };
	struct key_combination keys[KEY_COMBINATIONS_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cay_err err = {};
		size_t n;
		int r = key_combinations_parse(rows[i].text, keys, &n, &err);

		row_check(i, (r >= 0) == (rows[i].n > 0));
		row_check(i, r >= 0 || str_eq(err.field, "keys"));
		row_check(i, r < 0 || (n == rows[i].n && keys[0].n == rows[i].keys));
	}
}

static void coordinates_come_back(void **)
{
	static const uint32_t sizes[][2] = {
		{ 1024, 1000 }, { 1920, 1280 }, { 1280, 1280 }, { 2560, 1 }, { 799, 798 }
	};
	uint32_t w, h;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (uint32_t x = 0; x < sizes[i][1]; x++) {
			uint32_t at = picture_coordinate_enlarge(x, sizes[i][1], sizes[i][0]);

			row_check(i, at < sizes[i][0]);
			row_check(i, picture_coordinate_reduce(at, sizes[i][0], sizes[i][1]) == x);
		}
	picture_fit(1920, 1080, 1280, 800, &w, &h);
	assert_true(w == 1280 && h == 720);
	picture_fit(1024, 768, 1280, 600, &w, &h);
	assert_true(w == 800 && h == 600);
	picture_fit(65535, 1, 10, 0, &w, &h);
	assert_true(w == 10 && h == 1);
}

static void displays_and_cookies_are_found(void **)
{
	static const char file[] = "\1\0\0\4host\0\1"
				   "1\0\22MIT-MAGIC-COOKIE-1\0\4wxyz"
				   "\1\0\0\4host\0\0\0\22MIT-MAGIC-COOKIE-1\0\4abcd";
	struct slice all = { file, sizeof(file) - 1 };
	unsigned n = 9;

	assert_true(x_display_parse(":0", &n) == 0 && n == 0);
	assert_true(x_display_parse("unix:12.0", &n) == 0 && n == 12);
	assert_true(x_display_parse("host:0", &n) < 0 && x_display_parse(":x", &n) < 0);
	assert_true(slice_eq(x_authority_find(all, 1), SLICE("wxyz")));
	assert_true(slice_eq(x_authority_find(all, 0), SLICE("abcd")));
	for (size_t cut = 0; cut < all.n; cut++)
		assert_int_equal(x_authority_find((struct slice){ file, cut }, 0).n, 0);
}

static void wrong_requests_name_their_action(void **)
{
	static const struct {
		struct screen_action a;
		const char *field;
	} rows[] = {
		{ { .type = SCREEN_CLICK }, NULL },
		{ { .type = SCREEN_CLICK, .has_x = true }, "actions[1].y" },
		{ { .type = SCREEN_MOVE }, "actions[1].x" },
		{ { .type = SCREEN_DRAG, .has_to_x = true }, "actions[1].to_y" },
		{ { .type = SCREEN_TYPE, .text = "a\tb" }, NULL },
		{ { .type = SCREEN_TYPE, .text = "\x1b" }, "actions[1].text" },
		{ { .type = SCREEN_CLICK, .keys = "ctrl alt" }, "actions[1].keys" },
		{ { .type = SCREEN_WAIT, .has_duration = true, .duration_ms = 100001 }, "actions" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct screen_action list[] = { { .type = SCREEN_KEY, .keys = "a" }, rows[i].a };
		struct screen_act act = { .actions = { list, 2 } };
		struct cay_err err = {};
		int r = screen_actions_check(&act, &err);

		row_check(i, (r >= 0) == !rows[i].field);
		row_check(i, !rows[i].field || str_eq(err.field, rows[i].field));
	}
}

/* What the server sends, and where the requests go. */
struct server {
	struct buf sent;
	unsigned n;
	struct x_conn conn;
};

static void server_put(struct server *s, const void *p, size_t n)
{
	assert_true(buf_append(&s->sent, p, n) >= 0);
}

/* A reply to the next request: its head's second byte, 24 bytes of head, and data whose length it
 * tells as `told`. */
static void server_reply(struct server *s, uint8_t second, const uint8_t *head, const void *data,
			 size_t n, size_t told)
{
	uint8_t reply[32] = { 1, second };

	le16_put(reply + 2, (uint16_t)++s->n);
	le32_put(reply + 4, (uint32_t)(told / 4));
	if (head)
		memcpy(reply + 8, head, 24);
	server_put(s, reply, sizeof(reply));
	server_put(s, data, n);
}

static void server_greet(struct server *s)
{
	static const uint8_t extensions[3][24] = { { 1, 132 }, { 1, 138 }, { 1, 143 } };
	uint8_t setup[8 + 32 + 8 + 40 + 8 + 24] = { 1, 0, 11 }, *p = setup + 8;

	*s = (struct server){ .sent = BUF_INIT(MIB(1)), .conn = X_CONN_INIT };
	le16_put(setup + 6, (sizeof(setup) - 8) / 4);
	le16_put(p + 18, 65535);
	p[20] = p[21] = 1;
	p[26] = 8;
	p[27] = 255;
	p += 32; /* the format */
	p[0] = 24;
	p[1] = 32;
	p += 8; /* the screen */
	le16_put(p + 20, 4);
	le16_put(p + 22, 2);
	le32_put(p + 32, 9);
	p[38] = 24;
	p[39] = 1;
	p += 40; /* its depth, and the visual */
	le16_put(p + 2, 1);
	le32_put(p + 8, 9);
	le32_put(p + 16, 0xff0000);
	le32_put(p + 20, 0xff00);
	le32_put(p + 24, 0xff);
	server_put(s, setup, sizeof(setup));
	for (size_t i = 0; i < ARRAY_SIZE(extensions); i++)
		server_reply(s, 0, extensions[i], NULL, 0, 0);
}

/* Connect to it; all it will send is known. */
static void server_connect(struct server *s)
{
	struct cay_err err = {};

	s->conn.in = memfd_create("in", MFD_CLOEXEC);
	s->conn.out = memfd_create("out", MFD_CLOEXEC);
	assert_true(s->conn.in >= 0 && s->conn.out >= 0);
	assert_int_equal(write(s->conn.in, s->sent.data, s->sent.len), s->sent.len);
	assert_int_equal(lseek(s->conn.in, 0, SEEK_SET), 0);
	assert_int_equal(x_conn_greet(&s->conn, (struct slice){}, &err), 0);
	assert_true(s->conn.width == 4 && s->conn.height == 2 && s->conn.red == 16);
}

static void server_end(struct server *s)
{
	(void)close(s->conn.out);
	x_conn_fini(&s->conn);
	buf_fini(&s->sent);
}

static void a_picture_has_the_pixels_that_were_sent(void **)
{
	uint8_t pixels[32];
	struct screen_shot_query q = { .x = 1, .width = 2 };
	auto_buf png = BUF_INIT(MIB(1));
	struct x_region at = { 0, 0, 4, 2 };
	auto_picture p = {};
	struct cay_err err = {};
	struct server s;

	for (unsigned i = 0; i < 8; i++)
		le32_put(pixels + i * 4, 0x010203 * i);
	server_greet(&s);
	server_reply(&s, 24, NULL, pixels, sizeof(pixels), sizeof(pixels));
	server_reply(&s, 24, NULL, pixels, sizeof(pixels) / 2, sizeof(pixels) / 2);
	server_connect(&s);
	assert_int_equal(x_read_pixels(&s.conn, &at, &p, &err), 0);
	assert_memory_equal(p.rgb + 21, ((uint8_t[]){ 7, 14, 21 }), 3);
	assert_int_equal(screen_write_png(&s.conn, &q, &png, &err), 0);
	assert_memory_equal(png.data, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\2\0\0\0\2\x08\2", 26);
	server_end(&s);
}

/* Each of these reads beyond the reply, if it is believed. */
static void a_server_that_lies_is_not_believed(void **)
{
	static const uint8_t cursor[24] = { [4] = 200, [6] = 200 };
	static const uint8_t property[24] = { [8] = 200 };
	static const uint8_t atom[24] = { 1 };

	for (unsigned row = 0; row < 4; row++) {
		uint8_t rgb[24] = {};
		struct picture p = { 4, 2, rgb };
		struct x_region at = { 0, 0, 4, 2 };
		auto_arena arena = ARENA_INIT(KIB(64));
		struct x_keyboard keyboard;
		struct field_list windows;
		struct cay_err err = {};
		struct server s;
		int r;

		server_greet(&s);
		if (row == 0) { /* a reply of 16 GiB */
			server_reply(&s, 0, NULL, NULL, 0, UINT32_MAX);
			le32_put((uint8_t *)s.sent.data + s.sent.len - 28, UINT32_MAX);
		} else if (row == 1) { /* a cursor with less than its pixels */
			server_reply(&s, 0, NULL, NULL, 0, 0);
			server_reply(&s, 0, cursor, rgb, 4, 4);
		} else if (row == 2) { /* a property that is shorter than it says */
			for (unsigned i = 0; i < 3; i++)
				server_reply(&s, 0, atom, NULL, 0, 0);
			server_reply(&s, 32, property, rgb, 4, 4);
		} else { /* a keyboard with fewer keys than were asked for */
			server_reply(&s, 7, NULL, rgb, 4, 4);
		}
		server_connect(&s);
		r = row == 0   ? x_sync(&s.conn, &err)
		    : row == 1 ? x_draw_cursor(&s.conn, &at, &p, &err)
		    : row == 2 ? x_list_windows(&s.conn, &arena, &windows, &err)
			       : x_keyboard_read(&s.conn, &keyboard, &err);
		row_check(row, r < 0 && err.code == CAY_E_UNAVAILABLE);
		row_check(row, strstr(err.msg, "too long") || strstr(err.msg, "size") ||
				       strstr(err.msg, "shorter"));
		server_end(&s);
	}
}

/* The numbers of key events among the requests. */
static void server_count_keys(const struct server *s, unsigned *down, unsigned *up)
{
	uint8_t requests[KIB(16)];
	ssize_t n = pread(s->conn.out, requests, sizeof(requests), 12); /* behind the greeting */

	*down = *up = 0;
	for (ssize_t at = 0; at + 4 <= n && le16_get(requests + at + 2);
	     at += le16_get(requests + at + 2) * 4)
		if (requests[at] == 132) {
			*down += requests[at + 4] == X_KEY_DOWN;
			*up += requests[at + 4] == X_KEY_UP;
		}
}

/* ctrl+shift+a and a wait; then the server is gone or not. */
static void keys_are_released_whatever_happens(void **)
{
	struct screen_action hold = { .type = SCREEN_HOLD, .keys = "ctrl+shift+a" };
	struct screen_action drag = { .type = SCREEN_DRAG, .keys = "alt" };

	for (unsigned row = 0; row < 2; row++) {
		struct screen_action list[] = { hold, drag };
		struct screen_act act = { .actions = { list, row ? 2 : 1 } };
		uint8_t map[248 * 4] = {};
		struct cay_err err = {};
		struct server s;
		struct hand h = { .width = 4, .height = 2 };
		unsigned down, up;

		le32_put(map + 40, 0xffe3);
		le32_put(map + 44, 0xffe1);
		le32_put(map + 48, 'a');
		le32_put(map + 52, 0xffe9);
		server_greet(&s);
		server_reply(&s, 1, NULL, map, sizeof(map), sizeof(map));
		s.n += 6; /* its events have no reply */
		if (row)
			server_reply(&s, 1, NULL, map, sizeof(map), sizeof(map));
		else
			server_reply(&s, 0, NULL, NULL, 0, 0);
		server_connect(&s);
		h.conn = &s.conn;
		/* in the second the server ends where the drag asks for the cursor */
		row_check(row, (hand_run(&h, &act, &err) < 0) == (row == 1));
		server_count_keys(&s, &down, &up);
		row_check(row, down == 3 + row && up == down);
		server_end(&s);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_have_the_numbers_of_x),
		cmocka_unit_test(combinations_are_read_as_xdotool_reads_them),
		cmocka_unit_test(coordinates_come_back),
		cmocka_unit_test(displays_and_cookies_are_found),
		cmocka_unit_test(wrong_requests_name_their_action),
		cmocka_unit_test(a_picture_has_the_pixels_that_were_sent),
		cmocka_unit_test(a_server_that_lies_is_not_believed),
		cmocka_unit_test(keys_are_released_whatever_happens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
