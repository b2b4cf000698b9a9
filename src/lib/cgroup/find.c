/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "base/buf.h"
#include "base/path.h"
#include "cgroup/cgroup.h"

#define SMALL_FILE KIB(64)

const char *const cgroup_controllers[CG_NUM] = {
	[CG_MEMORY] = "memory",
	[CG_PIDS] = "pids",
	[CG_CPU] = "cpu",
};

bool cgroup_list_has_word(struct slice list, char separator, const char *word)
{
	while (list.p)
		if (slice_eq(slice_cut(&list, separator), slice_of(word)))
			return true;
	return false;
}

/* A line of mountinfo: "36 35 98:0 / /mnt ... - type source options". */
static bool cgroup_parse_mount_line(struct slice line, struct slice *ret_at, struct slice *ret_type,
				    struct slice *ret_options)
{
	for (int i = 0; i < 4; i++)
		(void)slice_cut(&line, ' ');
	*ret_at = slice_cut(&line, ' ');
	while (line.p && !slice_eq(slice_cut(&line, ' '), SLICE("-")))
		;
	*ret_type = slice_cut(&line, ' ');
	(void)slice_cut(&line, ' ');
	*ret_options = line;
	return line.p;
}

static int cgroup_open_mount(struct slice at)
{
	auto_buf path = BUF_INIT(KIB(4));

	if (buf_append(&path, at.p, at.n) < 0)
		return -ENAMETOOLONG;
	return open(path.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void cgroup_fini(struct cgroup *c)
{
	cay_closep(&c->v2);
	for (int i = 0; i < CG_NUM; i++)
		cay_closep(&c->v1[i]);
}

static int cgroup_find_mounts(struct cgroup *ret, struct cay_err *err)
{
	auto_buf text = BUF_INIT(MIB(8));
	struct slice rest, at, type, options;
	auto_close int self = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = self < 0 ? -errno : path_read(self, "mountinfo", &text);

	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read /proc/self/mountinfo");
	rest = (struct slice){ buf_str(&text), text.len };
	while (rest.p) {
		struct slice line = slice_cut(&rest, '\n');

		if (!cgroup_parse_mount_line(line, &at, &type, &options))
			continue;
		if (slice_eq(type, SLICE("cgroup2")) && ret->v2 < 0)
			ret->v2 = cgroup_open_mount(at);
		for (int i = 0; i < CG_NUM && slice_eq(type, SLICE("cgroup")); i++)
			if (ret->v1[i] < 0 &&
			    cgroup_list_has_word(options, ',', cgroup_controllers[i]))
				ret->v1[i] = cgroup_open_mount(at);
	}
	if (ret->v2 < 0)
		return cay_fail(err, CAY_E_UNSUPPORTED, "there is no cgroup v2 hierarchy mounted");
	return 0;
}

int cgroup_open_roots(struct cgroup *ret, struct cay_err *err)
{
	auto_buf have = BUF_INIT(SMALL_FILE);
	int r = cgroup_find_mounts(ret, err);
	struct slice list;

	if (r < 0)
		return r;
	r = path_read(ret->v2, "cgroup.controllers", &have);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read cgroup.controllers");
	if (have.len)
		buf_truncate(&have, have.len - 1);
	list = (struct slice){ buf_str(&have), have.len };
	for (int i = 0; i < CG_NUM; i++) {
		if (cgroup_list_has_word(list, ' ', cgroup_controllers[i])) {
			cay_closep(&ret->v1[i]);
			ret->v1[i] = -EBADF;
		} else if (ret->v1[i] < 0) {
			return cay_fail(err, CAY_E_UNSUPPORTED,
					"the '%s' controller is neither on cgroup v2 nor on v1",
					cgroup_controllers[i]);
		}
	}
	return 0;
}

static int cgroup_open_below(int root, const char *path, int *ret, struct cay_err *err)
{
	*ret = path_open(root, path + 1, O_RDONLY | O_DIRECTORY, 0);
	return *ret < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -*ret, "open cgroup '%s'", path) : 0;
}

int cgroup_open_top(const char *path, struct cgroup *ret, struct cay_err *err)
{
	auto_cgroup roots = CGROUP_INIT;
	int r = cgroup_open_roots(&roots, err);

	if (r >= 0)
		r = cgroup_open_below(roots.v2, path, &ret->v2, err);
	for (int i = 0; r >= 0 && i < CG_NUM; i++)
		if (roots.v1[i] >= 0)
			r = cgroup_open_below(roots.v1[i], path, &ret->v1[i], err);
	return r;
}

int cgroup_open_sandbox_dir(int top, const char *tenant, const char *sandbox)
{
	auto_close int fd = path_open(top, tenant, O_RDONLY | O_DIRECTORY, 0);

	return fd < 0 ? fd : path_open(fd, sandbox, O_RDONLY | O_DIRECTORY, 0);
}

int cgroup_open_sandbox(const struct cgroup *top, const struct id *tenant, const struct id *sandbox,
			struct cgroup *ret)
{
	char tn[ID_TEXT_LEN + 1], sb[ID_TEXT_LEN + 1];

	id_format(tenant, tn);
	id_format(sandbox, sb);
	*ret = CGROUP_INIT;
	ret->v2 = cgroup_open_sandbox_dir(top->v2, tn, sb);
	if (ret->v2 < 0)
		return ret->v2;
	for (int i = 0; i < CG_NUM; i++)
		if (top->v1[i] >= 0)
			ret->v1[i] = cgroup_open_sandbox_dir(top->v1[i], tn, sb);
	return 0;
}
