/* SPDX-License-Identifier: Apache-2.0 */
#include "init/service/start-scripts.h"

#include <stdio.h>

#include "init/exec/exec-child.h"
#include "init/service/image-scan.h"
#include "init/service/service.h"
#include "init/service/start-env.h"
#include "wire/start.h"

/* The environment before and after the script (start-env.h); an image without `cat` exports
 * nothing. */
#define ENVIRON "cat /proc/self/environ >&4 2>/dev/null || :; "
static const char source_script[] = ENVIRON "printf '=\\000' >&4 || :; . \"$0\"; " ENVIRON;
static_assert(CHILD_PASS == 4);

struct start_script {
	char path[SCAN_PATH_MAX + 1];
	bool sourced;
};

struct start_scripts {
	struct init *init;
	struct request *rq; /* NULL: no request waits */
	uv_timer_t timer;
	struct exec *exec; /* running scan or script; NULL during services */
	int env_fd;        /* of a sourced script (start-env.h) */
	bool timed_out;
	struct start_script scripts[SCAN_SCRIPTS_MAX];
	unsigned n_scripts, next_script;
};

static void start_scripts_run_next(struct start_scripts *b);

static struct request *start_scripts_end(struct start_scripts *b)
{
	struct request *rq = b->rq;

	if (rq)
		rq->events = NULL;
	b->init->start_scripts = NULL;
	cay_closep(&b->env_fd);
	uv_close((uv_handle_t *)&b->timer, on_handle_closed_free);
	return rq;
}

static void start_scripts_finish(void *arg)
{
	struct start_scripts *b = arg;
	struct request *rq = start_scripts_end(b);

	b->init->usable = true;
	if (rq)
		request_reply(rq, 204, NULL, NULL);
}

static void start_scripts_reply_failure(const struct init *in, struct request *rq)
{
	auto_buf body = BUF_INIT(START_SIZE);

	if (buf_append(&body, in->start_failure, sizeof(in->start_failure)) < 0)
		request_no_memory(rq);
	else
		request_reply(rq, START_STATUS, START_MEDIA_TYPE, &body);
}

static void start_scripts_fail(struct start_scripts *b, const struct start_failure *f)
{
	struct init *in = b->init;
	struct request *rq = start_scripts_end(b);

	start_failure_encode(f, in->start_failure);
	in->start_failed = true;
	if (rq)
		start_scripts_reply_failure(in, rq);
}

/* The script could not be run. */
static void start_scripts_fail_with_text(struct start_scripts *b, const char *script,
					 const char *why)
{
	struct start_failure f = { .what = START_NOT_RUN };

	start_failure_set_text(f.script, START_SCRIPT_MAX, slice_of(script));
	start_failure_set_text(f.text, START_TEXT_MAX, slice_of(why));
	start_scripts_fail(b, &f);
}

static void on_start_scripts_timeout(uv_timer_t *t)
{
	struct start_scripts *b = t->data;

	b->timed_out = true;
	if (b->exec) {
		exec_kill(b->exec); /* its end is reported */
		return;
	}
	/* services may continue to start; the reply does not wait for them */
	b->init->services.on_all_up = NULL;
	start_scripts_finish(b);
}

/* The end of its output, preferably of stderr. */
static void start_failure_set_output(const struct exec *exec, struct start_failure *f)
{
	const struct output *o = output_end_offset(&exec->out[1]) ? &exec->out[1] : &exec->out[0];
	uint64_t end = output_end_offset(o), pos = end > START_TEXT_MAX ? end - START_TEXT_MAX : 0;
	char text[START_TEXT_MAX];
	size_t n;

	pos += output_lost_bytes(o, pos);
	n = output_read(o, pos, text, sizeof(text));
	start_failure_set_text(f->text, START_TEXT_MAX, (struct slice){ text, n });
}

/* What the script exported is the sandbox's from now on. */
static int start_scripts_take_env(struct start_scripts *b)
{
	auto_close int fd = cay_take_fd(&b->env_fd);
	auto_buf text = BUF_INIT(START_ENV_BYTES);
	ssize_t n;

	if (fd < 0)
		return 0;
	if (buf_reserve(&text, START_ENV_BYTES) < 0)
		return -ENOMEM;
	n = pread(fd, text.data, START_ENV_BYTES, 0);
	if (n < 0)
		return -errno;
	return start_env_merge((struct slice){ text.data, (size_t)n }, &b->init->claim_arena,
			       &b->init->claim.env);
}

