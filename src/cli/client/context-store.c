/* SPDX-License-Identifier: Apache-2.0 */
/* context-store - contexts as files that only their owner may read */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/path.h"
#include "cli/client/context.h"

#define SUFFIX ".context"
#define CURRENT "current"

typedef char file_name[CONTEXT_NAME_MAX + sizeof(SUFFIX)];

int xdg_dir_format(const char *variable, const char *below, struct buf *ret, struct cay_err *err)
{
	const char *xdg = getenv(variable), *home = getenv("HOME");
	int r;

	/* the XDG specification says to ignore a relative path */
	if (xdg && xdg[0] == '/')
		r = buf_printf(ret, "%s/cay", xdg);
	else if (home && home[0] == '/')
		r = buf_printf(ret, "%s/%s/cay", home, below);
	else
		return 1;
	return r < 0 ? cay_fail(err, CAY_E_INVALID, "the path of ~/%s/cay is too long", below) : 0;
}

int xdg_dir_create(struct buf *path, struct cay_err *err)
{
	for (char *p = path->data + 1;; p++) {
		char c = *p;

		if (c && c != '/')
			continue;
		*p = 0;
		if (mkdir(path->data, 0700) < 0 && errno != EEXIST)
			return cay_fail_sys(err, CAY_E_INVALID, errno, "create '%s'", path->data);
		*p = c;
		if (!c)
			return 0;
	}
}

static bool context_stat_is_ours(const struct stat *st)
{
	return st->st_uid == geteuid();
}

/* A user who may write here decides where tokens are sent. */
static int context_dir_check(int fd, const char *path, struct cay_err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "stat '%s'", path);
	if (!context_stat_is_ours(&st))
		return cay_fail(err, CAY_E_INVALID,
				"'%s' belongs to user %u, not to you: run cay as that user", path,
				(unsigned)st.st_uid);
	if (st.st_mode & 022)
		return cay_fail(err, CAY_E_INVALID,
				"other users may write to '%s': run 'chmod 700 %s'", path, path);
	return 0;
}

int context_dir_open(bool make, struct buf *ret_path, int *ret_fd, struct cay_err *err)
{
	auto_close int fd = -EBADF;
	int r = xdg_dir_format("XDG_CONFIG_HOME", ".config", ret_path, err);

	if (r > 0 && make)
		return cay_fail(err, CAY_E_INVALID,
				"contexts are kept in ~/.config/cay, and HOME is not set");
	if (r == 0 && make)
		r = xdg_dir_create(ret_path, err);
	if (r)
		return r;
	fd = open(buf_str(ret_path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 1;
	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "open '%s'", buf_str(ret_path));
	r = context_dir_check(fd, buf_str(ret_path), err);
	if (r >= 0)
		*ret_fd = cay_take_fd(&fd);
	return r;
}

static void context_file_format_name(const char *name, file_name ret)
{
	int n = snprintf(ret, sizeof(file_name), "%s" SUFFIX, name);

	(void)(n < 0 || n >= (int)sizeof(file_name)); /* a name is a label */
}

static int context_file_check(int fd, const char *dir, const char *name, struct cay_err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "stat '%s/%s'", dir, name);
	if (!S_ISREG(st.st_mode))
		return cay_fail(err, CAY_E_INVALID, "'%s/%s' is not a file", dir, name);
	if (!context_stat_is_ours(&st))
		return cay_fail(err, CAY_E_INVALID,
				"'%s/%s' belongs to user %u, not to you: "
				"remove it and add it again",
				dir, name, (unsigned)st.st_uid);
	if (st.st_mode & 077)
		return cay_fail(err, CAY_E_INVALID,
				"other users may read '%s/%s': run 'chmod 600' on it; if they may "
				"have read it, replace its key ('cay key rotate')",
				dir, name);
	return 0;
}

