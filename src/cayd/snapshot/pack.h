/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SNAPSHOT_PACK_H
#define CAY_CAYD_SNAPSHOT_PACK_H
/*
 * pack - what a sandbox changed, or the files of a snapshot, written by the keeper and sent
 *
 *	file without a name -> wait for a worker of the keeper -> it writes -> read or send it
 *	                                  ^---- the next layer of a whole image ----'
 *
 * The keeper's worker is free when the file is written, so a client that reads slowly holds a file
 * and no worker.  The file has no name, so no crash leaves it.
 *
 * Bounded: PACKS_MAX of all, of which a tenant has no more than it leaves to the others, and one
 * at a time for tokens of a sandbox; PACK_WAIT_NS for a worker, PACK_SEND_NS to send and
 * PACK_STALL_NS without a byte sent; PACK_TAR_MAX bytes.  An archive may take half of the disk that
 * is free before sandboxes are held (sandbox/disk-watch.h), and those of a tenant together no more
 * than that.
 */
#include "cayd/core/cayd.h"
#include "cayd/snapshot/oci-image.h"
#include "wire/verb.h"

#define PACKS_MAX 16
#define PACK_TAR_MAX (UINT64_C(32) << 30)
#define PACK_ROWS_MAX MIB(64)
#define PACK_ROOM_MIN MIB(1)
#define PACK_WAIT_NS (300 * NS_PER_S)
#define PACK_SEND_NS (3600 * NS_PER_S)
#define PACK_STALL_NS (60 * NS_PER_S)

/* Whether the caller may have it and it has all its files: asked before and after, because
 * files that are removed meanwhile are not whole. */
struct pack_job;
typedef int pack_check_fn(struct cayd *c, const struct actor *by, const struct pack_job *job,
			  struct cay_err *err);

struct pack_job {
	struct id of, tenant;
	pack_check_fn *check;
	enum verb verb; /* PACK or IMAGE_PACK */
	union {
		struct verb_head head;
		struct verb_pack sandbox;
		struct verb_image_pack layer;
	} request;
	/* Of VERB_PACK_ROWS: the page that is the reply. */
	const struct change_query *query;
	struct id since; /* the snapshot that is compared with, or no noun */
	/* Of a whole image: its layers from the lowest, of which request.layer is one after the
	 * other; 0: the layer itself is the reply. */
	unsigned n_layers;
	uint8_t layers[OCI_IMAGE_LAYERS_MAX][32];
	uint64_t created_ns;
};

/* Takes over the request. */
void pack_start(struct cayd *c, struct request *rq, const struct pack_job *job);
/* Periodic: those that wait for a worker, or send for too long. */
void packs_sweep(struct cayd *c, uint64_t now);
#endif
