/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/stdin-upload.h"

#include <errno.h>

#include "init/exec/exec.h"

#define PENDING_MAX KIB(128) /* one piece of a body */

struct stdin_upload {
	struct input_writer writer; /* first: the input has its address */
	struct exec *exec;
	struct request *rq;
	struct buf pending;
	bool body_ended, close_after;
};

static void stdin_upload_free(struct stdin_upload *f)
{
	input_unlock(&f->writer);
	buf_fini(&f->pending);
	free(f);
}

static void stdin_upload_fail(struct stdin_upload *f, enum cay_code code, const char *why)
{
	struct request *rq = f->rq;
	struct cay_err err = {};

	(void)cay_fail(&err, code, "%s", why);
	stdin_upload_free(f);
	request_fail(rq, &err);
}

static void stdin_upload_finish(struct stdin_upload *f)
{
	struct request *rq = f->rq;
	struct exec *exec = f->exec;
	bool close = f->close_after;
	struct exec_info reply;

	stdin_upload_free(f);
	if (close)
		input_close(&exec->in);
	exec_describe(exec, &reply);
	request_reply_json(rq, &exec_info_table, &reply);
}

static void on_stdin_upload_cut(struct input_writer *w)
{
	stdin_upload_fail((struct stdin_upload *)w, CAY_E_STATE,
			  "standard input was closed or taken over by another client");
}

/* False: the upload was freed. */
static bool stdin_upload_write(struct stdin_upload *f, struct slice *bytes)
{
	if (input_write(&f->exec->in, bytes) == 0)
		return true;
	on_stdin_upload_cut(&f->writer);
	return false;
}

static void stdin_upload_wait_room(struct stdin_upload *f)
{
	request_pause_body(f->rq);
	if (input_wait_room(&f->exec->in) < 0)
		stdin_upload_fail(f, CAY_E_INTERNAL, "cannot wait for standard input");
}

static void on_stdin_upload_room(struct input_writer *w)
{
	struct stdin_upload *f = (struct stdin_upload *)w;
	struct slice rest = { f->pending.data, f->pending.len };

	if (!stdin_upload_write(f, &rest))
		return;
	buf_consume(&f->pending, f->pending.len - rest.n);
	if (f->pending.len)
		stdin_upload_wait_room(f);
	else if (f->body_ended)
		stdin_upload_finish(f);
	else
		request_resume_body(f->rq);
}

static void on_stdin_upload_body(struct request *rq, struct slice bytes)
{
	struct stdin_upload *f = rq->data;

	if (!f->pending.len && !stdin_upload_write(f, &bytes))
		return;
	if (!bytes.n)
		return;
	if (buf_append(&f->pending, bytes.p, bytes.n) < 0)
		stdin_upload_fail(f, CAY_E_NO_MEMORY, "no memory for standard input");
	else
		stdin_upload_wait_room(f);
}

static void on_stdin_upload_body_end(struct request *rq)
{
	struct stdin_upload *f = rq->data;

	f->body_ended = true;
	if (!f->pending.len)
		stdin_upload_finish(f);
}

static void on_stdin_upload_client_gone(struct request *rq)
{
	stdin_upload_free(rq->data);
}

void stdin_upload_start(struct exec *exec, struct request *rq, bool close)
{
	static const struct request_events events = { .body = on_stdin_upload_body,
						      .body_end = on_stdin_upload_body_end,
						      .gone = on_stdin_upload_client_gone };
	struct stdin_upload *f = calloc(1, sizeof(*f));
	int r;

	if (!f) {
		request_no_memory(rq);
		return;
	}
	*f = (struct stdin_upload){ .writer = { .on_room = on_stdin_upload_room,
						.on_cut = on_stdin_upload_cut },
				    .exec = exec,
				    .rq = rq,
				    .close_after = close,
				    .pending = BUF_INIT(PENDING_MAX) };
	r = input_lock(&exec->in, &f->writer);
	if (r < 0) {
		stdin_upload_fail(f, CAY_E_STATE,
				  r == -EPIPE ? "the command's standard input is closed"
					      : "another request is writing to it");
		return;
	}
	rq->data = f;
	rq->events = &events;
}
