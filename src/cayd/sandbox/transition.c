/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transition - carry out what life decides
 *
 * sandbox_apply_event() is the one place where a sandbox changes.  Where life requires its row
 * to be durable first, the effect begins in on_sandbox_saved(); every effect ends in
 * effect_finish().  Each of them holds the sandbox until its callback.
 */
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "base/failpoint.h"
#include "cayd/core/init-call.h"
#include "cayd/core/keeper-link.h"
#include "cayd/sandbox/claim.h"
#include "cayd/sandbox/count.h"
#include "cayd/sandbox/entrypoint.h"
#include "cayd/sandbox/limits.h"
#include "cayd/sandbox/oom.h"
#include "cayd/sandbox/record.h"
#include "cayd/sandbox/resize.h"
#include "cayd/sandbox/sandbox.h"
#include "wire/hello.h"

/* How often a row that could not be written is tried again. */
#define AGAIN_NS NS_PER_S
#define STILL_NS NS_PER_S

static void sandbox_unwatch_pid1(struct sandbox *sb);

static void effect_finish(struct sandbox *sb, enum life_effect effect, uint64_t generation,
			  const struct cay_err *outcome, uint64_t started_ns)
{
	struct life_event ev = { .kind = LIFE_DONE,
				 .effect = effect,
				 .generation = generation,
				 .started_ns = started_ns };
	/* with another id range */
	bool again = effect == DO_PREPARE && outcome->code == CAY_E_CONFLICT &&
		     sandbox_replace_uid_range(sb) >= 0;

	ev.outcome = !outcome->code                                ? LIFE_OK
		     : again || outcome->code == CAY_E_UNAVAILABLE ? LIFE_UNKNOWN
								   : LIFE_FAILED;
	if (outcome->code && effect == DO_REMOVE && sb->life.state != SB_STARTING) {
		if (keeper_is_up(sb->cayd->keeper)) /* else the link logs it, once a minute */
			log_error(&sb->cayd->log, "cannot remove a sandbox, will retry: %s",
				  outcome->msg);
	} else if (outcome->code && sb->life.state == SB_STARTING && !again) {
		sb->failure = *outcome; /* of this start; the sandbox is stopped again */
	} else if (outcome->code && ev.outcome == LIFE_FAILED && sb->life.state == SB_PENDING &&
		   !sb->life.claimed) {
		sb->failure = *outcome;
		sb->end_detail = sb->failure.msg;
	}
	(void)sandbox_apply_event(sb, &ev);
	if (effect == DO_SNAPSHOT)
		sb->cayd->hooks->snapshot_copied(sb->cayd, sb, outcome);
	sandbox_release(sb);
}

/* What all its runs used.  A repeated verb finds no cgroup, and its reply has nothing. */
static void sandbox_add_spent(struct sandbox *sb, const struct verb_remove_reply *spent)
{
	struct used *used = &sb->info.end.used;

	if (spent->cpu_ns != UINT64_MAX) {
		sb->info.has_cpu = true;
		sb->info.cpu_ms += spent->cpu_ns / NS_PER_MS;
		if (used->memory_peak_bytes < spent->memory_peak)
			used->memory_peak_bytes = spent->memory_peak;
	}
	used->cpu_ms = sb->info.cpu_ms;
	sb->info.end.has_used = sb->life.state == SB_ENDING && sb->info.has_cpu;
}

/* A keeper reply does not name its sandbox; the call does. */
struct effect_call {
	struct sandbox *sandbox;
	enum life_effect effect;
	uint64_t generation;
};

