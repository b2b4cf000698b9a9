/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "archive/tree-unpack.h"
#include "base/path.h"
#include "cli/print/print.h"
#include "cli/transfer/remote-path.h"
#include "cli/transfer/transfer.h"

#define ENTRIES_MAX 10000000u

/* Split a target path into directory and name.  With a target that ends in '/' the name is
 * that of the source. */
static int cmd_cp_split_target(struct arena *arena, const char *to, const char *from,
			       const char **dir, const char **name)
{
	const char *slash = strrchr(to, '/'), *last = strrchr(from, '/');

	*dir = !slash ? "." : slash == to ? "/" : arena_strndup(arena, to, (size_t)(slash - to));
	*name = slash ? slash + 1 : to;
	if (str_eq(to, ".") || (slash && !slash[1])) {
		*dir = to;
		*name = last ? last + 1 : from;
	}
	if (!*dir)
		return -ENOMEM;
	return (*name)[0] && !str_eq(*name, ".") && !str_eq(*name, "..") && !str_eq(*name, "-")
		       ? 0
		       : -EINVAL;
}

static void cmd_cp_report_skipped(const struct tree_made *made)
{
	if (made->skipped)
		print_note("skipped %llu entries that are not files, directories or links inside "
			   "the tree",
			   (unsigned long long)made->skipped);
	if (made->changed)
		print_note("%llu files changed while they were read and are padded with zeros",
			   (unsigned long long)made->changed);
}

/* The length of standard input is unknown, so store it in an unnamed file first. */
static int cmd_cp_spool_stdin(struct cay_err *err)
{
	auto_close int fd = open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	char piece[KIB(64)];
	ssize_t n;
	int r = 0;

	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "store standard input in /tmp");
	while (r >= 0 && (n = read(STDIN_FILENO, piece, sizeof(piece))) != 0) {
		if (n < 0)
			r = errno == EINTR ? 0 : -errno;
		else
			r = fd_write_all(fd, piece, (size_t)n);
	}
	if (r >= 0 && (lseek(fd, 0, SEEK_SET) < 0 || fchmod(fd, 0644) < 0))
		r = -errno;
	return r < 0 ? cay_fail_sys(err, CAY_E_INVALID, -r, "store standard input in /tmp")
		     : cay_take_fd(&fd);
}

static int cmd_cp_send_tree(struct cli *c, int fd, const char *name, const struct remote_path *to,
			    const char *dir, uint64_t total, struct tree_made *ret,
			    struct cay_err *err)
{
	struct tree_put_query query = { .path = dir,
					.max_entries = ENTRIES_MAX,
					.max_bytes = UINT64_C(1) << 52 };
	struct api_call call = { .op = OP_TREE_PUT,
				 .ids = { to->sandbox },
				 .query = &query,
				 .content_type = "application/x-tar",
				 .body_length = HTTP_CLIENT_CHUNKED };
	auto_free struct transfer *carry = malloc(sizeof(*carry));
	struct tree_counts n = {};
	int r;

	if (!carry)
		return cay_no_memory(err);
	r = transfer_open(carry, &c->api, &call, total, err);
	if (r >= 0)
		r = tree_pack(fd, name, transfer_write, carry, &n, err);
	if (r >= 0 || r == -ECANCELED)
		r = transfer_finish_send(carry, ret, err);
	transfer_fini(carry);
	return r;
}

static int cmd_cp_copy_in(struct cli *c, const char *from, const struct remote_path *to,
			  struct tree_made *ret, struct cay_err *err)
{
	bool input = str_eq(from, "-");
	auto_close int fd = input ? cmd_cp_spool_stdin(err)
				  : open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	const char *dir = to->path, *name = "";
	struct stat st;

	if (fd < 0 && input)
		return fd;
	if (fd < 0 || fstat(fd, &st) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "open '%s'", from);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return cay_fail(err, CAY_E_INVALID, "'%s' is neither a file nor a directory", from);
	if (S_ISREG(st.st_mode) && cmd_cp_split_target(&c->arena, to->path, from, &dir, &name) < 0)
		return cay_fail(err, CAY_E_INVALID, "cp: missing a file name in '%s'", to->path);
	return cmd_cp_send_tree(c, fd, name, to, dir,
				S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0, ret, err);
}

