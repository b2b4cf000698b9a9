/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/ring.h"
#include "unit.h"

static struct ring_budget plenty(void)
{
	return (struct ring_budget){ .max = MIB(16) };
}

/* The byte that stands at an offset. */
static uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)(offset * 2654435761u >> 13);
}

/* Write up to n bytes; how many fitted. */
static size_t put(struct ring *r, size_t n, uint64_t keep, bool half)
{
	size_t done = 0, room;
	uint8_t *p = NULL;

	while (done < n && (room = ring_reserve(r, keep == UINT64_MAX ? r->end : keep, half, &p))) {
		if (room > n - done)
			room = n - done;
		for (size_t i = 0; i < room; i++)
			p[i] = byte_at(r->end + i);
		ring_commit(r, room);
		done += room;
	}
	return done;
}

static void check_all(const struct ring *r)
{
	static uint8_t got[RING_MAX];
	size_t n = ring_read(r, r->start, got, sizeof(got));

	assert_int_equal(n, r->end - r->start);
	for (size_t i = 0; i < n; i++)
		if (got[i] != byte_at(r->start + i))
			fail_msg("wrong byte at %llu", (unsigned long long)(r->start + i));
}

static void it_grows_before_it_forgets(void **)
{
	struct ring_budget b = plenty();
	struct ring r = ring_empty(&b, 0);

	assert_int_equal(b.used, 0);
	assert_int_equal(put(&r, 1, UINT64_MAX, false), 1);
	assert_int_equal(r.cap, RING_MIN);
	assert_int_equal(b.used, RING_MIN);
	for (size_t n = RING_MIN; n <= RING_MAX; n *= 2) {
		assert_int_equal(put(&r, n - (size_t)r.end, UINT64_MAX, false),
				 n - (size_t)(n == RING_MIN ? 1 : n / 2));
		assert_int_equal(r.cap, n);
		assert_int_equal(r.start, 0);
		check_all(&r);
	}
	assert_int_equal(put(&r, 10, UINT64_MAX, false), 10);
	assert_int_equal(r.cap, RING_MAX);
	assert_int_equal(r.start, 10);
	check_all(&r);
	ring_free_data(&r);
	assert_int_equal(b.used, 0);
	assert_int_equal(r.start, RING_MAX + 10);
	assert_int_equal(r.end, RING_MAX + 10);
}

static void what_must_stay_stays(void **)
{
	struct ring_budget b = plenty();
	struct ring r = ring_empty(&b, 0);

	/* whole ring: nothing behind 0 is taken back */
	assert_int_equal(put(&r, RING_MAX + 1, 0, false), RING_MAX);
	assert_int_equal(put(&r, 1, 0, false), 0);
	assert_int_equal(r.start, 0);
	/* the reader moved: exactly as much more */
	assert_int_equal(put(&r, 100, 7, false), 7);
	assert_int_equal(r.start, 7);
	check_all(&r);
	ring_free_data(&r);
	/* half of it: a reader may go back as far again */
	r = ring_empty(&b, 0);
	assert_int_equal(put(&r, RING_MAX, 0, true), RING_MAX / 2);
	assert_int_equal(put(&r, RING_MAX, RING_MAX / 2, true), RING_MAX / 2);
	assert_int_equal(r.start, 0);
	assert_int_equal(put(&r, RING_MAX, RING_MAX, true), RING_MAX / 2);
	assert_int_equal(r.start, RING_MAX / 2);
	check_all(&r);
	ring_free_data(&r);
}

static bool give(struct ring_budget *b)
{
	if (b->max >= 4 * RING_MIN)
		return false;
	b->max += RING_MIN;
	return true;
}

static void refused_it_stays_small_and_still_moves_everything(void **)
{
	struct ring_budget b = { .max = RING_MIN };
	struct ring r = ring_empty(&b, 0), poor = ring_empty(&b, 0);

	assert_int_equal(put(&r, RING_MAX, UINT64_MAX, false), RING_MAX);
	assert_int_equal(r.cap, RING_MIN);
	assert_int_equal(r.start, RING_MAX - RING_MIN);
	check_all(&r);
	/* the budget is used up; the first page is given all the same */
	assert_int_equal(put(&poor, 10000, UINT64_MAX, false), 10000);
	assert_int_equal(poor.cap, RING_MIN);
	assert_int_equal(put(&poor, 10000, 10000, true), RING_MIN / 2);
	/* what can be reclaimed is */
	b.reclaim = give;
	assert_int_equal(put(&r, RING_MAX, UINT64_MAX, false), RING_MAX);
	assert_int_equal(r.cap, 2 * RING_MIN);
	ring_free_data(&r);
	ring_free_data(&poor);
	assert_int_equal(b.used, 0);
}

static void a_ring_may_begin_anywhere(void **)
{
	struct ring_budget b = plenty();
	struct ring r = ring_empty(&b, UINT64_C(0x123456789abcd));
	uint8_t got[100];

	assert_int_equal(put(&r, 50000, UINT64_MAX, false), 50000);
	assert_int_equal(r.start, UINT64_C(0x123456789abcd));
	check_all(&r);
	assert_int_equal(ring_read(&r, r.end, got, sizeof(got)), 0);
	assert_int_equal(ring_read(&r, r.end + 5, got, sizeof(got)), 0);
	assert_int_equal(ring_read(&r, r.end - 5, got, sizeof(got)), 5);
	assert_aborts((void)ring_read(&r, r.start - 1, got, 1));
	ring_free_data(&r);
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/* Against the simplest thing that could work: an array of everything. */
static void a_model_agrees(void **)
{
	for (uint32_t seed = 1; seed <= 60; seed++) {
		uint32_t random = seed;
		struct ring_budget b = { .max = KIB(4) << next_random(&random) % 10 };
		struct ring r = ring_empty(&b, 0);
		bool half = seed % 2;
		uint64_t reader = 0;

		for (int step = 0; step < 400; step++) {
			size_t n = next_random(&random) % (seed % 3 ? 3000 : 100000);
			uint64_t before = r.end, floor = reader > r.start ? reader : r.start;
			uint8_t got[4096];
			size_t m;

			m = put(&r, n, floor, half);
			assert_int_equal(r.end, before + m);
			/* nothing that had to stay went; nothing is held that cannot be */
			assert_true(r.start <= floor && r.end - r.start <= r.cap);
			assert_true(r.end - floor <= (half ? r.cap / 2 : r.cap) || !m);
			assert_true(m == n || r.end - floor >= (half ? r.cap / 2 : r.cap));
			assert_true(r.cap <= RING_MAX && b.used == r.cap);
			assert_true(b.used <= b.max || r.cap == RING_MIN);
			m = ring_read(&r, floor, got, 1 + next_random(&random) % sizeof(got));
			for (size_t i = 0; i < m; i++)
				assert_int_equal(got[i], byte_at(floor + i));
			reader = floor + m;
		}
		check_all(&r);
		ring_free_data(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_grows_before_it_forgets),
		cmocka_unit_test(what_must_stay_stays),
		cmocka_unit_test(refused_it_stays_small_and_still_moves_everything),
		cmocka_unit_test(a_ring_may_begin_anywhere),
		cmocka_unit_test(a_model_agrees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
