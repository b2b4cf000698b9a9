/* SPDX-License-Identifier: Apache-2.0 */
/* What cayd and cay-pull take of each other's messages. */
#include "unit.h"
#include "wire/puller.h"

static const struct puller_request good = { .magic = PULLER_MAGIC,
					    .file_max = 1,
					    .reference = "r.example/a:1" };

static void test_request(void **)
{
	struct puller_request bad[7];
	struct reference ref;

	assert_int_equal(puller_request_check(&good, sizeof(good), 1, &ref), 0);
	assert_true(slice_eq(ref.host, SLICE("r.example")) && slice_eq(ref.tag, SLICE("1")));
	assert_true(puller_request_check(&good, sizeof(good) - 1, 1, &ref) < 0);
	assert_true(puller_request_check(&good, sizeof(good), 0, &ref) < 0);
	assert_true(puller_request_check(&good, sizeof(good), 2, &ref) < 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	bad[0].magic++;
	bad[1].file_max = 0;
	bad[2].file_max = UINT64_MAX;
	bad[3].insecure = 2;
	bad[4].reference[100] = 'x'; /* behind its end */
	bad[5].reference[0] = 0;
	memset(bad[6].reference, 'x', sizeof(bad[6].reference));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		row_check(i, puller_request_check(&bad[i], sizeof(bad[i]), 1, &ref) < 0);
}

static void test_reply(void **)
{
	static const struct {
		struct puller_reply a;
		unsigned n_fds;
		int r;
	} rows[] = {
		{ { PULLER_MAGIC, PULLER_PROGRESS, 0, 5, 10 }, 0, 0 },
		{ { PULLER_MAGIC, PULLER_DONE, 0, 5, 10 }, 1, 0 },
		{ { PULLER_MAGIC, PULLER_FAILED, PULLER_UNKNOWN, 0, 0 }, 0, 0 },
		{ { 0, PULLER_PROGRESS, 0, 5, 10 }, 0, -1 },
		{ { PULLER_MAGIC, 0, 0, 5, 10 }, 0, -1 },
		{ { PULLER_MAGIC, 4, 0, 5, 10 }, 0, -1 },
		{ { PULLER_MAGIC, PULLER_PROGRESS, 0, 5, 10 }, 1, -1 },
		{ { PULLER_MAGIC, PULLER_DONE, 0, 5, 10 }, 0, -1 },
		{ { PULLER_MAGIC, PULLER_FAILED, PULLER_UNKNOWN, 0, 0 }, 1, -1 },
		{ { PULLER_MAGIC, PULLER_FAILED, 0, 0, 0 }, 0, -1 },
		{ { PULLER_MAGIC, PULLER_DONE, PULLER_UNKNOWN, 0, 0 }, 1, -1 },
		{ { PULLER_MAGIC, PULLER_FAILED, PULLER_FAILURES, 0, 0 }, 0, -1 },
		{ { PULLER_MAGIC, PULLER_PROGRESS, 0, UINT64_MAX, 10 }, 0, -1 },
		{ { PULLER_MAGIC, PULLER_PROGRESS, 0, 5, UINT64_MAX }, 0, -1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		row_check(i, (puller_reply_check(&rows[i].a, sizeof(rows[i].a), rows[i].n_fds) ==
			      0) == (rows[i].r == 0));
	assert_true(puller_reply_check(&rows[0].a, 31, 0) < 0);
}

/* Each failure has words, and none of them is a success. */
static void test_failures(void **)
{
	for (size_t i = 0; i < PULLER_FAILURES; i++)
		row_check(i, puller_failures[i].text && puller_failures[i].code != CAY_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_request),
					    cmocka_unit_test(test_reply),
					    cmocka_unit_test(test_failures) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
