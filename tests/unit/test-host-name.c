/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <regex.h>

#include "egress/host-name.h"
#include "unit.h"

#ifdef CAY_SANITIZED
#define EVERY_MAX 6
#else
#define EVERY_MAX 7
#endif

#define L60 "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff"
#define L63 L60 "ggg"

static int parse(const char *text, struct host_name *ret)
{
	return host_name_parse(slice_of(text), ret);
}

static void what_is_a_name(void **)
{
	static const struct {
		const char *text, *name; /* NULL: none */
	} cases[] = {
		{ "example.com", "example.com" },
		{ "API.Example.COM", "api.example.com" },
		{ "_dmarc.example.com", "_dmarc.example.com" },
		{ "xn--bcher-kva.example", "xn--bcher-kva.example" },
		{ "1.2.3.4.example", "1.2.3.4.example" },
		{ "a.b", "a.b" },
		{ L63 ".com", L63 ".com" },
		{ L63 "." L63 "." L63 "." L60 "a", L63 "." L63 "." L63 "." L60 "a" },
		{ L63 "." L63 "." L63 "." L60 "aa", NULL }, /* 254 bytes */
		{ L63 "a.com", NULL },
		{ "", NULL },
		{ ".", NULL },
		{ "com", NULL },
		{ "example.com.", NULL },
		{ ".example.com", NULL },
		{ "a..b", NULL },
		{ "1.2.3.4", NULL },
		{ "0x7f.1", NULL },
		{ "2130706433", NULL },
		{ "example.123", NULL },
		{ "127.0x1", NULL },
		{ "a._b", NULL },
		{ "-a.com", NULL },
		{ "a-.com", NULL },
		{ "[example.com]", NULL },
		{ "example.com:443", NULL },
		{ "exa mple.com", NULL },
		{ "b\xc3\xbc"
		  "cher.example",
		  NULL },
		{ "*.example.com", NULL },
		{ "example.com/", NULL },
		{ "user@example.com", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct host_name n = {};
		int r = parse(cases[i].text, &n);

		row_check(i, r == (cases[i].name ? 0 : -EINVAL));
		row_check(i, r < 0 || (strcmp(n.text, cases[i].name) == 0 &&
				       n.n == strlen(cases[i].name)));
	}
	/* a NUL ends no name */
	assert_int_equal(
		host_name_parse((struct slice){ "evil.com\0.good.com", 18 }, &(struct host_name){}),
		-EINVAL);
}

static void a_question_has_a_name(void **)
{
	static const struct {
		const char *bytes;
		size_t n;
		ssize_t ret;
		const char *name;
	} cases[] = {
		{ "\3www\7eXample\3com\0rest", 21, 17, "www.example.com" },
		{ "\3www\7example\3com", 16, -EBADMSG, NULL },
		{ "\3www\7example\3co", 15, -EBADMSG, NULL },
		{ "", 0, -EBADMSG, NULL },
		{ "\0", 1, -EINVAL, NULL }, /* the root */
		{ "\3com\0", 5, -EINVAL, NULL },
		{ "\3www\xc0\x0c", 6, -EBADMSG, NULL }, /* refers elsewhere */
		{ "\100", 1, -EBADMSG, NULL },
		{ "\5a.com\2de\0", 10, -EINVAL, NULL }, /* a dot in a label */
		{ "\4a\0bc\3com\0", 10, -EINVAL, NULL },
		{ "\1-\3com\0", 7, -EINVAL, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct host_name n = {};
		ssize_t r = host_name_read_wire((const uint8_t *)cases[i].bytes, cases[i].n, &n);

		row_check(i, r == cases[i].ret);
		row_check(i, r < 0 || strcmp(n.text, cases[i].name) == 0);
	}
}

static void the_longest_question_fits(void **)
{
	uint8_t wire[300] = {};
	struct host_name n;
	size_t at = 0;

	for (unsigned i = 0; i < 4; i++) {
		size_t label = i == 3 ? 61 : 63;

		wire[at++] = (uint8_t)label;
		memset(wire + at, 'a', label);
		at += label;
	}
	assert_int_equal(host_name_read_wire(wire, at + 1, &n), at + 1);
	assert_int_equal(n.n, HOST_NAME_MAX_LEN);
	wire[at++] = 1;
	wire[at++] = 'a';
	assert_int_equal(host_name_read_wire(wire, at + 1, &n), -EINVAL);
}

static void below(void **)
{
	struct slice parent = SLICE("example.com");
	static const struct {
		const char *text;
		bool eq, below;
	} cases[] = {
		{ "a.example.com", false, true },    { "a.b.example.com", false, true },
		{ "EXAMPLE.com", true, false },      { "notexample.com", false, false },
		{ "example.com.org", false, false }, { "ple.com", false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct host_name n;

		row_check(i, parse(cases[i].text, &n) == 0);
		row_check(i, host_name_eq(&n, parent) == cases[i].eq &&
				     host_name_is_below(&n, parent) == cases[i].below);
	}
}

/* The next text of these bytes, all of one length and then longer ones; false: there is none. */
static bool next_text(const char *alphabet, size_t n_alphabet, unsigned at[static EVERY_MAX],
		      char text[static EVERY_MAX + 1], size_t *n)
{
	size_t i = 0;

	while (i < *n && ++at[i] == n_alphabet)
		at[i++] = 0;
	if (i == *n && ++*n > EVERY_MAX)
		return false;
	for (i = 0; i < *n; i++)
		text[i] = alphabet[at[i]];
	text[*n] = 0;
	return true;
}

/* The parser sees bytes by their kind alone, so a byte of each kind stands for all. */
static void every_short_text(void **)
{
	static const char alphabet[] = { 'a', 'Z', '0', '-', '_', '.', 0, '\xc3' };
	char text[EVERY_MAX + 1] = {};
	unsigned at[EVERY_MAX] = {};
	size_t n = 0, names = 0;
	regex_t re;

	assert_int_equal(regcomp(&re,
				 "^([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\\.)+"
				 "[a-z]([a-z0-9_-]*[a-z0-9_])?$",
				 REG_EXTENDED | REG_ICASE | REG_NOSUB),
			 0);
	while (next_text(alphabet, sizeof(alphabet), at, text, &n)) {
		const bool good = strlen(text) == n && regexec(&re, text, 0, NULL, 0) == 0;
		struct host_name name;
		int r = host_name_parse((struct slice){ text, n }, &name);

		if ((r == 0) != good || (good && (name.n != n || strcasecmp(name.text, text) != 0)))
			fail_msg("'%s' of %zu bytes", text, n);
		names += good;
	}
	regfree(&re);
	assert_true(names > 1000);
}

static size_t write_wire(const struct host_name *name, uint8_t ret[static EVERY_MAX + 3])
{
	size_t begin = 0;

	for (size_t i = 0; i <= name->n; i++) {
		ret[i + 1] = (uint8_t)name->text[i];
		if (name->text[i] && name->text[i] != '.')
			continue;
		ret[begin] = (uint8_t)(i - begin);
		begin = i + 1;
	}
	return name->n + 2u;
}

/* No two questions have one name: what is read, written again, is what was read. */
static void every_short_question(void **)
{
	static const char alphabet[] = { 0, 1, 2, 'b', 'Z', '.', '-', '\xc0' };
	char text[EVERY_MAX + 1] = {};
	unsigned at[EVERY_MAX] = {};
	size_t n = 0, names = 0;

	while (next_text(alphabet, sizeof(alphabet), at, text, &n)) {
		uint8_t wire[EVERY_MAX + 3] = {};
		struct host_name name;
		ssize_t r = host_name_read_wire((const uint8_t *)text, n, &name);

		if (r < 0)
			continue;
		names++;
		if ((size_t)r > n || write_wire(&name, wire) != (size_t)r)
			fail_msg("'%s' has another length", name.text);
		for (ssize_t i = 0; i < r; i++)
			if (wire[i] != (uint8_t)(text[i] == 'Z' ? 'z' : text[i]))
				fail_msg("'%s' is another name", name.text);
	}
	assert_true(names > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_a_name),
		cmocka_unit_test(a_question_has_a_name),
		cmocka_unit_test(the_longest_question_fits),
		cmocka_unit_test(below),
		cmocka_unit_test(every_short_text),
		cmocka_unit_test(every_short_question),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
