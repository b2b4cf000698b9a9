/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_PLATFORM_OCI_H
#define CAY_TESTS_PLATFORM_OCI_H
/*
 * oci - bundles and runtimes for the programs which drive crun and runc
 *
 * The one place where these programs write a config.json.  The container gets
 * no capabilities, no_new_privs, and all the namespaces Cay uses.
 */
#include "platform.h"

struct oci {
	const char *const *args; /* of the process; "/guest" is platform-guest */
	uint32_t live;           /* its user namespace's ids start here; 0: none */
	bool dev_tmpfs;          /* the usual tmpfs on /dev */
	const char *dev_link;    /* the image's /dev is a symlink to this, or NULL */
};

/* NAME/{config.json,rootfs} in the work directory. */
void oci_bundle(const struct plat *p, const char *name, const struct oci *o);

struct oci_runtime {
	const char *name;
	const char *option; /* before the verb, or NULL */
};

#define OCI_CGROUP "/sys/fs/cgroup"
#define OCI_NUM_RUNTIMES 2
extern const struct oci_runtime oci_runtimes[OCI_NUM_RUNTIMES];

/*
 * Show the runtimes our own cgroup as /sys/fs/cgroup, in this mount namespace.
 * From here on p->cgroup, a path below it, is out of sight.
 *
 * Two reasons, both seen: crun 1.28 refuses a hybrid host whose v2 hierarchy
 * has a controller ("cgroups in hybrid mode not supported"), also with
 * --cgroup-manager=disabled; and runc, which has no such option, then makes its
 * cgroup below ours and nowhere else.
 */
void oci_show_cgroup(const struct plat *p);

/* One `RUNTIME run` of a bundle. */
struct oci_call {
	const struct oci_runtime *rt;
	const char *bundle;
	const int *fds; /* the runtime gets them as 3.. */
	unsigned n_fds;
	unsigned n_keep; /* the container is to get the first so many of them */
	bool detach;     /* the runtime ends when the container has started */
};

void oci_start(const struct plat *p, const struct oci_call *call, int out_fd, struct child *ret);
/* Start and reap; what it printed is appended to out. */
int oci_run(const struct plat *p, const struct oci_call *call, struct buf *out);
#endif
