/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "init/pipes.h"
#include "init/shell.h"

#define OPEN_MS 20000

/* Forgetting */

static void on_closed(uv_handle_t *h)
{
	struct sh *s = h->data;

	if (--s->handles == 0)
		free(s);
}

static void on_output_closed(uv_handle_t *h)
{
	struct output *o = h->data;
	struct sh *s = o->data;

	if (--s->handles == 0)
		free(s);
}

/* The handle in front of its fd: see output.c. */
void shell_close_script(struct sh *s)
{
	if (s->script_open)
		uv_close((uv_handle_t *)&s->script_poll, on_closed);
	s->script_open = s->feeding = false;
	buf_fini(&s->feed);
	if (s->script >= 0)
		(void)close(cay_take_fd(&s->script));
}

void shell_close_side(struct sh *s)
{
	if (s->side_open)
		uv_close((uv_handle_t *)&s->side_poll, on_closed);
	s->side_open = false;
	if (s->side_fd >= 0)
		(void)close(cay_take_fd(&s->side_fd));
}

void shell_run_free(struct sh_run *r)
{
	free(r->text);
	free(r->cwd);
	free(r);
}

static void shell_free(struct sh *s)
{
	struct sh **at = &s->init->shells.first;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	s->init->shells.n--;
	while (s->first) {
		struct sh_run *r = s->first;

		s->first = r->next;
		shell_run_free(r);
	}
	shell_close_script(s);
	shell_close_side(s);
	free(s->cwd);
	for (int i = 0; i < 2; i++) {
		output_detach(&s->watch[i]);
		output_close(&s->out[i]);
		if (s->ends[i] >= 0)
			(void)close(s->ends[i]);
	}
	uv_close((uv_handle_t *)&s->timer, on_closed);
}

static bool in_use(const struct sh *s)
{
	if (s->job || s->run || s->opener)
		return true;
	for (const struct sh_run *r = s->first; r; r = r->next)
		if (r->bound.users || r->rq)
			return true;
	/* our own watch is always there */
	for (int i = 0; i < 2; i++)
		if (s->out[i].pumping || (s->out[i].readers && s->out[i].readers->next))
			return true;
	return false;
}

/* Deleted ones that nobody reads any more; when all places are taken, the oldest that ended. */
static void sweep(struct init *in)
{
	struct sh *s = in->shells.first;

	while (s) {
		struct sh *next = s->next;

		if (s->state == SHELL_ENDED && !in_use(s) &&
		    (s->deleted || in->shells.n >= SHELLS_MAX))
			shell_free(s);
		s = next;
	}
}

bool shell_reclaim(struct init *in)
{
	for (struct sh *s = in->shells.first; s; s = s->next)
		if (s->state == SHELL_ENDED && !in_use(s) &&
		    (s->out[0].ring.cap || s->out[1].ring.cap)) {
			ring_drop(&s->out[0].ring);
			ring_drop(&s->out[1].ring);
			return true;
		}
	return false;
}

static void copy_end(const struct end *from, struct end *to, char signal_name[static 16],
		     char detail[static 128])
{
	int n;

	*to = *from;
	if (from->signal) {
		n = snprintf(signal_name, 16, "%s", from->signal);
		to->signal = n > 0 ? signal_name : NULL;
	}
	if (from->detail) {
		n = snprintf(detail, 128, "%s", from->detail);
		to->detail = n > 0 ? detail : NULL;
	}
}

/* Opening and ending */

static void refuse_opener(struct sh *s, enum cay_code code, const char *what)
{
	struct request *rq = cay_take(s->opener);

	if (!rq)
		return;
	rq->events = NULL;
	request_refuse(rq, code, what);
}

static void on_started(struct job *, const struct cay_err *err, void *arg)
{
	struct sh *s = arg;
	struct request *rq = s->opener;

	if (!err) {
		shell_feed(s, PHASE_START, false);
		return;
	}
	s->job = NULL;
	s->state = SHELL_ENDED;
	s->deleted = true;
	if (rq) {
		s->opener = NULL;
		rq->events = NULL;
		request_fail(rq, err);
	}
}