static void on_effect_keeper_reply(void *arg, const struct cay_err *outcome, const void *reply,
				   int fd)
{
	struct effect_call *call = arg, c = *call;
	struct verb_start_reply started = {};
	struct verb_remove_reply removed;
	struct verb_snapshot_reply copied;
	struct cay_err err = *outcome;

	free(call);
	if (!err.code && (c.effect == DO_STOP ||
			  (c.effect == DO_REMOVE && c.sandbox->life.state != SB_PENDING))) {
		memcpy(&removed, reply, sizeof(removed));
		sandbox_add_spent(c.sandbox, &removed);
	}
	if (!err.code && c.effect == DO_SNAPSHOT) {
		memcpy(&copied, reply, sizeof(copied));
		c.sandbox->snapshot.bytes = copied.bytes;
		memcpy(c.sandbox->snapshot.parent, copied.parent, sizeof(copied.parent));
	}
	if (!err.code && c.effect == DO_START) {
		memcpy(&started, reply, sizeof(started));
		if (failpoint_hit(FAULT_CREATE_STARTED) < 0)
			(void)cay_fail(&err, CAY_E_INTERNAL, "failpoint");
		else if ((c.sandbox->life.state == SB_PENDING ||
			  c.sandbox->life.state == SB_STARTING) &&
			 sandbox_watch_pid1(c.sandbox, cay_take_fd(&fd)) < 0)
			(void)cay_fail(&err, CAY_E_NO_MEMORY, "watch PID 1");
	}
	cay_closep(&fd);
	effect_finish(c.sandbox, c.effect, c.generation, &err, started.started_boot_ns);
}

static void effect_call_keeper(struct sandbox *sb, enum life_effect effect, enum verb number,
			       void *request)
{
	struct effect_call *call = malloc(sizeof(*call));
	struct cay_err err = {};

	if (!call) {
		(void)cay_no_memory(&err);
		effect_finish(sb, effect, sb->life.generation, &err, 0);
		return;
	}
	*call = (struct effect_call){ sb, effect, sb->life.generation };
	keeper_call_for(sb->cayd->keeper, &sb->info.tenant, number, request, on_effect_keeper_reply,
			call);
}

static void effect_prepare_sandbox(struct sandbox *sb)
{
	struct verb_prepare q = { .sandbox = sb->info.id,
				  .generation = sb->life.generation,
				  .tenant = sb->cgroup_tenant,
				  .range = sb->uid_range,
				  .memory = sandbox_is_in_memory(sb) };

	if (!q.memory) {
		q.disk_bytes = sb->info.limits.disk_bytes;
		q.disk_inodes = sb->info.limits.disk_inodes;
	}
	memcpy(q.image, sb->image, sizeof(q.image));
	effect_call_keeper(sb, DO_PREPARE, VERB_PREPARE, &q);
}

/* Sorted, as the keeper locks them. */
static void effect_fill_mounts(const struct sandbox *sb, struct verb_mount to[VERB_MOUNTS_MAX])
{
	const struct volume_mount *m = sb->info.volumes.v;

	static_assert(VOLUME_MOUNTS_MAX <= VERB_MOUNTS_MAX);
	for (size_t i = 0; i < sb->info.volumes.n; i++) {
		struct verb_mount row = { .volume = m[i].volume, .read_only = m[i].read_only };
		size_t at = i;

		memcpy(row.path, m[i].path, strnlen(m[i].path, VOLUME_PATH_MAX));
		if (m[i].host)
			memcpy(row.host, m[i].host, strnlen(m[i].host, HOST_DIR_NAME_MAX));
		for (; at > 0 &&
		       memcmp(&to[at - 1], &row, offsetof(struct verb_mount, read_only)) > 0;
		     at--)
			to[at] = to[at - 1];
		to[at] = row;
	}
}

static void effect_start_sandbox(struct sandbox *sb)
{
	struct verb_start q = { .sandbox = sb->info.id,
				.generation = sb->life.generation,
				.memory_bytes = sb->info.limits.memory_bytes,
				.shm_bytes = sb->info.limits.shm_bytes,
				.cpu_milli = (uint32_t)sb->info.limits.cpu_milli,
				.pids = (uint32_t)sb->info.limits.pids,
				.nofile = (uint32_t)sb->info.limits.nofile,
				.runtime = sb->info.runtime };

	q.read_only = sandbox_root_is_read_only(sb, &q.writable);
	effect_fill_mounts(sb, q.mounts);
	if (sandbox_is_in_memory(sb)) {
		q.disk_bytes = sb->info.limits.disk_bytes;
		q.disk_inodes = sb->info.limits.disk_inodes;
	}
	effect_call_keeper(sb, DO_START, VERB_START, &q);
}

