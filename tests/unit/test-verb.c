/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit.h"
#include "wire/verb-internal.h"
#include "wire/writable.h"

/* A valid request of any verb. */
static void fill(union verb_any *r, unsigned verb)
{
	uint8_t *bytes = (uint8_t *)r;

	memset(r, 0, sizeof(*r));
	verb_head_init(&r->head, (enum verb)verb, 77);
	for (const struct verb_field *f = verb_request_fields(verb); f->name; f++) {
		if (f->kind == VK_SANDBOX)
			bytes[f->offset] = ID_SANDBOX;
		else if (f->kind == VK_TENANT)
			bytes[f->offset] = ID_TENANT;
		else if (f->kind == VK_SNAPSHOT)
			bytes[f->offset] = ID_SNAPSHOT;
		else if (f->kind == VK_VOLUME)
			bytes[f->offset] = ID_VOLUME;
		else if (f->kind == VK_DIGEST)
			bytes[f->offset + f->size - 1] = 1;
		else if (f->kind == VK_U32 || f->kind == VK_U64)
			memcpy(bytes + f->offset, &f->min, f->size);
	}
}

static void every_verb_is_a_complete_row(void **)
{
	for (unsigned v = VERB_NONE + 1; v < VERB_NUM; v++) {
		const struct verb_row *row = verb_row_find(v);

		row_check(v, row && row->name[0] && row->summary[0]);
		row_check(v, row->request_size <= VERB_MESSAGE_MAX);
		row_check(v, row->reply_size <= VERB_MESSAGE_MAX);
	}
	assert_null(verb_row_find(VERB_NONE));
	assert_null(verb_row_find(VERB_NUM));
}

/* Nothing crosses unchecked: the fields cover every byte behind the head. */
static void fields_add_up_to_the_struct(void **)
{
	for (unsigned v = VERB_NONE + 1; v < VERB_NUM; v++) {
		size_t at = sizeof(struct verb_head);

		for (const struct verb_field *f = verb_request_fields(v); f->name; f++) {
			row_check(v, f->offset == at);
			at += f->size;
		}
		row_check(v, at == verb_row_find(v)->request_size);
	}
}

static void a_valid_request_passes(void **)
{
	for (unsigned v = VERB_NONE + 1; v < VERB_NUM; v++) {
		struct cay_err err = {};
		union verb_any r;

		fill(&r, v);
		row_check(v, verb_request_check(&r, r.head.size, verb_row_find(v)->fds, &err) ==
				     (int)v);
	}
}

static void a_wrong_frame_is_refused(void **)
{
	for (unsigned v = VERB_NONE + 1; v < VERB_NUM; v++) {
		unsigned fds = verb_row_find(v)->fds;
		size_t n = verb_row_find(v)->request_size;
		union verb_any r;

		fill(&r, v);
		/* memory of exactly that length, so that ASan sees a byte too far */
		for (size_t len = 0; len < sizeof(r); len++) {
			auto_free uint8_t *msg = malloc(len + 1);

			assert_non_null(msg);
			memcpy(msg + 1, &r, len);
			row_check(v, len == n || verb_request_check(msg + 1, len, fds, NULL) ==
							 -EPROTO);
		}
		row_check(v, verb_request_check(&r, n, fds + 1, NULL) == -EPROTO);
		r.head.magic ^= 1;
		row_check(v, verb_request_check(&r, n, fds, NULL) == -EPROTO);
		fill(&r, v);
		r.head.size++;
		row_check(v, verb_request_check(&r, n, fds, NULL) == -EPROTO);
		fill(&r, v);
		r.head.verb |= VERB_REPLY_BIT;
		row_check(v, verb_request_check(&r, n, fds, NULL) == -EPROTO);
		r.head.verb = VERB_NUM;
		row_check(v, verb_request_check(&r, n, fds, NULL) == -EPROTO);
		r.head.verb = 0;
		row_check(v, verb_request_check(&r, n, fds, NULL) == -EPROTO);
	}
}

static void put(union verb_any *r, const struct verb_field *f, uint64_t v)
{
	uint32_t v32 = (uint32_t)v;

	memcpy((uint8_t *)r + f->offset, f->size == 4 ? (void *)&v32 : (void *)&v, f->size);
}

