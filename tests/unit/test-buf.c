/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/arena.h"
#include "unit.h"

static void grows_up_to_its_limit_and_no_further(void **)
{
	auto_buf b = BUF_INIT(100);
	char bytes[101] = { 1 };

	assert_int_equal(buf_append(&b, bytes, 60), 0);
	assert_int_equal(buf_append(&b, bytes, 41), -ENOBUFS);
	assert_int_equal(b.len, 60);
	assert_int_equal(buf_append(&b, bytes, 40), 0);
	assert_int_equal(buf_putc(&b, 'x'), -ENOBUFS);
	assert_int_equal(buf_append(&b, bytes, SIZE_MAX), -ENOBUFS);
	assert_int_equal(b.len, 100);
	assert_true(b.cap <= 101);
}

static void is_always_a_string(void **)
{
	auto_buf b = BUF_INIT(1000);

	assert_text(&b, "");
	assert_int_equal(buf_puts(&b, "hello"), 0);
	assert_int_equal(buf_printf(&b, " %d %s", 42, "worlds"), 0);
	assert_text(&b, "hello 42 worlds");
	buf_consume(&b, 6);
	assert_text(&b, "42 worlds");
	buf_consume(&b, 0);
	buf_truncate(&b, 2);
	assert_text(&b, "42");
	buf_clear(&b);
	assert_text(&b, "");
	assert_int_equal(buf_append(&b, NULL, 0), 0);
}

static void printf_past_the_limit_changes_nothing(void **)
{
	auto_buf b = BUF_INIT(8);

	assert_int_equal(buf_puts(&b, "12345"), 0);
	assert_int_equal(buf_printf(&b, "%s", "6789"), -ENOBUFS);
	assert_text(&b, "12345");
}

static void a_zeroed_buffer_takes_nothing(void **)
{
	auto_buf b = {};

	assert_int_equal(buf_putc(&b, 'x'), -ENOBUFS);
	assert_text(&b, "");
	buf_clear(&b);
}

static void pool_gives_zeroed_aligned_bounded_memory(void **)
{
	auto_arena p = ARENA_INIT(100000);
	uint64_t *first = arena_alloc(&p, 3, sizeof(*first));
	char *text = arena_strndup(&p, "hello", 3);
	char *big = arena_alloc(&p, 1, 50000);

	assert_non_null(first);
	assert_int_equal(first[0] | first[1] | first[2], 0);
	assert_string_equal(text, "hel");
	assert_int_equal((uintptr_t)text % alignof(max_align_t), 0);
	assert_non_null(big);
	assert_int_equal(big[49999], 0);
	assert_null(arena_alloc(&p, 1, 60000));
	assert_null(arena_alloc(&p, SIZE_MAX, 2));
	assert_null(arena_alloc(&p, 1, SIZE_MAX));
	assert_null(arena_strndup(&p, "", SIZE_MAX));
	for (int i = 0; i < 100; i++)
		assert_non_null(arena_alloc(&p, 1, 100));
}

static void small_pool_is_bounded_also(void **)
{
	auto_arena p = ARENA_INIT_SMALL(1000);

	for (int i = 0; i < 9; i++)
		assert_string_equal(arena_strndup(&p, "text", 4), "text");
	assert_non_null(arena_alloc(&p, 1, 800));
	assert_null(arena_alloc(&p, 1, 100));
	assert_true(p.full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows_up_to_its_limit_and_no_further),
		cmocka_unit_test(is_always_a_string),
		cmocka_unit_test(printf_past_the_limit_changes_nothing),
		cmocka_unit_test(a_zeroed_buffer_takes_nothing),
		cmocka_unit_test(pool_gives_zeroed_aligned_bounded_memory),
		cmocka_unit_test(small_pool_is_bounded_also),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