static void effect_restore_sandbox(struct sandbox *sb)
{
	struct verb_limits q = { .sandbox = sb->info.id,
				 .generation = sb->life.generation,
				 .disk_bytes = sb->info.limits.disk_bytes,
				 .disk_inodes = sb->info.limits.disk_inodes };

	effect_call_keeper(sb, DO_RESTORE, VERB_RESTORE, &q);
}

static void effect_copy_sandbox(struct sandbox *sb)
{
	struct verb_snapshot q = { .sandbox = sb->info.id,
				   .generation = sb->life.generation,
				   .snapshot = sb->snapshot.id,
				   .running = sb->life.state != SB_STOPPED };
	struct verb_volume_copy of_volume;

	if (sb->snapshot.id.noun == ID_VOLUME) {
		sb->cayd->hooks->volume_copy_fill(sb->cayd, sb, &of_volume);
		effect_call_keeper(sb, DO_SNAPSHOT, VERB_VOLUME_COPY, &of_volume);
		return;
	}
	effect_call_keeper(sb, DO_SNAPSHOT, VERB_SNAPSHOT, &q);
}

static const struct {
	enum verb verb;
	enum failpoint before;
} effect_verbs[DO_NUM] = {
	[DO_PREPARE] = { VERB_PREPARE, FAULT_CREATE_ACCEPTED },
	[DO_START] = { VERB_START, FAULT_CREATE_PREPARED },
	[DO_CLAIM] = { VERB_NONE, FAULT_CREATE_CLAIM },
	[DO_ENTRYPOINT] = { VERB_NONE, FAULT_CREATE_ENTRY },
	[DO_FREEZE] = { VERB_FREEZE, FAULT_PAUSE_FREEZE },
	[DO_THAW] = { VERB_THAW, FAULT_PAUSE_THAW },
	[DO_REMOVE] = { VERB_REMOVE, FAULT_DELETE_REMOVE },
	[DO_STOP] = { VERB_STOP, FAULT_STOP_KILL },
	[DO_RESTORE] = { VERB_RESTORE, FAULT_START_RESTORE },
	[DO_SNAPSHOT] = { VERB_SNAPSHOT, FAULT_SNAPSHOT_COPY },
};

static void on_look_reply(void *arg, unsigned status, struct slice body, const struct cay_err *)
{
	struct sandbox *sb = arg;
	struct life_event ev = { .kind = LIFE_DONE,
				 .effect = DO_LOOK,
				 .generation = sb->life.generation,
				 .outcome = LIFE_UNKNOWN,
				 .may_stop = sandbox_may_stop(sb) };
	struct hello h = {};

	if (status == 200 && hello_decode((const uint8_t *)body.p, body.n, &h) >= 0) {
		ev.outcome = LIFE_OK;
		ev.busy = !(h.features & HELLO_NO_WORK); /* an older PID 1 never says that */
	}
	(void)sandbox_apply_event(sb, &ev);
	sandbox_release(sb);
}

static void effect_begin(struct sandbox *sb, enum life_effect effect)
{
	struct verb_sandbox q = { .sandbox = sb->info.id, .generation = sb->life.generation };
	struct cay_err err = {};

	sb->holds++;
	if (effect == DO_LOOK) {
		init_call(sb->cayd, &sb->info.id, "GET", INIT_PATH_HELLO, (struct slice){},
			  on_look_reply, sb);
		return;
	}
	if (failpoint_hit(effect_verbs[effect].before) < 0) {
		(void)cay_fail(&err, CAY_E_INTERNAL, "failpoint");
		effect_finish(sb, effect, sb->life.generation, &err, 0);
		return;
	}
	if (effect == DO_REMOVE || effect == DO_STOP)
		sandbox_unwatch_pid1(sb);
	if (effect == DO_PREPARE)
		effect_prepare_sandbox(sb);
	else if (effect == DO_START)
		effect_start_sandbox(sb);
	else if (effect == DO_RESTORE)
		effect_restore_sandbox(sb);
	else if (effect == DO_SNAPSHOT)
		effect_copy_sandbox(sb);
	else if (effect == DO_CLAIM)
		claim_start(sb);
	else if (effect == DO_ENTRYPOINT)
		entrypoint_start(sb);
	else
		effect_call_keeper(sb, effect, effect_verbs[effect].verb, &q);
}