/* Each field just inside and just outside its range. */
static void every_field_has_its_edges(void **)
{
	unsigned tried = 0;

	for (unsigned v = VERB_NONE + 1; v < VERB_NUM; v++)
		for (const struct verb_field *f = verb_request_fields(v); f->name; f++) {
			unsigned fds = verb_row_find(v)->fds;
			union verb_any r;
			struct cay_err err = {};
			uint64_t top = f->size == 4 ? UINT32_MAX : UINT64_MAX;

			fill(&r, v);
			if (f->kind == VK_DIGEST) {
				memset((uint8_t *)&r + f->offset, 0, f->size);
				row_check(v, verb_request_check(&r, r.head.size, fds, &err) ==
						     -EINVAL);
				tried++;
				continue;
			}
			if (f->kind == VK_SANDBOX || f->kind == VK_TENANT || f->kind == VK_AFTER ||
			    f->kind == VK_SNAPSHOT || f->kind == VK_VOLUME ||
			    f->kind == VK_VOLUME_AFTER || f->kind == VK_MOUNTS) {
				((uint8_t *)&r)[f->offset] = ID_EXEC;
				row_check(v, verb_request_check(&r, r.head.size, fds, &err) ==
						     -EINVAL);
				assert_string_equal(err.field, f->name);
				tried++;
				continue;
			}
			if (f->kind == VK_BYTES)
				continue;
			put(&r, f, f->max);
			row_check(v, verb_request_check(&r, r.head.size, fds, NULL) == (int)v);
			if (f->max < top) {
				put(&r, f, f->max + 1);
				row_check(v, verb_request_check(&r, r.head.size, fds, NULL) ==
						     -EINVAL);
				put(&r, f, top);
				row_check(v, verb_request_check(&r, r.head.size, fds, NULL) ==
						     -EINVAL);
				tried++;
			}
			if (f->min > 0) {
				put(&r, f, f->min - 1);
				row_check(v, verb_request_check(&r, r.head.size, fds, NULL) ==
						     -EINVAL);
				tried++;
			}
		}
	assert_true(tried > 30);
}

static void the_bytes_are_fixed(void **)
{
	static const uint8_t golden[sizeof(struct verb_start)] = {
		'C',  'A', 'Y', 'K', 3,   0,   0x60, 5, 77, 0,  0, 0, 0, 0, 0, 0, /* head */
		1,    0,   0,   0,   0,   0,   0,    0, 0,  0,  0, 0, 0, 0, 0, 9, /* sandbox */
		2,    0,   0,   0,   0,   0,   0,    0,                           /* generation */
		0,    0,   0,   32,  0,   0,   0,    0,                           /* memory_bytes */
		0,    0,   0,   4,   0,   0,   0,    0,                           /* shm_bytes */
		0xf4, 1,   0,   0,   0,   1,   0,    0, 0,  16, 0, 0, 1, 0, 0, 0, /* cpu ... runtime
										   */
		0,    0,   16,  0,   0,   0,   0,    0,                           /* disk_bytes */
		0x88, 19,  0,   0,   0,   0,   0,    0,                           /* disk_inodes */
		1,    0,   0,   0,   3,   1,   0,    0, /* read_only, writable */
		8,    0,   0,   0,   0,   0,   0,    0, 0,  0,  0, 0, 0, 0, 0, 7, /* volume */
		0,    0,   0,   0,   0,   0,   0,    0, 0,  0,  0, 0, 0, 0, 0, 0, 0,
		0,    0,   0,   0,   0,   0,   0,    0, 0,  0,  0, 0, 0, 0, 0, /* host */
		1,    0,   0,   0,   '/', 'd', /* its read_only and path */
	};
	struct verb_start s = {
		.sandbox = { .noun = ID_SANDBOX, .bits = { [14] = 9 } },
		.generation = 2,
		.memory_bytes = 512 << 20,
		.shm_bytes = 64 << 20,
		.cpu_milli = 500,
		.pids = 256,
		.nofile = 4096,
		.runtime = 1,
		.disk_bytes = 1 << 20,
		.disk_inodes = 5000,
		.read_only = 1,
		.writable = 0x103,
		.mounts = { { .volume = { .noun = ID_VOLUME, .bits = { [14] = 7 } },
			      .read_only = 1,
			      .path = "/d" } },
	};

	verb_head_init(&s.head, VERB_START, 77);
	static_assert(sizeof(golden) == sizeof(s));
	assert_memory_equal(&s, golden, sizeof(golden));
	assert_int_equal(verb_request_check(golden, sizeof(golden), 0, NULL), VERB_START);
}

static struct verb_mount mount_of(uint8_t id, const char *path)
{
	struct verb_mount m = { .volume = { .noun = ID_VOLUME, .bits = { [14] = id } } };

	memcpy(m.path, path, strlen(path));
	return m;
}

static int check_mounts(const struct verb_mount *rows, size_t n)
{
	union verb_any r;

	fill(&r, VERB_START);
	memcpy(r.START.mounts, rows, n * sizeof(*rows));
	return verb_request_check(&r, r.head.size, 0, NULL);
}

