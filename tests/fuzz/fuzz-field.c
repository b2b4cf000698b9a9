/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies and queries of every operation.  The first byte picks the table.  What
 * is accepted encodes, and the encoding is accepted and encodes the same. */
#include "fuzz.h"
#include "ops/types.h"

static size_t n_tables(void)
{
	size_t n = 0;

	while (field_tables[n])
		n++;
	return n;
}

static int decode(const struct field_table *t, struct slice s, struct arena *arena, void *ret,
		  struct cay_err *err)
{
	auto_json j = NULL;
	int r = json_parse(s, &json_control_limits, &j, err);

	return r < 0 ? r : field_decode(t, j, arena, ret, err);
}

static void check_round_trip(const struct field_table *t, const void *value)
{
	auto_arena arena = ARENA_INIT(MIB(4));
	auto_buf one = BUF_INIT(MIB(4)), two = BUF_INIT(MIB(4));
	struct jw w1 = jw_to(&one), w2 = jw_to(&two);
	struct cay_err err = {};
	auto_free void *back = calloc(1, t->size);
	const struct json_limits wide = { .bytes = MIB(4), .depth = 32, .values = 100000 };
	auto_json j = NULL;

	field_encode(t, NULL, value, &w1);
	CHECK(back && jw_finish(&w1) == 0);
	CHECK(json_parse((struct slice){ one.data, one.len }, &wide, &j, &err) == 0);
	CHECK(field_decode(t, j, &arena, back, &err) == 0);
	field_encode(t, NULL, back, &w2);
	CHECK(jw_finish(&w2) == 0 && strcmp(one.data, two.data) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_arena arena = ARENA_INIT(MIB(4));
	const struct field_table *t;
	struct cay_err err = {};
	char *in;
	void *ret;

	if (!size)
		return 0;
	t = field_tables[data[0] % n_tables()];
	ret = calloc(1, t->size); /* of its own, so that a byte too far is seen */
	in = fuzz_copy(data + 1, size - 1);
	CHECK(ret);
	if (decode(t, (struct slice){ in, size - 1 }, &arena, ret, &err) == 0)
		check_round_trip(t, ret);
	else
		CHECK(err.code != CAY_OK && err.msg[0]);
	err = (struct cay_err){};
	memset(ret, 0, t->size);
	if (field_decode_query(t, (struct slice){ in, size - 1 }, &arena, ret, &err) == 0)
		check_round_trip(t, ret);
	else
		CHECK(err.code != CAY_OK && err.msg[0]);
	free(ret);
	free(in);
	return 0;
}
