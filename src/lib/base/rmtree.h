/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_RMTREE_H
#define CAY_BASE_RMTREE_H
/* rmtree - remove an untrusted directory tree
 *
 * Whatever it contains: no link is followed, nothing outside is touched, and a chain of 10,000
 * directories needs no more fds or memory than one.  There is no recursion and no "..": a directory
 * inside a directory is renamed to the top first, so the tree becomes flat while it shrinks.
 *
 * No other process may use the tree.  Dying half way leaves a smaller tree, and calling again
 * continues. */

#include <stdint.h>

/* name is one component; it may be a file, and being absent is success. */
[[nodiscard]] int rmtree_at(int dirfd, const char *name);
/* The same, with -ETIME at this time of CLOCK_BOOTTIME, or a little after: some of it is gone, and
 * calling again continues. */
[[nodiscard]] int rmtree_at_until(int dirfd, const char *name, uint64_t until_ns);
/* The same for everything in a directory, which itself stays. */
[[nodiscard]] int rmtree_contents(int dirfd);
#endif
