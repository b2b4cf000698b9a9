/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/fsck.h"

#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "cayd/ask.h"
#include "cayd/event.h"
#include "cayd/key.h"
#include "cayd/link.h"
#include "cayd/record.h"
#include "cayd/resize.h"
#include "cayd/template.h"
#include "cayd/tenant.h"
#include "wire/hello.h"

#define FINDINGS_MAX 1000
#define ROWS_MAX 65536
/* Past its deadline by more than a sweep can be late. */
#define LATE_NS (UINT64_C(2) * NS_PER_S)

/* What the machine has, in the order of ids. */
struct facts {
	struct verb_list_row *rows;
	size_t n, room;
};

static void facts_fini(struct facts *f)
{
	free(f->rows);
	*f = (struct facts){};
}

static int facts_add(struct facts *f, const struct verb_list_reply *page)
{
	if (!page->n_rows)
		return 0;
	if (f->n + page->n_rows > f->room) {
		size_t room = f->room ? 2 * f->room : 1024;
		struct verb_list_row *rows =
			room > ROWS_MAX ? NULL : realloc(f->rows, room * sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		f->rows = rows;
		f->room = room;
	}
	memcpy(&f->rows[f->n], page->rows, page->n_rows * sizeof(*page->rows));
	f->n += page->n_rows;
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct verb_list_row *x = a, *y = b;

	return memcmp(&x->sandbox, &y->sandbox, sizeof(x->sandbox));
}

static const struct verb_list_row *facts_find(const struct facts *f, const struct id *id)
{
	struct verb_list_row key = { .sandbox = *id };

	return f->n ? bsearch(&key, f->rows, f->n, sizeof(key), by_id) : NULL;
}

/* Recovery */

static int facts_now(struct cayd *c, struct facts *ret, struct cay_err *err)
{
	alignas(uint64_t) char msg[VERB_MESSAGE_MAX];
	struct verb_list_reply page;
	struct verb_list q = {};

	do {
		int r = link_call_now(c->link, VERB_LIST, &q, msg, err);

		if (r < 0)
			return r;
		memcpy(&page, msg, sizeof(page));
		if (facts_add(ret, &page) < 0)
			return cay_fail(err, CAY_E_NO_MEMORY, "more sandboxes than there can be");
		if (page.more && !page.n_rows)
			return cay_fail(err, CAY_E_UNAVAILABLE, "the list changes too fast");
		if (page.n_rows)
			q.after = page.rows[page.n_rows - 1].sandbox;
	} while (page.more);
	return 0;
}

static bool is_ours(const struct box *b, const struct verb_list_row *row)
{
	return row && row->generation == b->life.generation && row->range == b->range;
}

struct waking {
	struct box *box;
	struct life_facts facts;
};

static void wake(struct box *b, const struct life_facts *facts)
{
	struct life_event ev = { .kind = LIFE_FACTS, .facts = *facts };

	if (!facts->same_boot)
		b->why = "the machine was restarted";
	else if (!facts->there || !facts->processes)
		b->why = "it was gone when cayd came back";
	(void)box_happens(b, &ev);
	b->why = NULL;
	resize_again(b);
}

static void on_hello(void *arg, unsigned status, struct slice body, const struct cay_err *)
{
	struct waking *w = arg;
	struct hello h = {};

	if (status == 200 && hello_decode((const uint8_t *)body.p, body.n, &h) >= 0 &&
	    hello_choose(&h, HELLO_PROTO_MIN, HELLO_PROTO_MAX) > 0) {
		w->facts.answers = h.features & HELLO_CLAIMED;
		w->facts.unclaimed = !(h.features & (HELLO_CLAIMED | HELLO_TOLD));
		w->facts.entered = h.features & HELLO_ENTERED;
	}
	wake(w->box, &w->facts);
	box_unhold(w->box);
	free(w);
}

/* The pidfd was opened between two looks that both saw this process: it is it. */
static void adopt(struct box *b, const struct verb_list_row *row, int pidfd, bool same_boot)
{
	/* nobody is entered twice because PID 1 was slow to say that it was */
	struct life_facts facts = { .same_boot = same_boot,
				    .there = is_ours(b, row),
				    .entered = true };
	struct waking *w;

	if (facts.there && pidfd >= 0) {
		facts.started_ns = row->started_boot_ns;
		facts.processes = row->processes;
		facts.frozen = row->frozen;
		if (b->life.state < SB_ENDING && box_watch(b, pidfd) < 0)
			facts.processes = 0;
	} else {
		cay_closep(&pidfd);
	}
	/* only PID 1 knows whether it was claimed, and whether its entrypoint was started */
	if (!facts.processes || facts.frozen || (b->life.state != SB_PENDING && !b->life.entry)) {
		wake(b, &facts);
		return;
	}
	w = malloc(sizeof(*w));
	if (!w) {
		wake(b, &facts);
		return;
	}
	*w = (struct waking){ b, facts };
	b->holds++;
	ask(b->cayd, &b->info.id, "GET", INIT_PATH_HELLO, (struct slice){}, on_hello, w);
}

static int on_row(void *arg, const struct db_row *row, struct cay_err *)
{
	struct cayd *c = arg;
	struct cay_err why = {};
	struct box *b;

	/* what cannot be read is left as it is; its sandbox is foreign then */
	if (record_read(c, row, &b, &why) < 0)
		log_error(&c->log, "a row of the journal is not used: %s", why.msg);
	else
		b->other_boot = !str_eq(row->boot, c->boot);
	return 0;
}

static int on_event(void *arg, const struct db_event *e, struct cay_err *)
{
	(void)event_restore(arg, e, NULL);
	return 0;
}

static int on_entry(void *arg, const struct db_entry *e, struct cay_err *)
{
	struct cayd *c = arg;
	struct cay_err why = {};

	int r = e->id.noun == ID_TEMPLATE ? template_restore(c, e, &why)
		: e->id.noun == ID_KEY    ? key_restore(c, e, &why)
					  : tenant_restore(c, e, &why);

	if (r < 0)
		log_error(&c->log, "a tenant, key or template of the journal is not used: %s",
			  why.msg);
	return 0;
}

static void on_bad(void *arg, const struct id *, const struct cay_err *why)
{
	struct cayd *c = arg;

	log_error(&c->log, "%s", why->msg);
}

static int *open_pids(struct cayd *c, const struct facts *f)
{
	int *fds = malloc((f->n + 1) * sizeof(*fds));

	for (size_t i = 0; fds && i < f->n; i++) {
		const struct box *b = box_find(c->boxes, &f->rows[i].sandbox);
		bool wanted = b && b->life.state < SB_ENDING && !b->other_boot && f->rows[i].pid;

		fds[i] = wanted ? pidfd_open((pid_t)f->rows[i].pid, 0) : -EBADF;
		if (wanted && fds[i] < 0 && errno != ESRCH) { /* that is no news of it */
			while (i-- > 0)
				cay_closep(&fds[i]);
			free(fds);
			return NULL;
		}
	}
	return fds;
}

static void wake_all(struct cayd *c, const struct facts *first, int *fds, const struct facts *again)
{
	for (struct box *b = boxes_newest(c->boxes), *next; b; b = next) {
		const struct verb_list_row *was = facts_find(first, &b->info.id);
		const struct verb_list_row *is = facts_find(again, &b->info.id);
		int pidfd = -EBADF;

		next = b->older;
		if (was && is && was->pid == is->pid && was->started_boot_ns == is->started_boot_ns)
			pidfd = cay_take_fd(&fds[was - first->rows]);
		if (life_over(&b->life))
			cay_closep(&pidfd);
		else
			adopt(b, is, pidfd, !b->other_boot);
	}
	for (size_t i = 0; i < first->n; i++)
		cay_closep(&fds[i]);
}

static void tell_foreign(struct cayd *c, const struct facts *f)
{
	char id[ID_TEXT_LEN + 1];

	for (size_t i = 0; i < f->n; i++) {
		if (box_find(c->boxes, &f->rows[i].sandbox))
			continue;
		boxes_keep_range(c->boxes, f->rows[i].range);
		id_format(&f->rows[i].sandbox, id);
		log_warn(&c->log, "%s is not in the journal: left as it is", id);
	}
}

/* What is there, twice, with pidfds opened in between. */
static int look(struct cayd *c, struct facts *first, struct facts *again, struct cay_err *err)
{
	int *fds, r = facts_now(c, first, err);

	if (r < 0)
		return r;
	fds = open_pids(c, first);
	if (!fds)
		return cay_fail_sys(err, CAY_E_NO_MEMORY, errno, "open pidfds");
	r = facts_now(c, again, err);
	if (r >= 0 && fault(FAULT_RECOVER_LOOKED) < 0)
		r = cay_fail(err, CAY_E_INTERNAL, "failpoint");
	if (r >= 0) {
		tell_foreign(c, again);
		wake_all(c, first, fds, again);
	}
	free(fds);
	return r;
}

int recover(struct cayd *c, struct cay_err *err)
{
	struct db_reader reader = { .row = on_row,
				    .event = on_event,
				    .bad = on_bad,
				    .events = EVENTS_KEPT,
				    .arg = c,
				    .entry = on_entry };
	struct facts first = {}, again = {};
	int r = db_load(c->db, &reader, err);

	if (r >= 0 && fault(FAULT_RECOVER_LOADED) < 0)
		r = cay_fail(err, CAY_E_INTERNAL, "failpoint");
	if (r >= 0)
		r = look(c, &first, &again, err);
	facts_fini(&first);
	facts_fini(&again);
	return r;
}

/* The operation */

struct checking {
	struct cayd *cayd;
	struct request *rq;
	struct facts facts;
	struct verb_list q;
	uint64_t began;
	bool repair;
};

struct findings {
	struct fsck_row rows[FINDINGS_MAX];
	size_t n;
};

static void find(struct findings *f, struct pool *pool, const struct id *id, enum fsck_kind kind,
		 const char *detail)
{
	if (f->n < FINDINGS_MAX)
		f->rows[f->n++] =
			(struct fsck_row){ *id, kind, pool_strn(pool, detail, strlen(detail)),
					   false };
}

static bool listens(const struct box *b)
{
	auto_buf path = BUF_INIT(128);
	char id[ID_TEXT_LEN + 1];
	struct stat st;

	id_format(&b->info.id, id);
	/* whether it may be written to decides about connect() */
	return buf_printf(&path, "%s/box/%s", b->cayd->settings.run_dir, id) < 0 ||
	       (lstat(path.data, &st) == 0 && S_ISSOCK(st.st_mode) && access(path.data, W_OK) == 0);
}

static const char *const details[FSCK_NUM] = {
#define CAY_FSCK(sym, name, detail, ...) [FSCK_##sym] = detail,
#include "ops/fsck.def"
#undef CAY_FSCK
};

/* FSCK_NUM: nothing is wrong with it. */
static enum fsck_kind check(const struct box *b, const struct verb_list_row *row, uint64_t now)
{
	const struct life *l = &b->life;

	/* without its record, what is left has no generation */
	if (life_over(l) && row)
		return !row->generation || row->generation == l->generation ? FSCK_LEFTOVER
									    : FSCK_OTHER;
	if (l->state != SB_RUNNING && l->state != SB_PAUSED)
		return FSCK_NUM; /* it is on its way */
	if (!row || !row->pid || !row->processes)
		return FSCK_LOST;
	if (!is_ours(b, row))
		return FSCK_OTHER;
	if (row->started_boot_ns != l->started_ns)
		return FSCK_REPLACED;
	if (!listens(b))
		return FSCK_DEAF;
	if (now > l->expires_ns && now - l->expires_ns > LATE_NS)
		return FSCK_OVERDUE;
	return FSCK_NUM;
}

static void on_leftover(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct box *b = arg;

	cay_closep(&fd);
	if (outcome->code)
		log_error(&b->cayd->log, "remove what was left: %s", outcome->msg);
	box_unhold(b);
}

static bool repair(struct box *b, enum fsck_kind kind)
{
	struct verb_box q = { .sandbox = b->info.id, .generation = b->life.generation };

	switch (kind) {
	case FSCK_LOST:
	case FSCK_REPLACED:
	case FSCK_OTHER:
	case FSCK_DEAF:
		if (life_over(&b->life))
			return false;
		box_end(b, END_NODE_LOST, details[kind]);
		return true;
	case FSCK_LEFTOVER:
		b->holds++;
		link_call(b->cayd->link, VERB_REMOVE, &q, -EBADF, on_leftover, b);
		return true;
	case FSCK_OVERDUE:
		(void)box_happens(b, &(struct life_event){ .kind = LIFE_DUE });
		return true;
	case FSCK_FOREIGN:
	case FSCK_NUM:
		break;
	}
	return false;
}

[[gnu::nonnull]] static void compare(struct checking *k, struct findings *f, uint64_t *ret_checked)
{
	struct cayd *c = k->cayd;
	uint64_t now = clk_boot_ns(c->clk);

	for (struct box *b = boxes_newest(c->boxes); b; b = b->older) {
		enum fsck_kind kind;

		/* what changed while we looked is not what we saw */
		if (b->life.doing != DO_NOTHING || b->unsaved || b->changed_boot >= k->began)
			continue;
		++*ret_checked;
		kind = check(b, facts_find(&k->facts, &b->info.id), now);
		if (kind == FSCK_NUM)
			continue;
		find(f, &k->rq->pool, &b->info.id, kind, details[kind]);
		if (k->repair && f->n)
			f->rows[f->n - 1].repaired = repair(b, kind);
	}
	for (size_t i = 0; i < k->facts.n; i++)
		if (!box_find(c->boxes, &k->facts.rows[i].sandbox))
			find(f, &k->rq->pool, &k->facts.rows[i].sandbox, FSCK_FOREIGN,
			     details[FSCK_FOREIGN]);
}

static void finish(struct checking *k, const struct cay_err *outcome)
{
	struct findings *f = k->rq ? pool_take(&k->rq->pool, 1, sizeof(*f)) : NULL;
	struct fsck_list list = {};
	struct cay_err err = {};

	if (k->rq && outcome->code) {
		request_fail(k->rq, outcome);
	} else if (k->rq && !f) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		request_fail(k->rq, &err);
	} else if (k->rq) {
		compare(k, f, &list.checked);
		list.findings = (struct field_list){ f->rows, f->n };
		request_reply_json(k->rq, &fsck_list_table, &list);
	}
	facts_fini(&k->facts);
	free(k);
}

