/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_WORKDIR_H
#define CAY_INIT_CORE_WORKDIR_H
/*
 * workdir - the directory an image says its processes start in
 *
 * It need not be there: other runtimes make it, root's, and so do we, when the
 * sandbox becomes somebody's and before anything of theirs runs.
 */

/* Being there is fine; what cannot be made is told by the first exec. */
void workdir_create(const char *path);
#endif
