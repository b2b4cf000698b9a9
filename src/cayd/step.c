/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step - carrying out what life says
 *
 * box_happens() is the one place where a sandbox changes.  Where life wants its row
 * durable first, the effect begins in on_saved(); every effect ends in done().  Each
 * of them holds the box until its one call back.
 */
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "cayd/box.h"
#include "cayd/claim.h"
#include "cayd/create.h"
#include "cayd/entry.h"
#include "cayd/event.h"
#include "cayd/limit.h"
#include "cayd/link.h"
#include "cayd/oom.h"
#include "cayd/prune.h"
#include "cayd/record.h"
#include "cayd/resize.h"
#include "cayd/stock.h"

#define SWEEP_MS 100
/* How often a row that could not be written is tried again. */
#define AGAIN_NS NS_PER_S

static void unwatch(struct box *b);

static void done(struct box *b, enum life_effect effect, uint64_t generation,
		 const struct cay_err *outcome, uint64_t started_ns)
{
	struct life_event ev = { .kind = LIFE_DONE,
				 .effect = effect,
				 .generation = generation,
				 .started_ns = started_ns };

	ev.outcome = !outcome->code                       ? LIFE_OK
		     : outcome->code == CAY_E_UNAVAILABLE ? LIFE_UNKNOWN
							  : LIFE_FAILED;
	if (effect == DO_PREPARE && outcome->code == CAY_E_CONFLICT && box_range_anew(b) >= 0)
		ev.outcome = LIFE_UNKNOWN; /* made anew with it */
	if (outcome->code && effect == DO_REMOVE)
		log_error(&b->cayd->log, "remove a sandbox, trying again: %s", outcome->msg);
	else if (outcome->code && ev.outcome == LIFE_FAILED && b->life.state == SB_PENDING &&
		 !b->life.taken) {
		b->failure = *outcome;
		b->why = b->failure.msg;
	}
	(void)box_happens(b, &ev);
	box_unhold(b);
}

/* A verb's answer says whose it is by the call itself. */
struct call {
	struct box *box;
	enum life_effect effect;
	uint64_t generation;
};

static void on_verb(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct call *call = arg, c = *call;
	struct verb_start_reply started = {};
	struct cay_err err = *outcome;

	free(call);
	if (!err.code && c.effect == DO_START) {
		memcpy(&started, reply, sizeof(started));
		if (fault(FAULT_CREATE_STARTED) < 0)
			(void)cay_fail(&err, CAY_E_INTERNAL, "failpoint");
		else if (c.box->life.state == SB_PENDING && box_watch(c.box, cay_take_fd(&fd)) < 0)
			(void)cay_fail(&err, CAY_E_NO_MEMORY, "watch PID 1");
	}
	cay_closep(&fd);
	done(c.box, c.effect, c.generation, &err, started.started_boot_ns);
}

static void verb(struct box *b, enum life_effect effect, enum verb number, void *request)
{
	struct call *call = malloc(sizeof(*call));
	struct cay_err err = {};

	if (!call) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		done(b, effect, b->life.generation, &err, 0);
		return;
	}
	*call = (struct call){ b, effect, b->life.generation };
	link_call(b->cayd->link, number, request, -EBADF, on_verb, call);
}

static void prepare(struct box *b)
{
	struct verb_prepare q = { .sandbox = b->info.id,
				  .generation = b->life.generation,
				  .tenant = b->home,
				  .range = b->range,
				  .memory = limit_in_memory(b) };

	if (!q.memory) {
		q.disk_bytes = b->info.limits.disk_bytes;
		q.disk_inodes = b->info.limits.disk_inodes;
	}
	memcpy(q.image, b->image, sizeof(q.image));
	verb(b, DO_PREPARE, VERB_PREPARE, &q);
}

static void start(struct box *b)
{
	struct verb_start q = { .sandbox = b->info.id,
				.generation = b->life.generation,
				.memory_bytes = b->info.limits.memory_bytes,
				.shm_bytes = b->info.limits.shm_bytes,
				.cpu_milli = (uint32_t)b->info.limits.cpu_milli,
				.pids = (uint32_t)b->info.limits.pids,
				.nofile = (uint32_t)b->info.limits.nofile,
				.runtime = b->info.runtime };

	q.read_only = limit_read_only(b, &q.writable);
	if (limit_in_memory(b)) {
		q.disk_bytes = b->info.limits.disk_bytes;
		q.disk_inodes = b->info.limits.disk_inodes;
	}
	verb(b, DO_START, VERB_START, &q);
}

static const struct {
	enum verb verb;
	enum fault_point before;
} effects[DO_NUM] = {
	[DO_PREPARE] = { VERB_PREPARE, FAULT_CREATE_ACCEPTED },
	[DO_START] = { VERB_START, FAULT_CREATE_PREPARED },
	[DO_CLAIM] = { VERB_NONE, FAULT_CREATE_CLAIM },
	[DO_ENTRY] = { VERB_NONE, FAULT_CREATE_ENTRY },
	[DO_FREEZE] = { VERB_FREEZE, FAULT_PAUSE_FREEZE },
	[DO_THAW] = { VERB_THAW, FAULT_PAUSE_THAW },
	[DO_REMOVE] = { VERB_REMOVE, FAULT_DELETE_REMOVE },
};