static void never_was(struct sh *s)
{
	if (s->end.reason == END_EXIT && s->end.exit_code == 127)
		refuse_opener(s, CAY_E_UNSUPPORTED,
			      "the image has no bash: take one that has it, or run commands "
			      "with exec.run, whose 'shell' takes any /bin/sh");
	else if (s->end.reason == END_EXIT && s->end.exit_code == 126)
		refuse_opener(s, CAY_E_INVALID, "cwd cannot be gone to");
	else
		refuse_opener(s, CAY_E_STATE, "bash ended before it was ready");
	s->deleted = true;
}

static void on_ended(struct job *j, void *arg)
{
	bool started = ((struct sh *)arg)->state != SHELL_STARTING;
	struct sh *s = arg;
	struct sh_run *r = s->run;

	copy_end(&j->end, &s->end, s->signal_name, s->detail);
	s->job = NULL;
	s->state = SHELL_ENDED;
	s->side.nonce[0] = 0;
	shell_close_script(s);
	shell_close_side(s);
	if (!started)
		never_was(s);
	if (r && s->phase != PHASE_SETTLE) {
		copy_end(&j->end, &r->end, r->signal_name, r->detail);
		if (s->timed_out)
			r->end.reason = END_TIMEOUT;
		shell_settle(s);
	} else if (!r) {
		shell_drop_queue(s);
		for (int i = 0; i < 2; i++) {
			s->out[i].complete = true;
			output_notify(&s->out[i]);
		}
	}
	/* the last writer but us is gone or will be */
	for (int i = 0; i < 2; i++)
		if (s->ends[i] >= 0)
			(void)close(cay_take_fd(&s->ends[i]));
}

static void on_start_timeout(uv_timer_t *t)
{
	struct sh *s = t->data;

	shell_break(s, "bash did not start in time");
	if (s->job)
		job_kill(s->job);
}

static void on_opener_gone(struct request *rq)
{
	struct sh *s = rq->data;

	s->opener = NULL;
}

static void on_complete(struct output *)
{
	/* an output of a shell is complete when that has ended: on_ended() */
}

static int init_outputs(struct sh *s)
{
	for (int i = 0; i < 2; i++) {
		int fds[2] = { -EBADF, -EBADF };
		int r = pipe_make(fds, 0);

		if (r < 0)
			return r;
		s->ends[i] = fds[1];
		r = output_init(&s->out[i], &s->init->loop, fds[0], OUTPUT_DROP, &s->init->budget);
		s->out[i].data = s;
		s->out[i].poll.data = &s->out[i];
		s->out[i].on_complete = on_complete;
		s->out[i].on_closed = on_output_closed;
		s->handles += s->out[i].open;
		if (r < 0)
			return r;
		s->watch[i] = (struct reader){ .greedy = true, .more = shell_on_watch, .data = s };
		output_attach(&s->out[i], &s->watch[i], 0);
	}
	return 0;
}

/* The two pipes beside its outputs; what the child gets is in pass. */
static int init_pipes(struct sh *s, int pass[static 2])
{
	int fds[2] = { -EBADF, -EBADF };
	int r = pipe_make(fds, 1);

	pass[0] = fds[0];
	s->script = fds[1];
	/* bash opens it by name, whoever it is; only its own processes have the name */
	if (r >= 0 && fchmod(fds[0], 0644) < 0)
		r = -errno;
	if (r >= 0 && fcntl(s->script, F_SETPIPE_SZ, SCRIPT_PAGE) < 0)
		r = -errno;
	if (r < 0)
		return r;
	r = uv_poll_init(&s->init->loop, &s->script_poll, s->script);
	if (r < 0)
		return r;
	s->script_open = true;
	s->handles++;
	fds[0] = fds[1] = -EBADF;
	r = pipe_make(fds, 0);
	pass[1] = fds[1];
	s->side_fd = fds[0];
	if (r < 0)
		return r;
	r = uv_poll_init(&s->init->loop, &s->side_poll, s->side_fd);
	if (r < 0)
		return r;
	s->side_open = true;
	s->handles++;
	s->script_poll.data = s->side_poll.data = s;
	return 0;
}

