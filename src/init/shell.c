/* SPDX-License-Identifier: Apache-2.0 */
#include "init/shell.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <time.h>

#include "init/memory.h"
#include "init/signals.h"
#include "text/hex.h"

#define SETTLE_MS 2000  /* for output that was there when the run ended */
#define RESTORE_MS 5000 /* for what a stopped run may have changed */

static void next_run(struct sh *s);
static void feed_more(struct sh *s);

/* Ending a run */

static uint64_t written(const struct output *o)
{
	int n = 0;

	if (o->fd < 0 || ioctl(o->fd, FIONREAD, &n) < 0)
		n = 0;
	return output_end(o) + (uint64_t)n;
}

static void forget_runs(struct sh *s)
{
	struct sh_run **at = &s->first;

	while (s->kept > RUNS_KEPT && *at) {
		struct sh_run *r = *at;

		if (r->state != RUN_ENDED || r->bound.users || r->rq) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		s->kept--;
		if (s->last == r) {
			s->last = s->first;
			while (s->last && s->last->next)
				s->last = s->last->next;
		}
		shell_run_free(r);
	}
}

static void over(struct sh_run *r)
{
	struct request *rq = cay_take(r->rq);
	struct sh *s = r->shell;

	r->state = RUN_ENDED;
	r->ended_ns = clk_wall_ns(s->init->clk);
	r->bound.over = true;
	free(cay_take(r->text));
	s->kept++;
	if (rq) {
		rq->events = NULL;
		shell_tell(r, rq, &r->told);
	}
}

/* It still waits for its turn, and will not have it. */
static void drop(struct sh_run *r, const char *why)
{
	struct sh *s = r->shell;

	s->queued--;
	r->end = (struct end){ .reason = END_KILLED, .detail = why };
	for (int i = 0; i < 2; i++)
		r->from[i] = r->bound.upto[i] = output_end(&s->out[i]);
	over(r);
}

/* Nobody will run what still waits for its turn. */
void shell_drop_queue(struct sh *s)
{
	for (struct sh_run *r = s->first; r; r = r->next)
		if (r->state == RUN_QUEUED)
			drop(r, "the shell ended before its turn");
}

static void finish_run(struct sh *s)
{
	struct sh_run *r = cay_take(s->run);
	bool stopped = s->stopping;

	(void)uv_timer_stop(&s->timer);
	s->phase = PHASE_NONE;
	s->stopping = 0;
	s->timed_out = false;
	over(r);
	for (int i = 0; i < 2; i++)
		output_notify(&s->out[i]);
	forget_runs(s);
	if (s->state == SHELL_ENDED) {
		shell_drop_queue(s);
		for (int i = 0; i < 2; i++) {
			s->out[i].complete = true;
			output_notify(&s->out[i]);
		}
		return;
	}
	s->phase = stopped ? PHASE_RESTORE : PHASE_NONE;
	next_run(s);
}

static bool settled(const struct sh *s)
{
	return output_end(&s->out[0]) >= s->run->bound.upto[0] &&
	       output_end(&s->out[1]) >= s->run->bound.upto[1];
}

static void on_settled(uv_timer_t *t)
{
	struct sh *s = t->data;

	if (s->phase != PHASE_SETTLE)
		return;
	for (int i = 0; i < 2; i++) /* somebody inside has read it before us */
		if (s->run->bound.upto[i] > output_end(&s->out[i]))
			s->run->bound.upto[i] = output_end(&s->out[i]);
	finish_run(s);
}

/* Not from inside an output's own loop over its readers. */
void shell_on_watch(struct reader *w)
{
	struct sh *s = w->data;

	if (s->phase == PHASE_SETTLE && settled(s))
		(void)uv_timer_start(&s->timer, on_settled, 0, 0);
}

/* It is over: exactly what the pipes hold now is the last of its output. */
void shell_settle(struct sh *s)
{
	struct sh_run *r = s->run;

	(void)uv_timer_stop(&s->timer);
	s->phase = PHASE_SETTLE;
	for (int i = 0; i < 2; i++)
		r->bound.upto[i] = written(&s->out[i]);
	if (settled(s))
		finish_run(s);
	else
		(void)uv_timer_start(&s->timer, on_settled, SETTLE_MS, 0);
}

static void end_by_report(struct sh *s)
{
	struct sh_run *r = s->run;
	uint64_t kills = memory_kills(&s->init->memory) - r->oom_kills;
	int n;

	r->end = (struct end){ .reason = END_EXIT,
			       .has_exit_code = true,
			       .exit_code = s->side.status };
	if (s->stopping) {
		r->end = (struct end){ .reason = s->timed_out ? END_TIMEOUT : END_SIGNAL };
		signal_format(SIGINT, r->signal_name);
		r->end.signal = r->signal_name;
	} else if (kills) {
		n = snprintf(r->detail, sizeof(r->detail),
			     "processes killed for memory meanwhile: %llu",
			     (unsigned long long)kills);
		r->end.detail = n > 0 ? r->detail : NULL;
	}
	r->cwd = s->cwd ? strdup(s->cwd) : NULL;
	shell_settle(s);
}