void sandbox_claim_finish(struct sandbox *sb, const struct cay_err *outcome)
{
	/* if PID 1 does not reply it has failed; only a lost keeper leaves the outcome unknown */
	struct cay_err err = *outcome;

	if (err.code == CAY_E_UNAVAILABLE)
		err.code = CAY_E_MISBEHAVED;
	effect_finish(sb, DO_CLAIM, sb->life.generation, &err, 0);
}

void sandbox_entrypoint_finish(struct sandbox *sb, const struct cay_err *outcome)
{
	effect_finish(sb, DO_ENTRYPOINT, sb->life.generation, outcome, 0);
}

/* The journal */

struct pending_save {
	struct sandbox *sandbox;
	enum life_effect effect; /* begins once the row is durable */
	bool waited;
};

/* Without a durable row these do not begin: a crash after them would find a sandbox without a row,
 * a row of a running sandbox that has no process, whose files it would remove, or one of a stopped
 * sandbox whose files are gone. */
static bool effect_needs_row(const struct sandbox *sb, enum life_effect effect)
{
	return effect == DO_PREPARE || effect == DO_STOP || effect == DO_RESTORE ||
	       (effect == DO_REMOVE && life_is_at_rest(&sb->life));
}

static void on_sandbox_saved(void *arg, const struct cay_err *outcome)
{
	struct pending_save *save = arg, s = *save;
	struct sandbox *sb = s.sandbox;

	free(save);
	sb->unsaved -= s.waited;
	if (outcome->code && !sb->save_error.code)
		log_error(&sb->cayd->log, "cannot write to the journal, will retry: %s",
			  outcome->msg);
	sb->save_error = *outcome;
	if (effect_needs_row(sb, s.effect) && outcome->code) {
		sb->holds++;
		effect_finish(sb, s.effect, sb->life.generation, outcome, 0);
	} else if (s.effect) {
		effect_begin(sb, s.effect);
	}
	sandbox_notify_waiters(sb);
	sandbox_release(sb);
}

static void sandbox_save_then(struct sandbox *sb, enum life_effect effect, bool wait)
{
	struct pending_save *s = malloc(sizeof(*s));
	auto_buf text = BUF_INIT(DB_TEXT_MAX);
	struct cay_err err = {};
	struct db_sandbox row = { .life = sb->life, .seq = sb->seq };

	sb->holds++;
	sb->unsaved += wait;
	if (!s)
		abort(); /* the effect would be lost for ever; a restart recovers from the journal
			  */
	*s = (struct pending_save){ sb, effect, wait };
	if (sandbox_record_write(sb, &text) < 0) {
		(void)cay_fail(&err, CAY_E_INTERNAL, "the sandbox does not fit into the journal");
		on_sandbox_saved(s, &err);
		return;
	}
	sb->egress_counts.changed = false;
	memcpy(row.boot, sb->cayd->boot, sizeof(row.boot));
	row.text = (struct slice){ text.data, text.len };
	db_sandbox_put(sb->cayd->db, &row, on_sandbox_saved, s);
	if (wait)
		sandbox_audit_waiters_early(sb);
}

void sandbox_save(struct sandbox *sb, bool wait)
{
	sandbox_save_then(sb, DO_NOTHING, wait);
}

/* The detail of an end when its caller gives none. */
static const char *const end_reason_details[END_NUM_REASONS] = {
	[END_EXIT] = "its entrypoint ended",
	[END_OOM] = "it exceeded its memory limit",
	[END_KILLED] = "ended by a client",
	[END_TTL] = "it reached its time to live",
	[END_IDLE] = "it was idle for too long",
	[END_EVICTED] = "it was evicted to make room",
	[END_START_FAILED] = "it failed to start",
	[END_NODE_LOST] = "the machine lost it",
	[END_NODE_OOM] = "the machine had no memory left for it",
	[END_LEASE] = "its lease was not renewed",
};

