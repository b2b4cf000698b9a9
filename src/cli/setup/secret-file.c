/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/setup/secret-file.h"

#include <fcntl.h>

#include "base/path.h"
#include "base/str.h"

int secret_file_open(struct arena *arena, const char *path, struct secret_file *ret,
		     struct cay_err *err)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	const char *dir = slash == path ? "/" : ".";

	*ret = (struct secret_file){ -EBADF, slash ? slash + 1 : path };
	if (!path)
		return 0;
	if (slash && slash != path)
		dir = arena_strndup(arena, path, (size_t)(slash - path));
	if (!dir)
		return cay_no_memory(err);
	if (!ret->name[0] || str_eq(ret->name, ".") || str_eq(ret->name, ".."))
		return cay_fail(err, CAY_E_INVALID, "'%s' is not a file", path);
	ret->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->dir < 0 || faccessat(ret->dir, ".", W_OK, 0) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "write to '%s'", dir);
	return 0;
}

int secret_file_write(const struct secret_file *to, const char *secret, struct cay_err *err)
{
	auto_buf text = BUF_INIT(256);
	int r = buf_printf(&text, "%s\n", secret);

	if (r >= 0)
		r = path_write_atomic(to->dir, to->name, text.data, text.len, 0600);
	if (text.data)
		explicit_bzero(text.data, text.cap);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "write '%s'", to->name) : 0;
}

void secret_file_close(struct secret_file *to)
{
	cay_closep(&to->dir);
	to->dir = -EBADF;
}
