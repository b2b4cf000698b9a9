/* SPDX-License-Identifier: Apache-2.0 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "file/hash.h"

#include <errno.h>
#include <unistd.h>

#include "base/mem.h"

/* With an allocated context none of these can fail. */

void file_hash_begin(struct file_hash *h)
{
	(void)SHA256_Init(&h->ctx);
}

void file_hash_add(struct file_hash *h, const void *p, size_t n)
{
	(void)SHA256_Update(&h->ctx, p, n);
}

void file_hash_end(struct file_hash *h, unsigned char ret[static FILE_HASH_LEN])
{
	(void)SHA256_Final(ret, &h->ctx);
}

int file_hash_fd(int fd, unsigned char ret[static FILE_HASH_LEN])
{
	unsigned char piece[KIB(32)];
	struct file_hash h;
	off_t at = 0;
	ssize_t n;

	file_hash_begin(&h);
	while ((n = pread(fd, piece, sizeof(piece), at)) > 0) {
		file_hash_add(&h, piece, (size_t)n);
		at += n;
	}
	if (n < 0)
		return -errno;
	file_hash_end(&h, ret);
	return 0;
}