/* What an event ended: a process of the client's, our PID 1, or the sandbox as a whole. */
static enum end_of life_event_subject(enum life_kind kind)
{
	return kind == LIFE_EXITED ? END_OF_PROCESS
	       : kind == LIFE_GONE ? END_OF_PID1
				   : END_OF_SANDBOX;
}

static void sandbox_set_end(struct sandbox *sb, enum life_kind by)
{
	const char *why = sb->end_detail ? sb->end_detail : end_reason_details[sb->life.reason];

	sb->info.has_end = true;
	sb->info.end.reason = sb->life.reason;
	sb->info.end.detail = sandbox_copy_text(sb, why);
	sb->end_detail = NULL;
	if (sb->life.reason == END_START_FAILED)
		log_error(&sb->cayd->log, "cannot start a sandbox: %s", why ? why : "");
	if (sb->life.reason == END_START_FAILED && !sb->failure.code)
		(void)cay_fail(&sb->failure, CAY_E_RUNTIME, "%s", why ? why : "");
	if (sb->life.reason == END_START_FAILED)
		end_judge_failure(&sb->info.end, sb->failure.code);
	else
		end_judge(&sb->info.end, life_event_subject(by));
	if (sb->end_is_of_node)
		end_judge_as(&sb->info.end, BLAME_INFRA);
}

enum cay_code sandbox_apply_event(struct sandbox *sb, const struct life_event *ev)
{
	unsigned before = sb->life.state;
	bool dozed = life_is_dozing(&sb->life), changed;
	struct life_out out;

	life_step(&sb->life, ev, clk_boot_ns(sb->cayd->clk), &out);
	if (out.refused)
		return out.refused;
	sb->life = out.next;
	changed = sb->life.state != before;
	if (changed) {
		if (sb->life.state == SB_ENDING)
			sandbox_set_end(sb, ev->kind);
		sandbox_state_changed(sb, before);
	} else if (dozed && !life_is_dozing(&sb->life)) {
		sandbox_notify_observers(sb, SANDBOX_KEPT_PAUSED);
	}
	/* no effect overtakes a write that a reply or effect waits for */
	if (out.effect && sb->unsaved)
		out.sync = true;
	if (out.journal || out.sync)
		sandbox_save_then(sb, out.sync ? out.effect : DO_NOTHING, out.sync);
	if (changed)
		sandbox_notify_observers(sb, SANDBOX_STATE_QUEUED);
	if (out.effect && !out.sync)
		effect_begin(sb, out.effect);
	sandbox_notify_observers(sb, SANDBOX_STEPPED);
	if (out.notify)
		sandbox_notify_waiters(sb);
	return CAY_OK;
}

void sandbox_end(struct sandbox *sb, unsigned reason, const char *why)
{
	if (sb->life.state >= SB_ENDING)
		return;
	sb->end_detail = why;
	(void)sandbox_apply_event(sb, &(struct life_event){ .kind = LIFE_END, .reason = reason });
}

/* PID 1 */