/* Read a file that only we may read; 1 when it does not exist. */
static int context_file_read(int dir, const char *where, const char *name, char *to, size_t max,
			     size_t *ret_n, struct cay_err *err)
{
	/* O_NONBLOCK: opening a FIFO must not hang */
	auto_close int fd = path_open(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	size_t n = 0;
	int r;

	if (fd == -ENOENT)
		return 1;
	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -fd, "open '%s/%s'", where, name);
	r = context_file_check(fd, where, name, err);
	while (r >= 0) {
		ssize_t got = read(fd, to + n, max - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return cay_fail_sys(err, CAY_E_INVALID, errno, "read '%s/%s'", where, name);
		n += (size_t)got;
		if (n == max)
			return cay_fail(err, CAY_E_INVALID, "'%s/%s' is too large", where, name);
		if (!got)
			break;
	}
	*ret_n = n;
	return r;
}

static int context_fail_not_found(const char *name, struct cay_err *err)
{
	return cay_fail(err, CAY_E_NOT_FOUND, "there is no context '%s'", name);
}

int context_load(const char *name, struct context *ret, struct cay_err *err)
{
	auto_buf path = BUF_INIT(PATH_MAX - NAME_MAX);
	auto_close int dir = -EBADF;
	char text[CONTEXT_FILE_MAX];
	file_name file;
	size_t n;
	int r = context_name_check(name, err);

	if (r < 0)
		return r;
	context_file_format_name(name, file);
	r = context_dir_open(/* make= */ false, &path, &dir, err);
	if (r == 0)
		r = context_file_read(dir, buf_str(&path), file, text, sizeof(text), &n, err);
	if (r > 0)
		return context_fail_not_found(name, err);
	if (r < 0)
		return r;
	*ret = (struct context){};
	memcpy(ret->name, name, strlen(name) + 1);
	r = context_parse((struct slice){ text, n }, ret, err);
	explicit_bzero(text, sizeof(text));
	return r < 0 ? cay_err_wrap(err, r, "%s/%s", buf_str(&path), file) : 0;
}

/* Check that the text can be read back before it is written. */
static int context_file_encode(const struct context *c, struct buf *text, struct cay_err *err)
{
	auto_context again = {};
	int r = buf_reserve(text, CONTEXT_FILE_MAX - 1); /* a secret that does not move */

	if (r >= 0)
		r = context_format(c, text);
	if (r < 0)
		return cay_no_memory(err);
	r = context_parse((struct slice){ text->data, text->len }, &again, err);
	if (r >= 0 && (!str_eq(again.ca, c->ca) || !str_eq(again.token, c->token)))
		r = cay_fail(err, CAY_E_INVALID,
			     "the path '%s' has characters a context file cannot store", c->ca);
	return r;
}

static int context_file_write(int dir, const char *where, const char *name, const struct buf *text,
			      struct cay_err *err)
{
	int r = path_write_atomic(dir, name, text->data, text->len, 0600);

	return r < 0 ? cay_fail_sys(err, CAY_E_INVALID, -r, "write '%s/%s'", where, name) : 0;
}

int context_save(const struct context *c, bool replace, struct cay_err *err)
{
	auto_buf path = BUF_INIT(PATH_MAX - NAME_MAX), text = BUF_INIT(CONTEXT_FILE_MAX - 1);
	auto_close int dir = -EBADF;
	file_name file;
	int r = context_name_check(c->name, err);

	if (r < 0)
		return r;
	context_file_format_name(c->name, file);
	r = context_dir_open(/* make= */ true, &path, &dir, err);
	if (r >= 0 && !replace && faccessat(dir, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		r = cay_fail(err, CAY_E_CONFLICT, "context '%s' already exists", c->name);
	if (r >= 0)
		r = context_file_encode(c, &text, err);
	if (r >= 0)
		r = context_file_write(dir, buf_str(&path), file, &text, err);
	if (text.data)
		explicit_bzero(text.data, text.cap);
	return r;
}

static int context_file_remove(const char *file, struct cay_err *err)
{
	auto_buf path = BUF_INIT(PATH_MAX - NAME_MAX);
	auto_close int dir = -EBADF;
	int r = context_dir_open(/* make= */ false, &path, &dir, err);

	if (r == 0 && unlinkat(dir, file, 0) < 0 && errno != ENOENT)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "remove '%s/%s'", buf_str(&path),
				    file);
	return r < 0 ? r : 0;
}

int context_remove(const char *name, struct cay_err *err)
{
	auto_buf names = BUF_INIT(KIB(64));
	char current[CONTEXT_NAME_MAX + 1];
	bool found = false;
	file_name file;
	int r = context_name_check(name, err);

	if (r >= 0)
		r = context_list_names(&names, err);
	if (r >= 0)
		r = context_read_current(current, err);
	if (r < 0)
		return r;
	for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1)
		found |= str_eq(names.data + at, name);
	if (!found)
		return context_fail_not_found(name, err);
	/* otherwise the next command would silently use another machine */
	if (str_eq(current, name))
		return cay_fail(err, CAY_E_CONFLICT, "'%s' is the current context", name);
	context_file_format_name(name, file);
	return context_file_remove(file, err);
}

static int on_context_dir_entry(void *arg, int, const char *name)
{
	struct buf *out = arg;
	size_t n = strlen(name), suffix = sizeof(SUFFIX) - 1;
	struct slice label = { name, n > suffix ? n - suffix : 0 };

	if (!str_is_dns_label(label) || !str_eq(name + label.n, SUFFIX))
		return 0;
	return buf_append(out, label.p, label.n) < 0 || buf_putc(out, 0) < 0 ? -ENOMEM : 0;
}

/* A selection sort: there are few names. */
static int context_names_sort(const struct buf *in, struct buf *out)
{
	const char *last = "", *least;
	int r = 0;

	do {
		least = NULL;
		for (size_t at = 0; at < in->len; at += strlen(in->data + at) + 1)
			if (strcmp(in->data + at, last) > 0 &&
			    (!least || strcmp(in->data + at, least) < 0))
				least = in->data + at;
		if (least)
			r = buf_append(out, least, strlen(least) + 1);
		last = least;
	} while (r >= 0 && least);
	return r;
}

int context_list_names(struct buf *out, struct cay_err *err)
{
	auto_buf path = BUF_INIT(PATH_MAX - NAME_MAX), names = BUF_INIT(KIB(64));
	auto_close int dir = -EBADF;
	int r = context_dir_open(/* make= */ false, &path, &dir, err);

	if (r)
		return r < 0 ? r : 0;
	r = path_for_each_entry(dir, on_context_dir_entry, &names);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -r, "list '%s'", buf_str(&path));
	return context_names_sort(&names, out) < 0 ? cay_no_memory(err) : 0;
}

