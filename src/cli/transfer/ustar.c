/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer/ustar.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* Where the fields lie, POSIX.1-1988. */
enum {
	NAME = 0,
	MODE = 100,
	UID = 108,
	GID = 116,
	SIZE = 124,
	MTIME = 136,
	SUM = 148,
	TYPE = 156,
	MAGIC = 257
};

static void ustar_write_octal(uint8_t *to, unsigned digits, uint64_t v)
{
	for (unsigned i = digits; i; i--, v >>= 3)
		to[i - 1] = (uint8_t)('0' + (v & 7));
	assert(v == 0);
}

int ustar_write_header(const char *name, uint64_t size, uint8_t ret[static USTAR_BLOCK])
{
	size_t n = strlen(name);
	bool directory = n && name[n - 1] == '/';
	unsigned sum = 0;

	if (!n || n > USTAR_NAME_MAX)
		return -ENAMETOOLONG;
	memset(ret, 0, USTAR_BLOCK);
	memcpy(ret + NAME, name, n);
	ustar_write_octal(ret + MODE, 7, directory ? 0755 : 0644);
	ustar_write_octal(ret + UID, 7, 0);
	ustar_write_octal(ret + GID, 7, 0);
	ustar_write_octal(ret + MTIME, 11, 0);
	if (size >> 33) {
		ret[SIZE] = 0x80; /* base 256, big-endian */
		for (unsigned i = 0; i < 8; i++)
			ret[SIZE + 11 - i] = (uint8_t)(size >> (8 * i));
	} else {
		ustar_write_octal(ret + SIZE, 11, size);
	}
	ret[TYPE] = directory ? '5' : '0';
	memcpy(ret + MAGIC, "ustar\00000", 8);
	/* the sum counts its own field as spaces */
	memset(ret + SUM, ' ', 8);
	for (unsigned i = 0; i < USTAR_BLOCK; i++)
		sum += ret[i];
	ustar_write_octal(ret + SUM, 6, sum);
	ret[SUM + 6] = 0;
	return 0;
}
