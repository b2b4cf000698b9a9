/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd-backup - the state of a node in one tar archive, and back
 *
 * tar copies files, so nothing may write to them meanwhile: cayd and cay-keeper are stopped, and
 * sandboxes keep running.  The archive has secrets (token keys, registry credentials), so only
 * its owner can read it.  Sandboxes are not in it: their processes cannot be.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "cli/core/command.h"
#include "cli/print/print.h"
#include "cli/print/progress.h"
#include "cli/setup/run-program.h"

#define TAR_MS (UINT64_C(6) * 3600 * 1000)
#define PATH_LEN 4200

/* Directories of paths.state that hold what a node must not lose. */
static const char *const backup_dirs[] = { "db", "secret", "broker", "audit", "uploads", "images" };
/* And that of cay-egress, with the log of decisions, if it does not write to it now.  A node need
 * not stop the connections of its sandboxes for a backup. */
#define BACKUP_EGRESS "egress"

static bool backup_socket_listens(const char *run_dir, const char *name, int type)
{
	auto_close int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", run_dir, name);

	return fd >= 0 && n > 0 && n < (int)sizeof(at.sun_path) &&
	       (connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 || errno == EAGAIN);
}

static int backup_require_stopped(struct cli *c, struct cay_err *err)
{
	const char *run = c->settings.run_dir;

	if (geteuid() != 0)
		return cay_fail(err, CAY_E_FORBIDDEN, "only root can read the state of the node");
	if (!backup_socket_listens(run, "control.sock", SOCK_STREAM) &&
	    !backup_socket_listens(run, "box/keeper.sock", SOCK_SEQPACKET))
		return 0;
	api_hint_set(&c->api, "systemctl stop cayd cay-keeper; sandboxes keep running");
	return cay_fail(err, CAY_E_STATE, "cayd or cay-keeper is running and writes to %s",
			c->settings.state_dir);
}

static bool backup_egress_runs(const struct cli *c)
{
	return backup_socket_listens(c->settings.run_dir, "egress/egress.sock", SOCK_SEQPACKET);
}

static int backup_run_tar(struct cli *c, const char *const *argv, struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(16));
	int r = run_program_to_end(&c->arena, argv, NULL, TAR_MS, &out, err);
	struct slice text = { buf_str(&out), out.len }, line = slice_cut(&text, '\n');

	return r > 0 ? cay_fail(err, CAY_E_INTERNAL, "%.*s", (int)(line.n < 300 ? line.n : 300),
				line.p)
		     : r;
}

/* Write the archive beside its name, so that a file of that name is always whole. */
static int backup_write(struct cli *c, const char *file, const char *part, bool egress,
			struct cay_err *err)
{
	const char *state = c->settings.state_dir;
	const char *argv[13 + ARRAY_SIZE(backup_dirs)] = {
		"tar",      "--create",           "--file", part,  "--sparse",
		"--xattrs", "--xattrs-include=*", "-C",     state,
	};
	auto_close int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	auto_close int top = open(state, O_PATH | O_DIRECTORY | O_CLOEXEC);
	size_t n = 9, before = n;
	int r;

	if (fd < 0)
		return cay_fail_sys(err, errno == EEXIST ? CAY_E_CONFLICT : CAY_E_INVALID, errno,
				    "create %s", part);
	for (size_t i = 0; top >= 0 && i < ARRAY_SIZE(backup_dirs); i++)
		if (faccessat(top, backup_dirs[i], F_OK, 0) == 0)
			argv[n++] = backup_dirs[i];
	if (egress && top >= 0 && faccessat(top, BACKUP_EGRESS, F_OK, 0) == 0)
		argv[n++] = BACKUP_EGRESS;
	r = n == before ? cay_fail(err, CAY_E_NOT_FOUND, "there is no state in %s", state)
			: backup_run_tar(c, argv, err);
	if (r >= 0 && (fsync(fd) < 0 || rename(part, file) < 0))
		r = cay_fail_sys(err, cay_code_from_disk_errno(errno), errno, "write %s", file);
	if (r < 0)
		(void)unlink(part);
	return r;
}

