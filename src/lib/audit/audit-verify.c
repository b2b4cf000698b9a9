/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit-internal.h"

const char *const audit_verdict_names[AUDIT_NUM_VERDICTS + 1] = {
	[AUDIT_INTACT] = "ok",
	[AUDIT_UNREADABLE] = "unreadable",
	[AUDIT_OUT_OF_ORDER] = "out_of_order",
	[AUDIT_CHANGED] = "changed",
	[AUDIT_NO_SEGMENT] = "file_missing",
	[AUDIT_TRUNCATED] = "truncated",
	[AUDIT_OTHER_CHAIN] = "other_chain",
	[AUDIT_ANCHOR_DROPPED] = "anchor_dropped",
};

static const char *const audit_verdict_texts[AUDIT_NUM_VERDICTS] = {
	[AUDIT_INTACT] = "OK: hash chain intact",
	[AUDIT_UNREADABLE] = "a line is no record: it was changed, or something was inserted",
	[AUDIT_OUT_OF_ORDER] = "another record is there: one was removed, inserted or moved",
	[AUDIT_CHANGED] = "this record or the one after it was modified",
	[AUDIT_NO_SEGMENT] = "the file is missing, and no record says that it was dropped",
	[AUDIT_TRUNCATED] = "the log ends before the anchor: its last records were removed",
	[AUDIT_OTHER_CHAIN] = "the anchor's record is another one: the log was rewritten",
	[AUDIT_ANCHOR_DROPPED] = "the anchor is older than the oldest record kept: use a later one",
};

const char *audit_verdict_text(enum audit_verdict fault)
{
	return audit_verdict_texts[fault];
}

struct audit_walk {
	const struct audit_anchor *anchor;
	struct audit_report *to;
	bool based;         /* something was dropped before the first record */
	bool base_reported; /* a record says that files were dropped */
	/* of the record before */
	uint32_t segment;
	uint64_t line;
};

static int audit_walk_report(struct audit_walk *w, enum audit_verdict fault, uint32_t segment,
			     uint64_t line)
{
	w->to->verdict = fault;
	w->to->segment = segment;
	w->to->line = line;
	w->to->record = w->to->at.count + 1;
	return 1;
}

static bool audit_anchor_eq(const struct audit_anchor *a, const struct audit_anchor *b)
{
	return a->count == b->count && str_eq(a->head, b->head);
}

/* If earlier files were dropped, the first record left says how many records came before it. */
static void audit_walk_set_base(struct audit_walk *w, uint32_t segment,
				const struct audit_record *rec)
{
	struct audit_report *to = w->to;

	if (w->line || segment == 1 || rec->seq == 1)
		return;
	w->based = true;
	to->base.count = rec->seq - 1;
	memcpy(to->base.head, rec->prev, sizeof(to->base.head));
	to->at = to->base;
}

/* 1: it is wrong.  A changed record is detected by the one after it. */
static int audit_walk_check_line(struct audit_walk *w, uint32_t segment, uint64_t line,
				 struct slice text)
{
	struct audit_report *to = w->to;
	struct audit_record rec;
	int r;

	if (audit_record_parse(text.p, text.n - 1, &rec) < 0)
		return audit_walk_report(w, AUDIT_UNREADABLE, segment, line);
	audit_walk_set_base(w, segment, &rec);
	if (rec.seq != to->at.count + 1)
		return audit_walk_report(w, AUDIT_OUT_OF_ORDER, segment, line);
	if (!str_eq(rec.prev, to->at.head)) {
		(void)audit_walk_report(w, AUDIT_CHANGED, w->line ? w->segment : segment,
					w->line ? w->line : line);
		to->record -= w->line != 0;
		return 1;
	}
	r = audit_line_hash(text.p, text.n, to->at.head);
	if (r < 0)
		return r;
	to->at.count = rec.seq;
	w->segment = segment;
	w->line = line;
	if (str_eq(rec.op, AUDIT_DROPPED) && audit_anchor_eq(&rec.dropped, &to->base))
		w->base_reported = true;
	if (w->anchor && rec.seq == w->anchor->count && !audit_anchor_eq(&to->at, w->anchor)) {
		(void)audit_walk_report(w, AUDIT_OTHER_CHAIN, segment, line);
		to->record = rec.seq;
		return 1;
	}
	return 0;
}

static int audit_walk_segment(struct audit_walk *w, int dirfd, uint32_t number, bool last)
{
	int fd = audit_segment_open(dirfd, number), r;
	auto_lines l = audit_line_reader_open(fd);
	struct slice text;

	if (fd < 0)
		return fd;
	for (uint64_t line = 1;; line++) {
		r = audit_line_reader_next(&l, &text);
		if (r == -EMSGSIZE || (r == 0 && text.n && !last))
			return audit_walk_report(w, AUDIT_UNREADABLE, number, line);
		if (r == 0)
			w->to->torn = text.n;
		if (r <= 0)
			return r;
		r = audit_walk_check_line(w, number, line, text);
		if (r != 0)
			return r;
	}
}

static int audit_walk_finish(struct audit_walk *w, const struct audit_segments *all)
{
	const struct audit_report *to = w->to;
	const struct audit_anchor *anchor = w->anchor;
	uint32_t last = all->n ? all->v[all->n - 1] : 0;

	if (w->based && !w->base_reported)
		return audit_walk_report(w, AUDIT_NO_SEGMENT, all->v[0] - 1, 0);
	if (!anchor)
		return 0;
	if (anchor->count > to->at.count)
		return audit_walk_report(w, AUDIT_TRUNCATED, last, 0);
	if (anchor->count < to->base.count)
		return audit_walk_report(w, AUDIT_ANCHOR_DROPPED, 0, 0);
	if (anchor->count == to->base.count && !audit_anchor_eq(anchor, &to->base))
		return audit_walk_report(w, AUDIT_OTHER_CHAIN, 0, 0);
	return 0;
}

int audit_verify(int dirfd, const struct audit_anchor *anchor, struct audit_report *ret,
		 struct cay_err *err)
{
	struct audit_walk w = { .anchor = anchor, .to = ret };
	auto_audit_segments all = {};
	int r = audit_segments_list(dirfd, &all);

	*ret = (struct audit_report){ .at = { 0, AUDIT_NONE }, .base = { 0, AUDIT_NONE } };
	for (size_t i = 0; r == 0 && i < all.n; i++) {
		if (i && all.v[i] != all.v[i - 1] + 1)
			r = audit_walk_report(&w, AUDIT_NO_SEGMENT, all.v[i - 1] + 1, 0);
		else
			r = audit_walk_segment(&w, dirfd, all.v[i], i + 1 == all.n);
	}
	if (r == 0)
		r = audit_walk_finish(&w, &all);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "read the audit log") : 0;
}
