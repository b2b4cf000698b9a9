/* SPDX-License-Identifier: Apache-2.0 */
/* What is taken for a key is one: plain text of its length, and itself alone. */
#include "auth/key.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	char prefix[KEY_PREFIX_LEN + 1] = "";
	struct slice text = { in, size };

	if (key_parse(text, prefix) == 0) {
		uint8_t hash[KEY_HASH_LEN];

		CHECK(size == KEY_TEXT_LEN && memcmp(in, "cay_", 4) == 0);
		CHECK(memcmp(in + 4, prefix, KEY_PREFIX_LEN) == 0 && strlen(prefix) == 8);
		for (size_t i = 0; i < size; i++)
			CHECK(ascii_is_alnum(in[i]) || in[i] == '-' || in[i] == '_');
		key_hash(text, hash);
		CHECK(key_matches_hash(text, hash));
		in[size - 1] ^= 1; /* bits no byte has: another spelling of the same */
		CHECK(key_parse(text, prefix) < 0 && !key_matches_hash(text, hash));
	} else {
		CHECK(!prefix[0]);
	}
	free(in);
	return 0;
}
