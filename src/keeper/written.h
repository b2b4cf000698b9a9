/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_WRITTEN_H
#define CAY_KEEPER_WRITTEN_H
/* written - how much the processes of a sandbox have written to disks */
#include "cgroup/cgroup.h"

/* Bytes by all its processes and the children they have waited for, without what was deleted
 * before it reached the disk.  Files in memory do not count. */
uint64_t cgroup_read_written(const struct cgroup *c);
#endif