/* Copying out: the content comes from the sandbox and is not trusted. */

int raw_reply_fetch(struct cli *c, const struct api_call *call, const char *what, int fd,
		    uint64_t total, struct cay_err *err)
{
	auto_free struct transfer *carry = malloc(sizeof(*carry));
	char piece[KIB(16)];
	ssize_t n = 0;
	int r;

	if (!carry)
		return cay_no_memory(err);
	r = transfer_open(carry, &c->api, call, total, err);
	if (fd == STDOUT_FILENO)
		carry->shown = carry->bar.terminal = false;
	if (r >= 0)
		r = transfer_receive_head(carry, err);
	while (r >= 0 && (n = transfer_read(carry, piece, sizeof(piece), err)) > 0) {
		if (total && carry->moved > total) {
			r = cay_fail(err, CAY_E_MISBEHAVED,
				     "%s is longer than its stated %llu bytes", what,
				     (unsigned long long)total);
			break;
		}
		r = fd_write_all(fd, piece, (size_t)n);
		if (r < 0)
			r = cay_fail_sys(err, CAY_E_INVALID, -r, "write");
	}
	transfer_fini(carry);
	return r < 0 ? r : (int)n;
}

int raw_reply_save(struct cli *c, const struct api_call *call, const char *what, const char *file,
		   struct cay_err *err)
{
	auto_close int fd = -EBADF;

	if (!file && isatty(STDOUT_FILENO))
		return cay_fail(err, CAY_E_INVALID, "standard output is a terminal: add -o FILE");
	if (!file || str_eq(file, "-"))
		return raw_reply_fetch(c, call, what, STDOUT_FILENO, 0, err);
	fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	return fd < 0 ? cay_fail_sys(err, CAY_E_INVALID, errno, "open '%s'", file)
		      : raw_reply_fetch(c, call, what, fd, 0, err);
}

int remote_path_fetch(struct cli *c, const struct remote_path *from, int fd, uint64_t total,
		      struct cay_err *err)
{
	struct file_query query = { .path = from->path };
	struct api_call call = {
		.op = OP_FILE_READ, .ids = { from->sandbox }, .query = &query, .accept = "*/*"
	};
	auto_buf what = BUF_INIT(KIB(8));

	if (buf_printf(&what, "'%s'", from->path) < 0)
		return cay_no_memory(err);
	return raw_reply_fetch(c, &call, buf_str(&what), fd, total, err);
}

int file_content_send(struct cli *c, const struct api_call *call, int fd, uint64_t total, void *ret,
		      struct cay_err *err)
{
	auto_free struct transfer *carry = malloc(sizeof(*carry));
	char piece[KIB(16)];
	ssize_t n = 1;
	int r;

	if (!carry)
		return cay_no_memory(err);
	r = transfer_open(carry, &c->api, call, total, err);
	while (r >= 0 && n) {
		n = read(fd, piece, sizeof(piece));
		if (n < 0 && errno != EINTR)
			r = cay_fail_sys(err, CAY_E_INVALID, errno, "read the file");
		else if (n > 0)
			r = transfer_write(carry, piece, (size_t)n, err);
	}
	if (r >= 0 || r == -ECANCELED)
		r = transfer_finish_send(carry, ret, err);
	transfer_fini(carry);
	return r;
}

static mode_t cmd_cp_umask_read(void)
{
	mode_t m = umask(0);

	(void)umask(m);
	return m;
}

/* Write to a temporary name and rename, so that an old file stays until the new one is complete. */
static int cmd_cp_copy_file_out(struct cli *c, const struct remote_path *from, const char *to,
				unsigned mode, uint64_t size, struct tree_made *ret,
				struct cay_err *err)
{
	auto_buf tmp = BUF_INIT(64);
	auto_close int at = -EBADF, fd = -EBADF;
	const char *dir, *name;
	struct stat st;
	int r;

