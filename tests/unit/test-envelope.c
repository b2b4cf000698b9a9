/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets that one program closes and another opens. */
#include "auth/envelope.h"
#include "unit.h"

enum { LEN = 21, CLOSED = LEN + ENVELOPE_EXTRA };

static const struct slice purpose = SLICE("for api.example.com"),
			  secret = SLICE("sk-0123456789-abcdefg");

static struct envelope_key key_create(uint8_t fill)
{
	struct envelope_key k;

	memset(k.bytes, fill, sizeof(k.bytes));
	return k;
}

static struct slice closed_create(uint8_t fill, uint8_t ret[static CLOSED])
{
	struct envelope_key private = key_create(fill), public;

	assert_int_equal(envelope_key_derive(&private, &public), 0);
	assert_int_equal(envelope_close(&public, purpose, secret, ret), 0);
	return (struct slice){ (const char *)ret, CLOSED };
}

static void test_round(void **)
{
	const struct envelope_key private = key_create(7);
	uint8_t bytes[CLOSED], other[CLOSED], got[CLOSED];
	const struct slice closed = closed_create(7, bytes);
	size_t n = 0;

	assert_int_equal(envelope_open(&private, purpose, closed, got, &n), 0);
	assert_int_equal(n, LEN);
	assert_memory_equal(got, secret.p, LEN);
	assert_null(memmem(bytes, sizeof(bytes), secret.p, 8));
	(void)closed_create(7, other);
	assert_memory_not_equal(bytes, other, CLOSED); /* a key of its own for each */
}

static void test_what_does_not_open(void **)
{
	const struct envelope_key private = key_create(7), another = key_create(8);
	uint8_t bytes[CLOSED], got[CLOSED], zero[CLOSED] = {};
	struct slice closed = closed_create(7, bytes);
	size_t n = 1;

	assert_int_equal(envelope_open(&another, purpose, closed, got, &n), -EBADMSG);
	assert_int_equal(n, 0);
	assert_memory_equal(got, zero, CLOSED);
	assert_int_equal(envelope_open(&private, SLICE("for evil.example.com"), closed, got, &n),
			 -EBADMSG);
	for (size_t i = 0; i < CLOSED; i++) {
		bytes[i] ^= 1;
		row_check(i, envelope_open(&private, purpose, closed, got, &n) == -EBADMSG);
		bytes[i] ^= 1;
	}
	for (closed.n = 0; closed.n < CLOSED; closed.n++)
		row_check(closed.n, envelope_open(&private, purpose, closed, got, &n) == -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_round),
					    cmocka_unit_test(test_what_does_not_open) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