/* The script */

void shell_break(struct sh *s, const char *why)
{
	if (!s->why)
		s->why = why;
	s->side.nonce[0] = 0;
	shell_close_script(s);
}

static void break_hard(struct sh *s)
{
	shell_break(s, "its side channel was flooded");
	shell_close_side(s);
	if (s->job)
		job_kill(s->job);
}

/* Write what there is for this phase, and have it told when it is over. */
void shell_feed(struct sh *s, enum sh_phase phase, bool eval)
{
	char nonce[SCRIPT_NONCE + 1];
	uint8_t chance[SCRIPT_NONCE / 2];
	struct slice text = s->run ? slice_of(s->run->text) : (struct slice){};
	int r = getrandom(chance, sizeof(chance), 0) == (ssize_t)sizeof(chance) ? 0 : -EIO;

	hex_write(chance, sizeof(chance), nonce);
	s->phase = phase;
	side_expect(&s->side, nonce);
	buf_clear(&s->feed);
	if (r >= 0 && phase == PHASE_START)
		r = script_start(&s->feed, nonce, s->cwd);
	else if (r >= 0 && phase == PHASE_CHECK)
		r = script_check(&s->feed, nonce, text);
	else if (r >= 0 && phase == PHASE_RUN)
		r = script_run(&s->feed, nonce, text, eval);
	else if (r >= 0)
		r = script_restore(&s->feed, nonce);
	if (r < 0)
		shell_break(s, "no memory for its script");
	else
		feed_more(s);
}

static void on_report(struct sh *s)
{
	char *cwd = s->side.cwd.n ? strndup(s->side.cwd.p, s->side.cwd.n) : NULL;
	struct request *rq;
	struct shell told;

	if (cwd && s->phase != PHASE_CHECK) {
		free(s->cwd);
		s->cwd = cay_take(cwd);
	}
	free(cwd);
	switch (s->phase) {
	case PHASE_START:
		(void)uv_timer_stop(&s->timer);
		s->state = SHELL_IDLE;
		s->phase = PHASE_NONE;
		rq = cay_take(s->opener);
		if (rq) {
			rq->events = NULL;
			shell_describe(s, &told);
			request_reply_json(rq, &shell_table, &told);
		}
		next_run(s);
		break;
	case PHASE_CHECK:
		shell_feed(s, PHASE_RUN, s->side.status != 0);
		break;
	case PHASE_RUN:
		end_by_report(s);
		break;
	case PHASE_RESTORE:
		(void)uv_timer_stop(&s->timer);
		s->phase = PHASE_NONE;
		next_run(s);
		break;
	case PHASE_NONE:
	case PHASE_SETTLE:
		break;
	}
}

static void take_side(struct sh *s)
{
	char bytes[KIB(8)];
	enum side_said said;
	ssize_t n;

	if (s->side_fd < 0)
		return;
	n = read(s->side_fd, bytes, sizeof(bytes));
	if (n < 0)
		return;
	if (n == 0) {
		shell_close_side(s); /* bash goes, or somebody closed it everywhere */
		return;
	}
	said = side_take(&s->side, bytes, (size_t)n);
	if (said == SIDE_REPORT)
		on_report(s);
	else if (said == SIDE_BROKEN)
		break_hard(s);
}

void shell_on_side(uv_poll_t *p, int, int)
{
	take_side(p->data);
}

/* The pipe is empty: bash has all of it, and asks for more. */
static void on_drained(struct sh *s)
{
	char was[sizeof(s->side.nonce)]; /* a report may begin the next script at once */

	memcpy(was, s->side.nonce, sizeof(was));
	for (int i = 0; i < 32 && was[0] && s->side_fd >= 0; i++) {
		int n = 0;

		if (ioctl(s->side_fd, FIONREAD, &n) < 0 || n <= 0)
			break;
		take_side(s);
		if (memcmp(was, s->side.nonce, sizeof(was)) != 0)
			return;
	}
	if (s->feeding && !s->feed.len && was[0])
		shell_break(s, "it reads its script and tells nothing");
}

static void on_script(uv_poll_t *p, int status, int)
{
	struct sh *s = p->data;

	(void)uv_poll_stop(p);
	s->feeding = s->feeding && status >= 0;
	if (s->feeding && !s->feed.len)
		on_drained(s);
	if (s->feed.len && s->script >= 0)
		feed_more(s);
}

/* Bytes first go where a page is free: a pipe of one slot is writable when it is empty. */
static void feed_more(struct sh *s)
{
	size_t n = s->feed.len < SCRIPT_PAGE ? s->feed.len : SCRIPT_PAGE;
	ssize_t put = s->script < 0 ? -1 : write(s->script, s->feed.data, n);

	if (put < 0 && (s->script < 0 || (errno != EAGAIN && errno != EINTR))) {
		/* bash became another program, or ends: that will be told */
		shell_close_script(s);
		return;
	}
	if (put > 0)
		buf_consume(&s->feed, (size_t)put);
	s->feeding = true;
	(void)uv_poll_start(&s->script_poll, UV_WRITABLE, on_script);
}

