/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_KERNEL_PICTURE_H
#define CAY_CLI_KERNEL_PICTURE_H
/*
 * picture - pictures and documents that code showed: a file, or drawn on the terminal
 *
 * The bytes come from a sandbox.  Names of files are ours, never overwrite a file and never follow
 * a link.  A terminal gets a PNG by the kitty graphics protocol only, as base64 that is encoded
 * here, with its answers switched off (docs/adr/0103).
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define PICTURE_MAX MIB(16) /* bytes of one */

/* Whether stdout is a terminal that draws PNGs: by its environment, or as CAY_GRAPHICS (kitty,
 * none) says. */
bool picture_is_drawn_here(void);
/* Open the directory for pictures, as an O_PATH fd: what fails then fails before code runs. */
[[nodiscard]] int picture_open_dir(const char *dir, struct cay_err *err);
/* Write it to a new file of this extension in dir, "picture-N.png"; path gets its name.  N is the
 * first free number from *next on, which is set to the number after it. */
[[nodiscard]] int picture_save(const char *dir, const char *extension, struct slice bytes,
			       unsigned *next, struct buf *path, struct cay_err *err);
/* Append the escape sequences that draw it.  -EINVAL: it is not a PNG that may be drawn. */
[[nodiscard]] int picture_append_drawing(struct buf *out, struct slice png);
#endif
