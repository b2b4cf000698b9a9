/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "unit.h"
#include "wire/verb-internal.h"

/* A valid request of every verb, as large as any. */
union request {
	struct verb_head head;
	struct verb_hello hello;
	struct verb_box box;
	struct verb_prepare prepare;
	struct verb_start start;
	struct verb_limits limits;
	struct verb_list list;
	struct verb_image image;
	uint8_t bytes[256];
};

static void fill(union request *r, unsigned verb)
{
	memset(r, 0, sizeof(*r));
	verb_begin(&r->head, (enum verb)verb, 77);
	for (const struct verb_field *f = verb_fields(verb); f->name; f++) {
		if (f->kind == VK_SANDBOX)
			r->bytes[f->offset] = ID_SANDBOX;
		else if (f->kind == VK_TENANT)
			r->bytes[f->offset] = ID_TENANT;
		else if (f->kind != VK_BYTES)
			memcpy(r->bytes + f->offset, &f->min, f->size);
	}
}

static void every_verb_is_a_complete_row(void **)
{
	for (unsigned v = VERB_NONE + 1; v < VERB_NUM; v++) {
		const struct verb_row *row = verb_row(v);

		row_check(v, row && row->name[0] && row->summary[0]);
		row_check(v, row->request_size <= VERB_MESSAGE_MAX);
		row_check(v, row->reply_size <= VERB_MESSAGE_MAX);
	}
	assert_null(verb_row(VERB_NONE));
	assert_null(verb_row(VERB_NUM));
}

/* Nothing crosses unchecked: the fields cover every byte behind the head. */
static void fields_add_up_to_the_struct(void **)
{
	for (unsigned v = VERB_NONE + 1; v < VERB_NUM; v++) {
		size_t at = sizeof(struct verb_head);

		for (const struct verb_field *f = verb_fields(v); f->name; f++) {
			row_check(v, f->offset == at);
			at += f->size;
		}
		row_check(v, at == verb_row(v)->request_size);
	}
}

static void a_valid_request_passes(void **)
{
	for (unsigned v = VERB_NONE + 1; v < VERB_NUM; v++) {
		struct cay_err err = {};
		union request r;

		fill(&r, v);
		row_check(v, verb_check(&r, r.head.size, verb_row(v)->fds, &err) == (int)v);
	}
}

static void a_wrong_frame_is_refused(void **)
{
	for (unsigned v = VERB_NONE + 1; v < VERB_NUM; v++) {
		unsigned fds = verb_row(v)->fds;
		size_t n = verb_row(v)->request_size;
		union request r;

		fill(&r, v);
		for (size_t len = 0; len < sizeof(r); len++)
			row_check(v, len == n || verb_check(&r, len, fds, NULL) == -EPROTO);
		row_check(v, verb_check(&r, n, fds + 1, NULL) == -EPROTO);
		r.head.magic ^= 1;
		row_check(v, verb_check(&r, n, fds, NULL) == -EPROTO);
		fill(&r, v);
		r.head.size++;
		row_check(v, verb_check(&r, n, fds, NULL) == -EPROTO);
		fill(&r, v);
		r.head.verb |= VERB_REPLY_BIT;
		row_check(v, verb_check(&r, n, fds, NULL) == -EPROTO);
		r.head.verb = VERB_NUM;
		row_check(v, verb_check(&r, n, fds, NULL) == -EPROTO);
		r.head.verb = 0;
		row_check(v, verb_check(&r, n, fds, NULL) == -EPROTO);
	}
}

static void put(union request *r, const struct verb_field *f, uint64_t v)
{
	uint32_t v32 = (uint32_t)v;

	memcpy(r->bytes + f->offset, f->size == 4 ? (void *)&v32 : (void *)&v, f->size);
}

/* Each field just inside and just outside its range. */
static void every_field_has_its_edges(void **)
{
	unsigned tried = 0;

	for (unsigned v = VERB_NONE + 1; v < VERB_NUM; v++)
		for (const struct verb_field *f = verb_fields(v); f->name; f++) {
			unsigned fds = verb_row(v)->fds;
			union request r;
			struct cay_err err = {};
			uint64_t top = f->size == 4 ? UINT32_MAX : UINT64_MAX;

			fill(&r, v);
			if (f->kind == VK_SANDBOX || f->kind == VK_TENANT) {
				r.bytes[f->offset] = ID_EXEC;
				row_check(v, verb_check(&r, r.head.size, fds, &err) == -EINVAL);
				assert_string_equal(err.field, f->name);
				tried++;
				continue;
			}
			if (f->kind == VK_BYTES)
				continue;
			put(&r, f, f->max);
			row_check(v, verb_check(&r, r.head.size, fds, NULL) == (int)v);
			if (f->max < top) {
				put(&r, f, f->max + 1);
				row_check(v, verb_check(&r, r.head.size, fds, NULL) == -EINVAL);
				put(&r, f, top);
				row_check(v, verb_check(&r, r.head.size, fds, NULL) == -EINVAL);
				tried++;
			}
			if (f->min > 0) {
				put(&r, f, f->min - 1);
				row_check(v, verb_check(&r, r.head.size, fds, NULL) == -EINVAL);
				tried++;
			}
		}
	assert_true(tried > 30);
}