/* Runs */

static uint64_t ticks_now(void)
{
	struct timespec ts = {};
	long hz = sysconf(_SC_CLK_TCK);

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * (uint64_t)hz +
	       (uint64_t)ts.tv_nsec / (1000000000u / (uint64_t)hz);
}

static void on_run_timeout(uv_timer_t *t)
{
	struct sh *s = t->data;

	s->timed_out = true;
	shell_stop(s);
}

/* It runs what the user may have replaced. */
static void on_restore_late(uv_timer_t *t)
{
	struct sh *s = t->data;

	shell_break(s, "it could not be made what it was behind a stopped run");
	if (s->job)
		job_kill(s->job);
}

static void next_run(struct sh *s)
{
	struct sh_run *r = s->first;
	struct request *rq;

	if (s->state == SHELL_ENDED || s->run || s->phase != PHASE_NONE) {
		if (s->state != SHELL_ENDED && s->phase == PHASE_RESTORE && !s->side.nonce[0]) {
			(void)uv_timer_start(&s->timer, on_restore_late, RESTORE_MS, 0);
			shell_feed(s, PHASE_RESTORE, false);
		}
		return;
	}
	while (r && r->state != RUN_QUEUED)
		r = r->next;
	s->state = r ? SHELL_BUSY : SHELL_IDLE;
	if (!r)
		return;
	s->run = r;
	s->queued--;
	r->state = RUN_RUNNING;
	r->started_ns = clk_wall_ns(s->init->clk);
	r->born_ticks = ticks_now();
	r->last_pid = memory_last_pid();
	r->oom_kills = memory_kills(&s->init->memory);
	for (int i = 0; i < 2; i++) {
		r->from[i] = written(&s->out[i]);
		/* whoever ran before may have made it one that never waits */
		(void)fcntl(s->ends[i], F_SETFL, 0);
	}
	if (r->rq && r->form != STREAM_WAIT) {
		rq = cay_take(r->rq);
		rq->events = NULL;
		stream_bound(s->out, r->from, &r->bound, rq, r->form);
	}
	if (r->timeout_ms)
		(void)uv_timer_start(&s->timer, on_run_timeout, r->timeout_ms, 0);
	shell_feed(s, script_plain(slice_of(r->text)) ? PHASE_RUN : PHASE_CHECK, false);
}

struct sh_run *shell_run_find(const struct sh *s, uint64_t number)
{
	struct sh_run *r = s->first;

	while (r && r->number != number)
		r = r->next;
	return r;
}

static void on_left(void *arg)
{
	struct sh_run *r = arg;
	struct sh *s = r->shell;

	if (!r->ends)
		return;
	if (r == s->run && !s->stopping)
		shell_stop(s);
	if (r->state != RUN_QUEUED)
		return;
	drop(r, "who asked for it left before its turn");
	forget_runs(s);
}

static void on_waiter_gone(struct request *rq)
{
	struct sh_run *r = rq->data;

	r->rq = NULL;
	on_left(r);
}

static void link_run(struct sh *s, struct sh_run *r)
{
	r->shell = s;
	r->number = ++s->runs;
	r->bound.end = &r->end;
	r->bound.left = on_left;
	r->bound.arg = r;
	*(s->last ? &s->last->next : &s->first) = r;
	s->last = r;
	s->queued++;
}

void shell_submit(struct sh *s, struct request *rq, const struct shell_run *q,
		  enum stream_form form)
{
	static const struct request_events events = { .gone = on_waiter_gone };
	struct sh_run *r;
	struct ran told;
	char number[24];
	int n;

	if (s->state == SHELL_ENDED || s->script < 0) {
		request_refuse(rq, CAY_E_STATE, "the shell has ended");
		return;
	}
	if (s->queued >= RUNS_QUEUED) {
		request_refuse(rq, CAY_E_LIMIT, "so many runs wait for this shell already");
		return;
	}
	r = calloc(1, sizeof(*r));
	if (r)
		r->text = strdup(q->command);
	if (!r || !r->text) {
		free(r);
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory for a run");
		return;
	}
	r->timeout_ms = q->timeout_ms;
	r->told = (struct run_query){ q->max_output_bytes, q->keep };
	r->form = form;
	r->ends = http_prefers(rq->head, HTTP_END_WITH_CALLER);
	link_run(s, r);
	n = snprintf(number, sizeof(number), "%llu", (unsigned long long)r->number);
	assert(n > 0 && (size_t)n < sizeof(number));
	(void)request_header(rq, "Cay-Run", number);
	if (!q->detach) {
		r->rq = rq;
		rq->data = r;
		rq->events = &events;
	}
	next_run(s);
	if (!q->detach)
		return;
	shell_describe_run(r, &told);
	request_reply_json(rq, &ran_table, &told);
}
