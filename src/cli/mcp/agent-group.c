/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp/agent-group.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>

#include "base/id.h"
#include "base/path.h"
#include "cli/client/context.h"

#define SUFFIX ".group"
#define RANDOM 12 /* letters of 32: 60 bits */

static int agent_group_open_dir(struct buf *path, int *ret, struct cay_err *err)
{
	int r = xdg_dir_format("XDG_STATE_HOME", ".local/state", path, err);

	if (r > 0)
		return cay_fail(err, CAY_E_INVALID,
				"the group is kept in ~/.local/state/cay, and HOME is not set");
	if (r >= 0)
		r = xdg_dir_create(path, err);
	if (r < 0)
		return r;
	*ret = open(buf_str(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret < 0 ? cay_fail_sys(err, CAY_E_INVALID, errno, "open '%s'", buf_str(path)) : 0;
}

static int agent_group_create(int dir, const char *file, char ret[static GROUP_MAX],
			      struct cay_err *err)
{
	char text[ID_TEXT_LEN + 1], line[GROUP_MAX + 1];
	struct id id;
	int r = id_generate(ID_SANDBOX, 0, 0, &id), n;

	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "generate a name");
	id_format(&id, text);
	n = snprintf(line, sizeof(line), "mcp-%s\n", text + ID_TEXT_LEN - RANDOM);
	r = n < 0 ? -EINVAL : path_write_atomic(dir, file, line, (size_t)n, 0600);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -r, "write '%s'", file);
	memcpy(ret, line, (size_t)n);
	ret[n - 1] = 0;
	return 0;
}

int agent_group_find_or_create(const char *context, char ret[static GROUP_MAX], struct cay_err *err)
{
	auto_buf path = BUF_INIT(PATH_MAX - NAME_MAX), file = BUF_INIT(NAME_MAX);
	auto_buf text = BUF_INIT(GROUP_MAX);
	auto_close int dir = -EBADF;
	struct slice name, rest;
	int r = agent_group_open_dir(&path, &dir, err);

	if (r < 0)
		return r;
	if (buf_printf(&file, "%s" SUFFIX, context) < 0)
		return cay_no_memory(err);
	/* of two processes that start at once, the second reads the name the first wrote */
	if (flock(dir, LOCK_EX) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "lock '%s'", buf_str(&path));
	r = path_read(dir, buf_str(&file), &text);
	if (r == -ENOENT)
		return agent_group_create(dir, buf_str(&file), ret, err);
	rest = (struct slice){ buf_str(&text), text.len };
	name = slice_cut(&rest, '\n');
	if (r < 0 || rest.n || !str_is_dns_label(name))
		return cay_fail(
			err, CAY_E_INVALID,
			"'%s/%s' does not hold a group name: remove it, or use --group NAME",
			buf_str(&path), buf_str(&file));
	memcpy(ret, name.p, name.n);
	ret[name.n] = 0;
	return 0;
}
