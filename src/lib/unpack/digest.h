/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_DIGEST_H
#define CAY_UNPACK_DIGEST_H
/* digest - SHA-256, as images are named by it */
#include <stddef.h>
#include <stdint.h>

#define DIGEST_HEX_LEN 64
#define DIGEST_PREFIX "sha256:"
/* Short form in messages: the prefix and this many digits. */
#define DIGEST_SHORT 12

struct digest {
	uint8_t byte[32];
};

/* Opaque: libcrypto's context. */
struct hash {
	void *ctx;
};

bool digest_eq(const struct digest *a, const struct digest *b);
/* 64 lower-case hexadecimal digits, n of them given. */
[[nodiscard]] int digest_parse_hex(const char *hex, size_t n, struct digest *ret);
/* "sha256:" and the digits. */
[[nodiscard]] int digest_parse(const char *text, size_t n, struct digest *ret);
void digest_format_hex(const struct digest *d, char ret[static DIGEST_HEX_LEN + 1]);

/* Before a process gives up its file system: sets up libcrypto without its configuration file. */
[[nodiscard]] int hash_library_init(void);
[[nodiscard]] int hash_init(struct hash *h);
[[nodiscard]] int hash_update(struct hash *h, const void *p, size_t n);
[[nodiscard]] int hash_finish(struct hash *h, struct digest *ret);
void hash_fini(struct hash *h);
[[nodiscard]] int digest_compute(const void *p, size_t n, struct digest *ret);
#endif
