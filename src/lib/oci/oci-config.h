/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OCI_OCI_CONFIG_H
#define CAY_OCI_OCI_CONFIG_H
/* oci-config - the one config.json of every sandbox
 *
 * Compiled in; a request changes the id range, the name and two numbers (the size of /dev/shm, open
 * files), and no field of the API can widen it.  Its parts are tables: capabilities, mounts, masked
 * and read-only paths, rlimits (oci-config.c), system calls (syscalls.def). */
#include "base/jsonw.h"

/* Files the keeper provides to every sandbox, as paths on its stage; and the path of PID 1's
 * program: below /dev, which is ours and read-only. */
#define OCI_SOURCE_DEV "/see/dev"
#define OCI_SOURCE_SYS "/see/sys"
#define OCI_INIT "/dev/cay/init"
#define OCI_FILTER_MAX KIB(44) /* 4,096 instructions, the kernel's maximum, in base64 */

struct oci_config {
	uint32_t host_id_base; /* host id of root inside; 65,536 ids from there */
	const char *name;      /* the host name inside */
	const char *root;      /* path of the root file system */
	uint64_t shm_bytes;
	uint32_t nofile;
	/* Program and arguments; cay-init in every sandbox, others in probes and benches. */
	const char *const *args;
	/* From oci_filter_compile(), for runtimes that take it; NULL: the rules as text. */
	const char *filter;
	/* A network namespace created by the runtime instead of the caller's: for comparison
	 * with a bare runtime. */
	bool own_network;
};

void oci_config_write(const struct oci_config *o, struct jw *w);
/* "seccomp": the allowed system calls (syscalls.def). */
void oci_config_write_seccomp(struct jw *w);
/* The same as a program for the kernel, in base64: crun takes it as an annotation and need not read
 * 14 KiB of rules in every start. */
[[nodiscard]] int oci_filter_compile(struct buf *ret);
#endif