	if (stat(to, &st) == 0 && S_ISDIR(st.st_mode)) {
		auto_buf inside = BUF_INIT(KIB(8));

		if (buf_printf(&inside, "%s/", to) < 0)
			return cay_fail(err, CAY_E_INVALID, "'%s' is too long", to);
		to = arena_strndup(&c->arena, inside.data, inside.len);
	}
	if (!to || cmd_cp_split_target(&c->arena, to, from->path, &dir, &name) < 0)
		return cay_fail(err, CAY_E_INVALID, "cp: missing a file name in the target");
	at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "open '%s'", dir);
	if (buf_printf(&tmp, ".cay-%d-%llx", (int)getpid(),
		       (unsigned long long)clk_boot_ns(&clk_system)) < 0)
		return cay_no_memory(err);
	fd = path_open(at, tmp.data, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -fd, "write in '%s'", dir);
	r = remote_path_fetch(c, from, fd, size, err);
	if (r >= 0 && (fstat(fd, &st) < 0 || fchmod(fd, mode & 0777 & ~cmd_cp_umask_read()) < 0 ||
		       renameat(at, tmp.data, at, name) < 0))
		r = cay_fail_sys(err, CAY_E_INVALID, errno, "write '%s'", to);
	if (r < 0)
		(void)unlinkat(at, tmp.data, 0);
	else
		*ret = (struct tree_made){ .files = 1, .bytes = (uint64_t)st.st_size };
	return r;
}

/* The sandbox says whether the source is a directory.  Only a source written as one may be
 * unpacked into an existing local directory. */
static bool cmd_cp_path_is_dir_content(const char *path)
{
	size_t n = strlen(path);

	return str_eq(path, ".") || (n && path[n - 1] == '/') ||
	       (n > 1 && str_eq(path + n - 2, "/."));
}

static int cmd_cp_copy_tree_out(struct cli *c, const struct remote_path *from, const char *to,
				struct tree_made *ret, struct cay_err *err)
{
	struct tree_query query = { .path = from->path };
	struct api_call call = { .op = OP_TREE_GET,
				 .ids = { from->sandbox },
				 .query = &query,
				 .accept = "application/x-tar" };
	auto_free struct transfer *carry = NULL;
	auto_close int fd = -EBADF;
	struct tree_unpack how = {
		.limits = { .entries = ENTRIES_MAX,
			    .bytes = UINT64_MAX,
			    .mask = cmd_cp_umask_read() },
		.keep_modes = true,
	};
	struct tree_counts n = {}, there = {};
	int r;

	if (mkdir(to, 0777) < 0 && (errno != EEXIST || !cmd_cp_path_is_dir_content(from->path))) {
		if (errno == EEXIST)
			return cay_fail(err, CAY_E_INVALID,
					"'%s' is a directory and '%s' exists; use '%s/' to copy "
					"its contents into it",
					from->path, to, from->path);
		return cay_fail_sys(err, CAY_E_INVALID, errno, "create '%s'", to);
	}
	how.dirfd = fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "open '%s'", to);
	carry = malloc(sizeof(*carry));
	if (!carry)
		return cay_no_memory(err);
	how.read = transfer_read;
	how.arg = carry;
	r = transfer_open(carry, &c->api, &call, 0, err);
	if (r >= 0)
		r = transfer_receive_head(carry, err);
	if (r >= 0)
		r = tree_unpack(&how, &n, &there, err);
	transfer_fini(carry);
	*ret = (struct tree_made){ .files = n.files,
				   .directories = n.directories,
				   .links = n.links,
				   .bytes = n.bytes,
				   .skipped = n.skipped + there.skipped,
				   .changed = there.changed };
	return r;
}

/* "0644"; the field table has checked its form. */
static unsigned cmd_cp_mode_parse(const char *octal)
{
	unsigned mode = 0;

	for (; *octal >= '0' && *octal <= '7'; octal++)
		mode = mode << 3 | (unsigned)(*octal - '0');
	return mode;
}