static void on_start_script_exit(struct exec *exec, void *arg)
{
	struct start_scripts *b = arg;
	struct start_failure f = { .what = START_EXITED };
	int status = exec->status;

	b->exec = NULL;
	if (!b->timed_out && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		if (start_scripts_take_env(b) < 0)
			start_scripts_fail_with_text(b, b->scripts[b->next_script - 1].path,
						     "it exports too many variables");
		else
			start_scripts_run_next(b);
		return;
	}
	if (b->timed_out)
		f.what = START_TIMED_OUT;
	else if (WIFSIGNALED(status))
		f.what = START_KILLED;
	f.signal = f.what == START_KILLED ? (uint8_t)WTERMSIG(status) : 0;
	f.exit_code = f.what == START_EXITED ? (uint8_t)WEXITSTATUS(status) : 0;
	start_failure_set_text(f.script, START_SCRIPT_MAX,
			       slice_of(b->scripts[b->next_script - 1].path));
	start_failure_set_output(exec, &f);
	start_scripts_fail(b, &f);
}

static void on_start_script_started(struct exec *, const struct cay_err *err, void *arg)
{
	struct start_scripts *b = arg;
	const struct start_script *s = &b->scripts[b->next_script - 1];
	struct cay_err why = {};

	if (!err)
		return;
	b->exec = NULL;
	if (s->sourced)
		(void)cay_fail(&why, CAY_E_INVALID,
			       "it is not executable, so a shell has to read it, and the image has "
			       "none: %.100s",
			       err->msg);
	start_scripts_fail_with_text(b, s->path, s->sourced ? why.msg : err->msg);
}

static void start_scripts_run_next(struct start_scripts *b)
{
	const struct start_script *s = &b->scripts[b->next_script];
	const char *run[] = { s->path, NULL };
	const char *source[] = { "/bin/sh", "-ec", source_script, s->path, NULL };
	struct exec_run req = { .has_argv = true, .user = "0", .cwd = "/" };
	struct exec_internal own = { .output_fd = -EBADF,
				     .visible = true,
				     .pass_fds = &b->env_fd,
				     .programs_get_them = true,
				     .on_started = on_start_script_started,
				     .on_ended = on_start_script_exit,
				     .arg = b };
	struct cay_err err = {};

	if (b->next_script == b->n_scripts) {
		services_start(b->init, start_scripts_finish, b);
		return;
	}
	b->next_script++;
	req.argv = s->sourced ? (struct field_texts){ source, 4 } : (struct field_texts){ run, 1 };
	b->env_fd = s->sourced ? start_env_open() : -EBADF;
	own.n_pass = b->env_fd >= 0;
	if (exec_start_internal(b->init, &req, &own, &b->exec, &err) < 0) {
		b->exec = NULL;
		start_scripts_fail_with_text(b, s->path, err.msg);
	}
}

/* The first of a name counts, so that a request overrides the image's. */
static void start_scripts_add_service(void *arg, struct service_config *p)
{
	struct init *in = arg;
	struct cay_err err = {};
	struct service *s;

	if (service_find(in, slice_of(p->name)))
		service_config_fini(p);
	else if (service_put(in, p, &s, &err) < 0)
		in->services.left_out++;
}

/* Services of the claim, which override those of files. */
static int start_scripts_add_requested(struct init *in, const struct field_list *requested,
				       struct cay_err *err)
{
	const struct service_spec *all = requested->v;
	struct service_config p;
	struct service *s;

	for (size_t i = 0; i < requested->n; i++) {
		if (!op_name_is_valid(slice_of(all[i].name)) ||
		    service_find(in, slice_of(all[i].name)))
			return cay_fail(err, CAY_E_INVALID, "invalid service name");
		if (service_config_from_request(all[i].name, &all[i].put, &p, err) < 0 ||
		    service_put(in, &p, &s, err) < 0)
			return cay_err_wrap(err, -EINVAL, "service '%s'", all[i].name);
	}
	return 0;
}

