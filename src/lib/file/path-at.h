/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_PATH_AT_H
#define CAY_FILE_PATH_AT_H
/* path-at - file names as given by a client, and their directory
 *
 * The calling process already runs as the user, in the workspace, so a path means the same as for
 * any program there: links are followed, ".." goes up, the kernel checks permissions.  Only the
 * magic links of /proc are not followed: they lead to files this process has open, which are not
 * the user's.
 *
 * An unreachable path and a missing one give the same error. */
#include <sys/stat.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/mem.h"

#define FILE_PATH_MAX 4095
#define FILE_UNSIZED_MAX MIB(1) /* of a file that reports no size, as in /proc */

/* The bytes of the name: exactly one of the two is given.  `field` is named in the error,
 * with "_b64" added for the second. */
[[nodiscard]] int file_path_decode(const char *path, const char *path_b64, const char *field,
				   struct arena *arena, const char **ret, struct cay_err *err);
/* The other way: one of the two is set. */
[[nodiscard]] int file_path_encode(const char *name, struct arena *arena, const char **ret,
				   const char **ret_b64);

/* openat2() without magic links; adds O_CLOEXEC and O_NOCTTY, does not wait for a FIFO.  -errno. */
[[nodiscard]] int file_open(int dirfd, const char *path, int flags, mode_t mode);
/* Open a regular file to read, and stat it; anything else is refused. */
[[nodiscard]] int file_open_regular(const char *path, struct stat *ret, int *ret_fd,
				    struct cay_err *err);

/* The directory of a name (O_PATH), its last component.  "/", "." and ".." have none: -EINVAL. */
struct path_at {
	int dir;
	char name[256];
};
#define PATH_AT_INIT ((struct path_at){ .dir = -EBADF })
#define auto_path_at CAY_CLEANUP(path_at_fini) struct path_at

void path_at_fini(const struct path_at *at);
/* With `parents`, missing directories on the way are created. */
[[nodiscard]] int path_at_open(const char *path, bool parents, struct path_at *ret,
			       struct cay_err *err);
/* The same from a directory on. */
[[nodiscard]] int path_at_open_from(int dirfd, const char *path, bool parents, struct path_at *ret,
				    struct cay_err *err);
/* mkdir -p. */
[[nodiscard]] int file_mkdir_parents(int dirfd, const char *path, mode_t mode, struct cay_err *err);

/* errnum as the error of an operation on a path that was reached. */
[[nodiscard]] int file_fail(struct cay_err *err, int errnum, const char *what, const char *path);
/* The hint of permission_denied for a file: no key helps. */
#define FILE_HINT_PERMISSION \
	"the user inside the sandbox lacks permission there: choose another path, or change " \
	"owner " \
	"or mode of the file"
/* errnum of reading the file opened as fd: a file without a size is no disk failure. */
[[nodiscard]] int file_fail_read(struct cay_err *err, int errnum, int fd, const char *path);
/* errnum of looking a path up. */
[[nodiscard]] int file_fail_lookup(struct cay_err *err, int errnum, const char *path);

/* "0644"; -EINVAL. */
[[nodiscard]] int file_mode_parse(const char *text, mode_t *ret);
#endif