static void the_bytes_are_fixed(void **)
{
	static const uint8_t golden[] = {
		'C',  'A', 'Y', 'K', 3, 0, 64, 0, 77, 0, 0, 0, 0, 0, 0, 0, /* head */
		1,    0,   0,   0,   0, 0, 0,  0, 0,  0, 0, 0, 0, 0, 0, 9, /* sandbox */
		2,    0,   0,   0,   0, 0, 0,  0,                          /* generation */
		0,    0,   0,   32,  0, 0, 0,  0,                          /* memory_bytes */
		0xf4, 1,   0,   0,   0, 1, 0,  0, 1,  0, 0, 0, 0, 0, 0, 0,
	};
	struct verb_start s = {
		.sandbox = { .noun = ID_SANDBOX, .bits = { [14] = 9 } },
		.generation = 2,
		.memory_bytes = 512 << 20,
		.cpu_milli = 500,
		.pids = 256,
		.runtime = 1,
	};

	verb_begin(&s.head, VERB_START, 77);
	static_assert(sizeof(golden) == sizeof(s));
	assert_memory_equal(&s, golden, sizeof(golden));
	assert_int_equal(verb_check(golden, sizeof(golden), 0, NULL), VERB_START);
}

static void the_highest_range_ends_below_the_foreign_one(void **)
{
	uint64_t end = (uint64_t)VERB_RANGE_BASE + (VERB_RANGE_MAX + UINT64_C(1)) * VERB_RANGE_IDS;

	assert_true(end <= VERB_RANGE_FOREIGN);
	assert_true(end + VERB_RANGE_IDS > VERB_RANGE_FOREIGN);
}

static void replies_answer_their_request(void **)
{
	struct cay_err none = {}, full = {}, got = {};
	struct verb_reply reply;
	struct verb_head request, other;
	char text[300];

	verb_begin(&request, VERB_KILL, 5);
	verb_begin(&other, VERB_KILL, 6);
	verb_reply_to(&reply, &request, &none);
	assert_int_equal(verb_check_reply(&reply, sizeof(reply), &request, &got), 0);
	assert_int_equal(verb_check_reply(&reply, sizeof(reply), &other, NULL), -EPROTO);
	other.verb = VERB_REMOVE;
	other.seq = 5;
	assert_int_equal(verb_check_reply(&reply, sizeof(reply), &other, NULL), -EPROTO);
	assert_int_equal(verb_check_reply(&reply, sizeof(reply) - 1, &request, NULL), -EPROTO);

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	(void)cay_fail_sys(&full, CAY_E_DISK_FULL, ENOSPC, "%s", text);
	verb_reply_to(&reply, &request, &full);
	assert_string_equal(reply.msg + sizeof(reply.msg) - 4, "...");
	assert_int_equal(verb_check_reply(&reply, sizeof(reply), &request, &got), -ENOSPC);
	assert_int_equal(got.code, CAY_E_DISK_FULL);
	reply.errnum = 0;
	assert_int_equal(verb_check_reply(&reply, sizeof(reply), &request, NULL), -ENOSPC);

	reply.code = CAY_NUM_CODES;
	assert_int_equal(verb_check_reply(&reply, sizeof(reply), &request, NULL), -EPROTO);
	reply.code = CAY_OK;
	reply.errnum = -1;
	assert_int_equal(verb_check_reply(&reply, sizeof(reply), &request, NULL), -EPROTO);
	reply.errnum = 4096;
	assert_int_equal(verb_check_reply(&reply, sizeof(reply), &request, NULL), -EPROTO);
	reply.errnum = 0;
	reply.msg[sizeof(reply.msg) - 1] = 'x';
	assert_int_equal(verb_check_reply(&reply, sizeof(reply), &request, NULL), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_verb_is_a_complete_row),
		cmocka_unit_test(fields_add_up_to_the_struct),
		cmocka_unit_test(a_valid_request_passes),
		cmocka_unit_test(a_wrong_frame_is_refused),
		cmocka_unit_test(every_field_has_its_edges),
		cmocka_unit_test(the_bytes_are_fixed),
		cmocka_unit_test(the_highest_range_ends_below_the_foreign_one),
		cmocka_unit_test(replies_answer_their_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
