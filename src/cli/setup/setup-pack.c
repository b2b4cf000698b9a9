/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setup-pack - an image of this machine's own programs
 *
 * For a first sandbox without a network: a shell, common tools and their libraries.  It
 * holds nothing else of the machine: no settings, accounts, homes or keys.  Only root's
 * files below /usr/bin and /usr/lib are packed.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "archive/tar.h"
#include "base/path.h"
#include "cli/setup/run-program.h"
#include "cli/setup/setup.h"

#define FILES_MAX 512
#define ONE_MAX MIB(64)

/* clang-format off */
static const char *const programs[] = {
	"bash", "sh", "ls", "cat", "cp", "mv", "rm", "mkdir", "rmdir", "ln", "chmod", "chown", "touch",
	"echo", "printf", "true", "false", "test", "[", "env", "id", "whoami", "pwd", "date", "sleep",
	"head", "tail", "wc", "sort", "uniq", "cut", "tr", "tee", "seq", "stat", "basename", "dirname",
	"readlink", "realpath", "mktemp", "dd", "du", "df", "sha256sum", "md5sum", "base64", "od", "nl",
	"nproc", "uname", "hostname", "yes", "expr", "timeout", "nohup", "tty", "grep", "sed", "awk",
	"find", "xargs", "tar", "gzip", "diff", "cmp", "ps", "kill", "curl", "jq",
};
/* clang-format on */

static const struct {
	enum tar_type type;
	unsigned mode;
	const char *name, *link, *content;
} extras[] = {
	{ TAR_SYMLINK, 0777, "bin", "usr/bin", "" },
	{ TAR_SYMLINK, 0777, "sbin", "usr/sbin", "" },
	{ TAR_SYMLINK, 0777, "lib", "usr/lib", "" },
	{ TAR_SYMLINK, 0777, "lib64", "usr/lib64", "" },
	{ TAR_DIRECTORY, 0755, "usr/sbin", NULL, "" },
	{ TAR_DIRECTORY, 01777, "tmp", NULL, "" },
	{ TAR_DIRECTORY, 0700, "root", NULL, "" },
	{ TAR_DIRECTORY, 0755, "workspace", NULL, "" },
	{ TAR_FILE, 0644, "etc/passwd", NULL,
	  "root:x:0:0:root:/root:/bin/bash\n"
	  "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" },
	{ TAR_FILE, 0644, "etc/group", NULL, "root:x:0:\nnogroup:x:65534:\n" },
};

struct setup_packer {
	struct arena *arena;
	struct tar_writer tar;
	int fd;
	const char *seen[FILES_MAX];
	size_t n_seen;
};

static int setup_pack_write(void *arg, const void *p, size_t n, struct cay_err *err)
{
	int r = fd_write_all(((const struct setup_packer *)arg)->fd, p, n);

	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "write the image") : 0;
}

static int setup_pack_add_extras(struct setup_packer *k, struct cay_err *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(extras); i++) {
		struct tar_entry e = { .type = extras[i].type,
				       .name = extras[i].name,
				       .link = extras[i].link,
				       .mode = extras[i].mode,
				       .size = strlen(extras[i].content) };

		r = tar_write_entry(&k->tar, &e, err);
		if (r >= 0 && e.size)
			r = tar_write_data(&k->tar, extras[i].content, e.size, err);
	}
	return r;
}

/* "/lib/x" becomes "usr/lib/x": lib is a link, see extras. */
static const char *setup_pack_path(struct arena *arena, const char *path)
{
	auto_buf name = BUF_INIT(4097);
	bool whole = strncmp(path, "/usr/", 5) == 0;

	if (buf_printf(&name, "%s%s", whole ? "" : "usr", whole ? path + 1 : path) < 0)
		return NULL;
	return arena_strndup(arena, buf_str(&name), name.len);
}

