/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/entrypoint.h"

#include <signal.h>
#include <stdio.h>

#include "cayd/core/init-call.h"
#include "cayd/sandbox/oom.h"
#include "wire/entrypoint.h"

#define BODY_MAX KIB(256)
#define EVERY_NS (UINT64_C(500) * NS_PER_MS)

/* The exec's id, which the row has from now on. */
static void entrypoint_record_exec(struct sandbox *sb, const struct entrypoint_status *e)
{
	if (sb->info.entry || life_is_at_rest(&sb->life)) /* at rest: the run is over */
		return;
	id_format(&e->exec, sb->entry_text);
	sb->info.entry = sb->entry_text;
	sandbox_save(sb, false);
}

static void on_entrypoint_start_reply(void *arg, unsigned status, struct slice body,
				      const struct cay_err *err)
{
	struct sandbox *sb = arg;
	struct cay_err outcome = {};
	struct entrypoint_status e;

	if (!status)
		outcome = *err;
	else if (status != 200)
		(void)cay_fail(&outcome, status >= 500 ? CAY_E_RUNTIME : CAY_E_INVALID,
			       "cannot start the entrypoint");
	else if (entrypoint_status_decode((const uint8_t *)body.p, body.n, &e) < 0)
		(void)cay_fail(&outcome, CAY_E_MISBEHAVED,
			       "cay-init of the sandbox did not name the exec");
	else
		entrypoint_record_exec(sb, &e);
	if (outcome.code && !life_is_at_rest(&sb->life)) {
		sb->end_detail = sb->failure.msg;
		sb->failure = outcome;
	}
	sandbox_entrypoint_finish(sb, &outcome);
}

void entrypoint_start(struct sandbox *sb)
{
	struct exec_run run = { .argv = sb->entrypoint, .has_argv = true };
	auto_buf body = BUF_INIT(BODY_MAX);
	struct jw w = jw_to(&body);

	field_encode(&exec_run_table, NULL, &run, &w);
	if (jw_finish(&w) < 0)
		buf_clear(&body); /* PID 1 refuses an empty body, and that is the outcome */
	init_call(sb->cayd, &sb->info.id, "POST", INIT_PATH_ENTER,
		  (struct slice){ buf_str(&body), body.len }, on_entrypoint_start_reply, sb);
}

static void entrypoint_finish(struct sandbox *sb, const struct entrypoint_status *e)
{
	struct life_event ev = { .kind = LIFE_EXITED,
				 .reason = END_EXIT,
				 .code = e->signal || e->exit_code };
	const char *name = sigabbrev_np(e->signal);
	enum end_reason reason;
	char text[16];
	int n = snprintf(text, sizeof(text), "SIG%s", name ? name : "?");

	sb->info.end.has_exit_code = !e->signal;
	sb->info.end.exit_code = e->exit_code;
	sb->info.end.signal = e->signal && n > 0 ? sandbox_copy_text(sb, text) : NULL;
	sb->entrypoint_poll.ended = true;
	if (e->signal == SIGKILL && oom_detect(sb, &reason))
		ev.reason = reason;
	else if (ev.code) /* it may have failed because the machine killed another process */
		sb->end_is_of_node = oom_is_of_node(sb);
	(void)sandbox_apply_event(sb, &ev);
	sb->end_detail = NULL;
}

static void on_entrypoint_status(void *arg, unsigned status, struct slice body,
				 const struct cay_err *)
{
	struct sandbox *sb = arg;
	struct entrypoint_status e;

	sb->entrypoint_poll.under_way = false;
	if (status == 200 && entrypoint_status_decode((const uint8_t *)body.p, body.n, &e) >= 0) {
		entrypoint_record_exec(sb, &e);
		if (e.state == ENTRYPOINT_ENDED && sb->life.on_exit == ON_EXIT_END &&
		    !life_is_at_rest(&sb->life))
			entrypoint_finish(sb, &e);
	}
	sandbox_release(sb);
}

/* Entrypoints whose end ends the sandbox, and those whose exec id a crash has lost. */
static bool entrypoint_needs_poll(const struct sandbox *sb)
{
	return sb->life.state == SB_RUNNING && sb->life.entry &&
	       sb->life.pending_effect != DO_ENTRYPOINT && !sb->entrypoint_poll.under_way &&
	       !sb->entrypoint_poll.ended && (sb->life.on_exit == ON_EXIT_END || !sb->info.entry);
}

void entrypoints_poll(struct cayd *c, uint64_t now)
{
	struct sandbox_due *due = sandboxes_get_due(c->sandboxes);

	if (now < due->entrypoint_poll_ns)
		return;
	due->entrypoint_poll_ns = now + EVERY_NS;
	for (struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older) {
		if (!entrypoint_needs_poll(sb))
			continue;
		sb->entrypoint_poll.under_way = true;
		sb->holds++;
		init_call(c, &sb->info.id, "GET", INIT_PATH_ENTRY, (struct slice){},
			  on_entrypoint_status, sb);
	}
}
