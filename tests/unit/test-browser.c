/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and texts of the browser, and one that lies: its bytes are in a file */
#include <fcntl.h>
#include <sys/mman.h>

#include "init/browser/browser.h"
#include "unit.h"

static void port_files_are_read(void **)
{
	static const struct {
		const char *text;
		int port;
	} rows[] = {
		{ "34567\n/devtools/browser/1b-2c", 34567 },
		{ "34567\n/devtools/browser/1b-2c\n", 34567 },
		{ "34567", 0 },
		{ "34567\n", 0 },
		{ "0\n/devtools/browser/1", 0 },
		{ "70000\n/devtools/browser/1", 0 },
		{ "34567\ndevtools", 0 },
		{ "34567\n/a b", 0 },
		{ "34567\n/a\r", 0 },
		{ "34567\n/a?b", 0 },
		{ "", 0 },
	};
	char path[DEVTOOLS_PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint16_t port = 0;
		int r = devtools_parse_port_file(slice_of(rows[i].text), &port, path);

		row_check(i, rows[i].port ? r == 0 && port == rows[i].port : r < 0);
	}
}

/* What JSON's readers refuse in a text becomes U+FFFD; all else stays. */
static void half_characters_are_mended(void **)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "\"plain\"", "\"plain\"" },
		{ "\"\\ud83d\\ude00\"", "\"\\ud83d\\ude00\"" },
		{ "\"\\ud83d\"", "\"\\ufffd\"" },
		{ "\"\\ude00\\ud83d\"", "\"\\ufffd\\ufffd\"" },
		{ "\"\\ud83d\\ud83d\\ude00\"", "\"\\ufffd\\ud83d\\ude00\"" },
		{ "\"\\ud83dx\"", "\"\\ufffdx\"" },
		{ "\"a\\u0000b\"", "\"a\\ufffdb\"" },
		{ "\"\\\\ud83d\"", "\"\\\\ud83d\"" },
		{ "\"\\\\\\ud83d\"", "\"\\\\\\ufffd\"" },
		{ "\"\\uD83D\"", "\"\\ufffd\"" },
		{ "\"\\u00e9\"", "\"\\u00e9\"" },
		{ "\\u12", "\\u12" },
		{ "\\", "\\" },
		{ "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf text = BUF_INIT(64);

		assert_int_equal(buf_puts(&text, rows[i].in), 0);
		if (text.len)
			cdp_mend_text(text.data, text.len);
		row_check(i, str_eq(buf_str(&text), rows[i].out));
	}
}

static void keys_are_those_of_pages(void **)
{
	static const struct {
		const char *text;
		size_t n;
		unsigned modifiers;
		const char *name, *code;
	} rows[] = {
		{ "Enter", 1, 0, "Enter", "Enter" },
		{ "return", 1, 0, "Enter", "Enter" },
		{ "ctrl+a", 1, MODIFIER_CTRL, "a", "KeyA" },
		{ "Control+Shift+ArrowLeft", 1, MODIFIER_CTRL | MODIFIER_SHIFT, "ArrowLeft",
		  "ArrowLeft" },
		{ "shift+a", 1, MODIFIER_SHIFT, "A", "KeyA" },
		{ "ctrl++", 1, MODIFIER_CTRL, "+", "" },
		{ "+", 1, 0, "+", "" },
		{ "7", 1, 0, "7", "Digit7" },
		{ "a b", 2, 0, "a", "KeyA" },
		{ "\xc3\xa9", 1, 0, "\xc3\xa9", "" },
		{ "cmd", 1, MODIFIER_META, NULL, NULL },
		{ "ctrl+bogus", 0, 0, NULL, NULL },
		{ "a+b", 0, 0, NULL, NULL },
		{ "\x01", 0, 0, NULL, NULL },
		{ "", 0, 0, NULL, NULL },
		{ " ", 0, 0, NULL, NULL },
	};
	struct browser_key keys[BROWSER_KEYS_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t n = 0;
		bool ok = browser_keys_parse(rows[i].text, keys, &n, NULL) >= 0;

		row_check(i, ok == (rows[i].n > 0) && (!ok || n == rows[i].n));
		if (!ok)
			continue;
		row_check(i, keys[0].modifiers == rows[i].modifiers);
		row_check(i, rows[i].name ? str_eq(keys[0].name, rows[i].name) &&
						    str_eq(keys[0].code, rows[i].code)
					  : !keys[0].name);
	}
}

#define UPGRADED \
	"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" \
	"Sec-WebSocket-Accept: x\r\n\r\n"

/* What a browser answers to the calls of tab_attach(), each message a frame. */
static int attach(const char *const *messages, size_t n, struct tab *t, struct arena *arena,
		  struct cay_err *err)
{
	auto_buf all = BUF_INIT(KIB(64));

	tab_init(t, arena);
	assert_int_equal(buf_puts(&all, UPGRADED), 0);
	for (size_t i = 0; i < n; i++) {
		size_t length = strlen(messages[i]);

		assert_true(length < 126);
		assert_int_equal(buf_putc(&all, (char)0x81), 0);
		assert_int_equal(buf_putc(&all, (char)length), 0);
		assert_int_equal(buf_puts(&all, messages[i]), 0);
	}
	t->devtools.in = memfd_create("browser", MFD_CLOEXEC);
	t->devtools.out = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_int_equal(write(t->devtools.in, all.data, all.len), (ssize_t)all.len);
	assert_int_equal(lseek(t->devtools.in, 0, SEEK_SET), 0);
	devtools_set_deadline(&t->devtools, 2000);
	return tab_attach(t, "A1", err);
}

static void a_browser_that_lies_is_refused(void **)
{
	static const char one[] = "{\"id\":1,\"result\":{}}", two[] = "{\"id\":2,\"result\":{}}";
	static const char three[] = "{\"id\":3,\"result\":{}}";
	static const struct {
		const char *messages[5];
		size_t n;
		bool ok;
	} rows[] = {
		{ { one, two, three }, 3, true },
		{ { one, "{\"method\":\"Any.event\",\"params\":{\"x\":\"\\ud800\"}}", two, three },
		  4,
		  true },
		/* an event that is handled, and cannot be read */
		{ { one, "{\"method\":\"Page.frameStartedLoading\",\"params\":", two, three },
		  4,
		  true },
		{ { one, two }, 2, false },
		{ { one, two, "{\"id\":3,\"result\":" }, 3, false },
		{ { "{\"id\":1,\"error\":{\"message\":\"no\"}}" }, 1, false },
		{ { one, "{\"method\":\"Inspector.targetCrashed\",\"params\":{}}", two, three },
		  4,
		  true },
		{ { "{\"method\":\"Inspector.targetCrashed\",\"params\":{}}", one, two, three },
		  4,
		  false },
		{ { "not JSON" }, 1, false },
		{ {}, 0, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_arena arena = ARENA_INIT(MIB(1));
		struct cay_err err = {};
		struct tab t;
		int out;

		row_check(i, (attach(rows[i].messages, rows[i].n, &t, &arena, &err) >= 0) ==
				     rows[i].ok);
		row_check(i, rows[i].ok || err.code);
		out = t.devtools.out;
		tab_fini(&t);
		(void)close(out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(port_files_are_read),
		cmocka_unit_test(half_characters_are_mended),
		cmocka_unit_test(keys_are_those_of_pages),
		cmocka_unit_test(a_browser_that_lies_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
