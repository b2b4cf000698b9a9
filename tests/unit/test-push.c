/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "unit.h"
#include "wire/push.h"

#define SANDBOX { ID_SANDBOX, { 0, 1, 0, 2, [14] = 0xff } }
#define TENANT { ID_TENANT, { 0, 1, 0, 2, [14] = 0xfe } }
#define A_KEY { ID_KEY, { 0, 1, 0, 2, [14] = 0xfd } }

static const struct push good[] = {
	{ PUSH_HELLO, .number = PUSH_ABI, .secret = "0.1.0" },
	{ PUSH_ALL },
	{ PUSH_SANDBOX, .value = 1, .number = 9000, .id = SANDBOX, .tenant = TENANT },
	{ PUSH_KEY, .value = 3, .time = PUSH_NEVER, .id = A_KEY, .tenant = TENANT, .secret = "h" },
	{ PUSH_KEY_REMOVED, .id = A_KEY },
	{ PUSH_TOKEN_KEY, .value = 1, .number = 9, .time = PUSH_NEVER, .secret = "s" },
	{ PUSH_END },
	{ PUSH_HEARTBEAT },
	{ PUSH_BUSY, .number = 3, .id = SANDBOX },
	{ PUSH_KEY_USED, .id = A_KEY },
	{ PUSH_REFUSED, .value = 1, .number = 7, .id = A_KEY, .secret = "0123456789abcdef" },
	{ PUSH_COUNT, .number = 5, .time = UINT64_MAX },
	{ PUSH_REVOKED, .value = 15, .id = SANDBOX, .secret = "nonce 8" },
	{ PUSH_KEY_GROUP, .id = A_KEY, .secret = "a group's name of 32 characters" },
	{ PUSH_EXPORTS, .value = 31, .number = 64, .id = SANDBOX, .secret = "two tags" },
};

static void the_bytes_are_fixed(void **)
{
	static const uint8_t golden[PUSH_SIZE] = {
		3, 1,           0,
		0, 0x28,        0x23,
		0, 0,           [16] = ID_SANDBOX,
		0, 1,           0,
		2, [31] = 0xff, [32] = ID_TENANT,
		0, 1,           0,
		2, [47] = 0xfe,
	};
	uint8_t out[PUSH_SIZE];

	push_encode(&good[2], out);
	assert_memory_equal(out, golden, sizeof(golden));
}

static void what_is_written_is_read(void **)
{
	uint8_t out[PUSH_SIZE], again[PUSH_SIZE];
	struct push back;

	assert_int_equal(ARRAY_SIZE(good), PUSH_KINDS - 1);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		push_encode(&good[i], out);
		row_check(i, push_decode(out, &back) == 0);
		push_encode(&back, again);
		row_check(i, memcmp(out, again, sizeof(out)) == 0);
	}
}

/* Every record with every byte changed: refused, or a byte that may be so. */
static void what_a_kind_does_not_carry_is_zero(void **)
{
	static const struct {
		enum push_kind kind;
		size_t from, to;
	} refused[] = {
		{ PUSH_ALL, 1, PUSH_SIZE },
		{ PUSH_END, 1, PUSH_SIZE },
		{ PUSH_HEARTBEAT, 1, PUSH_SIZE },
		{ PUSH_SANDBOX, 2, 4 },
		{ PUSH_SANDBOX, 16, 17 },
		{ PUSH_SANDBOX, 32, 33 },
		{ PUSH_KEY, 2, 8 },
		{ PUSH_KEY, 16, 17 },
		{ PUSH_KEY, 32, 33 },
		{ PUSH_KEY_REMOVED, 1, 17 },
		{ PUSH_KEY_REMOVED, 32, 80 },
		{ PUSH_TOKEN_KEY, 2, 4 },
		{ PUSH_TOKEN_KEY, 16, 48 },
		{ PUSH_HELLO, 1, 4 },
		{ PUSH_HELLO, 8, 48 },
		{ PUSH_BUSY, 1, 4 },
		{ PUSH_BUSY, 8, 17 },
		{ PUSH_BUSY, 32, 80 },
		{ PUSH_REFUSED, 1, 4 },
		{ PUSH_REFUSED, 8, 17 },
		{ PUSH_REFUSED, 32, 48 },
		{ PUSH_REFUSED, 64, 80 },
		{ PUSH_COUNT, 1, 4 },
		{ PUSH_COUNT, 16, 80 },
		{ PUSH_REVOKED, 1, 17 },
		{ PUSH_REVOKED, 32, 48 },
		{ PUSH_REVOKED, 56, 80 },
		{ PUSH_KEY_GROUP, 1, 17 },
		{ PUSH_KEY_GROUP, 32, 48 },
		{ PUSH_EXPORTS, 1, 17 },
		{ PUSH_EXPORTS, 32, 48 },
	};
	uint8_t in[PUSH_SIZE];
	struct push p;

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		for (size_t at = refused[i].from; at < refused[i].to; at++) {
			push_encode(&good[refused[i].kind - 1], in);
			in[at] ^= 0x40;
			row_check(i, push_decode(in, &p) == -EPROTO);
		}
}

