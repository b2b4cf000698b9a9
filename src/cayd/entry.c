/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/entry.h"

#include "cayd/ask.h"

#define BODY_MAX KIB(256)
#define EVERY_NS (UINT64_C(500) * NS_PER_MS)

static int read_exec(struct slice body, struct pool *pool, struct exec *ret, struct cay_err *err)
{
	auto_json json = NULL;
	int r = jr_read(body, &json_control_limits, &json, err);

	return r < 0 ? r : field_decode(&exec_table, json, pool, ret, err);
}

static int target_of(const struct box *b, const char *exec, struct buf *out)
{
	char id[ID_TEXT_LEN + 1];

	id_format(&b->info.id, id);
	return exec ? buf_printf(out, "/v1/sandboxes/%s/execs/%s", id, exec)
		    : buf_printf(out, "/v1/sandboxes/%s/execs", id);
}

static void on_started(void *arg, unsigned status, struct slice body, const struct cay_err *err)
{
	struct box *b = arg;
	auto_pool pool = POOL_INIT(KIB(64));
	struct cay_err outcome = {};
	struct exec exec = {};
	char id[ID_TEXT_LEN + 1];

	if (!status)
		outcome = *err;
	else if (status != 200)
		(void)cay_fail(&outcome, CAY_E_INVALID, "the entrypoint could not be started");
	else if (read_exec(body, &pool, &exec, &outcome) >= 0) {
		id_format(&exec.id, id);
		b->info.entry = box_text(b, id);
		box_save(b, false);
	}
	if (outcome.code)
		b->why = b->failure.msg;
	b->failure = outcome.code ? outcome : b->failure;
	box_entered(b, &outcome);
}

void entry_start(struct box *b)
{
	struct exec_run run = {
		.argv = b->entrypoint, .has_argv = true, .detach = true, .output = OUTPUT_DROP
	};
	auto_buf body = BUF_INIT(BODY_MAX), target = BUF_INIT(256);
	struct jw w = jw_to(&body);

	field_encode(&exec_run_table, NULL, &run, &w);
	if (jw_done(&w) < 0 || target_of(b, NULL, &target) < 0)
		buf_clear(&body); /* PID 1 refuses it, and that is the outcome */
	ask(b->cayd, &b->info.id, "POST", buf_str(&target),
	    (struct slice){ buf_str(&body), body.len }, on_started, b);
}

static void on_looked(void *arg, unsigned status, struct slice body, const struct cay_err *)
{
	struct box *b = arg;
	auto_pool pool = POOL_INIT(KIB(64));
	struct exec exec = {};
	struct life_event ev = { .kind = LIFE_EXITED };

	b->entry_asked = false;
	if (status == 200 && read_exec(body, &pool, &exec, NULL) >= 0 && exec.state == EXEC_ENDED &&
	    exec.has_end) {
		b->info.end.has_exit_code = exec.end.has_exit_code;
		b->info.end.exit_code = exec.end.exit_code;
		b->info.end.signal = box_text(b, exec.end.signal);
		ev.code = !exec.end.has_exit_code || exec.end.exit_code;
		b->entry_over = true;
		(void)box_happens(b, &ev);
	}
	box_unhold(b);
}

void entry_sweep(struct cayd *c, uint64_t now)
{
	if (now < c->entries_ns)
		return;
	c->entries_ns = now + EVERY_NS;
	for (struct box *b = boxes_newest(c->boxes); b; b = b->older) {
		auto_buf target = BUF_INIT(256);

		if (b->life.state != SB_RUNNING || b->life.on_exit != ON_EXIT_END ||
		    !b->info.entry || b->entry_asked || b->entry_over ||
		    target_of(b, b->info.entry, &target) < 0)
			continue;
		b->entry_asked = true;
		b->holds++;
		ask(c, &b->info.id, "GET", buf_str(&target), (struct slice){}, on_looked, b);
	}
}
