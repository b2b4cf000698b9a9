/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_DESKTOP_VIEWER_FILES_H
#define CAY_EDGE_DESKTOP_VIEWER_FILES_H
/*
 * viewer-files - what a browser loads to show a screen
 *
 * A page of ours, compiled in, and the modules of noVNC from a directory of the node.  All are read
 * at start, because the edge opens no files later; less than VIEWER_FILES_BYTES.
 */
#include "base/err.h"
#include "base/str.h"

#define VIEWER_FILES_MAX 128
#define VIEWER_FILES_BYTES MIB(4)

struct viewer_files;

struct viewer_file {
	struct slice content;
	const char *media;
	bool fixed; /* of noVNC: the same for everyone, and until the next start */
};

/* Read noVNC.  Without it *ret has no modules, which is no failure. */
[[nodiscard]] int viewer_files_read(const char *novnc, struct viewer_files **ret,
				    struct cay_err *err);
/* Whether there is a noVNC. */
bool viewer_files_are_whole(const struct viewer_files *v);
/* By the path of a URL; for a viewer who may control, or not.  False: there is none. */
bool viewer_files_find(const struct viewer_files *v, struct slice path, bool controls,
		       struct viewer_file *ret);
void viewer_files_free(struct viewer_files *v);

/* viewer-page.c */
extern const struct slice viewer_html, viewer_css, viewer_js;
#endif