static void mounts_are_sorted_and_have_plain_paths(void **)
{
	static const char *const good[] = { "/d", "/workspace/data", "/a/b/c/d", "/~x/.y",
					    "/devil" };
	static const char *const bad[] = { "",          "/",     "d",       "/d/",  "//d",
					   "/a//b",     "/..",   "/a/..",   "/./a", "/a/.",
					   "/dev",      "/proc", "/sys/x",  "/a b", "/a:b",
					   "/\xc3\xa4", "/a\nb", "/dev/shm" };
	struct verb_mount rows[VERB_MOUNTS_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		rows[0] = mount_of(1, good[i]);
		row_check(i, check_mounts(rows, 1) == VERB_START);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		rows[0] = mount_of(1, bad[i]);
		row_check(i, check_mounts(rows, 1) == -EINVAL);
	}
	for (uint8_t i = 0; i < VERB_MOUNTS_MAX; i++)
		rows[i] = mount_of((uint8_t)(i + 1), "/d");
	assert_int_equal(check_mounts(rows, VERB_MOUNTS_MAX), VERB_START);
	rows[1] = rows[0]; /* twice */
	assert_int_equal(check_mounts(rows, VERB_MOUNTS_MAX), -EINVAL);
	rows[1] = (struct verb_mount){}; /* a hole */
	assert_int_equal(check_mounts(rows, VERB_MOUNTS_MAX), -EINVAL);
	rows[0].path[VOLUME_PATH_MAX] = 'x'; /* something after the end */
	assert_int_equal(check_mounts(rows, 1), -EINVAL);
	memset(rows[0].path + 1, 'x', VOLUME_PATH_MAX); /* no end */
	assert_int_equal(check_mounts(rows, 1), -EINVAL);
	rows[0].path[VOLUME_PATH_MAX] = 0;
	assert_int_equal(check_mounts(rows, 1), VERB_START);
	rows[0].read_only = 2;
	assert_int_equal(check_mounts(rows, 1), -EINVAL);
}

static void a_mount_is_of_a_volume_or_of_a_named_directory(void **)
{
	static const char *const bad[] = { "-x", "A", "a/b", "a.b", "..", "a b", "a\n" };
	struct verb_mount rows[2] = { { .host = "a", .path = "/d" },
				      { .host = "b-1", .path = "/d" } };

	assert_int_equal(check_mounts(rows, 2), VERB_START);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct verb_mount m = { .path = "/d" };

		memcpy(m.host, bad[i], strlen(bad[i]));
		row_check(i, check_mounts(&m, 1) == -EINVAL);
	}
	rows[1].host[0] = 'a';
	rows[1].host[1] = 0; /* "a", and something after its end */
	assert_int_equal(check_mounts(rows, 2), -EINVAL);
	memset(rows[1].host, 'b', sizeof(rows[1].host)); /* no end */
	assert_int_equal(check_mounts(rows, 2), -EINVAL);
	rows[1] = rows[0]; /* twice */
	assert_int_equal(check_mounts(rows, 2), -EINVAL);
	rows[0].volume.noun = ID_VOLUME; /* both */
	rows[0].volume.bits[14] = 1;
	assert_int_equal(check_mounts(rows, 1), -EINVAL);
	rows[0] = (struct verb_mount){ .path = "/d" }; /* neither */
	assert_int_equal(check_mounts(rows, 1), -EINVAL);
}

static void the_highest_range_ends_below_the_foreign_one(void **)
{
	uint64_t end = (uint64_t)VERB_RANGE_BASE + (VERB_RANGE_MAX + UINT64_C(1)) * VERB_RANGE_IDS;

	/* and one is left for the keeper's probes */
	assert_true(end + VERB_RANGE_IDS <= VERB_RANGE_FOREIGN);
	assert_true(end + 2 * VERB_RANGE_IDS > VERB_RANGE_FOREIGN);
}

