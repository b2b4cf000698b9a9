/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_WORKDIR_H
#define CAY_INIT_CORE_WORKDIR_H
/*
 * workdir - the directory in which the image's processes start
 *
 * If an image lacks it, PID 1 creates it, owned by root, when the sandbox is claimed: other
 * runtimes do so as well.
 */

/* Does not fail if it exists; the first exec reports that it could not be created. */
void workdir_create(const char *path);
#endif
