/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/handlers.h"

#include <string.h>

#include "init/core/signals.h"
#include "init/exec/attach.h"
#include "init/exec/output-excerpt.h"
#include "init/exec/output-stream.h"
#include "init/exec/pty.h"
#include "init/exec/stdin-upload.h"

#define REQUEST_TEXT_MAX (6 * MIB(2) + KIB(4)) /* a body, written as JSON again */

/* NULL: replied not_found. */
static struct exec *exec_from_request(struct init *in, struct request *rq)
{
	struct exec *exec = exec_find(in, &rq->match.params[1]);

	if (!exec)
		request_refuse(rq, CAY_E_NOT_FOUND, "no such exec");
	return exec;
}

static void exec_reply_info(const struct exec *exec, struct request *rq, const struct cay_err *err)
{
	struct exec_info reply;

	exec_describe(exec, &reply);
	if (err->code)
		request_fail(rq, err);
	else
		request_reply_json(rq, &exec_info_table, &reply);
}

/* The exec that an earlier request with this key started. */
static int exec_check_repeated(const struct exec *exec, const struct idempotency_key *key,
			       struct request *rq, struct cay_err *err)
{
	if (strcmp(exec->key_hash, key->body_hash) != 0)
		return cay_fail(err, CAY_E_KEY_REUSED,
				"another exec.run with this Idempotency-Key had another body");
	if (exec->state != EXEC_PHASE_STARTING)
		return 0;
	(void)request_add_reply_header(rq, "Retry-After", "1");
	return cay_fail(err, CAY_E_UNAVAILABLE, "the command is starting; send the request again");
}

static int exec_find_or_start(struct init *in, struct request *rq, struct exec **ret,
			      struct cay_err *err)
{
	const struct exec_run *req = rq->body;
	enum exec_output mode = (enum exec_output)req->output;
	struct idempotency_key key;
	int r = idempotency_key_read(http_header_find(rq->head, "idempotency-key"), &exec_run_table,
				     req, REQUEST_TEXT_MAX, &key, err);

	if (r < 0)
		return r;
	*ret = key.key.n ? exec_find_by_key(in, key.key) : NULL;
	if (*ret)
		return exec_check_repeated(*ret, &key, rq, err);
	if (mode == OUTPUT_AUTO)
		mode = req->detach && !req->has_tty ? OUTPUT_DROP : OUTPUT_BLOCK;
	r = exec_start(in, req, &rq->match.params[0], mode, ret, err);
	if (r >= 0 && key.key.n) {
		memcpy((*ret)->key, key.key.p, key.key.n);
		memcpy((*ret)->key_hash, key.body_hash, sizeof((*ret)->key_hash));
	}
	return r;
}

void op_exec_run(struct request *rq, void *arg)
{
	const struct exec_run *req = rq->body;
	size_t most = output_excerpt_max(arg);
	struct run_query part = { req->has_max_output && req->max_output_bytes < most
					  ? req->max_output_bytes
					  : most,
				  req->has_keep ? req->keep : KEEP_TAIL };
	bool detach = req->detach;
	struct cay_err err = {};
	struct exec *exec;

	if (exec_find_or_start(arg, rq, &exec, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	request_free_body(rq);
	output_stream_reply_run(exec, rq, detach ? NULL : &part);
}

void op_exec_list(struct request *rq, void *arg)
{
	const struct init *in = arg;
	struct exec_info *rows =
		arena_alloc(&rq->arena, in->n_live_execs + in->n_finished_execs, sizeof(*rows));
	struct exec_list reply = { .execs.v = rows };

	if (!rows) {
		request_no_memory(rq);
		return;
	}
	for (const struct exec *exec = in->oldest_exec; exec; exec = exec->next)
		if (exec_is_visible(exec))
			exec_describe(exec, &rows[reply.execs.n++]);
	request_reply_json(rq, &exec_list_table, &reply);
}

void op_exec_get(struct request *rq, void *arg)
{
	const struct exec *exec = exec_from_request(arg, rq);

	if (exec)
		exec_reply_info(exec, rq, &(struct cay_err){});
}

void op_exec_output(struct request *rq, void *arg)
{
	const struct exec_output_query *q = rq->query;
	struct exec *exec = exec_from_request(arg, rq);

	if (exec)
		output_stream_reply_output(exec, &exec->out[q->stream], rq, q);
}

void op_exec_stdin(struct request *rq, void *arg)
{
	const struct exec_stdin_query *q = rq->query;
	struct exec *exec = exec_from_request(arg, rq);
	struct cay_err err = {};

	if (exec && exec->tty && q->close) {
		(void)cay_fail_field(
			&err, CAY_E_INVALID, "close",
			"a terminal's input cannot be closed; send ctrl-d (0x04) instead");
		request_fail(rq, &err);
	} else if (exec) {
		stdin_upload_start(exec, rq, q->close);
	}
}

void op_exec_signal(struct request *rq, void *arg)
{
	const struct exec_signal *req = rq->body;
	struct exec *exec = exec_from_request(arg, rq);
	struct cay_err err = {};
	int sig = signal_parse(slice_of(req->signal));

	if (!exec)
		return;
	if (sig < 0)
		(void)cay_fail_field(&err, CAY_E_INVALID, "signal", "unknown signal '%s'",
				     req->signal);
	else
		(void)exec_signal(exec, sig, &err);
	exec_reply_info(exec, rq, &err);
}

void op_exec_attach(struct request *rq, void *arg)
{
	struct exec *exec = exec_from_request(arg, rq);

	if (exec)
		exec_attach_start(exec, rq, rq->query);
}

void op_exec_resize(struct request *rq, void *arg)
{
	const struct exec_resize *q = rq->body;
	struct exec *exec = exec_from_request(arg, rq);
	struct cay_err err = {};

	if (!exec)
		return;
	(void)exec_resize_pty(exec, q->cols, q->rows, &err);
	exec_reply_info(exec, rq, &err);
}
