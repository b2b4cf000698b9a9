/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/observe/fsck.h"
#include "cayd/core/handlers.h"

#include <sys/pidfd.h>
#include <sys/stat.h>

#include "base/failpoint.h"
#include "cayd/core/deferred-reply.h"
#include "cayd/core/init-call.h"
#include "cayd/core/keeper-link.h"
#include "cayd/observe/event.h"
#include "cayd/observe/fsck-volumes.h"
#include "cayd/sandbox/kept-keys.h"
#include "cayd/sandbox/record.h"
#include "cayd/sandbox/resize.h"
#include "cayd/snapshot/snapshot.h"
#include "cayd/template/template.h"
#include "cayd/tenant/api-key.h"
#include "cayd/tenant/tenant.h"
#include "cayd/volume/volume.h"
#include "wire/hello.h"

#define ROWS_MAX 65536
/* More overdue than a late sweep explains. */
#define LATE_NS (UINT64_C(2) * NS_PER_S)

/* What the keeper finds on the machine, sorted by id. */
struct keeper_list {
	struct verb_list_row *rows;
	size_t n, room;
	struct id stuck; /* one of the n_stuck whose files cannot be removed */
	uint32_t n_stuck;
};

static void keeper_list_fini(struct keeper_list *f)
{
	free(f->rows);
	*f = (struct keeper_list){};
}

static int keeper_list_append(struct keeper_list *f, const struct verb_list_reply *page,
			      struct cay_err *err)
{
	if (page->more && !page->n_rows)
		return cay_fail(err, CAY_E_UNAVAILABLE, "cay-keeper's list changes too fast");
	f->stuck = page->stuck;
	f->n_stuck = page->n_stuck;
	if (!page->n_rows)
		return 0;
	if (f->n + page->n_rows > f->room) {
		size_t room = f->room ? 2 * f->room : 1024;
		struct verb_list_row *rows =
			room > ROWS_MAX ? NULL : realloc(f->rows, room * sizeof(*rows));

		if (!rows)
			return cay_fail(err, CAY_E_NO_MEMORY,
					"cay-keeper lists too many sandboxes");
		f->rows = rows;
		f->room = room;
	}
	memcpy(&f->rows[f->n], page->rows, page->n_rows * sizeof(*page->rows));
	f->n += page->n_rows;
	return 0;
}

static int keeper_row_compare_id(const void *a, const void *b)
{
	const struct verb_list_row *x = a, *y = b;

	return memcmp(&x->sandbox, &y->sandbox, sizeof(x->sandbox));
}

static const struct verb_list_row *keeper_list_find(const struct keeper_list *f,
						    const struct id *id)
{
	struct verb_list_row key = { .sandbox = *id };

	return f->n ? bsearch(&key, f->rows, f->n, sizeof(key), keeper_row_compare_id) : NULL;
}

/* Recovery */

static int keeper_list_fetch_blocking(struct cayd *c, struct keeper_list *ret, struct cay_err *err)
{
	alignas(uint64_t) char msg[VERB_MESSAGE_MAX];
	struct verb_list_reply page;
	struct verb_list q = {};

	do {
		int r = keeper_call_blocking(c->keeper, VERB_LIST, &q, msg, err);

		if (r < 0)
			return r;
		memcpy(&page, msg, sizeof(page));
		r = keeper_list_append(ret, &page, err);
		if (r < 0)
			return r;
		if (page.n_rows)
			q.after = page.rows[page.n_rows - 1].sandbox;
	} while (page.more);
	return 0;
}

static bool sandbox_matches_keeper_row(const struct sandbox *sb, const struct verb_list_row *row)
{
	return row && row->generation == sb->life.generation && row->range == sb->uid_range;
}

struct recovery_hello {
	struct sandbox *sandbox;
	struct life_observation facts;
};

static void recovery_apply_facts(struct sandbox *sb, const struct life_observation *facts)
{
	struct life_event ev = { .kind = LIFE_OBSERVED, .observed = *facts };

	if (life_is_at_rest(&sb->life))
		sb->end_detail = "its files were gone when cayd started";
	else if (!facts->same_boot)
		sb->end_detail = "the machine was restarted";
	else if (!facts->exists || !facts->processes)
		sb->end_detail = "it was gone when cayd started";
	(void)sandbox_apply_event(sb, &ev);
	sb->end_detail = NULL;
	resize_retry(sb);
}

