/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/entry.h"

#include <signal.h>
#include <stdio.h>

#include "cayd/ask.h"
#include "cayd/oom.h"
#include "wire/entry.h"

#define BODY_MAX KIB(256)
#define EVERY_NS (UINT64_C(500) * NS_PER_MS)

/* Which exec it is; the row has it from now on. */
static void note(struct box *b, const struct entry *e)
{
	char id[ID_TEXT_LEN + 1];

	if (b->info.entry)
		return;
	id_format(&e->exec, id);
	b->info.entry = box_text(b, id);
	box_save(b, false);
}

static void on_started(void *arg, unsigned status, struct slice body, const struct cay_err *err)
{
	struct box *b = arg;
	struct cay_err outcome = {};
	struct entry e;

	if (!status)
		outcome = *err;
	else if (status != 200)
		(void)cay_fail(&outcome, CAY_E_INVALID, "the entrypoint could not be started");
	else if (entry_decode((const uint8_t *)body.p, body.n, &e) < 0)
		(void)cay_fail(&outcome, CAY_E_MISBEHAVED,
			       "cay-init of the sandbox did not say what it started");
	else
		note(b, &e);
	if (outcome.code)
		b->why = b->failure.msg;
	b->failure = outcome.code ? outcome : b->failure;
	box_entered(b, &outcome);
}

void entry_start(struct box *b)
{
	struct exec_run run = { .argv = b->entrypoint, .has_argv = true };
	auto_buf body = BUF_INIT(BODY_MAX);
	struct jw w = jw_to(&body);

	field_encode(&exec_run_table, NULL, &run, &w);
	if (jw_done(&w) < 0)
		buf_clear(&body); /* PID 1 refuses it, and that is the outcome */
	ask(b->cayd, &b->info.id, "POST", INIT_PATH_ENTER,
	    (struct slice){ buf_str(&body), body.len }, on_started, b);
}

static void ended(struct box *b, const struct entry *e)
{
	struct life_event ev = { .kind = LIFE_EXITED,
				 .reason = END_EXIT,
				 .code = e->signal || e->exit_code };
	const char *name = sigabbrev_np(e->signal);
	char text[16];
	int n = snprintf(text, sizeof(text), "SIG%s", name ? name : "?");

	b->info.end.has_exit_code = !e->signal;
	b->info.end.exit_code = e->exit_code;
	b->info.end.signal = e->signal && n > 0 ? box_text(b, text) : NULL;
	b->entry_over = true;
	if (e->signal == SIGKILL && oom_suspected(b))
		ev.reason = END_OOM;
	(void)box_happens(b, &ev);
	b->why = NULL;
}

static void on_looked(void *arg, unsigned status, struct slice body, const struct cay_err *)
{
	struct box *b = arg;
	struct entry e;

	b->entry_asked = false;
	if (status == 200 && entry_decode((const uint8_t *)body.p, body.n, &e) >= 0) {
		note(b, &e);
		if (e.state == ENTRY_ENDED && b->life.on_exit == ON_EXIT_END)
			ended(b, &e);
	}
	box_unhold(b);
}

/* Those whose end matters, and those of which a crash took the name. */
static bool is_asked_after(const struct box *b)
{
	return b->life.state == SB_RUNNING && b->life.entry && b->life.doing != DO_ENTRY &&
	       !b->entry_asked && !b->entry_over &&
	       (b->life.on_exit == ON_EXIT_END || !b->info.entry);
}

void entry_sweep(struct cayd *c, uint64_t now)
{
	if (now < c->entries_ns)
		return;
	c->entries_ns = now + EVERY_NS;
	for (struct box *b = boxes_newest(c->boxes); b; b = b->older) {
		if (!is_asked_after(b))
			continue;
		b->entry_asked = true;
		b->holds++;
		ask(c, &b->info.id, "GET", INIT_PATH_ENTRY, (struct slice){}, on_looked, b);
	}
}
