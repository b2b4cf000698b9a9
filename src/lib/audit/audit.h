/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUDIT_AUDIT_H
#define CAY_AUDIT_AUDIT_H
/* audit - a tamper-evident log of requests and their outcomes
 *
 * A record is a line of JSON with a number that increases by one and the SHA-256 of the line before
 * it, newline included, so that `tail -n 1 FILE | sha256sum` is the head.  Lines are in
 * NNNNNNNN.log; a full file is followed by the next, and the chain continues through all of them.
 * The chain alone cannot reveal a truncated end, or a chain rewritten by a process that may write
 * the files: for that its owner stores {count, head} of some moment elsewhere, and audit_verify()
 * compares the files with it.
 *
 * One writer thread takes all records queued while it was busy, writes them and calls fdatasync
 * once.  If no request waits for a record, it may also wait for more of them.  The queue is
 * bounded: a caller reserves a place before it starts its operation, and is refused if there is
 * none.  Records that could not be reserved are counted, and the count becomes a record when there
 * is room again.  If the disk fails, records wait in memory and are retried; each waiting request
 * is notified of the failure once.
 *
 * Records other than operations: AUDIT_CUT (a crash left half a line, which was never
 * acknowledged), AUDIT_MISSED, AUDIT_DROPPED (the oldest files were removed; count and head are of
 * their last record).
 *
 * Threading: audit_*() of a struct audit are for the loop thread; fn is called from it and never
 * from inside audit_append(). audit_verify() and audit_read_page() need no struct audit and may run
 * in any thread or process, also while records are written. */
#include <uv.h>

#include "base/clock.h"
#include "base/err.h"

#define AUDIT_LINE_MAX KIB(4)  /* with its newline */
#define AUDIT_PENDING_MAX 4096 /* records that wait for the disk, and reservations */
#define AUDIT_PENDING_OF_TENANT_MAX (AUDIT_PENDING_MAX / 4) /* where each has a chain */
#define AUDIT_SEGMENT_MIN KIB(4)                            /* a line always fits */
#define AUDIT_HEX_LEN 64

#define AUDIT_CUT "audit.cut"
#define AUDIT_MISSED "audit.missed"
#define AUDIT_DROPPED "audit.dropped"

/* How many records, and the hash of the last; of none, 64 zeros. */
struct audit_anchor {
	uint64_t count;
	char head[AUDIT_HEX_LEN + 1];
};

/* Text that is "" is absent.  Bytes that are not printable ASCII are written as '?'. */
struct audit_record {
	uint64_t seq;     /* the writer's */
	uint64_t wall_ns; /* to the millisecond */
	char tenant[32], key[32];
	char op[48];
	char target[32]; /* id of the operation's object */
	char outcome[32];
	char request_id[24];
	char peer[48];
	char detail[160];
	struct audit_anchor dropped; /* of AUDIT_DROPPED only */
	char prev[AUDIT_HEX_LEN + 1];
};

/* A text of a record, cut to its room. */
#define audit_set(member, text) audit_record_set_text(member, sizeof(member), text)
void audit_record_set_text(char *to, size_t size, const char *text);

/* A line without its newline; -EINVAL unless it is exactly what audit_record_format() writes. */
[[nodiscard]] int audit_record_parse(const char *line, size_t n, struct audit_record *ret);
struct buf;
[[nodiscard]] int audit_record_format(const struct audit_record *rec, struct buf *out);
/* Of a line with its newline. */
[[nodiscard]] int audit_line_hash(const char *line, size_t n, char ret[static AUDIT_HEX_LEN + 1]);

struct audit;

struct audit_conf {
	uint64_t segment_bytes; /* a file is full */
	uint64_t keep;          /* how many files, at least 2 */
	const struct clk *clk;
	uint64_t gather_ns; /* so long a record without fn may wait for others; 0: it does not */
	int (*confine)(int dirfd); /* the writer's thread, before it writes; may be NULL */
	/* 0: one chain.  Else each tenant has one, in a directory of its name; beyond so many bytes
	 * the tenant that has most loses its oldest file. */
	uint64_t total_bytes;
};

/* Once: CAY_OK when it is durable, else why not yet; it is tried again. */
typedef void audit_fn(void *arg, const struct cay_err *outcome);

/* Files below dirfd, which must stay open; blocks.  A last record that cannot be read is
 * refused (INTERNAL): nothing can be appended to it. */
[[nodiscard]] int audit_open(int dirfd, const struct audit_conf *conf, uv_loop_t *loop,
			     struct audit **ret, struct cay_err *err);
/* Room for one record; CAY_E_UNAVAILABLE when there is none. */
[[nodiscard]] int audit_slot_reserve(struct audit *a, struct cay_err *err);
/* Give it back. */
void audit_slot_release(struct audit *a);
/* Its time is now.  reserved: it takes a reservation, and cannot fail for room.  False: it
 * was only counted, fn will not be called.  fn may be NULL. */
bool audit_append(struct audit *a, const struct audit_record *rec, bool reserved, audit_fn *fn,
		  void *arg);
/* The durable head, where there is one chain. */
struct audit_anchor audit_get_durable_head(struct audit *a);

struct audit_stats {
	uint64_t pending;
	uint64_t failed; /* attempts at the disk */
	uint64_t missed; /* records that are only a count */
};
struct audit_stats audit_get_stats(struct audit *a);
/* Write the queued records, call their fn, stop; blocks.  The loop's next iteration frees
 * the rest.  NULL is fine. */
void audit_close(struct audit *a);

enum audit_verdict {
	AUDIT_INTACT,
	AUDIT_UNREADABLE,     /* a line is no record */
	AUDIT_OUT_OF_ORDER,   /* a record is in the place of another */
	AUDIT_CHANGED,        /* a record is not the one the next was chained to */
	AUDIT_NO_SEGMENT,     /* a file is missing, and no record says that it was dropped */
	AUDIT_TRUNCATED,      /* the anchor's record is not there yet, or any more */
	AUDIT_OTHER_CHAIN,    /* the anchor's record is another one */
	AUDIT_ANCHOR_DROPPED, /* the anchor's record was dropped */
	AUDIT_NUM_VERDICTS
};

struct audit_report {
	enum audit_verdict verdict;
	struct audit_anchor at;   /* as far as it is right */
	struct audit_anchor base; /* records dropped before */
	uint64_t torn;            /* bytes of half a line at the end, which count as nothing */
	uint32_t segment;         /* where it is wrong */
	uint64_t line;            /* in that file, from 1; 0: the file */
	uint64_t record;          /* the number that belongs there */
};

extern const char *const audit_verdict_names[AUDIT_NUM_VERDICTS + 1]; /* ended by NULL */
/* Text for people. */
const char *audit_verdict_text(enum audit_verdict fault);

/* Walk every file to the first place that is wrong.  anchor may be NULL.  -errno only
 * when the files cannot be read. */
[[nodiscard]] int audit_verify(int dirfd, const struct audit_anchor *anchor,
			       struct audit_report *ret, struct cay_err *err);

/* Up to max records from number `from` (or the oldest there is) on; how many. */
[[nodiscard]] int audit_read_page(int dirfd, uint64_t from, struct audit_record *ret, size_t max,
				  struct cay_err *err);
#endif
