/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit-internal.h"

const char *const audit_fault_names[AUDIT_NUM_FAULTS + 1] = {
	[AUDIT_FINE] = "ok",
	[AUDIT_UNREADABLE] = "unreadable",
	[AUDIT_ORDER] = "out_of_order",
	[AUDIT_CHANGED] = "changed",
	[AUDIT_NO_SEGMENT] = "file_missing",
	[AUDIT_TRUNCATED] = "truncated",
	[AUDIT_OTHER] = "other_chain",
	[AUDIT_FORGOTTEN] = "anchor_dropped",
};

static const char *const fault_texts[AUDIT_NUM_FAULTS] = {
	[AUDIT_FINE] = "every record is as it was written",
	[AUDIT_UNREADABLE] = "a line is no record: it was changed, or something was inserted",
	[AUDIT_ORDER] = "another record stands there: one was removed, inserted or moved",
	[AUDIT_CHANGED] = "the record was changed, or what was written behind it",
	[AUDIT_NO_SEGMENT] = "the file is missing, and no record says that it was dropped",
	[AUDIT_TRUNCATED] = "the log ends before the anchor: its last records were removed",
	[AUDIT_OTHER] = "the anchor's record is another one: the log was written anew",
	[AUDIT_FORGOTTEN] = "the anchor is older than the oldest record kept: use a later one",
};

const char *audit_fault_text(enum audit_fault fault)
{
	return fault_texts[fault];
}

struct walk {
	const struct audit_anchor *anchor;
	struct audit_report *to;
	bool based;     /* something was dropped before the first record */
	bool base_told; /* and a record says so */
	/* of the record before */
	uint32_t segment;
	uint64_t line;
};

static int wrong(struct walk *w, enum audit_fault fault, uint32_t segment, uint64_t line)
{
	w->to->fault = fault;
	w->to->segment = segment;
	w->to->line = line;
	w->to->record = w->to->at.count + 1;
	return 1;
}

static bool same(const struct audit_anchor *a, const struct audit_anchor *b)
{
	return a->count == b->count && str_eq(a->head, b->head);
}

/* The first record of files whose predecessors are gone says what was before it. */
static void begin(struct walk *w, uint32_t segment, const struct audit_record *rec)
{
	struct audit_report *to = w->to;

	if (w->line || segment == 1 || rec->seq == 1)
		return;
	w->based = true;
	to->base.count = rec->seq - 1;
	memcpy(to->base.head, rec->prev, sizeof(to->base.head));
	to->at = to->base;
}

/* 1: it is wrong.  What was changed is found by the record behind it. */
static int step(struct walk *w, uint32_t segment, uint64_t line, struct slice text)
{
	struct audit_report *to = w->to;
	struct audit_record rec;
	int r;

	if (audit_line_read(text.p, text.n - 1, &rec) < 0)
		return wrong(w, AUDIT_UNREADABLE, segment, line);
	begin(w, segment, &rec);
	if (rec.seq != to->at.count + 1)
		return wrong(w, AUDIT_ORDER, segment, line);
	if (!str_eq(rec.prev, to->at.head)) {
		(void)wrong(w, AUDIT_CHANGED, w->line ? w->segment : segment,
			    w->line ? w->line : line);
		to->record -= w->line != 0;
		return 1;
	}
	r = audit_hash(text.p, text.n, to->at.head);
	if (r < 0)
		return r;
	to->at.count = rec.seq;
	w->segment = segment;
	w->line = line;
	if (str_eq(rec.op, AUDIT_DROPPED) && same(&rec.dropped, &to->base))
		w->base_told = true;
	if (w->anchor && rec.seq == w->anchor->count && !same(&to->at, w->anchor)) {
		(void)wrong(w, AUDIT_OTHER, segment, line);
		to->record = rec.seq;
		return 1;
	}
	return 0;
}

static int walk_segment(struct walk *w, int dirfd, uint32_t number, bool last)
{
	int fd = segment_open(dirfd, number), r;
	auto_lines l = lines_of(fd);
	struct slice text;

	if (fd < 0)
		return fd;
	for (uint64_t line = 1;; line++) {
		r = lines_next(&l, &text);
		if (r == -EMSGSIZE || (r == 0 && text.n && !last))
			return wrong(w, AUDIT_UNREADABLE, number, line);
		if (r == 0)
			w->to->torn = text.n;
		if (r <= 0)
			return r;
		r = step(w, number, line, text);
		if (r != 0)
			return r;
	}
}

static int walk_end(struct walk *w, const struct segments *all)
{
	const struct audit_report *to = w->to;
	const struct audit_anchor *anchor = w->anchor;
	uint32_t last = all->n ? all->v[all->n - 1] : 0;

	if (w->based && !w->base_told)
		return wrong(w, AUDIT_NO_SEGMENT, all->v[0] - 1, 0);
	if (!anchor)
		return 0;
	if (anchor->count > to->at.count)
		return wrong(w, AUDIT_TRUNCATED, last, 0);
	if (anchor->count < to->base.count)
		return wrong(w, AUDIT_FORGOTTEN, 0, 0);
	if (anchor->count == to->base.count && !same(anchor, &to->base))
		return wrong(w, AUDIT_OTHER, 0, 0);
	return 0;
}

int audit_verify(int dirfd, const struct audit_anchor *anchor, struct audit_report *ret,
		 struct cay_err *err)
{
	struct walk w = { .anchor = anchor, .to = ret };
	auto_segments all = {};
	int r = segments_list(dirfd, &all);

	*ret = (struct audit_report){ .at = { 0, AUDIT_NONE }, .base = { 0, AUDIT_NONE } };
	for (size_t i = 0; r == 0 && i < all.n; i++) {
		if (i && all.v[i] != all.v[i - 1] + 1)
			r = wrong(&w, AUDIT_NO_SEGMENT, all.v[i - 1] + 1, 0);
		else
			r = walk_segment(&w, dirfd, all.v[i], i + 1 == all.n);
	}
	if (r == 0)
		r = walk_end(&w, &all);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "read the audit log") : 0;
}
