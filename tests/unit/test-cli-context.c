/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/context.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "unit.h"

#define URL "url = https://box.example:7070\n"
#define TOKEN "token = s3cret\n"

static const struct {
	const char *text;
	bool good;
} files[] = {
	{ "[context]\n" URL TOKEN, true },
	{ "# x\n\n[context]\n" TOKEN "ca = /etc/ca.pem\n" URL, true },
	{ "[context]\nurl = http://localhost:7070\n" TOKEN, true },
	{ "[context]\nurl = http://box.example:7070\n" TOKEN, false },
	{ "[context]\nurl = http://10.0.0.1\n" TOKEN, false },
	{ "[context]\nurl = box.example\n" TOKEN, false },
	{ "[context]\n" URL, false },
	{ "[context]\n" TOKEN, false },
	{ "[context]\n" URL "token =\n", false },
	{ "[context]\n" URL "token = s3cret word\n", false },
	{ "[context]\n" URL "token = s3cret  word\n", false },
	{ "[context]\n" URL TOKEN TOKEN, false },
	{ "[context]\n" URL TOKEN "ca = relative.pem\n", false },
	{ "[context]\n" URL TOKEN "s3cret = x\n", false },
	{ "[context]\n" URL TOKEN "s3cret\n", false },
	{ "[s3cret]\n" URL TOKEN, false },
	{ URL TOKEN, false },
	{ "", false },
};

static void files_are_read_or_refused_and_never_repeated(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		auto_context c = {};
		struct cay_err err = {};
		int r = context_parse(slice_of(files[i].text), &c, &err);

		row_check(i, (r == 0) == files[i].good);
		row_check(i, (r < 0) == (err.code == CAY_E_INVALID));
		row_check(i, !strstr(err.msg, "s3cret"));
		row_check(i, r < 0 || str_eq(c.token, "s3cret"));
	}
}

static void what_is_written_is_read(void **)
{
	struct context c = { .token = "s3cret", .ca = "/etc/a b/\xc3\xa4.pem" }, back = {};
	auto_buf text = BUF_INIT(KIB(8));

	assert_int_equal(context_url_parse("https://[2001:db8::1]:7070", &c.url, NULL), 0);
	assert_int_equal(context_format(&c, &text), 0);
	assert_int_equal(context_parse((struct slice){ text.data, text.len }, &back, NULL), 0);
	assert_string_equal(back.ca, c.ca);
	assert_string_equal(back.token, c.token);
	assert_memory_equal(&back.url, &c.url, sizeof(c.url));
}

static void plain_http_is_for_loopback(void **)
{
	static const char *const good[] = { "https://box", "http://localhost", "http://127.9.9.9",
					    "http://[::1]:7070" };
	static const char *const bad[] = { "http://box", "http://0.0.0.0", "http://[::]",
					   "http://[::ffff:127.0.0.1]",
					   "http://localhost.example" };
	struct url u;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		row_check(i, context_url_parse(good[i], &u, NULL) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct cay_err err = {};

		row_check(i, context_url_parse(bad[i], &u, &err) < 0);
		row_check(i, strstr(err.msg, "plain HTTP"));
	}
}

static void a_token_is_one_word(void **)
{
	char to[CONTEXT_TOKEN_MAX + 1], longest[CONTEXT_TOKEN_MAX + 2];

	memset(longest, 'x', sizeof(longest));
	assert_int_equal(context_token_parse(SLICE(" \tabc\r\n\n"), to, NULL), 0);
	assert_string_equal(to, "abc");
	assert_int_equal(
		context_token_parse((struct slice){ longest, CONTEXT_TOKEN_MAX }, to, NULL), 0);
	assert_int_equal(strlen(to), CONTEXT_TOKEN_MAX);
	assert_true(context_token_parse((struct slice){ longest, sizeof(longest) }, to, NULL) < 0);
	assert_true(context_token_parse(SLICE(""), to, NULL) < 0);
	assert_true(context_token_parse(SLICE("a b"), to, NULL) < 0);
	assert_true(context_token_parse(SLICE("a\nHost: b"), to, NULL) < 0);
	assert_true(context_token_parse(SLICE("a\0b"), to, NULL) < 0);
	assert_true(context_token_parse(SLICE("\x7f"), to, NULL) < 0);
}

static void wiped_is_gone(void **)
{
	static const struct context zero;
	struct context c = { .name = "x", .token = "s3cret" };

	context_wipe(&c);
	assert_memory_equal(&c, &zero, sizeof(c));
}

static struct context some(const char *name)
{
	struct context c = { .token = "s3cret" };

	(void)!context_url_parse("https://box.example", &c.url, NULL);
	memcpy(c.name, name, strlen(name) + 1);
	return c;
}

static void change(const char *home, const char *file, mode_t mode)
{
	auto_close int dir = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(fchmodat(dir, file, mode, 0), 0);
}

static void stored_contexts_are_ours_alone(void **)
{
	char home[] = "/tmp/cli-context-XXXXXX", current[CONTEXT_NAME_MAX + 1];
	struct context a = some("a"), b = some("b"), got;
	auto_buf names = BUF_INIT(KIB(1)), path = BUF_INIT(KIB(1));
	auto_close int dir = -EBADF;
	struct cay_err err = {};

	assert_non_null(mkdtemp(home));
	assert_int_equal(setenv("XDG_CONFIG_HOME", home, 1), 0);
	assert_int_equal(context_list_names(&names, NULL), 0);
	assert_int_equal(names.len, 0);
	assert_int_equal(context_save(&b, false, &err), 0);
	assert_int_equal(context_save(&a, false, &err), 0);
	assert_int_equal(context_save(&a, false, &err), -EEXIST);
	assert_int_equal(context_save(&a, true, NULL), 0);
	assert_int_equal(context_list_names(&names, NULL), 0);
	assert_memory_equal(names.data, "a\0b\0", 4);
	assert_int_equal(context_load("b", &got, &err), 0);
	assert_int_equal(context_set_current("a", NULL), 0);
	assert_int_equal(context_read_current(current, NULL), 0);
	assert_string_equal(current, "a");
	for (mode_t bit = 01; bit <= 040; bit <<= 1) {
		err = (struct cay_err){};
		change(home, "cay/a.context", 0600 | bit);
		assert_true(context_load("a", &got, &err) < 0);
		assert_non_null(strstr(err.msg, "chmod 600"));
	}
	change(home, "cay/a.context", 0600);
	assert_int_equal(context_load("a", &got, NULL), 0);
	change(home, "cay", 0720);
	assert_true(context_load("a", &got, NULL) < 0 && context_set_current("b", NULL) < 0);
	change(home, "cay", 0700);
	assert_int_equal(context_set_current(CONTEXT_LOCAL, NULL), 0);
	assert_int_equal(context_read_current(current, NULL), 0);
	assert_string_equal(current, CONTEXT_LOCAL);
	assert_int_equal(context_remove("a", NULL), 0);
	assert_int_equal(context_remove("b", NULL), 0);
	err = (struct cay_err){};
	assert_int_equal(context_remove("b", &err), -ENOENT);
	assert_int_equal(context_dir_open(true, &path, &dir, NULL), 0);
	assert_int_equal(rmdir(buf_str(&path)), 0);
	assert_int_equal(rmdir(home), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_read_or_refused_and_never_repeated),
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(plain_http_is_for_loopback),
		cmocka_unit_test(a_token_is_one_word),
		cmocka_unit_test(wiped_is_gone),
		cmocka_unit_test(stored_contexts_are_ours_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
