/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OCI_OCI_CONFIG_H
#define CAY_OCI_OCI_CONFIG_H
/*
 * template - the one config.json every sandbox is made from
 *
 * Compiled in; a request changes the id range, the name and two numbers (the size
 * of /dev/shm, open files), and no field of the API can widen it.  Its parts are tables:
 * capabilities, mounts, masked and read-only paths, rlimits (oci-config.c), system calls
 * (syscalls.def).
 */
#include "base/jsonw.h"

/* What the keeper shows to every sandbox, as paths on its stage; and where PID 1
 * finds itself: below /dev, which is ours and read-only. */
#define OCI_SOURCE_DEV "/see/dev"
#define OCI_SOURCE_SYS "/see/sys"
#define OCI_INIT "/dev/cay/init"

struct oci_config {
	uint32_t host_id_base; /* host id of root inside; 65,536 ids from there */
	const char *name;      /* the host name inside */
	const char *root;      /* path of the root file system */
	uint64_t shm_bytes;
	uint32_t nofile;
	/* What runs; cay-init in every sandbox, something else in probes and benches. */
	const char *const *args;
	/* A network namespace of the runtime's making instead of the caller's: for
	 * comparing with a bare runtime. */
	bool own_network;
};

void oci_config_write(const struct oci_config *o, struct jw *w);
/* "seccomp": who may ask what (syscalls.def). */
void oci_config_write_seccomp(struct jw *w);
#endif