static void on_recovery_hello_reply(void *arg, unsigned status, struct slice body,
				    const struct cay_err *)
{
	struct recovery_hello *w = arg;
	struct hello h = {};

	if (status == 200 && hello_decode((const uint8_t *)body.p, body.n, &h) >= 0 &&
	    hello_choose_version(&h, HELLO_PROTO_MIN, HELLO_PROTO_MAX) > 0) {
		w->facts.claimed = h.features & HELLO_CLAIMED;
		w->facts.unclaimed = !(h.features & (HELLO_CLAIMED | HELLO_CLAIM_RECEIVED));
		w->facts.entrypoint_started = h.features & HELLO_ENTRYPOINT_STARTED;
	}
	recovery_apply_facts(w->sandbox, &w->facts);
	sandbox_release(w->sandbox);
	free(w);
}

/* The pidfd was opened between two lists that both show this process, so it refers to it. */
static void recovery_adopt_sandbox(struct sandbox *sb, const struct verb_list_row *row, int pidfd,
				   bool same_boot)
{
	/* assume the entrypoint was started: a slow PID 1 must not cause a second start */
	struct life_observation facts = { .same_boot = same_boot,
					  .exists = sandbox_matches_keeper_row(sb, row),
					  .entrypoint_started = true };
	struct recovery_hello *w = NULL;

	if (facts.exists && pidfd >= 0) {
		facts.started_ns = row->started_boot_ns;
		facts.processes = row->processes;
		facts.frozen = row->frozen;
		if (sb->life.state < SB_ENDING && sandbox_watch_pid1(sb, pidfd) < 0)
			facts.processes = 0;
	} else {
		cay_closep(&pidfd);
	}
	/* only PID 1 knows whether it was claimed, and whether its entrypoint was started */
	if (facts.processes && !facts.frozen &&
	    (sb->life.state == SB_PENDING || sb->life.state == SB_STARTING || sb->life.entry))
		w = malloc(sizeof(*w));
	if (!w) {
		recovery_apply_facts(sb, &facts);
		return;
	}
	*w = (struct recovery_hello){ sb, facts };
	sb->holds++;
	init_call(sb->cayd, &sb->info.id, "GET", INIT_PATH_HELLO, (struct slice){},
		  on_recovery_hello_reply, w);
}

static int on_recovery_row(void *arg, const struct db_sandbox *row, struct cay_err *)
{
	struct cayd *c = arg;
	struct cay_err why = {};
	struct sandbox *sb;

	/* an unreadable row is left alone; its sandbox is then foreign */
	if (sandbox_record_read(c, row, &sb, &why) < 0)
		log_error(&c->log, "ignoring a row of the journal: %s", why.msg);
	else
		sb->other_boot = !str_eq(row->boot, c->boot);
	return 0;
}

static int on_recovery_event(void *arg, const struct db_event *e, struct cay_err *)
{
	struct cayd *c = arg;
	struct cay_err why = {};

	if (event_restore(c, e, &why) < 0)
		log_error(&c->log, "ignoring an event of the journal: %s", why.msg);
	return 0;
}

static int on_recovery_entry(void *arg, const struct db_entry *e, struct cay_err *)
{
	struct cayd *c = arg;
	struct cay_err why = {};

	int r = e->id.noun == ID_TEMPLATE   ? template_restore(c, e, &why)
		: e->id.noun == ID_KEY      ? key_restore(c, e, &why)
		: e->id.noun == ID_SANDBOX  ? kept_key_restore(c, e, &why)
		: e->id.noun == ID_SNAPSHOT ? snapshot_restore(c, e, &why)
		: e->id.noun == ID_VOLUME   ? volume_restore(c, e, &why)
					    : tenant_restore(c, e, &why);

	if (r < 0)
		log_error(&c->log, "ignoring a row of the journal: %s", why.msg);
	if (r < 0 && e->id.noun == ID_SNAPSHOT)
		c->snapshot_unread = true;
	if (r < 0 && e->id.noun == ID_VOLUME)
		c->volume_unread = true;
	return 0;
}