static int cmd_backup_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const char *file = w->operands[0];
	auto_buf part = BUF_INIT(PATH_LEN), size = BUF_INIT(64);
	struct stat st = {};
	bool without_egress;
	int r = backup_require_stopped(c, err);

	if (r < 0)
		return r;
	if (access(file, F_OK) == 0)
		return cay_fail(err, CAY_E_CONFLICT, "%s exists", file);
	if (buf_printf(&part, "%s.part", file) < 0)
		return cay_fail(err, CAY_E_INVALID, "the name of the file is too long");
	without_egress = backup_egress_runs(c);
	r = backup_write(c, file, buf_str(&part), !without_egress, err);
	if (r < 0)
		return r;
	if (stat(file, &st) < 0 || byte_size_format((uint64_t)st.st_size, &size) < 0)
		buf_clear(&size);
	return print_line(err, "wrote %s, %s%s", file, buf_str(&size),
			  without_egress ? "; without the log of cay-egress, which runs" : "");
}

const struct cmd cmd_backup = {
	CMD_USAGE("backup", "FILE"),
	CMD_OPERANDS(1, 1, OPERAND_FILE),
	.needs = CMD_NEEDS_THIS_MACHINE,
	.no_json = true,
	.help = "Write the state of this node to a tar archive (as root)",
	.more = "The archive has journal, tenants, keys, templates, credentials, audit log, "
		"uploads "
		"and images, and none of the sandboxes' files, also of those that are stopped. If "
		"cay-egress is stopped, it has its log of decisions too. It has secrets: only its "
		"owner can read it. cayd and cay-keeper must be stopped meanwhile; sandboxes keep "
		"running.",
	.run = cmd_backup_run,
};

/* The journal gets its name last: a restore that was interrupted has none and can be repeated. */
static int restore_read(struct cli *c, int top, const char *file, struct cay_err *err)
{
	const char *const argv[] = {
		"tar",
		"--extract",
		"--file",
		file,
		"--preserve-permissions",
		"--same-owner",
		"--xattrs",
		"--xattrs-include=*",
		"--transform=s,^db\\(/\\|$\\),db.part\\1,S", /* not of links in images */
		"-C",
		c->settings.state_dir,
		NULL
	};
	int r = rmtree_at(top, "db.part");

	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "remove db.part");
	r = backup_run_tar(c, argv, err);
	if (r >= 0 &&
	    (syncfs(top) < 0 || renameat(top, "db.part", top, "db") < 0 || fsync(top) < 0))
		r = cay_fail_sys(err, cay_code_from_disk_errno(errno), errno, "restore db");
	return r;
}

static int cmd_restore_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const char *state = c->settings.state_dir, *file = w->operands[0];
	auto_close int top = -EBADF;
	int r = backup_require_stopped(c, err);

	if (r < 0)
		return r;
	if (access(file, R_OK) < 0)
		return cay_fail_sys(err, CAY_E_NOT_FOUND, errno, "read %s", file);
	if (mkdir(state, 0755) < 0 && errno != EEXIST)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create %s", state);
	top = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "open %s", state);
	if (faccessat(top, "db/journal.db", F_OK, 0) == 0) {
		api_hint_set(&c->api, "move the directory away; a restore replaces nothing");
		return cay_fail(err, CAY_E_CONFLICT, "%s already has a journal", state);
	}
	r = restore_read(c, top, file, err);
	return r < 0 ? r
		     : print_line(err,
				  "restored %s; start cay-keeper and cayd, then run 'cay fsck'",
				  state);
}

const struct cmd cmd_restore = {
	CMD_USAGE("restore", "FILE"),
	CMD_OPERANDS(1, 1, OPERAND_FILE),
	.needs = CMD_NEEDS_THIS_MACHINE,
	.no_json = true,
	.help = "Restore the state of a node from 'cay backup' (as root)",
	.more = "paths.state must have no journal, and cayd and cay-keeper must be stopped. Take "
		"only "
		"archives of your own: tar runs as root. Sandboxes that ran at the time of the "
		"backup "
		"end with the reason node_lost.",
	.run = cmd_restore_run,
};
