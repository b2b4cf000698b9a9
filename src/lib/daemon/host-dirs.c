/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/host-dirs.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/path.h"
#include "text/absolute-path.h"
#include "text/conf.h"

#define SUFFIX ".conf"
#define FILE_MAX KIB(16)
#define AS_MAX 65533 /* 65534 is nobody, which ids without a mapping are shown as */

static const char *const host_dir_modes[] = {
	[HOST_DIR_RO] = "ro",
	[HOST_DIR_RW] = "rw",
	[HOST_DIR_MODE_NUM] = NULL,
};

struct host_dir_file {
	char path[4096], tenants[1024];
	unsigned mode;
	uint64_t as;
};

#define ROW(key, type, member, min, max, value, choices) \
	{ \
		"directory", key, CONF_##type, offsetof(struct host_dir_file, member), \
		min,         max, value,       choices, \
		false,       "" \
	}
static const struct conf_key host_dir_keys[] = {
	ROW("path", PATH, path, 1, 4095, "/", NULL),
	ROW("mode", CHOICE, mode, 0, 0, "ro", host_dir_modes),
	ROW("tenants", TEXT, tenants, 0, 1023, "", NULL),
	ROW("as", U64, as, 0, AS_MAX, "0", NULL),
};
static const struct conf_table host_dir_table = { host_dir_keys, ARRAY_SIZE(host_dir_keys) };

/* Two spellings of one path are a mistake, and ".." leads where links lead. */
static int host_dir_check_path(const char *path, const char *name, struct cay_err *err)
{
	auto_buf plain = BUF_INIT(4096);

	if (absolute_path_format("/", slice_of(path), &plain) < 0 ||
	    !str_eq(buf_str(&plain), path) || str_eq(path, "/"))
		return cay_fail(err, CAY_E_INVALID,
				"%s: path: expected the absolute path of a directory below /, "
				"without '.', '..' and a slash at its end",
				name);
	return 0;
}

static int host_dir_parse_tenants(const char *text, const char *name, struct host_dir *ret,
				  struct cay_err *err)
{
	struct slice rest = slice_of(text);

	if (str_eq(text, "all") && ret->mode == HOST_DIR_RW)
		return cay_fail(err, CAY_E_INVALID,
				"%s: tenants: with mode = rw each tenant is named: what they write "
				"there they share",
				name);
	if (str_eq(text, "all"))
		return 0;
	while (rest.p) {
		struct slice one = slice_cut(&rest, ' ');

		if (ret->n_tenants == HOST_DIR_TENANTS_MAX ||
		    id_parse(ID_TENANT, one, &ret->tenants[ret->n_tenants]) < 0)
			return cay_fail(err, CAY_E_INVALID,
					"%s: tenants: expected 'all', or at most %d ids of tenants",
					name, HOST_DIR_TENANTS_MAX);
		ret->n_tenants++;
	}
	return 0;
}

int host_dir_parse(struct slice text, const char *name, struct host_dir *ret, struct cay_err *err)
{
	struct host_dir_file file = {};
	int r;

	*ret = (struct host_dir){};
	conf_set_defaults(&host_dir_table, &file);
	r = conf_parse(&host_dir_table, text, name, &file, err);
	if (r >= 0)
		r = host_dir_check_path(file.path, name, err);
	if (r < 0)
		return r;
	memcpy(ret->path, file.path, sizeof(ret->path));
	ret->mode = file.mode;
	ret->as = (uint32_t)file.as;
	return host_dir_parse_tenants(file.tenants, name, ret, err);
}

/* Who could write them could let sandboxes write anywhere. */
static int host_dir_check_owner(int fd, const char *name, struct cay_err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "read %s", name);
	if (st.st_uid || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return cay_fail(err, CAY_E_INVALID,
				"%s: it must belong to root, and no other user may write to it",
				name);
	return 0;
}

struct host_dirs_reader {
	struct host_dirs *to;
	struct cay_err *err;
};

static int on_host_dir_file(void *arg, int dir, const char *file)
{
	struct host_dirs_reader *rd = arg;
	struct slice name = slice_of(file);
	auto_buf text = BUF_INIT(FILE_MAX);
	auto_close int fd = -EBADF;
	struct host_dir *row;
	int r;

	if (name.n <= strlen(SUFFIX) || !str_eq(file + name.n - strlen(SUFFIX), SUFFIX))
		return 0;
	name.n -= strlen(SUFFIX);
	if (!host_name_is_valid(name.p, name.n))
		return cay_fail(rd->err, CAY_E_INVALID,
				"%s: expected a name of at most %d lower-case letters, digits and "
				"hyphens",
				file, HOST_DIR_NAME_MAX);
	if (rd->to->n == HOST_DIRS_MAX)
		return cay_fail(rd->err, CAY_E_INVALID, "there are more than %d", HOST_DIRS_MAX);
	fd = path_open(dir, file, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd >= 0 && host_dir_check_owner(fd, file, rd->err) < 0)
		return -EPERM;
	r = fd < 0 ? fd : path_read(dir, file, &text);
	if (r < 0)
		return cay_fail_sys(rd->err, CAY_E_INVALID, -r, "read %s", file);
	row = &rd->to->rows[rd->to->n];
	r = host_dir_parse((struct slice){ buf_str(&text), text.len }, file, row, rd->err);
	if (r < 0)
		return r;
	memcpy(row->name, name.p, name.n);
	row->name[name.n] = 0;
	rd->to->n++;
	return 0;
}

static int host_dir_compare(const void *a, const void *b)
{
	return strcmp(((const struct host_dir *)a)->name, ((const struct host_dir *)b)->name);
}

int host_dirs_read(const char *dir, struct host_dirs *ret, struct cay_err *err)
{
	auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct host_dirs_reader rd = { ret, err };
	int r;

	*ret = (struct host_dirs){};
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "open %s", dir);
	r = host_dir_check_owner(fd, dir, err);
	if (r < 0)
		return r;
	ret->rows = calloc(HOST_DIRS_MAX, sizeof(*ret->rows));
	if (!ret->rows)
		return cay_no_memory(err);
	r = path_for_each_entry(fd, on_host_dir_file, &rd);
	if (r < 0)
		return err->code ? cay_err_wrap(err, r, "%s", dir)
				 : cay_fail_sys(err, CAY_E_INVALID, -r, "read %s", dir);
	qsort(ret->rows, ret->n, sizeof(*ret->rows), host_dir_compare);
	return 0;
}

const struct host_dir *host_dirs_find(const struct host_dirs *all, const char *name,
				      const struct id *tenant)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct host_dir *d = &all->rows[i];

		if (!str_eq(d->name, name))
			continue;
		for (unsigned t = 0; t < d->n_tenants; t++)
			if (id_eq(&d->tenants[t], tenant))
				return d;
		return d->n_tenants ? NULL : d;
	}
	return NULL;
}