static void on_recovery_bad_row(void *arg, const struct id *, const struct cay_err *why)
{
	struct cayd *c = arg;

	log_error(&c->log, "%s", why->msg);
}

static int *recovery_open_pidfds(struct cayd *c, const struct keeper_list *f)
{
	int *fds = malloc((f->n + 1) * sizeof(*fds));

	for (size_t i = 0; fds && i < f->n; i++) {
		const struct sandbox *sb = sandbox_find(c->sandboxes, &f->rows[i].sandbox);
		bool wanted = sb && sb->life.state < SB_ENDING && !sb->other_boot && f->rows[i].pid;

		fds[i] = wanted ? pidfd_open((pid_t)f->rows[i].pid, 0) : -EBADF;
		if (wanted && fds[i] < 0 &&
		    errno != ESRCH) { /* an error of ours, not the end of the process */
			while (i-- > 0)
				cay_closep(&fds[i]);
			free(fds);
			return NULL;
		}
	}
	return fds;
}

static void recovery_adopt_all(struct cayd *c, const struct keeper_list *first, int *fds,
			       const struct keeper_list *again)
{
	for (struct sandbox *sb = sandboxes_newest(c->sandboxes), *next; sb; sb = next) {
		const struct verb_list_row *was = keeper_list_find(first, &sb->info.id);
		const struct verb_list_row *is = keeper_list_find(again, &sb->info.id);
		int pidfd = -EBADF;

		next = sb->older;
		if (was && is && was->pid == is->pid && was->started_boot_ns == is->started_boot_ns)
			pidfd = cay_take_fd(&fds[was - first->rows]);
		if (life_is_finished(&sb->life))
			cay_closep(&pidfd);
		else
			recovery_adopt_sandbox(sb, is, pidfd, !sb->other_boot);
	}
	for (size_t i = 0; i < first->n; i++)
		cay_closep(&fds[i]);
}

static void recovery_warn_foreign(struct cayd *c, const struct keeper_list *f)
{
	char id[ID_TEXT_LEN + 1];

	for (size_t i = 0; i < f->n; i++) {
		if (sandbox_find(c->sandboxes, &f->rows[i].sandbox))
			continue;
		uid_range_reserve(c->sandboxes, f->rows[i].range);
		id_format(&f->rows[i].sandbox, id);
		log_warn(&c->log, "%s is not in the journal; leaving it alone", id);
	}
}

static void on_foreign_removed(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct cayd *c = arg;

	cay_closep(&fd);
	if (outcome->code)
		log_error(&c->log, "cannot end a foreign sandbox: %s", outcome->msg);
	if (!--c->foreign_ending)
		db_loss_accept_finish(c->db_dir);
}

/* End a sandbox that the journal lacks. */
static void foreign_end(struct cayd *c, const struct verb_list_row *row)
{
	struct verb_sandbox q = { .sandbox = row->sandbox, .generation = row->generation };
	char id[ID_TEXT_LEN + 1];

	id_format(&row->sandbox, id);
	log_warn(&c->log, "ending %s, which is not in the journal", id);
	c->foreign_ending++;
	keeper_call(c->keeper, VERB_REMOVE, &q, -EBADF, on_foreign_removed, c);
}

/* The operator accepted a journal that lost its past. */
static void recovery_end_foreign(struct cayd *c, const struct keeper_list *f)
{
	c->foreign_ending++; /* until all of them are begun */
	for (size_t i = 0; i < f->n; i++)
		if (!sandbox_find(c->sandboxes, &f->rows[i].sandbox))
			foreign_end(c, &f->rows[i]);
	on_foreign_removed(c, &(struct cay_err){}, NULL, -EBADF);
}

/* List the machine twice, and open pidfds in between. */
static int recovery_inspect_machine(struct cayd *c, struct keeper_list *first,
				    struct keeper_list *again, struct cay_err *err)
{
	int *fds, r = keeper_list_fetch_blocking(c, first, err);

