/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/desktop/viewer-files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/path.h"
#include "daemon/daemon.h"

#define PATH_LEN 128
#define FILE_MAX KIB(512)
#define SUFFIX ".js"
#define FIRST "/core/rfb.js" /* imports all the others */

struct module {
	char path[PATH_LEN]; /* of the URL */
	struct buf content;
};

struct viewer_files {
	struct module modules[VIEWER_FILES_MAX];
	size_t n, bytes;
	/* while they are read */
	const char *top, *directory;
};

static const char media_script[] = "text/javascript; charset=utf-8";

static bool module_name_is_plain(const char *name)
{
	size_t n = strlen(name), suffix = sizeof(SUFFIX) - 1;

	for (const char *c = name; *c; c++)
		if (!ascii_is_alnum(*c) && *c != '-' && *c != '_' && *c != '.')
			return false;
	return n > suffix && str_eq(name + n - suffix, SUFFIX);
}

static int viewer_files_read_one(void *arg, int, const char *name)
{
	struct viewer_files *v = arg;
	struct module *m = &v->modules[v->n];
	auto_buf file = BUF_INIT(KIB(8));
	int n, r;

	if (!module_name_is_plain(name))
		return 0;
	if (v->n == VIEWER_FILES_MAX)
		return -EFBIG;
	n = snprintf(m->path, sizeof(m->path), "/%s/%s", v->directory, name);
	if (n < 0 || n >= (int)sizeof(m->path))
		return -ENAMETOOLONG;
	if (buf_printf(&file, "%s%s", v->top, m->path) < 0)
		return -ENOMEM;
	m->content = BUF_INIT(FILE_MAX);
	r = daemon_read_file(buf_str(&file), &m->content);
	v->n++; /* freed with the others, also when it is not whole */
	v->bytes += m->content.len;
	return r < 0 ? r : v->bytes > VIEWER_FILES_BYTES ? -EFBIG : 0;
}

static int viewer_files_read_directory(struct viewer_files *v, const char *directory)
{
	auto_buf path = BUF_INIT(KIB(8));
	auto_close int fd = -EBADF;

	if (buf_printf(&path, "%s/%s", v->top, directory) < 0)
		return -ENOMEM;
	fd = open(buf_str(&path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	v->directory = directory;
	return path_for_each_entry(fd, viewer_files_read_one, v);
}

int viewer_files_read(const char *novnc, struct viewer_files **ret, struct cay_err *err)
{
	static const char *const directories[] = {
		"core",      "core/crypto",           "core/decoders",       "core/input",
		"core/util", "vendor/pako/lib/utils", "vendor/pako/lib/zlib"
	};
	struct viewer_files *v = calloc(1, sizeof(*v));
	int r = 0;

	if (!v)
		return cay_no_memory(err);
	v->top = novnc;
	for (size_t i = 0; i < ARRAY_SIZE(directories) && r >= 0; i++)
		r = viewer_files_read_directory(v, directories[i]);
	v->top = v->directory = NULL;
	if (r < 0) {
		viewer_files_free(v);
		return cay_fail_sys(err, CAY_E_INVALID, -r, "edge.novnc: read %s", novnc);
	}
	*ret = v;
	return 0;
}

void viewer_files_free(struct viewer_files *v)
{
	for (size_t i = 0; v && i < v->n; i++)
		buf_fini(&v->modules[i].content);
	free(v);
}

static const struct module *viewer_files_find_module(const struct viewer_files *v,
						     struct slice path)
{
	for (size_t i = 0; i < v->n; i++)
		if (slice_eq(path, slice_of(v->modules[i].path)))
			return &v->modules[i];
	return NULL;
}

bool viewer_files_are_whole(const struct viewer_files *v)
{
	return viewer_files_find_module(v, SLICE(FIRST));
}

bool viewer_files_find(const struct viewer_files *v, struct slice path, bool controls,
		       struct viewer_file *ret)
{
	const struct module *m;

	if (slice_eq(path, SLICE("/"))) {
		*ret = (struct viewer_file){ viewer_html, "text/html; charset=utf-8", false };
	} else if (slice_eq(path, SLICE("/viewer.css"))) {
		*ret = (struct viewer_file){ viewer_css, "text/css; charset=utf-8", false };
	} else if (slice_eq(path, SLICE("/viewer.js"))) {
		*ret = (struct viewer_file){ viewer_js, media_script, false };
	} else if (slice_eq(path, SLICE("/viewer-role.js"))) {
		*ret = (struct viewer_file){ controls ? SLICE("export const controls = true;\n")
						      : SLICE("export const controls = false;\n"),
					     media_script, false };
	} else {
		m = viewer_files_find_module(v, path);
		if (!m)
			return false;
		*ret = (struct viewer_file){ { m->content.data, m->content.len },
					     media_script,
					     true };
	}
	return true;
}
