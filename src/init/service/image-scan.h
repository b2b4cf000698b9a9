/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SERVICE_IMAGE_SCAN_H
#define CAY_INIT_SERVICE_IMAGE_SCAN_H
/*
 * image-scan - start scripts and service files of the image
 *
 * Reading untrusted files can be slow, so a child does it (exec_internal.child_main) and
 * writes records to its standard output:
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
	SCAN_SOURCE = 's', /* a script for a shell to source */
	SCAN_FILE = 'f',   /* a service file, with its content */
	SCAN_LEFT = 'x',   /* a service file that is too large, or one too many */
	SCAN_MANY = 'm',   /* more scripts than SCAN_SCRIPTS_MAX */
};

struct image_scan_item {
	enum image_scan_kind kind;
	char path[SCAN_PATH_MAX + 1];
	struct slice content;
};

/* Whether the image has any of the directories; cheap. */
bool image_scan_is_needed(void);
/* In the child; its exit status. */
int child_image_scan(void *arg);
/* Cut the next record off the front; 0 at the end, -EPROTO when it is malformed. */
[[nodiscard]] int image_scan_next_item(struct slice *rest, struct image_scan_item *ret);
#endif
