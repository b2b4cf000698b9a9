/* SPDX-License-Identifier: Apache-2.0 */
#include "text/absolute-path.h"

#include <errno.h>

static int absolute_path_append(struct slice rest, struct buf *ret)
{
	int r = 0;

	while (r >= 0 && rest.p) {
		struct slice name = slice_cut(&rest, '/');

		if (!name.n || slice_eq(name, SLICE(".")))
			continue;
		if (slice_eq(name, SLICE("..")))
			return -EINVAL;
		r = buf_putc(ret, '/');
		if (r >= 0)
			r = buf_append(ret, name.p, name.n);
	}
	return r;
}

int absolute_path_format(const char *dir, struct slice path, struct buf *ret)
{
	size_t before = ret->len;
	int r = path.n ? 0 : -EINVAL;

	if (r >= 0 && path.p[0] != '/')
		r = absolute_path_append(slice_of(dir), ret);
	if (r >= 0)
		r = absolute_path_append(path, ret);
	return r >= 0 && ret->len == before ? buf_putc(ret, '/') : r;
}
