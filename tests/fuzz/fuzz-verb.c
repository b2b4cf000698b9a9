/* SPDX-License-Identifier: Apache-2.0 */
/* Keeper messages, requests and replies: what passes is in range, field by field. */
#include "fuzz.h"
#include "wire/verb-internal.h"

static void check_fields(const uint8_t *in, unsigned verb)
{
	for (const struct verb_field *f = verb_request_fields(verb); f->name; f++) {
		uint64_t v = 0;

		if (f->kind == VK_U32 || f->kind == VK_U64) {
			memcpy(&v, in + f->offset, f->size);
			CHECK(v >= f->min && v <= f->max);
		} else if (f->kind == VK_SANDBOX) {
			CHECK(in[f->offset] == ID_SANDBOX);
		} else if (f->kind == VK_TENANT) {
			CHECK(in[f->offset] == ID_TENANT);
		} else if (f->kind == VK_SNAPSHOT) {
			CHECK(in[f->offset] == ID_SNAPSHOT);
		} else if (f->kind == VK_VOLUME) {
			CHECK(in[f->offset] == ID_VOLUME);
		} else if (f->kind == VK_MOUNTS) {
			const struct verb_mount *m = (const void *)(in + f->offset);

			for (size_t i = 0; i < VERB_MOUNTS_MAX; i++)
				CHECK(!m[i].path[VOLUME_PATH_MAX] && !strstr(m[i].path, "/../") &&
				      !m[i].host[HOST_DIR_NAME_MAX] && !strchr(m[i].host, '/'));
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cay_err err = {}, outcome = {};
	struct verb_head request;
	unsigned fds;
	uint8_t *in;
	int r;

	if (!size)
		return 0;
	fds = data[0];
	in = fuzz_copy(data + 1, size - 1);
	r = verb_request_check(in, size - 1, fds, &err);
	if (r >= 0) {
		CHECK(verb_row_find((unsigned)r) &&
		      verb_row_find((unsigned)r)->request_size == size - 1);
		check_fields(in, (unsigned)r);
	} else {
		CHECK(r == -EPROTO || (r == -EINVAL && err.code == CAY_E_INVALID));
	}
	verb_head_init(&request, (enum verb)(VERB_NONE + 1 + fds % (VERB_NUM - 1)), 0);
	err = (struct cay_err){};
	r = verb_reply_check(in, size - 1, fds & 1, &request, &outcome, &err);
	CHECK(r == 0 || (r == -EPROTO && err.code == CAY_E_INTERNAL));
	CHECK(r < 0 ||
	      (outcome.code < CAY_NUM_CODES && memchr(outcome.msg, 0, sizeof(outcome.msg))));
	free(in);
	return 0;
}