static void sandbox_unwatch_pid1(struct sandbox *sb)
{
	if (sb->pid1_poll)
		uv_close((uv_handle_t *)sb->pid1_poll, on_handle_closed);
	sb->pid1_poll = NULL;
	cay_closep(&sb->pidfd);
	sb->pidfd = -EBADF;
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

/* The wait status; false when the kernel cannot report it. */
static bool pidfd_read_exit_status(int pidfd, int *ret)
{
	struct pidfd_exit info = { .mask = EXIT_BIT };

	if (ioctl(pidfd, GET_EXIT, &info) < 0 || !(info.mask & EXIT_BIT))
		return false;
	*ret = info.exit_code;
	return true;
}

static void on_pid1_exit(uv_poll_t *p, int, int events)
{
	struct sandbox *sb = p->data;
	struct life_event ev = { .kind = LIFE_GONE,
				 .generation = sb->life.generation,
				 .reason = END_KILLED };
	enum end_reason reason;
	char why[96];
	int status = 0, n;

	if (!pidfd_read_exit_status(sb->pidfd, &status)) {
		/* readable before it is reaped; the kernel reaps it at once and polls again */
		if (!(events & UV_DISCONNECT) && sb->info.end.inferred == false) {
			sb->info.end.inferred = true;
			return;
		}
		sb->info.end.inferred = true;
		sb->end_detail = "PID 1 of the sandbox ended";
	} else {
		sb->info.end.inferred = false;
		ev.reason = WIFSIGNALED(status) ? END_SIGNAL : END_EXIT;
		if (WIFSIGNALED(status)) {
			const char *name = sigabbrev_np(WTERMSIG(status));

			n = snprintf(why, sizeof(why), "SIG%s", name ? name : "?");
			sb->info.end.signal = n > 0 ? sandbox_copy_text(sb, why) : NULL;
			n = snprintf(why, sizeof(why), "PID 1 of the sandbox was killed by SIG%s",
				     name ? name : "?");
		} else {
			sb->info.end.has_exit_code = true;
			sb->info.end.exit_code = (uint64_t)WEXITSTATUS(status);
			n = snprintf(why, sizeof(why), "PID 1 of the sandbox exited with %d",
				     WEXITSTATUS(status));
		}
		sb->end_detail = n > 0 ? why : NULL;
	}
	/* no process inside can send SIGKILL to PID 1 */
	if ((sb->info.end.inferred || (ev.reason == END_SIGNAL && WTERMSIG(status) == SIGKILL)) &&
	    oom_detect(sb, &reason))
		ev.reason = reason;
	sandbox_unwatch_pid1(sb);
	(void)sandbox_apply_event(sb, &ev);
	sb->end_detail = NULL;
}

int sandbox_watch_pid1(struct sandbox *sb, int pidfd)
{
	sandbox_unwatch_pid1(sb);
	sb->pidfd = pidfd;
	sb->pid1_poll = calloc(1, sizeof(*sb->pid1_poll));
	if (!sb->pid1_poll || uv_poll_init(&sb->cayd->loop, sb->pid1_poll, pidfd) < 0) {
		free(sb->pid1_poll);
		sb->pid1_poll = NULL;
		return -ENOMEM;
	}
	sb->pid1_poll->data = sb;
	return uv_poll_start(sb->pid1_poll, UV_READABLE | UV_DISCONNECT, on_pid1_exit);
}

void sandbox_apply_deadline(struct sandbox *sb)
{
	struct life_event ev = { .kind = LIFE_DEADLINE, .may_stop = sandbox_may_stop(sb) };

	if (sb->life.state == SB_STOPPED)
		sb->end_detail = "it was stopped for longer than its rest_ttl_ms";
	(void)sandbox_apply_event(sb, &ev);
	sb->end_detail = NULL;
}

void sandboxes_sweep(struct cayd *c, uint64_t now)
{
	struct sandbox_due *due = sandboxes_get_due(c->sandboxes);
	bool no_keeper = keeper_is_gone(c->keeper, now);
	uint64_t still = due->swept_ns && now - due->swept_ns > STILL_NS ? now - due->swept_ns : 0;

	due->swept_ns = now;
	for (struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older) {
		/* no client could renew a lease while control stood still */
		sb->life.renewed_ns += still;
		if (no_keeper && sb->waiters)
			sandbox_refuse_removal_waiters(sb);
		if (life_next_deadline(&sb->life) <= now)
			sandbox_apply_deadline(sb);
		if (now < due->save_retry_ns)
			continue;
		if (sb->save_error.code && !sb->holds)
			sandbox_save(sb, false);
		if (keeper_is_up(c->keeper))
			resize_retry(sb);
	}
	if (now >= due->save_retry_ns)
		due->save_retry_ns = now + AGAIN_NS;
}
