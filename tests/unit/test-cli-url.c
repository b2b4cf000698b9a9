/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/url.h"

#include "unit.h"

static const struct {
	const char *text;
	const char *want; /* as url_format() spells it; NULL: refused */
	bool address, loopback;
} cases[] = {
	{ "https://box.example", "https://box.example:443", false, false },
	{ "https://box.example:7070/", "https://box.example:7070", false, false },
	{ "HTTPS://Box.Example:1", "https://box.example:1", false, false },
	{ "http://localhost", "http://localhost:80", false, true },
	{ "http://LOCALHOST:65535", "http://localhost:65535", false, true },
	{ "https://10.1.2.3:7070", "https://10.1.2.3:7070", true, false },
	{ "http://127.0.0.1", "http://127.0.0.1:80", true, true },
	{ "http://127.255.255.254", "http://127.255.255.254:80", true, true },
	{ "http://128.0.0.1", "http://128.0.0.1:80", true, false },
	{ "http://[::1]:7070", "http://[::1]:7070", true, true },
	{ "https://[::1]", "https://[::1]:443", true, true },
	{ "https://[2001:DB8::1]:7070", "https://[2001:db8::1]:7070", true, false },
	{ "http://[::ffff:127.0.0.1]", "http://[::ffff:127.0.0.1]:80", true, false },
	{ "http://127.0.0.1.example", "http://127.0.0.1.example:80", false, false },
	{ "http://localhost.example", "http://localhost.example:80", false, false },
	{ "https://7box", "https://7box:443", false, false },
	{ "https://a-b.c-d", "https://a-b.c-d:443", false, false },
	{ "" },
	{ "https://" },
	{ "https:///" },
	{ "https:/box" },
	{ "box.example" },
	{ "box.example:7070" },
	{ "ftp://box" },
	{ "httpss://box" },
	{ " https://box" },
	{ "https://box " },
	{ "https://box example" },
	{ "https://box/path" },
	{ "https://box//" },
	{ "https://box?token=x" },
	{ "https://box#x" },
	{ "https://user@box" },
	{ "https://user:secret@box" },
	{ "https://box:0" },
	{ "https://box:65536" },
	{ "https://box:" },
	{ "https://box:07070" },
	{ "https://box:70x" },
	{ "https://box:1:2" },
	{ "https://:7070" },
	{ "https://box." },
	{ "https://.box" },
	{ "https://box..example" },
	{ "https://-box" },
	{ "https://box_1" },
	{ "https://b\xc3\xb6x" },
	{ "https://box\\evil" },
	{ "https://box%2eexample" },
	{ "https://127.1" },
	{ "https://2130706433" },
	{ "https://0x7f.1" },
	{ "https://0x7f000001" },
	{ "https://127.0.0.01" },
	{ "https://256.1.1.1" },
	{ "https://1.2.3.4.5" },
	{ "https://[::1" },
	{ "https://[::1]x" },
	{ "https://[::1]:" },
	{ "https://[]" },
	{ "https://[127.0.0.1]" },
	{ "https://[box]" },
	{ "https://[fe80::1%eth0]" },
	{ "https://::1" },
};

static void urls_are_read_or_refused(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cay_err err = {};
		struct url u;
		char text[URL_MAX];
		int r = url_parse(slice_of(cases[i].text), &u, &err);

		row_check(i, (r == 0) == (cases[i].want != NULL));
		row_check(i, (r < 0) == (err.code == CAY_E_INVALID));
		if (r < 0)
			continue;
		url_format(&u, text);
		row_check(i, str_eq(text, cases[i].want));
		row_check(i, u.address == cases[i].address && u.loopback == cases[i].loopback);
	}
}

static void a_host_has_an_end(void **)
{
	char text[400] = "https://";
	struct url u;

	/* labels of 63, joined: 255 is one too many, 253 is not */
	for (size_t i = 8; i < sizeof(text) - 1; i++)
		text[i] = (i - 8) % 64 == 63 ? '.' : 'a';
	assert_int_equal(url_parse((struct slice){ text, 8 + 253 }, &u, NULL), 0);
	assert_int_equal(strlen(u.host), 253);
	assert_true(url_parse((struct slice){ text, 8 + 254 }, &u, NULL) < 0);
	assert_true(url_parse((struct slice){ "https://b\0x", 11 }, &u, NULL) < 0);
}

static void an_error_does_not_repeat_a_secret(void **)
{
	static const char *const texts[] = { "https://me:hunter2@box", "https://hunter2@box",
					     "https://box:hunter2",    "https://box/?key=hunter2",
					     "https://box#hunter2",    "hunter2" };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct cay_err err = {};
		struct url u;

		row_check(i, url_parse(slice_of(texts[i]), &u, &err) < 0);
		row_check(i, !strstr(err.msg, "hunter2"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urls_are_read_or_refused),
		cmocka_unit_test(a_host_has_an_end),
		cmocka_unit_test(an_error_does_not_repeat_a_secret),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