	if (r < 0)
		return r;
	fds = recovery_open_pidfds(c, first);
	if (!fds)
		return cay_fail_sys(err, CAY_E_NO_MEMORY, errno, "open pidfds");
	r = keeper_list_fetch_blocking(c, again, err);
	if (r >= 0 && failpoint_hit(FAULT_RECOVER_LOOKED) < 0)
		r = cay_fail(err, CAY_E_INTERNAL, "failpoint");
	if (r >= 0) {
		recovery_warn_foreign(c, again);
		recovery_adopt_all(c, first, fds, again);
		if (db_loss_is_accepted(c->db_dir))
			recovery_end_foreign(c, again);
	}
	free(fds);
	return r;
}

int recovery_run(struct cayd *c, struct cay_err *err)
{
	struct db_reader reader = {
		.row = on_recovery_row,
		.event = on_recovery_event,
		.bad = on_recovery_bad_row,
		.events = DB_NUMBER_MAX, /* the last number of each tenant is in one */
		.arg = c,
		.entry = on_recovery_entry
	};
	struct keeper_list first = {}, again = {};
	int r = db_load(c->db, &reader, err);

	if (r >= 0 && failpoint_hit(FAULT_RECOVER_LOADED) < 0)
		r = cay_fail(err, CAY_E_INTERNAL, "failpoint");
	if (r >= 0)
		r = recovery_inspect_machine(c, &first, &again, err);
	keeper_list_fini(&first);
	keeper_list_fini(&again);
	return r;
}

/* The operation */

struct fsck_pass {
	struct cayd *cayd;
	struct request *rq;
	struct keeper_list facts;
	struct verb_list q;
	uint64_t began;
	bool repair, end_foreign;
	uint64_t older_ns; /* least age of a foreign sandbox that is ended */
	struct fsck_volumes volumes;
};

/* The row, for what is done about it; NULL when there is no room: only reported ones are
 * repaired, and the next pass finds the rest. */
static struct fsck_row *fsck_finding_add(struct fsck_findings *f, struct arena *arena,
					 const struct id *id, enum fsck_kind kind,
					 const char *detail)
{
	struct fsck_row *row = f->n < FSCK_FINDINGS_MAX ? &f->rows[f->n++] : NULL;

	if (row)
		*row = (struct fsck_row){ .kind = kind,
					  .detail = arena_strndup(arena, detail, strlen(detail)) };
	if (row)
		*(id->noun == ID_VOLUME ? &row->volume : &row->sandbox) = *id;
	return row;
}

static bool sandbox_socket_is_there(const struct sandbox *sb)
{
	auto_buf path = BUF_INIT(128);
	char id[ID_TEXT_LEN + 1];
	struct stat st;

	id_format(&sb->info.id, id);
	/* connect() needs write permission */
	return buf_printf(&path, "%s/box/%s", sb->cayd->settings.run_dir, id) < 0 ||
	       (lstat(path.data, &st) == 0 && S_ISSOCK(st.st_mode) && access(path.data, W_OK) == 0);
}

static const char *const fsck_details[FSCK_NUM] = {
#define CAY_FSCK(sym, name, detail, ...) [FSCK_##sym] = detail,
#include "ops/fsck.def"
#undef CAY_FSCK
};

/* Without a reply, or after this many. */
#define STUCK_NS (60 * NS_PER_S)
#define STUCK_TRIES 5

static bool sandbox_is_stuck(const struct sandbox *sb, uint64_t now)
{
	return sb->life.state == SB_STOPPING &&
	       (sb->life.tries >= STUCK_TRIES || now - sb->changed_boot_ns > STUCK_NS);
}

