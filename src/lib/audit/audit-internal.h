/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUDIT_AUDIT_INTERNAL_H
#define CAY_AUDIT_AUDIT_INTERNAL_H
/* audit-internal - the parts of the audit log
 *
 *	audit-record.c      a record as a line, and back
 *	audit-segment.c   the files, and their lines
 *	audit.c     the queue and its writer
 *	audit-verify.c    checks the chain
 *	audit-page.c      pages of records for readers
 */
#include "audit/audit.h"
#include "base/buf.h"
#include "base/str.h"

#define SEGMENT_NAME_LEN 12 /* "00000001.log" */
#define SEGMENT_LAST 99999999

struct audit_segments {
	uint32_t *v; /* in order */
	size_t n;
};

#define auto_audit_segments CAY_CLEANUP(audit_segments_fini) struct audit_segments
void audit_segments_fini(struct audit_segments *s);
[[nodiscard]] int audit_segments_list(int dirfd, struct audit_segments *ret);
void audit_segment_format_name(uint32_t number, char ret[static SEGMENT_NAME_LEN + 1]);
/* Open for reading. */
[[nodiscard]] int audit_segment_open(int dirfd, uint32_t number);

/* A file, a line at a time. */
struct audit_line_reader {
	int fd;
	struct buf buf;
	size_t at;     /* in buf */
	uint64_t size; /* of the lines that were handed out */
};

#define auto_lines CAY_CLEANUP(audit_line_reader_fini) struct audit_line_reader
struct audit_line_reader audit_line_reader_open(int fd); /* takes the fd */
void audit_line_reader_fini(struct audit_line_reader *l);
/* 1: a line with its newline, valid until the next call. 0: end of file, *ret is the rest
 * without a newline. -EMSGSIZE: longer than a line can be. */
[[nodiscard]] int audit_line_reader_next(struct audit_line_reader *l, struct slice *ret);
/* The first record of a file; 0 when it has none, 1 when it has, -EINVAL when it is none. */
[[nodiscard]] int audit_segment_read_first(int dirfd, uint32_t number, struct audit_record *ret);

#define AUDIT_NONE "0000000000000000000000000000000000000000000000000000000000000000"
static_assert(sizeof(AUDIT_NONE) == AUDIT_HEX_LEN + 1);
#endif
