/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/spawn.h"
#include "cli/print/print.h"
#include "cli/transfer/remote-path.h"
#include "text/hex.h"

#define DIGEST 32

/* The local copy: a private directory with one file. */
struct edit_copy {
	char dir[64], path[128];
	char before[2 * DIGEST + 1], after[2 * DIGEST + 1];
};

static int cmd_edit_hash_file(const char *path, char ret[static 2 * DIGEST + 1],
			      struct cay_err *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	uint8_t digest[DIGEST];
	char piece[KIB(16)];
	ssize_t n = -1;
	bool ok = fd >= 0 && ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;

	while (ok && (n = read(fd, piece, sizeof(piece))) > 0)
		ok = EVP_DigestUpdate(ctx, piece, (size_t)n) == 1;
	ok = ok && n == 0 && EVP_DigestFinal_ex(ctx, digest, NULL) == 1;
	EVP_MD_CTX_free(ctx);
	if (!ok)
		return cay_fail(err, CAY_E_INTERNAL, "cannot read the copy '%s'", path);
	hex_encode(digest, sizeof(digest), ret);
	return 0;
}

static int cmd_edit_fetch_copy(struct cli *c, const struct remote_path *at, struct edit_copy *copy,
			       struct cay_err *err)
{
	static const char form[] = "/tmp/cay-edit-XXXXXX";
	auto_close int fd = -EBADF;
	int r;

	memcpy(copy->dir, form, sizeof(form));
	if (!mkdtemp(copy->dir))
		return cay_fail_sys(err, CAY_E_INVALID, errno, "create a directory in /tmp");
	if (snprintf(copy->path, sizeof(copy->path), "%s/file", copy->dir) >=
	    (int)sizeof(copy->path))
		return cay_fail(err, CAY_E_INTERNAL, "the name is too long");
	fd = open(copy->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "create a copy in /tmp");
	r = remote_path_fetch(c, at, fd, 0, err);
	return r < 0 ? r : cmd_edit_hash_file(copy->path, copy->before, err);
}

static void cmd_edit_remove_copy(const struct edit_copy *copy)
{
	if (copy->path[0])
		(void)unlink(copy->path);
	if (copy->dir[0])
		(void)rmdir(copy->dir);
}

static int cmd_edit_run_editor(const struct edit_copy *copy, struct cay_err *err)
{
	static const char line[] = "exec ${VISUAL:-${EDITOR:-vi}} \"$1\"";
	const char *const argv[] = { "sh", "-c", line, "sh", copy->path, NULL };
	struct spawn s = SPAWN_INIT("/bin/sh", argv);
	auto_child child = CHILD_INIT;
	int status = 0, r;

	s.env = (const char *const *)environ;
	s.fds[0] = STDIN_FILENO;
	s.fds[1] = STDOUT_FILENO;
	s.fds[2] = STDERR_FILENO;
	s.n_fds = 3;
	r = child_start(&s, &child, err);
	if (r >= 0 && child_wait(&child, &status) < 0)
		status = -1;
	if (r >= 0 && status)
		return cay_fail(err, CAY_E_INVALID, "the editor failed; nothing was written");
	return r;
}

static int cmd_edit_write_back(struct cli *c, const struct remote_path *at,
			       const struct edit_copy *copy, struct cay_err *err)
{
	struct file_write_query query = { .path = at->path,
					  .if_sha256 = copy->before,
					  .sha256 = copy->after };
	struct api_call call = { .op = OP_FILE_WRITE,
				 .ids = { at->sandbox },
				 .query = &query,
				 .content_type = "application/octet-stream",
				 .body_length = HTTP_CLIENT_CHUNKED };
	auto_close int fd = open(copy->path, O_RDONLY | O_CLOEXEC);
	struct file_written written;

	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "read the copy");
	return file_content_send(c, &call, fd, 0, &written, err);
}

static int cmd_edit_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	struct edit_copy copy = {};
	struct remote_path at;
	bool keep = false;
	int r = remote_path_parse_in_sandbox(c, w->operands[0], &at, err);

	if (r >= 0)
		r = cmd_edit_fetch_copy(c, &at, &copy, err);
	if (r >= 0)
		r = cmd_edit_run_editor(&copy, err);
	if (r >= 0)
		r = cmd_edit_hash_file(copy.path, copy.after, err);
	if (r >= 0 && str_eq(copy.before, copy.after)) {
		print_note("no changes");
	} else if (r >= 0) {
		r = cmd_edit_write_back(c, &at, &copy, err);
		keep = r < 0; /* do not lose the user's edits */
	}
	if (keep)
		print_note("%s; your version is in %s",
			   err->code == CAY_E_CONFLICT ? "the file was changed in the meantime"
						       : "the file was not written",
			   copy.path);
	else
		cmd_edit_remove_copy(&copy);
	return r;
}

const struct cmd cmd_edit = {
	CMD_USAGE("edit", "NAME:PATH"),
	CMD_OPERANDS(1, 1, OPERAND_LOCAL_OR_REMOTE_PATH),
	.no_json = true,
	.help = "Edit a file of a sandbox with $VISUAL, $EDITOR or vi",
	.more = "The editor opens a copy. It is written back only if the file has not changed in "
		"the meantime; otherwise the copy is kept and its path printed.",
	.run = cmd_edit_run,
};