static const char *start_scripts_read_scan(struct start_scripts *b, struct slice rest)
{
	struct image_scan_item item;
	int r;

	while ((r = image_scan_next_item(&rest, &item)) > 0) {
		switch (item.kind) {
		case SCAN_RUN:
		case SCAN_SOURCE:
			if (b->n_scripts == SCAN_SCRIPTS_MAX)
				return "too many start scripts";
			memcpy(b->scripts[b->n_scripts].path, item.path, sizeof(item.path));
			b->scripts[b->n_scripts++].sourced = item.kind == SCAN_SOURCE;
			break;
		case SCAN_FILE:
			service_config_parse_file(item.content, item.path, &b->init->claim.env,
						  start_scripts_add_service, b->init);
			break;
		case SCAN_LEFT:
			b->init->services.left_out++;
			break;
		case SCAN_MANY:
			return "too many start scripts";
		}
	}
	return r < 0 ? "cannot read the image's start files" : NULL;
}

static void on_image_scan_exit(struct exec *exec, void *arg)
{
	struct start_scripts *b = arg;
	const struct output *o = &exec->out[0];
	auto_buf text = BUF_INIT(RING_MAX);
	const char *why = "cannot read the image's start files";
	size_t n = (size_t)output_end_offset(o);

	b->exec = NULL;
	if (!b->timed_out && exec->status == 0 && !output_lost_bytes(o, 0) &&
	    buf_reserve(&text, n) >= 0) {
		text.len = output_read(o, 0, text.data, n);
		why = start_scripts_read_scan(b, (struct slice){ text.data, text.len });
	}
	if (why)
		start_scripts_fail_with_text(b, "", why);
	else
		start_scripts_run_next(b);
}

static void on_image_scan_started(struct exec *, const struct cay_err *err, void *arg)
{
	struct start_scripts *b = arg;

	if (!err)
		return;
	b->exec = NULL;
	start_scripts_fail_with_text(b, "", err->msg);
}

static void on_start_waiter_gone(struct request *rq)
{
	struct start_scripts *b = rq->data;

	b->rq = NULL;
}

static void start_scripts_set_waiter(struct start_scripts *b, struct request *rq)
{
	static const struct request_events events = { .gone = on_start_waiter_gone };

	b->rq = rq;
	rq->data = b;
	rq->events = &events;
}

void start_scripts_wait(struct request *rq, void *arg)
{
	struct init *in = arg;

	if (in->usable)
		request_reply(rq, 204, NULL, NULL);
	else if (in->start_failed)
		start_scripts_reply_failure(in, rq);
	else if (!in->start_scripts || in->start_scripts->rq)
		request_refuse(rq, CAY_E_CONFLICT,
			       in->start_scripts ? "another request waits for the start already"
						 : "the sandbox has not been claimed");
	else
		start_scripts_set_waiter(in->start_scripts, rq);
}

void start_scripts_begin(struct init *in, struct request *rq)
{
	const struct claim *claim = rq->body;
	bool scan = image_scan_is_needed();
	struct exec_run req = { .user = "0", .cwd = "/" };
	struct exec_internal own = { .output_fd = -EBADF,
				     .child_main = child_image_scan,
				     .on_started = on_image_scan_started,
				     .on_ended = on_image_scan_exit };
	struct cay_err err = {};
	struct start_scripts *b;
	int r;

	if (!scan && !claim->services.n) {
		in->usable = true;
		request_reply(rq, 204, NULL, NULL);
		return;
	}
	b = calloc(1, sizeof(*b));
	if (!b) {
		request_no_memory(rq);
		return;
	}
	*b = (struct start_scripts){ .init = in, .env_fd = -EBADF };
	in->start_scripts = b;
	r = start_scripts_add_requested(in, &claim->services, &err); /* while the request exists */
	if (slice_eq(http_header_find(rq->head, "prefer"), slice_of("respond-async")))
		request_reply(rq, START_BEGUN, NULL, NULL);
	else
		start_scripts_set_waiter(b, rq);
	(void)uv_timer_init(&in->loop, &b->timer);
	b->timer.data = b;
	(void)uv_timer_start(&b->timer, on_start_scripts_timeout, START_MAX_MS, 0);
	own.arg = b;
	if (r < 0) {
		start_scripts_fail_with_text(b, "", err.msg);
	} else if (!scan) {
		start_scripts_run_next(b);
	} else if (exec_start_internal(in, &req, &own, &b->exec, &err) < 0) {
		b->exec = NULL;
		start_scripts_fail_with_text(b, "", err.msg);
	}
}
