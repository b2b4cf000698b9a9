/* SPDX-License-Identifier: Apache-2.0 */
#include "text/reference.h"

#include "unit.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_good(void **)
{
	static const struct {
		const char *text, *host, *path, *tag, *digest;
	} rows[] = {
		{ "docker.io/library/alpine", "docker.io", "library/alpine", "", "" },
		{ "localhost/x", "localhost", "x", "", "" },
		{ "localhost:5000/x:1", "localhost:5000", "x", "1", "" },
		{ "127.0.0.1:5000/a/b/c:v1.2-rc_3", "127.0.0.1:5000", "a/b/c", "v1.2-rc_3", "" },
		{ "r:1/a_b.c--d", "r:1", "a_b.c--d", "", "" },
		{ "quay.io/x@sha256:" HEX, "quay.io", "x", "", "sha256:" HEX },
		{ "quay.io/x:y@sha256:" HEX, "quay.io", "x", "y", "sha256:" HEX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct reference r;

		row_check(i, reference_parse(slice_of(rows[i].text), &r) == 0);
		row_check(i, slice_eq(r.host, slice_of(rows[i].host)));
		row_check(i, slice_eq(r.path, slice_of(rows[i].path)));
		row_check(i, slice_eq(r.tag, slice_of(rows[i].tag)));
		row_check(i, slice_eq(r.digest, slice_of(rows[i].digest)));
	}
}

static void test_bad(void **)
{
	static const char *const rows[] = {
		"",
		"base",
		"alpine:3",
		"library/alpine",
		"docker.io",
		"docker.io/",
		"/x",
		"docker.io//x",
		"docker.io/x/",
		"docker.io/X",
		"DOCKER.io/x",
		"docker.io/x:",
		"docker.io/x:-a",
		"docker.io/x@",
		"docker.io/x@sha256:" HEX "0",
		"docker.io/x@sha512:" HEX,
		"docker.io:0/x",
		"docker.io:65536/x",
		"docker.io:/x",
		"docker.io:x/y",
		"-a.b/x",
		"a-.b/x",
		"a..b/x",
		".a/x",
		"a./x",
		"a.b/../x",
		"a.b/.x",
		"a.b/x.",
		"a.b/x y",
		"a.b/x\n",
		"a.b/x;y",
		"a.b/x$(y)",
		"u:p@a.b/x",
		"docker://a.b/x",
		"https://a.b/x",
		"a.b/x?y",
		"a.b/x#y",
		"a.b/x%2e",
		"[::1]:5000/x",
		"--authfile=/x",
		"a.b/x:y:z",
		"a.b/x@sha256:" HEX "@sha256:" HEX,
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct reference r;

		row_check(i, reference_parse(slice_of(rows[i]), &r) < 0);
	}
}

static void short_names_are_completed_as_docker_does(void **)
{
	static const struct {
		const char *prefix, *name, *want; /* NULL: refused */
	} rows[] = {
		{ "docker.io/library", "python:3.12", "docker.io/library/python:3.12" },
		{ "docker.io/library", "python", "docker.io/library/python" },
		{ "docker.io/library", "team/app:1", "docker.io/team/app:1" },
		{ "docker.io/library", "python@sha256:" HEX,
		  "docker.io/library/python@sha256:" HEX },
		{ "docker.io/library", "ghcr.io/a/b", "ghcr.io/a/b" },
		{ "docker.io/library", "localhost/x", "localhost/x" },
		{ "r.test:5000", "x", "r.test:5000/x" },
		{ "r.test:5000", "a/x", "r.test:5000/a/x" },
		{ "", "a.b/x", "a.b/x" },
		{ "", "python", NULL },
		{ "docker.io/library", "", NULL },
		{ "docker.io/library", "../x", NULL },
		{ "docker.io/library", "--authfile=/x", NULL },
		{ "docker.io/library", "a b", NULL },
		{ "docker.io/library", "Python", NULL },
		{ "library", "python", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf got = BUF_INIT(KIB(1));
		int r = reference_complete(slice_of(rows[i].prefix), slice_of(rows[i].name), &got);

		row_check(i, (r >= 0) == (rows[i].want != NULL));
		row_check(i, r < 0 || str_eq(buf_str(&got), rows[i].want));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(short_names_are_completed_as_docker_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