/* What two builds of different ages must have in common to refuse each other. */
static void hello_is_frozen(void **)
{
	static const uint8_t hello[] = {
		'C', 'A', 'Y', 'K', 1, 0, 40, 0, 5,    0,           0, 0, 0, 0, 0, 0, /* head */
		1,   0,   0,   0,   0, 0, 0,  0, 0xAB, [39] = 0xCD,
	};
	static const uint8_t refusal[256] = {
		'C',  'A',  'Y', 'K', 1, 0x80, 0, 1, 5,   0,   0, 0, 0, 0, 0, 0, /* head */
		0xFF, 0xFF, 0,   0,   0, 0,    0, 0, 'n', 'o',
	};
	struct verb_hello h = { .abi = 1, .build = { 0xAB, [15] = 0xCD } };
	uint8_t msg[VERB_MESSAGE_MAX];
	struct cay_err err = {}, outcome = {};

	verb_head_init(&h.head, VERB_HELLO, 5);
	assert_memory_equal(&h, hello, sizeof(hello));
	(void)cay_fail(&err, CAY_E_INCOMPATIBLE, "no");
	assert_int_equal(verb_reply_write(msg, &h.head, &err), sizeof(refusal));
	assert_memory_equal(msg, refusal, sizeof(refusal));
	assert_int_equal(verb_reply_check(msg, sizeof(refusal), 0, &h.head, &outcome, NULL), 0);
	assert_int_equal(outcome.code, CAY_E_INCOMPATIBLE);
	assert_string_equal(outcome.msg, "no");
}

/* A path is its row's bit however many there are, and nothing else is one. */
static void writable_paths_are_bits(void **)
{
	static const char *const others[] = { "",    "/",    "tmp",  "/tmp/",       "//tmp",
					      "/tm", "/etc", "/var", "/var/tmp/..", "/TMP" };
	uint32_t all = 0;

	for (unsigned i = 0; i < WRITABLE_NUM; i++) {
		char path[64];

		assert_true(snprintf(path, sizeof(path), "/%s", writable_paths[i]) > 1);
		row_check(i, writable_path_bit(path) == UINT32_C(1) << i);
		row_check(i, path[1] != '/' && !strstr(path, "..") && !strstr(path, "//"));
		all |= writable_path_bit(path);
	}
	assert_int_equal(all, WRITABLE_ALL);
	assert_null(writable_paths[WRITABLE_NUM]);
	assert_int_equal(writable_path_bit("/workspace"), 1); /* numbers cross: rows stay */
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		row_check(i, writable_path_bit(others[i]) == 0);
}

/* Whoever changes a number, a size or a field raises VERB_ABI and writes the new
 * sum here. */
static void the_abi_number_belongs_to_these_structs(void **)
{
	static const struct {
		unsigned abi;
		uint32_t sum;
	} recorded = { 20, 3682582064 };
	uint32_t sum = 2166136261;

#define MIX(x) (sum = (sum ^ (uint32_t)(x)) * 16777619)
	for (unsigned v = VERB_NONE + 1; v < VERB_NUM; v++) {
		MIX(v);
		MIX(verb_row_find(v)->request_size);
		MIX(verb_row_find(v)->reply_size);
		MIX(verb_row_find(v)->fds * 16 + verb_row_find(v)->reply_fds);
		for (const struct verb_field *f = verb_request_fields(v); f->name; f++) {
			MIX(f->offset);
			MIX(f->size);
			MIX(f->kind);
		}
	}
	if (VERB_ABI != recorded.abi || sum != recorded.sum)
		fail_msg("the structs changed: raise VERB_ABI, record { %d, %u }", VERB_ABI, sum);
}

static struct verb_head request_of(enum verb verb)
{
	struct verb_head head;

	verb_head_init(&head, verb, 5);
	return head;
}

static void replies_answer_their_request(void **)
{
	struct verb_head kill = request_of(VERB_KILL), other = kill;
	struct cay_err none = {}, err = {}, outcome = {};
	struct verb_reply reply, bad;
	uint8_t msg[VERB_MESSAGE_MAX];

	assert_int_equal(verb_reply_write(msg, &kill, &none), sizeof(reply));
	memcpy(&reply, msg, sizeof(reply));
	assert_int_equal(verb_reply_check(&reply, sizeof(reply), 0, &kill, &outcome, &err), 0);
	assert_int_equal(outcome.code, CAY_OK);
#define REFUSED(r, n, fds, req) \
	assert_int_equal(verb_reply_check(r, n, fds, req, &outcome, NULL), -EPROTO)
	other.seq++;
	REFUSED(&reply, sizeof(reply), 0, &other);
	other = kill;
	other.verb = VERB_REMOVE;
	REFUSED(&reply, sizeof(reply), 0, &other);
	REFUSED(&reply, sizeof(reply) - 1, 0, &kill);
	REFUSED(&reply, 0, 0, &kill);
	REFUSED(&reply, sizeof(reply), 1, &kill);
#define BROKEN(member, value) \
	bad = reply; \
	bad.member = value; \
	REFUSED(&bad, sizeof(bad), 0, &kill)
	BROKEN(head.magic, 1);
	BROKEN(head.size, 255);
	BROKEN(code, CAY_NUM_CODES);
	BROKEN(errnum, -1);
	BROKEN(errnum, 4096);
	BROKEN(msg[sizeof(bad.msg) - 1], 'x');
}

