/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_WRITABLE_H
#define CAY_WIRE_WRITABLE_H
/* writable - paths of a read-only root that can be written to (writable.def).  A set of them is a
 * number: bit i is row i. */
#include <stdint.h>

enum {
#define CAY_WRITABLE_ROW_2(line) WRITABLE_AT_##line
#define CAY_WRITABLE_ROW(line) CAY_WRITABLE_ROW_2(line)
#define CAY_WRITABLE(path) CAY_WRITABLE_ROW(__LINE__),
#include "wire/writable.def"
#undef CAY_WRITABLE
	WRITABLE_NUM
};

#define WRITABLE_ALL ((UINT32_C(1) << WRITABLE_NUM) - 1)

/* Without the slash in front; ended by NULL. */
extern const char *const writable_paths[WRITABLE_NUM + 1];

/* The row of an absolute path as a bit, or 0. */
uint32_t writable_path_bit(const char *path);
#endif
