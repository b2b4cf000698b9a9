/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_UPLOAD_UPLOAD_H
#define CAY_CAYD_UPLOAD_UPLOAD_H
/*
 * upload - files that are sent once for a group and copied into any sandbox of it
 *
 *	PUT /v1/uploads ──► uploads/new/X ──► uploads/TENANT/GROUP/NAME ──► tree-import.c
 *
 * The directory is the truth: there is no table in memory and no row in the journal.  The
 * directory of a group is the group's name in hex; the name of an upload is checked by
 * CHECK_FILE.  Incomplete uploads and trees being removed are in `new`, which is emptied at
 * start; directories of tenants that do not exist are removed then as well.
 *
 * Bounded: uploads.size bytes of a tenant, UPLOADS_GROUP files of a group, UPLOADS_FILES of a
 * tenant, incomplete uploads beside those that have a name; UPLOADS_TENANT uploads under way of a
 * tenant, as many that are being removed, and UPLOADS_MAX of all, each within UPLOAD_NS;
 * UPLOADS_TASKS tasks of a tenant that list or remove, and up to UPLOADS_FORGETS deleted groups
 * that wait for their turn.  Reading from a client is paused while its last
 * piece is written.  All disk work is done by workers.
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
#define UPLOAD_NAME_MAX 240 /* a file name has up to 255 */
#define UPLOAD_SLASH '\x01'
#define UPLOAD_PIECE KIB(60)

struct uploads;

/* The place of an upload, of a group ("" for name), or of a tenant ("" for both). */
struct upload_location {
	struct uploads *all;
	struct id tenant;
	char group[2 * UPLOAD_GROUP_MAX + 1]; /* in hex */
	char name[UPLOAD_NAME_MAX + 1];       /* of its file: UPLOAD_SLASH for each '/' */
};

/* The name of an upload in a reply. */
void upload_name_from_disk(const char *disk, char ret[static UPLOAD_NAME_MAX + 1]);

/* After recovery, when tenants are known. */
[[nodiscard]] int uploads_open(struct cayd *c, struct cay_err *err);

/* Remove all uploads of a group, or without one of the tenant, and refuse those under way; fn gets
 * the outcome. */
typedef void uploads_fn(void *arg, const struct cay_err *outcome);
void uploads_remove_group(struct cayd *c, const struct id *tenant, const char *group,
			  uploads_fn *fn, void *arg);
void uploads_remove_of_tenant(struct cayd *c, const struct id *tenant);

/* Read an upload piece by piece. fn is called once for upload_read_start(), with the size and no
 * piece, and once for each upload_read_next(): n bytes are in `piece`, 0 at the end. */
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

/* NULL when out of memory. */
struct upload_read *upload_read_start(struct cayd *c, const struct id *tenant, const char *group,
				      const char *name, upload_read_fn *fn, void *arg);
void upload_read_next(struct upload_read *r);
/* Not while fn is awaited; NULL is fine. */
void upload_read_free(struct upload_read *r);
#endif