static void begin(struct box *b, enum life_effect effect)
{
	struct verb_box q = { .sandbox = b->info.id, .generation = b->life.generation };
	struct cay_err err = {};

	b->holds++;
	if (fault(effects[effect].before) < 0) {
		(void)cay_fail(&err, CAY_E_INTERNAL, "failpoint");
		done(b, effect, b->life.generation, &err, 0);
		return;
	}
	if (effect == DO_REMOVE)
		unwatch(b);
	if (effect == DO_PREPARE)
		prepare(b);
	else if (effect == DO_START)
		start(b);
	else if (effect == DO_CLAIM)
		claim_start(b);
	else if (effect == DO_ENTRY)
		entry_start(b);
	else
		verb(b, effect, effects[effect].verb, &q);
}

void box_claimed(struct box *b, const struct cay_err *outcome)
{
	/* what PID 1 has not answered it will not: only the keeper's silence is a doubt */
	struct cay_err err = *outcome;

	if (err.code == CAY_E_UNAVAILABLE)
		err.code = CAY_E_MISBEHAVED;
	done(b, DO_CLAIM, b->life.generation, &err, 0);
}

void box_entered(struct box *b, const struct cay_err *outcome)
{
	done(b, DO_ENTRY, b->life.generation, outcome, 0);
}

/* Writing down */

struct save {
	struct box *box;
	enum life_effect effect; /* that waits for it */
	bool waited;
};

static void on_saved(void *arg, const struct cay_err *outcome)
{
	struct save *save = arg, s = *save;
	struct box *b = s.box;

	free(save);
	b->unsaved -= s.waited;
	if (outcome->code && !b->unsaid.code)
		log_error(&b->cayd->log, "the journal, trying again: %s", outcome->msg);
	b->unsaid = *outcome;
	if (s.effect == DO_PREPARE && outcome->code) {
		/* what cannot be written down is not begun */
		b->holds++;
		done(b, s.effect, b->life.generation, outcome, 0);
	} else if (s.effect) {
		begin(b, s.effect);
	}
	box_tell(b);
	box_unhold(b);
}

static void save(struct box *b, enum life_effect effect, bool wait)
{
	struct save *s = malloc(sizeof(*s));
	auto_buf text = BUF_INIT(DB_TEXT_MAX);
	struct cay_err err = {};
	struct db_row row = { .life = b->life, .seq = b->seq };

	b->holds++;
	b->unsaved += wait;
	if (!s)
		abort(); /* without it nobody would be told; a restart knows all there is */
	*s = (struct save){ b, effect, wait };
	if (record_write(b, &text) < 0) {
		(void)cay_fail(&err, CAY_E_INTERNAL, "a sandbox that cannot be written down");
		on_saved(s, &err);
		return;
	}
	memcpy(row.boot, b->cayd->boot, sizeof(row.boot));
	row.text = (struct slice){ text.data, text.len };
	db_put(b->cayd->db, &row, on_saved, s);
	if (wait)
		box_foretell(b);
}

void box_save(struct box *b, bool wait)
{
	save(b, DO_NOTHING, wait);
}

/* What an end says when nobody said more. */
static const char *const whys[END_NUM_REASONS] = {
	[END_EXIT] = "its entrypoint ended",
	[END_OOM] = "it needed more memory than it had",
	[END_KILLED] = "ended by a client",
	[END_TTL] = "it had lived as long as it was to",
	[END_IDLE] = "nobody asked anything of it",
	[END_EVICTED] = "it made room",
	[END_START_FAILED] = "it could not be started",
	[END_NODE_LOST] = "the machine it ran on did not keep it",
};

static void note_end(struct box *b)
{
	const char *why = b->why ? b->why : whys[b->life.reason];

	b->info.has_end = true;
	b->info.end.reason = b->life.reason;
	b->info.end.detail = box_text(b, why);
	b->why = NULL;
	if (b->life.reason == END_START_FAILED)
		log_error(&b->cayd->log, "a sandbox could not be started: %s", why ? why : "");
	if (b->life.reason == END_START_FAILED && !b->failure.code)
		(void)cay_fail(&b->failure, CAY_E_RUNTIME, "%s", why ? why : "");
}

enum cay_code box_happens(struct box *b, const struct life_event *ev)
{
	unsigned before = b->life.state;
	struct life_out out;
	bool changed;

	life_step(&b->life, ev, clk_boot_ns(b->cayd->clk), &out);
	if (out.refused)
		return out.refused;
	b->life = out.next;
	changed = b->life.state != before;
	if (changed) {
		if (b->life.state == SB_ENDING)
			note_end(b);
		box_changed(b, before);
	}
	/* nothing overtakes a write that is waited for */
	if (out.effect && b->unsaved)
		out.sync = true;
	if (out.journal || out.sync)
		save(b, out.sync ? out.effect : DO_NOTHING, out.sync);
	if (changed && !b->life.warm)
		event_note(b); /* behind its row, so that what is told is so */
	if (out.effect && !out.sync)
		begin(b, out.effect);
	if (b->stock)
		stock_changed(b);
	if (out.tell)
		box_tell(b);
	return CAY_OK;
}

