/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_UPLOAD_UPLOAD_H
#define CAY_CAYD_UPLOAD_UPLOAD_H
/*
 * upload - files that are put once for a group, and poured into any sandbox of it
 *
 *	PUT /v1/uploads ──► uploads/new/X ──► uploads/TENANT/GROUP/NAME ──► tree-import.c
 *
 * The directory is the truth: there is no table in memory and no row in the journal.  A group
 * is a word of the client's, so its directory is called by the word's bytes in hex; a name
 * is one that CHECK_FILE took.  What is not whole is in `new`, which is emptied at the
 * start, as is what was being removed; so is what a tenant left that is no more.
 *
 * Bounded: uploads.size bytes of a tenant, UPLOADS_GROUP files of a group, UPLOADS_FILES of a
 * tenant, UPLOADS_TENANT of them coming at once and UPLOADS_MAX of all, each within UPLOAD_NS,
 * and UPLOADS_TASKS of a tenant that list or remove, behind which groups that go wait for their
 * turn, up to UPLOADS_FORGETS; what comes is stopped while its last piece is written.  All the
 * disk's work is a worker's.
 */
#include "cayd/core/cayd.h"

#define UPLOADS_MAX 32
#define UPLOADS_TENANT 4
#define UPLOADS_TASKS 8
#define UPLOADS_FORGETS 256
#define UPLOAD_NS (3600 * NS_PER_S)
#define UPLOADS_GROUP 1000
#define UPLOADS_FILES 10000
#define UPLOAD_GROUP_MAX 63
#define UPLOAD_NAME_MAX 128
#define UPLOAD_PIECE KIB(60)

struct uploads;

/* Where one is, or all of a group ("" for name), or of a tenant ("" for both). */
struct upload_location {
	struct uploads *all;
	struct id tenant;
	char group[2 * UPLOAD_GROUP_MAX + 1]; /* in hex */
	char name[UPLOAD_NAME_MAX + 1];
};

/* Behind recovery: which tenants there are is known. */
[[nodiscard]] int uploads_open(struct cayd *c, struct cay_err *err);

/* The operations. */
void op_upload_put(struct cayd *c, struct request *rq);
void op_upload_list(struct cayd *c, struct request *rq);
void op_upload_delete(struct cayd *c, struct request *rq);

/* The uploads of a group go, or without one all of the tenant, and those that come are
 * refused in the end; fn when they have, or could not. */
typedef void uploads_fn(void *arg, const struct cay_err *outcome);
void uploads_remove_group(struct cayd *c, const struct id *tenant, const char *group,
			  uploads_fn *fn, void *arg);
/* All uploads of a deleted tenant. */
void uploads_remove_of_tenant(struct cayd *c, const struct id *tenant);

/* One that is read, a piece at a time.  fn is called once for upload_read_start() and once for each
 * upload_read_next(): with what is in `piece` now, n of them, 0 at the end.  What is opened
 * first has its size, and no piece. */
struct upload_read;
typedef void upload_read_fn(struct upload_read *r, const struct cay_err *outcome);
struct upload_read {
	struct upload_location at;
	uint64_t size, created_ns;
	size_t n;
	char piece[UPLOAD_PIECE];
	void *arg;
	upload_read_fn *fn;
	int fd;
	uv_work_t work;
	struct cay_err err;
};

/* NULL when there is no memory. */
struct upload_read *upload_read_start(struct cayd *c, const struct id *tenant, const char *group,
				      const char *name, upload_read_fn *fn, void *arg);
void upload_read_next(struct upload_read *r);
/* Not while fn is waited for; NULL is fine. */
void upload_read_free(struct upload_read *r);
#endif
