/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/writable.h"

#include "base/str.h"

const char *const writable_paths[WRITABLE_NUM + 1] = {
#define CAY_WRITABLE(path) path,
#include "wire/writable.def"
#undef CAY_WRITABLE
	NULL,
};
static_assert(WRITABLE_NUM < 32);

uint32_t writable_path_bit(const char *path)
{
	for (unsigned i = 0; path[0] == '/' && i < WRITABLE_NUM; i++)
		if (str_eq(path + 1, writable_paths[i]))
			return UINT32_C(1) << i;
	return 0;
}
