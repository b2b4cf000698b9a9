/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/settings-file.h"

#include <fcntl.h>

#include "base/path.h"

#define FILE_MAX KIB(256)

static int settings_file_load(const char *path, struct buf *ret)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return errno == ENOTDIR ? -ENOENT : -errno;
	do {
		char piece[KIB(4)];

		n = read(fd, piece, sizeof(piece));
		if (n < 0)
			return -errno;
		if (buf_append(ret, piece, (size_t)n) < 0)
			return -EFBIG;
	} while (n);
	return 0;
}

int settings_file_read(const char *path, struct settings *ret, struct conf_origin *origins,
		       struct cay_err *err)
{
	const char *name = path ? path : SETTINGS_FILE;
	auto_buf text = BUF_INIT(FILE_MAX);
	int loaded = settings_file_load(name, &text), r = 0;

	conf_set_defaults(&settings_table, ret);
	if (loaded >= 0)
		r = conf_parse_traced(&settings_table, (struct slice){ buf_str(&text), text.len },
				      name, ret, origins, err);
	else if (loaded != -ENOENT && loaded != -EACCES)
		return cay_fail_sys(err, CAY_E_INVALID, -loaded, "read %s", name);
	if (r >= 0)
		r = conf_apply_env_traced(&settings_table, (const char *const *)environ, ret,
					  origins, err);
	return r < 0 ? r : loaded;
}
