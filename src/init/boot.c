/* SPDX-License-Identifier: Apache-2.0 */
#include "init/boot.h"

#include <stdio.h>

#include "init/scan.h"
#include "init/svc.h"
#include "wire/start.h"

struct script {
	char path[SCAN_PATH_MAX + 1];
	bool sourced;
};

struct boot {
	struct init *init;
	struct request *rq; /* NULL: nobody waits */
	uv_timer_t timer;
	struct job *job; /* what is under way, when it is not services */
	bool late;
	struct script scripts[SCAN_SCRIPTS_MAX];
	unsigned n, next;
};

static void run_next(struct boot *b);

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

static struct request *end(struct boot *b)
{
	struct request *rq = b->rq;

	if (rq)
		rq->events = NULL;
	b->init->boot = NULL;
	uv_close((uv_handle_t *)&b->timer, on_closed);
	return rq;
}

static void usable(void *arg)
{
	struct boot *b = arg;
	struct request *rq = end(b);

	b->init->usable = true;
	if (rq)
		request_reply(rq, 204, NULL, NULL);
}

static void tell_failure(const struct init *in, struct request *rq)
{
	auto_buf body = BUF_INIT(START_SIZE);

	if (buf_add(&body, in->start_failure, sizeof(in->start_failure)) < 0)
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory for an answer");
	else
		request_reply(rq, START_STATUS, START_MEDIA_TYPE, &body);
}

static void fail(struct boot *b, const struct start_failure *f)
{
	struct init *in = b->init;
	struct request *rq = end(b);

	start_encode(f, in->start_failure);
	in->not_started = true;
	if (rq)
		tell_failure(in, rq);
}

/* It was not even run. */
static void fail_with(struct boot *b, const char *script, const char *why)
{
	struct start_failure f = { .what = START_CANNOT };

	start_set(f.script, START_SCRIPT_MAX, slice_of(script));
	start_set(f.text, START_TEXT_MAX, slice_of(why));
	fail(b, &f);
}

static void on_timer(uv_timer_t *t)
{
	struct boot *b = t->data;

	b->late = true;
	if (b->job) {
		job_kill(b->job); /* its end is told */
		return;
	}
	/* services take as long as they like, but nobody waits for it */
	b->init->svcs.up = NULL;
	usable(b);
}

/* Scripts */

/* The last of what it wrote, and rather where complaints go. */
static void last_output(const struct job *j, struct start_failure *f)
{
	const struct output *o = output_end(&j->out[1]) ? &j->out[1] : &j->out[0];
	uint64_t end = output_end(o), pos = end > START_TEXT_MAX ? end - START_TEXT_MAX : 0;
	char text[START_TEXT_MAX];
	size_t n;

	pos += output_lost(o, pos);
	n = output_read(o, pos, text, sizeof(text));
	start_set(f->text, START_TEXT_MAX, (struct slice){ text, n });
}

static void on_script_ended(struct job *j, void *arg)
{
	struct boot *b = arg;
	struct start_failure f = { .what = START_EXITED };
	int status = j->status;

	b->job = NULL;
	if (!b->late && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		run_next(b);
		return;
	}
	if (b->late)
		f.what = START_SLOW;
	else if (WIFSIGNALED(status))
		f.what = START_KILLED;
	f.signal = f.what == START_KILLED ? (uint8_t)WTERMSIG(status) : 0;
	f.exit_code = f.what == START_EXITED ? (uint8_t)WEXITSTATUS(status) : 0;
	start_set(f.script, START_SCRIPT_MAX, slice_of(b->scripts[b->next - 1].path));
	last_output(j, &f);
	fail(b, &f);
}

static void on_script_started(struct job *, const struct cay_err *err, void *arg)
{
	struct boot *b = arg;
	const struct script *s = &b->scripts[b->next - 1];
	struct cay_err why = {};

	if (!err)
		return;
	b->job = NULL;
	if (s->sourced)
		(void)cay_fail(&why, CAY_E_INVALID,
			       "it is not executable, so a shell has to read it, and the image has "
			       "none: %.100s",
			       err->msg);
	fail_with(b, s->path, s->sourced ? why.msg : err->msg);
}

static void run_next(struct boot *b)
{
	const struct script *s = &b->scripts[b->next];
	const char *run[] = { s->path, NULL };
	const char *source[] = { "/bin/sh", "-ec", ". \"$0\"", s->path, NULL };
	struct exec_run req = { .has_argv = true, .user = "0", .cwd = "/" };
	struct cay_err err = {};

	if (b->next == b->n) {
		svcs_start(b->init, usable, b);
		return;
	}
	b->next++;
	req.argv = s->sourced ? (struct field_texts){ source, 4 } : (struct field_texts){ run, 1 };
	if (job_start(b->init, &req, &(struct id){}, OUTPUT_DROP, &b->job, &err) < 0) {
		b->job = NULL;
		fail_with(b, s->path, err.msg);
		return;
	}
	b->job->started = on_script_started;
	b->job->ended = on_script_ended;
	b->job->arg = b;
}

