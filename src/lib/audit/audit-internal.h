/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUDIT_AUDIT_INTERNAL_H
#define CAY_AUDIT_AUDIT_INTERNAL_H
/* audit-internal - the parts of the audit log
 *
 *	audit-record.c      a record as a line, and back
 *	audit-segment.c   the files, and their lines
 *	audit-chain.c     the files that a chain is written to
 *	audit-shares.c    a chain for each tenant, and which files are removed
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

/* A chain of records in the files of a directory, and where the next one goes. */
struct audit_chain {
	int dirfd, fd; /* of the last file */
	uint32_t number;
	uint64_t size;
	bool dirty; /* the file is longer than that */
	struct audit_anchor end;
};

/* Open for writing at its end, or begin it; *ret_torn bytes of half a line were removed. */
[[nodiscard]] int audit_chain_find_end(struct audit_chain *c, uint64_t *ret_torn);
/* The file of a number, which is empty or was. */
[[nodiscard]] int audit_chain_begin_segment(struct audit_chain *c, uint32_t number);
/* Append the line of a record after `end`, which becomes its own. */
[[nodiscard]] int audit_chain_format(struct audit_record *rec, struct audit_anchor *end,
				     struct buf *out);
/* Remove the remains of a failed attempt after the last record before writing anything else. */
[[nodiscard]] int audit_chain_trim_torn(struct audit_chain *c);
/* All of it is durable, or none of it is in the file. */
[[nodiscard]] int audit_chain_commit(struct audit_chain *c, const struct buf *lines,
				     const struct audit_anchor *end);
/* Remove files beyond those to keep, after a record of their last one.  A failure is retried
 * when the next file is begun. */
[[nodiscard]] int audit_chain_drop_old(struct audit_chain *c, uint64_t keep, uint64_t wall_ns);
void audit_chain_fini(struct audit_chain *c);

/* Chains in one directory, each in one below it of its tenant's name.  A chain has files only while
 * it is entered, and one is at a time. */
struct audit_shares;
[[nodiscard]] int audit_shares_open(int dirfd, const struct audit_conf *conf,
				    struct audit_shares **ret);
void audit_shares_free(struct audit_shares *s);
/* The chain of a tenant ("": of the node), open for writing; *ret_torn as with
 * audit_chain_find_end().  Each one is followed by audit_shares_leave(). */
[[nodiscard]] int audit_shares_enter(struct audit_shares *s, const char *tenant,
				     struct audit_chain **ret, uint64_t *ret_torn);
/* Of the one entered last: its size may have changed.  While all have more bytes than
 * conf.total_bytes, the oldest file of the tenant that has most is removed. */
void audit_shares_leave(struct audit_shares *s);

#define AUDIT_NONE "0000000000000000000000000000000000000000000000000000000000000000"
static_assert(sizeof(AUDIT_NONE) == AUDIT_HEX_LEN + 1);
#endif
