/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FACE_OUTPUT_H
#define CAY_FACE_OUTPUT_H
/* output - output of a sandbox, for clients that read it as text */
#include <jansson.h>

#include "base/str.h"
#include "wire/frame-reader.h"

#define FACE_GAP_MAX 64

/* A string, with U+FFFD for each byte that is not UTF-8.  NUL is kept.  NULL: out of memory. */
json_t *face_text(struct slice bytes);
/* "42 bytes of stdout were lost" and the end of a line, for a gap: returns the length. */
size_t face_format_gap(const struct frame_reader_item *gap, char ret[static FACE_GAP_MAX]);
#endif