static int start(struct sh *s, const struct shell_create *q, struct cay_err *err)
{
	const struct claim *c = &s->init->claim;
	struct exec_run req = { .user = q->user, .cwd = q->cwd, .env = q->env };
	int pass[2] = { -EBADF, -EBADF };
	struct job_own own = { .out = -EBADF,
			       .apart = true,
			       .env = &shell_env,
			       .pass = pass,
			       .n_pass = ARRAY_SIZE(pass),
			       .inside = shell_inside,
			       .started = on_started,
			       .ended = on_ended,
			       .arg = s };
	int r = init_outputs(s);

	if (r >= 0)
		r = init_pipes(s, pass);
	s->cwd = strdup(q->cwd ? q->cwd : c->cwd ? c->cwd : "/");
	if (r < 0 || !s->cwd)
		r = cay_fail_sys(err, CAY_E_LIMIT, r < 0 ? -r : ENOMEM, "pipes for a shell");
	own.out = s->ends[0];
	own.err = s->ends[1];
	if (r >= 0)
		r = job_start_own(s->init, &req, &own, &s->job, err);
	for (int i = 0; i < 2; i++)
		if (pass[i] >= 0)
			(void)close(pass[i]);
	return r;
}

void shell_open(struct init *in, struct request *rq, const struct shell_create *q)
{
	static const struct request_events events = { .gone = on_opener_gone };
	struct cay_err err = {};
	struct sh *s;
	int n;

	sweep(in);
	if (in->shells.n >= SHELLS_MAX) {
		request_refuse(rq, CAY_E_LIMIT, "so many shells are open already");
		return;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory for a shell");
		return;
	}
	s->init = in;
	s->script = s->side_fd = s->ends[0] = s->ends[1] = -EBADF;
	s->out[0].fd = s->out[1].fd = -EBADF;
	s->feed = BUF_INIT(SCRIPT_MAX);
	s->created_ns = clk_wall_ns(in->clk);
	(void)uv_timer_init(&in->loop, &s->timer);
	s->timer.data = s;
	s->handles = 1;
	s->next = NULL;
	for (struct sh **at = &in->shells.first;; at = &(*at)->next)
		if (!*at) {
			*at = s;
			break;
		}
	in->shells.n++;
	n = snprintf(s->name, sizeof(s->name), "%s", q->name ? q->name : "");
	assert(n >= 0 && (size_t)n < sizeof(s->name));
	if (id_new(ID_SHELL, id_cell(&rq->match.params[0]), id_node(&rq->match.params[0]), &s->id) <
	    0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "random bits");
	if (err.code || start(s, q, &err) < 0) {
		request_fail(rq, &err);
		shell_free(s);
		return;
	}
	s->opener = rq;
	rq->data = s;
	rq->events = &events;
	output_start(&s->out[0]);
	output_start(&s->out[1]);
	(void)uv_poll_start(&s->side_poll, UV_READABLE, shell_on_side);
	(void)uv_timer_start(&s->timer, on_start_timeout, OPEN_MS, 0);
}

void shell_delete(struct sh *s)
{
	s->deleted = true;
	if (!s->why)
		s->why = "it was deleted";
	if (s->job)
		job_kill(s->job);
	sweep(s->init);
}

struct sh *shell_find(struct init *in, const struct id *id)
{
	sweep(in);
	for (struct sh *s = in->shells.first; s; s = s->next)
		if (id_eq(&s->id, id) && !s->deleted && s->state != SHELL_STARTING)
			return s;
	return NULL;
}
