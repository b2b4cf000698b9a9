/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_PATH_H
#define CAY_BASE_PATH_H
/* path - files by directory fd and openat2, never by composed strings.  A path that came from a
 * sandbox, an image or a client is resolved by the kernel inside a directory we hold, so links and
 * ".." cannot lead out and nothing can be swapped between a check and its use. */
#include <sys/types.h>

#include "base/buf.h"
#include "base/mem.h"

/* Open below dirfd: no way out, no magic links, every symlink is refused with
 * -ELOOP.  flags as for openat(); O_CLOEXEC is added. */
[[nodiscard]] int path_open(int dirfd, const char *path, int flags, mode_t mode);
/* The same, with dirfd as the root: symlinks are followed but end inside. */
[[nodiscard]] int path_open_in_root(int dirfd, const char *path, int flags, mode_t mode);
/* Append the file's content; -EFBIG when it is larger than the buffer allows,
 * -EINVAL when it is not a regular file. */
[[nodiscard]] int path_read(int dirfd, const char *path, struct buf *ret);
/* The same, with dirfd as the root: symlinks are followed but end inside. */
[[nodiscard]] int path_read_in_root(int dirfd, const char *path, struct buf *ret);
/* Replace a file so that a crash leaves the old or the new content, complete, and a success
 * survives power loss. name has no slash, dirfd is open for reading.  The temporary file is new and
 * has a random name, so writers do not collide and nothing planted is written through.  A crash may
 * leave it: the owner of the directory calls path_remove_tmp_files() at start. */
[[nodiscard]] int path_write_atomic(int dirfd, const char *name, const void *p, size_t n,
				    mode_t mode);
/* Each name in a directory but "." and "..", until fn returns other than 0, which is returned. */
typedef int path_fn(void *arg, int dirfd, const char *name);
[[nodiscard]] int path_for_each_entry(int dirfd, path_fn *fn, void *arg);
/* Remove files left in a directory by writers that died.  No writer may be active. */
[[nodiscard]] int path_remove_tmp_files(int dirfd);
/* All n bytes or an error. */
[[nodiscard]] int fd_write_all(int fd, const void *p, size_t n);
#endif