static bool context_home_is_ours(void)
{
	const char *home = getenv("HOME");
	struct stat st;

	return home && stat(home, &st) == 0 && context_stat_is_ours(&st);
}

int context_read_current(char ret[static CONTEXT_NAME_MAX + 1], struct cay_err *err)
{
	auto_buf path = BUF_INIT(PATH_MAX - NAME_MAX);
	auto_close int dir = -EBADF;
	char text[CONTEXT_NAME_MAX + 3];
	struct slice name = { text, 0 };
	struct cay_err why = {};
	int r;

	memcpy(ret, CONTEXT_LOCAL, sizeof(CONTEXT_LOCAL));
	r = context_dir_open(/* make= */ false, &path, &dir, &why);
	if (r == -EACCES && !context_home_is_ours()) /* HOME of another user, as after su or sudo */
		return 0;
	if (r < 0 && err)
		*err = why;
	if (r == 0)
		r = context_file_read(dir, buf_str(&path), CURRENT, text, sizeof(text), &name.n,
				      err);
	if (r)
		return r < 0 ? r : 0;
	if (name.n && text[name.n - 1] == '\n')
		name.n--;
	if (!str_is_dns_label(name))
		return cay_fail(err, CAY_E_INVALID,
				"'%s/" CURRENT "' does not name a context: run "
				"'cay context use " CONTEXT_LOCAL "'",
				buf_str(&path));
	memcpy(ret, text, name.n);
	ret[name.n] = 0;
	return 0;
}

int context_set_current(const char *name, struct cay_err *err)
{
	auto_buf path = BUF_INIT(PATH_MAX - NAME_MAX), text = BUF_INIT(CONTEXT_NAME_MAX + 1);
	auto_close int dir = -EBADF;
	int r;

	if (str_eq(name, CONTEXT_LOCAL))
		return context_file_remove(CURRENT, err);
	r = context_name_check(name, err);
	if (r >= 0)
		r = context_dir_open(/* make= */ true, &path, &dir, err);
	if (r < 0)
		return r;
	if (buf_printf(&text, "%s\n", name) < 0)
		return cay_no_memory(err);
	return context_file_write(dir, buf_str(&path), CURRENT, &text, err);
}
