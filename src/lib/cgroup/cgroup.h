/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CGROUP_CGROUP_H
#define CAY_CGROUP_CGROUP_H
/* cgroup - find a sandbox in the cgroup hierarchies, and read its usage.  Read-only, which needs no
 * privilege; the keeper creates, limits and kills. */
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"

enum cgroup_controller { CG_MEMORY, CG_PIDS, CG_CPU, CG_NUM };
extern const char *const cgroup_controllers[CG_NUM];

/* A directory in each hierarchy; v1[i] is -EBADF where v2 has the controller. */
struct cgroup {
	int v2;
	int v1[CG_NUM];
};

#define auto_cgroup CAY_CLEANUP(cgroup_fini) struct cgroup
#define CGROUP_INIT ((struct cgroup){ .v2 = -EBADF, .v1 = { -EBADF, -EBADF, -EBADF } })

/* The hierarchies.  Here and below ret is CGROUP_INIT before, and is finished also on failure. */
[[nodiscard]] int cgroup_open_roots(struct cgroup *ret, struct cay_err *err);
/* path ("/cay") in each of them. */
[[nodiscard]] int cgroup_open_top(const char *path, struct cgroup *ret, struct cay_err *err);
/* A sandbox below top: -ENOENT when it has none on v2; those of v1 are opened where they exist. */
[[nodiscard]] int cgroup_open_sandbox(const struct cgroup *top, const struct id *tenant,
				      const struct id *sandbox, struct cgroup *ret);
[[nodiscard]] int cgroup_open_sandbox_dir(int top, const char *tenant, const char *sandbox);
void cgroup_fini(struct cgroup *c);

/* Whether a list of words, separated by one character, has this one. */
bool cgroup_list_has_word(struct slice list, char separator, const char *word);

struct cgroup_usage {
	uint64_t memory_bytes, memory_peak, oom_kills;
	uint64_t limit_hits; /* OOM kills for its own limit; on v1, 1 if it was ever reached */
	uint64_t cpu_ns, throttled_ns, processes;
};

/* Memory of one directory and of everything below it; the kernel can take the cache back. */
[[nodiscard]] int cgroup_read_memory_usage(int dir, bool v1, uint64_t *ret);
[[nodiscard]] int cgroup_read_memory_cache(int dir, bool v1, uint64_t *ret);
/* v2; 0 without swap accounting. */
[[nodiscard]] int cgroup_read_swap(int dir, uint64_t *ret);
/* Memory that compressed devices (zram) use, which no cgroup is charged with: block_dir is
 * /sys/devices/virtual/block. */
[[nodiscard]] int cgroup_read_compressed(int block_dir, uint64_t *ret);
/* Whether processes wait at its limit, because nothing is killed there. */
bool cgroup_v1_has_waiters(int dir);

/* Only cpu_ns and memory_peak: two files instead of seven. */
[[nodiscard]] int cgroup_read_spent(const struct cgroup *c, struct cgroup_usage *ret);
[[nodiscard]] int cgroup_read_usage(const struct cgroup *c, struct cgroup_usage *ret,
				    struct cay_err *err);
#endif