/* FSCK_NUM: nothing is wrong. */
static enum fsck_kind fsck_check_sandbox(const struct sandbox *sb, const struct verb_list_row *row,
					 uint64_t now)
{
	const struct life *l = &sb->life;

	/* leftovers without their record have no generation */
	if (life_is_finished(l) && row)
		return !row->generation || row->generation == l->generation ? FSCK_LEFTOVER
									    : FSCK_OTHER;
	if (l->state == SB_STOPPED && l->rolled_back) /* it may have no files */
		return row && row->processes ? FSCK_AWAKE : FSCK_NUM;
	if (l->state == SB_STOPPED)
		return !row                                   ? FSCK_EMPTY
		       : !sandbox_matches_keeper_row(sb, row) ? FSCK_OTHER
		       : row->processes                       ? FSCK_AWAKE
							      : FSCK_NUM;
	if (sandbox_is_stuck(sb, now))
		return FSCK_STUCK;
	if (l->state != SB_RUNNING && l->state != SB_PAUSED)
		return FSCK_NUM; /* it is being created or removed */
	if (!row || !row->pid || !row->processes)
		return FSCK_LOST;
	if (!sandbox_matches_keeper_row(sb, row))
		return FSCK_OTHER;
	if (row->started_boot_ns != l->started_ns)
		return FSCK_REPLACED;
	if (!sandbox_socket_is_there(sb))
		return FSCK_DEAF;
	if (now > l->expires_ns && now - l->expires_ns > LATE_NS)
		return FSCK_OVERDUE;
	return FSCK_NUM;
}

static void on_fsck_leftover_removed(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct sandbox *sb = arg;

	cay_closep(&fd);
	if (outcome->code)
		log_error(&sb->cayd->log, "cannot remove leftovers: %s", outcome->msg);
	sandbox_release(sb);
}

static bool fsck_repair_sandbox(struct sandbox *sb, enum fsck_kind kind)
{
	struct verb_sandbox q = { .sandbox = sb->info.id, .generation = sb->life.generation };

	switch (kind) {
	case FSCK_LOST:
	case FSCK_REPLACED:
	case FSCK_OTHER:
	case FSCK_DEAF:
	case FSCK_EMPTY:
		if (life_is_finished(&sb->life))
			return false;
		sandbox_end(sb, END_NODE_LOST, fsck_details[kind]);
		return true;
	case FSCK_LEFTOVER:
		sb->holds++;
		keeper_call(sb->cayd->keeper, VERB_REMOVE, &q, -EBADF, on_fsck_leftover_removed,
			    sb);
		return true;
	case FSCK_AWAKE:
		(void)sandbox_apply_event(sb,
					  &(struct life_event){ .kind = LIFE_OBSERVED,
								.observed = { .same_boot = true,
									      .exists = true,
									      .processes = 1 } });
		return true;
	case FSCK_STUCK: /* the time of its next attempt, if it has one */
		if (sb->life.retry_ns != LIFE_NEVER)
			sb->life.retry_ns = 0;
		return true;
	case FSCK_OVERDUE:
		sandbox_apply_deadline(sb);
		return true;
	case FSCK_HOLLOW:
	case FSCK_VOID:
	case FSCK_STRAY:
	case FSCK_FOREIGN:
	case FSCK_TRASH:
	case FSCK_NUM:
		break;
	}
	return false;
}

/* Control writes a row before it asks for a sandbox, and the keeper obeys one control only: a
 * foreign sandbox without PID 1 is at least as old as this cayd. */
static bool foreign_is_old_enough(const struct fsck_pass *k, const struct verb_list_row *row)
{
	uint64_t since = row->started_boot_ns ? row->started_boot_ns : k->cayd->started_ns;

	return k->began >= since && k->began - since >= k->older_ns;
}

static void fsck_compare_snapshots(struct fsck_pass *k, struct fsck_findings *f)
{
	const struct snapshot *s;
	struct fsck_row *row;

	for (size_t i = 0; (s = snapshot_at(k->cayd, i)); i++) {
		if (!snapshot_is_hollow(s))
			continue;
		row = fsck_finding_add(f, &k->rq->arena, &s->info.sandbox, FSCK_HOLLOW,
				       fsck_details[FSCK_HOLLOW]);
		if (!row)
			break;
		row->snapshot = s->info.id;
		row->repaired = k->repair;
		if (k->repair)
			snapshot_remove_hollow(k->cayd, &s->info.id);
	}
}

