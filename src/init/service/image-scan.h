/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SERVICE_IMAGE_SCAN_H
#define CAY_INIT_SERVICE_IMAGE_SCAN_H
/*
 * scan - what the image has for its start: scripts, and files about services
 *
 * Looking at a stranger's files can be slow and is done in a child (job_own.inside),
 * which writes what it found as records to its standard output:
 *
 *	KIND LENGTH PATH\n, and LENGTH bytes
 */
#include "base/str.h"

#define SCAN_SCRIPTS_MAX 64
#define SCAN_FILES_MAX 64
#define SCAN_BYTES_MAX KIB(512) /* of all files */
#define SCAN_PATH_MAX 119

enum image_scan_kind {
	SCAN_RUN = 'r',    /* a script to run */
	SCAN_SOURCE = 's', /* one for a shell to read */
	SCAN_FILE = 'f',   /* a file of services, with its content */
	SCAN_LEFT = 'x',   /* one that is too large, or one too many */
	SCAN_MANY = 'm',   /* there are more scripts than may be */
};

struct image_scan_item {
	enum image_scan_kind kind;
	char path[SCAN_PATH_MAX + 1];
	struct slice content;
};

/* Whether there is any of the directories at all; looking is cheap. */
bool image_scan_is_needed(void);
/* In the child; its exit status. */
int child_image_scan(void *arg);
/* The next record off the front; 0 at the end, -EPROTO when it is none. */
[[nodiscard]] int image_scan_next_item(struct slice *rest, struct image_scan_item *ret);
#endif