static void values_have_bounds(void **)
{
	static const struct {
		enum push_kind kind;
		uint8_t value;
		int want;
	} cases[] = {
		{ PUSH_SANDBOX, 0, 0 },
		{ PUSH_SANDBOX, 9, 0 },
		{ PUSH_SANDBOX, 10, 0 },
		{ PUSH_SANDBOX, 11, -EPROTO },
		{ PUSH_KEY, 0, -EPROTO },
		{ PUSH_KEY, 1, 0 },
		{ PUSH_KEY, 4, 0 },
		{ PUSH_KEY, 5, -EPROTO },
		{ PUSH_TOKEN_KEY, 0, -EPROTO },
		{ PUSH_TOKEN_KEY, 255, 0 },
		{ PUSH_REFUSED, 0, 0 },
		{ PUSH_REFUSED, 2, 0 },
		{ PUSH_REFUSED, 3, -EPROTO },
		{ PUSH_REVOKED, 0, 0 },
		{ PUSH_REVOKED, 15, 0 },
		{ PUSH_REVOKED, 16, -EPROTO },
		{ PUSH_EXPORTS, 0, 0 },
		{ PUSH_EXPORTS, 31, 0 },
		{ PUSH_EXPORTS, 32, -EPROTO },
	};
	uint8_t in[PUSH_SIZE] = {};
	struct push p;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		push_encode(&good[cases[i].kind - 1], in);
		in[1] = cases[i].value;
		row_check(i, push_decode(in, &p) == cases[i].want);
	}
	for (unsigned kind = 0; kind < 256; kind++) {
		memset(in, 0, sizeof(in));
		in[0] = (uint8_t)kind;
		if (kind == PUSH_NONE || kind >= PUSH_KINDS)
			assert_int_equal(push_decode(in, &p), -EPROTO);
	}
}

static void a_port_is_one(void **)
{
	static const struct {
		uint32_t number;
		int want;
	} cases[] = {
		{ 0, -EPROTO },
		{ 1, 0 },
		{ 65535, 0 },
		{ PUSH_PUBLIC_PORTS, -EPROTO },
		{ PUSH_PUBLIC_PORTS | 1, 0 },
		{ PUSH_PUBLIC_PORTS << 1 | 1, -EPROTO },
		{ UINT32_MAX, -EPROTO },
	};
	struct push p = good[PUSH_SANDBOX - 1], back;
	uint8_t in[PUSH_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		p.number = cases[i].number;
		push_encode(&p, in);
		row_check(i, push_decode(in, &back) == cases[i].want);
	}
}

static void exports_come_in_pairs(void **)
{
	static const struct {
		uint8_t value;
		uint32_t number;
		int want;
	} cases[] = {
		{ 0, 0, 0 },   { 1, 0, -EPROTO }, { 0, 1, 0 },         { 1, 1, -EPROTO },
		{ 0, 2, 0 },   { 1, 2, -EPROTO }, { 1, 3, 0 },         { 2, 3, -EPROTO },
		{ 30, 64, 0 }, { 31, 64, 0 },     { 31, 62, -EPROTO }, { 31, 65, -EPROTO },
	};
	struct push p = good[PUSH_EXPORTS - 1], back;
	uint8_t in[PUSH_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		p.value = cases[i].value;
		p.number = cases[i].number;
		push_encode(&p, in);
		row_check(i, push_decode(in, &back) == cases[i].want);
	}
}

/* Nobody's key is none, not half of one. */
static void who_was_refused_may_have_no_key(void **)
{
	uint8_t in[PUSH_SIZE];
	struct push p;

	push_encode(&good[PUSH_REFUSED - 1], in);
	memset(in + 16, 0, 16);
	assert_int_equal(push_decode(in, &p), 0);
	assert_int_equal(p.id.noun, ID_NONE);
	in[20] = 1;
	assert_int_equal(push_decode(in, &p), -EPROTO);
	push_encode(&good[PUSH_KEY_USED - 1], in);
	memset(in + 16, 0, 16);
	assert_int_equal(push_decode(in, &p), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bytes_are_fixed),
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(what_a_kind_does_not_carry_is_zero),
		cmocka_unit_test(values_have_bounds),
		cmocka_unit_test(a_port_is_one),
		cmocka_unit_test(exports_come_in_pairs),
		cmocka_unit_test(who_was_refused_may_have_no_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
