/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUDIT_AUDIT_INTERNAL_H
#define CAY_AUDIT_AUDIT_INTERNAL_H
/*
 * audit-internal - the parts of the audit log
 *
 *	line.c      a record as a line, and back
 *	segment.c   the files, and their lines
 *	audit.c     the queue and its writer
 *	verify.c    is it what was written?
 *	page.c      records for who reads them
 */
#include "audit/audit.h"
#include "base/buf.h"
#include "base/str.h"

#define SEGMENT_NAME_LEN 12 /* "00000001.log" */
#define SEGMENT_LAST 99999999

struct segments {
	uint32_t *v; /* in order */
	size_t n;
};

#define auto_segments CAY_CLEANUP(segments_fini) struct segments
void segments_fini(struct segments *s);
[[nodiscard]] int segments_list(int dirfd, struct segments *ret);
void segment_name(uint32_t number, char ret[static SEGMENT_NAME_LEN + 1]);
/* Open for reading. */
[[nodiscard]] int segment_open(int dirfd, uint32_t number);

/* A file, a line at a time. */
struct lines {
	int fd;
	struct buf buf;
	size_t at;     /* in buf */
	uint64_t size; /* of the lines that were handed out */
};

#define auto_lines CAY_CLEANUP(lines_fini) struct lines
struct lines lines_of(int fd); /* takes the fd */
void lines_fini(struct lines *l);
/* 1: a line with its newline, until the next call.  0: the end, *ret is what is left
 * without a newline.  -EMSGSIZE: longer than a line can be. */
[[nodiscard]] int lines_next(struct lines *l, struct slice *ret);
/* The first record of a file; 0 when it has none, 1 when it has, -EINVAL when it is none. */
[[nodiscard]] int segment_first(int dirfd, uint32_t number, struct audit_record *ret);

#define AUDIT_NONE "0000000000000000000000000000000000000000000000000000000000000000"
static_assert(sizeof(AUDIT_NONE) == AUDIT_HEX_LEN + 1);
#endif