void box_end(struct box *b, unsigned reason, const char *why)
{
	if (b->life.state >= SB_ENDING)
		return;
	b->why = why;
	(void)box_happens(b, &(struct life_event){ .kind = LIFE_END, .reason = reason });
}

/* PID 1 */

static void free_handle(uv_handle_t *h)
{
	free(h);
}

static void unwatch(struct box *b)
{
	if (b->watch)
		uv_close((uv_handle_t *)b->watch, free_handle);
	b->watch = NULL;
	cay_closep(&b->pidfd);
	b->pidfd = -EBADF;
}

/* Linux 6.15; the C library's headers are older (tests/platform/pidfd-info.c). */
struct pidfd_exit {
	uint64_t mask, cgroup;
	uint32_t pids[3], ids[8];
	int32_t exit_code;
};
static_assert(sizeof(struct pidfd_exit) == 64);
#define EXIT_BIT (UINT64_C(1) << 3)
#define GET_EXIT _IOWR(0xff, 11, struct pidfd_exit)

/* How it died, for the certificate; false when the kernel cannot tell. */
static bool ask_status(int pidfd, int *ret)
{
	struct pidfd_exit info = { .mask = EXIT_BIT };

	if (ioctl(pidfd, GET_EXIT, &info) < 0 || !(info.mask & EXIT_BIT))
		return false;
	*ret = info.exit_code;
	return true;
}

static void on_pid1(uv_poll_t *p, int, int events)
{
	struct box *b = p->data;
	struct life_event ev = { .kind = LIFE_GONE,
				 .generation = b->life.generation,
				 .reason = END_KILLED };
	char why[96];
	int status = 0, n;

	if (!ask_status(b->pidfd, &status)) {
		/* it is asked once it is reaped, which the kernel does at once */
		if (!(events & UV_DISCONNECT) && b->info.end.inferred == false) {
			b->info.end.inferred = true;
			return;
		}
		b->info.end.inferred = true;
		b->why = "PID 1 of the sandbox ended by itself";
	} else {
		b->info.end.inferred = false;
		ev.reason = WIFSIGNALED(status) ? END_SIGNAL : END_EXIT;
		if (WIFSIGNALED(status)) {
			const char *name = sigabbrev_np(WTERMSIG(status));

			n = snprintf(why, sizeof(why), "SIG%s", name ? name : "?");
			b->info.end.signal = n > 0 ? box_text(b, why) : NULL;
			n = snprintf(why, sizeof(why), "PID 1 of the sandbox was killed by SIG%s",
				     name ? name : "?");
		} else {
			b->info.end.has_exit_code = true;
			b->info.end.exit_code = (uint64_t)WEXITSTATUS(status);
			n = snprintf(why, sizeof(why), "PID 1 of the sandbox exited with %d",
				     WEXITSTATUS(status));
		}
		b->why = n > 0 ? why : NULL;
	}
	/* nobody inside can send PID 1 that signal */
	if ((b->info.end.inferred || (ev.reason == END_SIGNAL && WTERMSIG(status) == SIGKILL)) &&
	    oom_suspected(b))
		ev.reason = END_OOM;
	unwatch(b);
	(void)box_happens(b, &ev);
	b->why = NULL;
}

int box_watch(struct box *b, int pidfd)
{
	unwatch(b);
	b->pidfd = pidfd;
	b->watch = calloc(1, sizeof(*b->watch));
	if (!b->watch || uv_poll_init(&b->cayd->loop, b->watch, pidfd) < 0) {
		free(b->watch);
		b->watch = NULL;
		return -ENOMEM;
	}
	b->watch->data = b;
	return uv_poll_start(b->watch, UV_READABLE | UV_DISCONNECT, on_pid1);
}

/* Deadlines: one sweeper looks at all of them. */
static void on_sweep(uv_timer_t *t)
{
	struct cayd *c = t->data;
	uint64_t now = clk_boot_ns(c->clk);

	for (struct box *b = boxes_newest(c->boxes); b; b = b->older) {
		if (life_due(&b->life) <= now)
			(void)box_happens(b, &(struct life_event){ .kind = LIFE_DUE });
		if (now < c->again_ns)
			continue;
		if (b->unsaid.code && !b->holds)
			box_save(b, false);
		if (b->unnoted && !b->holds)
			event_note(b);
		if (link_up(c->link))
			resize_again(b);
	}
	if (now >= c->again_ns)
		c->again_ns = now + AGAIN_NS;
	entry_sweep(c, now);
	creates_sweep(c, now);
	stocks_sweep(c);
	boxes_forget(c->boxes, now);
	prune_sweep(c, now);
}

int boxes_sweep(struct cayd *c, struct cay_err *err)
{
	int r = uv_timer_init(&c->loop, &c->sweep);

	c->sweep.data = c;
	if (r >= 0)
		r = uv_timer_start(&c->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "a timer") : 0;
}