/* What there is */

/* The first of a name counts, so that the image's own can be set aside. */
static void take_program(void *arg, struct program *p)
{
	struct init *in = arg;
	struct cay_err err = {};
	struct svc *s;

	if (svc_find(in, slice_of(p->name)))
		program_fini(p);
	else if (svc_put(in, p, &s, &err) < 0)
		in->svcs.left_out++;
}

/* What was asked for by name; a file's of that name is set aside. */
static int take_asked(struct init *in, const struct field_list *asked, struct cay_err *err)
{
	const struct service_spec *all = asked->v;
	struct program p;
	struct svc *s;

	for (size_t i = 0; i < asked->n; i++) {
		if (!op_name_valid(slice_of(all[i].name)) || svc_find(in, slice_of(all[i].name)))
			return cay_fail(err, CAY_E_INVALID, "a service's name");
		if (program_from(all[i].name, &all[i].put, &p, err) < 0 ||
		    svc_put(in, &p, &s, err) < 0)
			return cay_wrap(err, -EINVAL, "service '%s'", all[i].name);
	}
	return 0;
}

static const char *take_items(struct boot *b, struct slice rest)
{
	struct scan_item item;
	int r;

	while ((r = scan_next(&rest, &item)) > 0) {
		switch (item.kind) {
		case SCAN_RUN:
		case SCAN_SOURCE:
			if (b->n == SCAN_SCRIPTS_MAX)
				return "more start scripts than may be";
			memcpy(b->scripts[b->n].path, item.path, sizeof(item.path));
			b->scripts[b->n++].sourced = item.kind == SCAN_SOURCE;
			break;
		case SCAN_FILE:
			program_parse(item.content, item.path, &b->init->claim.env, take_program,
				      b->init);
			break;
		case SCAN_LEFT:
			b->init->svcs.left_out++;
			break;
		case SCAN_MANY:
			return "more start scripts than may be";
		}
	}
	return r < 0 ? "the image's start files could not be read" : NULL;
}

static void on_scanned(struct job *j, void *arg)
{
	struct boot *b = arg;
	const struct output *o = &j->out[0];
	auto_buf text = BUF_INIT(RING_MAX);
	const char *why = "the image's start files could not be read";
	size_t n = (size_t)output_end(o);

	b->job = NULL;
	if (!b->late && j->status == 0 && !output_lost(o, 0) && buf_reserve(&text, n) >= 0) {
		text.len = output_read(o, 0, text.data, n);
		why = take_items(b, (struct slice){ text.data, text.len });
	}
	if (why)
		fail_with(b, "", why);
	else
		run_next(b);
}

static void on_scanning(struct job *, const struct cay_err *err, void *arg)
{
	struct boot *b = arg;

	if (!err)
		return;
	b->job = NULL;
	fail_with(b, "", err->msg);
}

static void on_gone(struct request *rq)
{
	struct boot *b = rq->data;

	b->rq = NULL;
}

static void wait_for(struct boot *b, struct request *rq)
{
	static const struct request_events events = { .gone = on_gone };

	b->rq = rq;
	rq->data = b;
	rq->events = &events;
}

void boot_wait(struct init *in, struct request *rq)
{
	if (in->usable)
		request_reply(rq, 204, NULL, NULL);
	else if (in->not_started)
		tell_failure(in, rq);
	else if (!in->boot || in->boot->rq)
		request_refuse(rq, CAY_E_CONFLICT,
			       in->boot ? "somebody waits for it already" : "it was not begun");
	else
		wait_for(in->boot, rq);
}

void boot_begin(struct init *in, struct request *rq)
{
	const struct claim *claim = rq->body;
	bool scan = scan_needed();
	struct exec_run req = { .user = "0", .cwd = "/" };
	struct job_own own = {
		.out = -EBADF, .inside = scan_inside, .started = on_scanning, .ended = on_scanned
	};
	struct cay_err err = {};
	struct boot *b;
	int asked;

	if (!scan && !claim->services.n) {
		in->usable = true;
		request_reply(rq, 204, NULL, NULL);
		return;
	}
	b = calloc(1, sizeof(*b));
	if (!b) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory to start");
		return;
	}
	*b = (struct boot){ .init = in };
	in->boot = b;
	asked = take_asked(in, &claim->services, &err); /* while there is the request */
	if (slice_eq(http_header(rq->head, "prefer"), slice_of("respond-async")))
		request_reply(rq, START_BEGUN, NULL, NULL);
	else
		wait_for(b, rq);
	(void)uv_timer_init(&in->loop, &b->timer);
	b->timer.data = b;
	(void)uv_timer_start(&b->timer, on_timer, START_MAX_MS, 0);
	own.arg = b;
	if (asked < 0) {
		fail_with(b, "", err.msg);
	} else if (!scan) {
		run_next(b);
	} else if (job_start_own(in, &req, &own, &b->job, &err) < 0) {
		b->job = NULL;
		fail_with(b, "", err.msg);
	}
}