[[gnu::nonnull]] static void fsck_compare_all(struct fsck_pass *k, struct fsck_findings *f,
					      uint64_t *ret_checked)
{
	struct cayd *c = k->cayd;
	uint64_t now = clk_boot_ns(c->clk);
	struct fsck_row *row;

	for (struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older) {
		enum fsck_kind kind;

		/* skip sandboxes that changed during the listing */
		if (!sandbox_is_stuck(sb, now) && (sb->life.pending_effect != DO_NOTHING ||
						   sb->unsaved || sb->changed_boot_ns >= k->began))
			continue;
		++*ret_checked;
		kind = fsck_check_sandbox(sb, keeper_list_find(&k->facts, &sb->info.id), now);
		if (kind == FSCK_NUM)
			continue;
		row = fsck_finding_add(f, &k->rq->arena, &sb->info.id, kind, fsck_details[kind]);
		if (k->repair && row)
			row->repaired = fsck_repair_sandbox(sb, kind);
	}
	for (size_t i = 0; i < k->facts.n; i++) {
		if (sandbox_find(c->sandboxes, &k->facts.rows[i].sandbox))
			continue;
		row = fsck_finding_add(f, &k->rq->arena, &k->facts.rows[i].sandbox, FSCK_FOREIGN,
				       fsck_details[FSCK_FOREIGN]);
		if (row && k->end_foreign && foreign_is_old_enough(k, &k->facts.rows[i])) {
			foreign_end(c, &k->facts.rows[i]);
			row->repaired = true;
		}
	}
	fsck_compare_snapshots(k, f);
	fsck_volumes_compare(
		&k->volumes, c,
		&(struct fsck_repairs){ k->repair,
					k->end_foreign && k->began - c->started_ns >= k->older_ns },
		f);
	if (k->facts.n_stuck)
		(void)fsck_finding_add(f, &k->rq->arena, &k->facts.stuck, FSCK_TRASH,
				       fsck_details[FSCK_TRASH]);
}

static void fsck_finish(struct fsck_pass *k, const struct cay_err *outcome)
{
	struct fsck_findings *f = k->rq ? arena_alloc(&k->rq->arena, 1, sizeof(*f)) : NULL;
	struct fsck_list list = {};

	if (k->rq && outcome->code) {
		request_fail(k->rq, outcome);
	} else if (k->rq && !f) {
		request_no_memory(k->rq);
	} else if (k->rq) {
		fsck_compare_all(k, f, &list.checked);
		list.findings = (struct field_list){ f->rows, f->n };
		request_reply_json(k->rq, &fsck_list_table, &list);
	}
	keeper_list_fini(&k->facts);
	fsck_volumes_fini(&k->volumes);
	free(k);
}

static void on_fsck_volumes(void *arg, const struct cay_err *outcome)
{
	fsck_finish(arg, outcome);
}

static void on_fsck_list_reply(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct fsck_pass *k = arg;
	struct verb_list_reply page = {};
	struct cay_err err = *outcome;

	cay_closep(&fd);
	if (!err.code) {
		memcpy(&page, reply, sizeof(page));
		(void)keeper_list_append(&k->facts, &page, &err);
	}
	if (err.code || !k->rq) {
		fsck_finish(k, &err);
		return;
	}
	if (!page.more) {
		fsck_volumes_list(&k->volumes, k->cayd, on_fsck_volumes, k);
		return;
	}
	k->q.after = page.rows[page.n_rows - 1].sandbox;
	keeper_call(k->cayd->keeper, VERB_LIST, &k->q, -EBADF, on_fsck_list_reply, k);
}

static void fsck_request_start(struct cayd *c, struct request *rq, bool repair,
			       const struct repair_query *q)
{
	struct fsck_pass *k = calloc(1, sizeof(*k));

	if (!k) {
		request_no_memory(rq);
		return;
	}
	*k = (struct fsck_pass){ .cayd = c,
				 .rq = rq,
				 .began = clk_boot_ns(c->clk),
				 .repair = repair,
				 .end_foreign = q->end_foreign,
				 .older_ns = q->older_ms * NS_PER_MS };
	request_watch_client(&k->rq);
	keeper_call(c->keeper, VERB_LIST, &k->q, -EBADF, on_fsck_list_reply, k);
}

void op_system_fsck(struct cayd *c, struct request *rq)
{
	fsck_request_start(c, rq, false, &(struct repair_query){});
}

void op_system_repair(struct cayd *c, struct request *rq)
{
	fsck_request_start(c, rq, true, rq->query);
}
