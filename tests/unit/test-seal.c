/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/seal.h"
#include "text/hex.h"
#include "unit.h"

/* Test case 16 of "The Galois/Counter Mode of Operation" (McGrew, Viega), AES-256. */
static const char key_hex[] = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
		  nonce_hex[] = "cafebabefacedbaddecaf888",
		  purpose_hex[] = "feedfacedeadbeeffeedfacedeadbeefabaddad2",
		  secret_hex[] = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
				 "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
		  cipher_hex[] = "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
				 "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
		  tag_hex[] = "76fc6ece0f4e1768cddf8853bb2d551b";

enum { SECRET = 60, PURPOSE = 20, SEALED = SECRET + SEAL_EXTRA };

struct sample {
	struct seal_key key;
	uint8_t nonce[SEAL_NONCE_LEN], purpose[PURPOSE], secret[SECRET], sealed[SEALED];
};

static void unhex(const char *hex, uint8_t *ret, size_t n)
{
	assert_int_equal(hex_decode(hex, strlen(hex), ret, n), 0);
}

static struct slice bytes(const uint8_t *p, size_t n)
{
	return (struct slice){ (const char *)p, n };
}

static struct sample sample_create(void)
{
	struct sample s;

	unhex(key_hex, s.key.bytes, sizeof(s.key.bytes));
	unhex(nonce_hex, s.nonce, sizeof(s.nonce));
	unhex(purpose_hex, s.purpose, sizeof(s.purpose));
	unhex(secret_hex, s.secret, sizeof(s.secret));
	assert_int_equal(seal_close(&s.key, s.nonce, bytes(s.purpose, PURPOSE),
				    bytes(s.secret, SECRET), s.sealed),
			 0);
	return s;
}

static int open_it(const struct sample *s, size_t len, uint8_t ret[static SEALED])
{
	size_t n = 0;
	int r = seal_open(&s->key, bytes(s->purpose, PURPOSE), bytes(s->sealed, len), ret, &n);

	assert_int_equal(n, r < 0 ? 0 : SECRET);
	return r;
}

static void test_published_vector(void **)
{
	const struct sample s = sample_create();
	uint8_t want[SEALED] = { 1 }, got[SEALED];

	memcpy(want + 1, s.nonce, SEAL_NONCE_LEN);
	unhex(cipher_hex, want + 13, SECRET);
	unhex(tag_hex, want + 13 + SECRET, 16);
	assert_memory_equal(s.sealed, want, SEALED);
	assert_int_equal(open_it(&s, SEALED, got), 0);
	assert_memory_equal(got, s.secret, SECRET);
}

static void test_every_changed_bit_is_refused(void **)
{
	uint8_t got[SEALED], nothing[SECRET] = {};

	for (size_t bit = 0; bit < 8 * SEALED; bit++) {
		struct sample s = sample_create();

		s.sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
		memset(got, 0, sizeof(got));
		assert_int_equal(open_it(&s, SEALED, got), -EBADMSG);
		assert_memory_equal(got, nothing, SECRET); /* nothing of it gets out */
	}
}

static void test_every_cut_is_refused(void **)
{
	const struct sample s = sample_create();
	uint8_t got[SEALED];

	for (size_t n = 0; n < SEALED; n++)
		assert_int_equal(open_it(&s, n, got), -EBADMSG);
}

static void test_another_purpose_or_key_is_refused(void **)
{
	struct sample s = sample_create();
	uint8_t got[SEALED];

	s.purpose[0] ^= 1;
	assert_int_equal(open_it(&s, SEALED, got), -EBADMSG);
	s.purpose[0] ^= 1;
	s.key.bytes[31] ^= 1;
	assert_int_equal(open_it(&s, SEALED, got), -EBADMSG);
}

static void test_an_empty_secret(void **)
{
	struct sample s = sample_create();
	uint8_t got[SEALED];
	size_t n = 9;

	assert_int_equal(seal_close(&s.key, s.nonce, (struct slice){}, (struct slice){}, s.sealed),
			 0);
	assert_int_equal(seal_open(&s.key, (struct slice){}, bytes(s.sealed, SEAL_EXTRA), got, &n),
			 0);
	assert_int_equal(n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_published_vector),
		cmocka_unit_test(test_every_changed_bit_is_refused),
		cmocka_unit_test(test_every_cut_is_refused),
		cmocka_unit_test(test_another_purpose_or_key_is_refused),
		cmocka_unit_test(test_an_empty_secret),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
