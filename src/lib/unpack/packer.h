/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_PACKER_H
#define CAY_UNPACK_PACKER_H
/* packer - the confined child that reads a writable layer for cayd
 *
 * It writes one fd: rows (archive/change-row.h) or a tar (archive/layer-tar.h).  The attributes of
 * overlayfs are for real root, so it asks its parent about each directory, over a SEQPACKET socket:
 *
 *	child   a byte and an fd      parent   LAYER_* flags in a byte, or PACKER_FLAGS_FAILED
 *	child   struct confined_report, which is its last message */
#include "unpack/unpack-confine.h"

#define PACKER_FLAGS_FAILED 0xff

struct packer_job {
	int out_fd;
	int tree_fd;  /* detached mount of the upper directory */
	int below_fd; /* the files below it; < 0: no rows are wanted */
	int since_fd; /* of rows: compare with these files; or < 0 */
	int sock;
	uint64_t at; /* where out_fd stands: a file may have something before */
	uint64_t max_bytes;
	bool tar;
};

/* For confine_start_child(); arg: struct packer_job. */
int packer_main(void *arg, int parent);
#endif