static void a_keeper_that_failed_is_not_a_broken_keeper(void **)
{
	struct verb_head start = request_of(VERB_START), list = request_of(VERB_LIST);
	struct cay_err full = {}, outcome = {}, err = {};
	uint8_t msg[VERB_MESSAGE_MAX];
	char text[300];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	(void)cay_fail_sys(&full, CAY_E_MISBEHAVED, ENOSPC, "%s", text);
	/* a failure is as short for every verb, and brings no fd */
	assert_int_equal(verb_reply_write(msg, &list, &full), sizeof(struct verb_reply));
	assert_int_equal(verb_reply_write(msg, &start, &full), sizeof(struct verb_reply));
	assert_int_equal(
		verb_reply_check(msg, sizeof(struct verb_reply), 0, &start, &outcome, &err), 0);
	assert_int_equal(outcome.code, CAY_E_MISBEHAVED);
	assert_int_equal(outcome.errnum, ENOSPC);
	assert_string_equal(outcome.msg + sizeof(((struct verb_reply *)0)->msg) - 4, "...");
	assert_int_equal(err.code, CAY_OK);
	/* success of start brings one */
	assert_int_equal(verb_reply_write(msg, &start, &err), sizeof(struct verb_start_reply));
	assert_int_equal(
		verb_reply_check(msg, sizeof(struct verb_start_reply), 0, &start, &outcome, &err),
		-EPROTO);
	assert_int_equal(err.code, CAY_E_INTERNAL);
	assert_int_equal(
		verb_reply_check(msg, sizeof(struct verb_start_reply), 1, &start, &outcome, NULL),
		0);
}

static void what_was_refused_can_be_answered(void **)
{
	struct verb_head odd = { VERB_MAGIC, 0x777, 16, 9 };
	uint8_t msg[VERB_MESSAGE_MAX];
	struct cay_err err = {};
	struct verb_reply reply;

	assert_int_equal(verb_request_check(&odd, sizeof(odd), 0, &err), -EPROTO);
	assert_int_equal(verb_reply_write(msg, &odd, &err), sizeof(reply));
	memcpy(&reply, msg, sizeof(reply));
	assert_int_equal(reply.head.verb, 0x777 | VERB_REPLY_BIT);
	assert_int_equal(reply.code, CAY_E_INTERNAL);
}

static void a_list_is_looked_at_row_by_row(void **)
{
	struct verb_head list = request_of(VERB_LIST);
	static struct verb_list_reply good, r;
	struct cay_err none = {}, outcome = {};

	assert_int_equal(verb_reply_write(&good, &list, &none), sizeof(good));
	good.n_rows = VERB_LIST_MAX;
	for (unsigned i = 0; i < VERB_LIST_MAX; i++)
		good.rows[i].sandbox =
			(struct id){ .noun = ID_SANDBOX, .bits = { [14] = (uint8_t)i } };
	assert_int_equal(verb_reply_check(&good, sizeof(good), 0, &list, &outcome, NULL), 0);
#define BAD_LIST(member, value) \
	r = good; \
	r.member = value; \
	assert_int_equal(verb_reply_check(&r, sizeof(r), 0, &list, &outcome, NULL), -EPROTO)
	BAD_LIST(n_rows, VERB_LIST_MAX + 1);
	BAD_LIST(n_rows, UINT32_MAX);
	BAD_LIST(more, 2);
	BAD_LIST(rows[1].sandbox.noun, ID_EXEC);
	BAD_LIST(rows[0].range, VERB_RANGE_MAX + 1);
	BAD_LIST(rows[0].frozen, 2);
	BAD_LIST(rows[1].sandbox.bits[14], 0);   /* the same twice */
	BAD_LIST(rows[0].sandbox.bits[14], 200); /* not sorted */
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
		cmocka_unit_test(writable_paths_are_bits),
		cmocka_unit_test(mounts_are_sorted_and_have_plain_paths),
		cmocka_unit_test(a_mount_is_of_a_volume_or_of_a_named_directory),
		cmocka_unit_test(the_highest_range_ends_below_the_foreign_one),
		cmocka_unit_test(hello_is_frozen),
		cmocka_unit_test(the_abi_number_belongs_to_these_structs),
		cmocka_unit_test(replies_answer_their_request),
		cmocka_unit_test(a_keeper_that_failed_is_not_a_broken_keeper),
		cmocka_unit_test(what_was_refused_can_be_answered),
		cmocka_unit_test(a_list_is_looked_at_row_by_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
