/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_HASH_H
#define CAY_FILE_HASH_H
/* hash - SHA-256 of a stream.  libcrypto's block function, which uses the processor's extensions,
 * by its oldest interface: the newer ones pull the whole library into a static program, this one 26
 * KB. */
#include <openssl/sha.h>
#include <stddef.h>

#define FILE_HASH_LEN 32
#define FILE_HASH_HEX 64

struct file_hash {
	SHA256_CTX ctx;
};

void file_hash_begin(struct file_hash *h);
void file_hash_add(struct file_hash *h, const void *p, size_t n);
void file_hash_end(struct file_hash *h, unsigned char ret[static FILE_HASH_LEN]);
/* All of a file, from its beginning; -errno. */
[[nodiscard]] int file_hash_fd(int fd, unsigned char ret[static FILE_HASH_LEN]);
#endif