static int cmd_cp_copy_out(struct cli *c, const struct remote_path *from, const char *to,
			   struct tree_made *ret, struct cay_err *err)
{
	struct file_stat_query query = { .path = from->path, .follow = true };
	struct api_call call = { .op = OP_FILE_STAT, .ids = { from->sandbox }, .query = &query };
	struct file_stat st = {};
	int r;

	if (str_eq(to, "-"))
		return remote_path_fetch(c, from, STDOUT_FILENO, 0, err);
	r = api_call(&c->api, &call, &st, err);
	if (r < 0)
		return r;
	return st.type == FILE_DIR ? cmd_cp_copy_tree_out(c, from, to, ret, err)
				   : cmd_cp_copy_file_out(c, from, to, cmd_cp_mode_parse(st.mode),
							  st.size, ret, err);
}

/* The daemon copies it; no data passes through here. */
static int cmd_cp_copy_between_sandboxes(struct cli *c, const struct remote_path *from,
					 const struct remote_path *to, struct tree_made *ret,
					 struct cay_err *err)
{
	struct tree_import request = { .from = from->sandbox, .path = from->path, .to = to->path };

	return api_call(&c->api,
			&(struct api_call){
				.op = OP_TREE_IMPORT, .ids = { to->sandbox }, .request = &request },
			ret, err);
}

static int cmd_cp_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	bool json = c->global.json;
	struct tree_made made = {};
	struct remote_path from, to;
	int r = remote_path_parse(c, w->operands[0], &from, err);

	if (r >= 0)
		r = remote_path_parse(c, w->operands[1], &to, err);
	if (r < 0)
		return r;
	if (json && !to.in_sandbox && str_eq(to.path, "-"))
		return cay_fail(err, CAY_E_INVALID,
				"cp: --json cannot be combined with writing to standard output");
	if (!from.in_sandbox && !to.in_sandbox)
		return cay_fail(err, CAY_E_INVALID,
				"cp: SOURCE or TARGET must be in a sandbox (NAME:PATH)");
	if (!to.in_sandbox)
		r = cmd_cp_copy_out(c, &from, to.path, &made, err);
	else if (from.in_sandbox)
		r = cmd_cp_copy_between_sandboxes(c, &from, &to, &made, err);
	else
		r = cmd_cp_copy_in(c, from.path, &to, &made, err);
	if (r < 0)
		return r;
	if (json)
		return print_json(&tree_made_table, &made, err);
	cmd_cp_report_skipped(&made);
	return 0;
}

const struct cmd cmd_cp = {
	CMD_USAGE("cp", "[--json] SOURCE TARGET"),
	CMD_OPERANDS(2, 2, OPERAND_LOCAL_OR_REMOTE_PATH, OPERAND_LOCAL_OR_REMOTE_PATH),
	.help = "Copy files into, out of or between sandboxes (NAME:PATH)",
	.more = "The contents of a directory are copied into the target, which is created. An "
		"existing local directory is only filled if the source ends in a slash. A file "
		"keeps its name when the target ends in a slash. Between two sandboxes, the target "
		"is the directory to copy into. - is standard input or output. Modes are kept, "
		"owners are not.\nWhen copying out of a sandbox, devices, setuid bits and links "
		"that lead out of the tree are skipped and counted.",
	.run = cmd_cp_run,
};

static int cmd_cat_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	int r = 0;

	for (size_t i = 0; i < w->n_operands && r >= 0; i++) {
		struct remote_path from;

		r = remote_path_parse_in_sandbox(c, w->operands[i], &from, err);
		if (r >= 0)
			r = remote_path_fetch(c, &from, STDOUT_FILENO, 0, err);
	}
	return r;
}

const struct cmd cmd_cat = {
	CMD_USAGE("cat", "NAME:PATH..."),
	CMD_OPERANDS(1, 64, OPERAND_LOCAL_OR_REMOTE_PATH, OPERAND_LOCAL_OR_REMOTE_PATH),
	.no_json = true,
	.help = "Print files of a sandbox",
	.run = cmd_cat_run,
};