static int setup_pack_add_bytes(struct setup_packer *k, int fd, uint64_t left, struct cay_err *err)
{
	char piece[KIB(64)];
	int r = 0;

	while (r >= 0 && left) {
		ssize_t n = read(fd, piece, left < sizeof(piece) ? left : sizeof(piece));

		if (n <= 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, n < 0 ? errno : EIO, "read");
		r = tar_write_data(&k->tar, piece, (size_t)n, err);
		left -= (uint64_t)n;
	}
	return r;
}

/* Add a file once.  1: it is missing or not suitable. */
static int setup_pack_add_file(struct setup_packer *k, const char *path, struct cay_err *err)
{
	const char *name = setup_pack_path(k->arena, path);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct tar_entry e;
	struct stat st;
	int r;

	if (!name || k->n_seen == FILES_MAX)
		return cay_fail(err, CAY_E_NO_MEMORY, "too many files for an image");
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != 0 ||
	    st.st_size > (off_t)ONE_MAX)
		return 1;
	for (size_t i = 0; i < k->n_seen; i++)
		if (str_eq(k->seen[i], name))
			return 0;
	k->seen[k->n_seen++] = name;
	e = (struct tar_entry){ TAR_FILE, name, .mode = 0755, .size = (uint64_t)st.st_size };
	r = tar_write_entry(&k->tar, &e, err);
	return r < 0 ? r : setup_pack_add_bytes(k, fd, e.size, err);
}

/* Each library of "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)". */
static int setup_pack_add_libraries(struct setup_packer *k, struct slice text, struct cay_err *err)
{
	int r = 0;

	while (r >= 0 && text.p) {
		struct slice line = slice_cut(&text, '\n'), word;
		const char *path = NULL;

		while (line.p && !path) {
			word = slice_cut(&line, ' ');
			while (word.n && word.p[0] == '\t')
				word = (struct slice){ word.p + 1, word.n - 1 };
			if (word.n > 1 && word.p[0] == '/')
				path = arena_strndup(k->arena, word.p, word.n);
		}
		if (path && (strncmp(path, "/lib", 4) == 0 || strncmp(path, "/usr/lib", 8) == 0))
			r = setup_pack_add_file(k, path, err);
	}
	return r;
}

/* Add a program and its libraries; 1: it is missing. */
static int setup_pack_add_program(struct setup_packer *k, const char *name, struct cay_err *err)
{
	auto_buf path = BUF_INIT(64), out = BUF_INIT(KIB(16));
	const char *argv[] = { "ldd", NULL, NULL };
	int r = buf_printf(&path, "/usr/bin/%s", name);

	if (r < 0)
		return cay_no_memory(err);
	r = setup_pack_add_file(k, buf_str(&path), err);
	if (r)
		return r;
	argv[1] = buf_str(&path);
	/* ldd fails for a static program, which needs no libraries */
	r = run_program_to_end(k->arena, argv, NULL, 10000, &out, err);
	if (r < 0)
		return r;
	return setup_pack_add_libraries(k, (struct slice){ buf_str(&out), out.len }, err) < 0 ? -EIO
											      : 0;
}

int setup_pack_image(struct arena *arena, int *ret_fd, size_t *ret_programs, struct cay_err *err)
{
	auto_close int fd = memfd_create("image", MFD_CLOEXEC);
	struct setup_packer k = { .arena = arena, .fd = fd };
	int r;

	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a file for the image");
	tar_writer_init(&k.tar, setup_pack_write, &k);
	r = setup_pack_add_extras(&k, err);
	*ret_programs = 0;
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(programs); i++) {
		r = setup_pack_add_program(&k, programs[i], err);
		*ret_programs += r == 0;
	}
	if (r >= 0)
		r = tar_write_end(&k.tar, err);
	tar_writer_fini(&k.tar);
	if (r >= 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = cay_fail_sys(err, CAY_E_INTERNAL, errno, "read the image");
	if (r < 0)
		return r;
	*ret_fd = cay_take_fd(&fd);
	return 0;
}