static void on_page(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct checking *k = arg;
	struct verb_list_reply page = {};
	struct cay_err err = *outcome;

	cay_closep(&fd);
	if (!err.code) {
		memcpy(&page, reply, sizeof(page));
		if (facts_add(&k->facts, &page) < 0)
			(void)cay_fail(&err, CAY_E_NO_MEMORY, "more sandboxes than there can be");
		else if (page.more && !page.n_rows)
			(void)cay_fail(&err, CAY_E_UNAVAILABLE, "the list changes too fast");
	}
	if (err.code || !page.more || !k->rq) {
		finish(k, &err);
		return;
	}
	k->q.after = page.rows[page.n_rows - 1].sandbox;
	link_call(k->cayd->link, VERB_LIST, &k->q, -EBADF, on_page, k);
}

static void on_gone(struct request *rq)
{
	struct checking *k = rq->data;

	k->rq = NULL;
}

void fsck_run(struct cayd *c, struct request *rq)
{
	static const struct request_events events = { .gone = on_gone };
	struct checking *k = calloc(1, sizeof(*k));
	struct cay_err err = {};

	if (!k) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		request_fail(rq, &err);
		return;
	}
	*k = (struct checking){ .cayd = c,
				.rq = rq,
				.began = clk_boot_ns(c->clk),
				.repair = rq->match.op == &ops[OP_FSCK_REPAIR] };
	rq->data = k;
	rq->events = &events;
	link_call(c->link, VERB_LIST, &k->q, -EBADF, on_page, k);
}
