/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b.h"

/* Read */

static bool on_e2b_content_piece(void *arg, const struct http_head *head, struct slice bytes)
{
	struct e2b_request *v = arg;
	struct slice range = http_header_find(head, "content-range");

	if (!v->begun) {
		v->begun = true;
		if (range.p)
			(void)request_add_reply_header_slice(v->rq, SLICE("Content-Range"), range);
		request_start_stream(v->rq, (int)head->status, "application/octet-stream",
				     head->framing == HTTP_LENGTH ? head->length
								  : REQUEST_LENGTH_UNKNOWN);
	}
	return bytes.n && request_write_stream(v->rq, bytes.p, bytes.n);
}

static void on_e2b_content_done(void *arg, const struct http_head *head, struct slice body,
				const struct cay_err *err)
{
	struct e2b_request *v = arg;
	struct request *rq = v->rq;

	if (!head || head->status >= 400) {
		e2b_take_answer(v, head, body, err);
		return;
	}
	v->call = NULL;
	e2b_request_free(v);
	request_end_stream(rq);
}

static void e2b_content_read_resolved(struct e2b_request *v)
{
	struct slice range = http_header_find(v->rq->head, "range");
	struct e2b_transfer how = { .accept = "application/octet-stream",
				    .piece = on_e2b_content_piece,
				    .done = on_e2b_content_done };
	struct cay_err err = {};

	if (range.n && range.n < 128)
		how.range = arena_strndup(&v->arena, range.p, range.n);
	if (e2b_transfer(v, OP_FILE_READ, json_pack("{s:s}", "path", v->target), &how, &err) < 0)
		e2b_fail(v, &err);
}

void e2b_content_read(struct e2b_request *v)
{
	e2b_resolve_paths(v, e2b_query(v, "path"), NULL, e2b_content_read_resolved);
}

#define FILES_MAX 4096 /* of a form; each is compared with those before */

/*
 * Write: a body of bytes is one file, of a form each part with a file name.  Bytes go to the file
 * as they come; between parts the body waits for the reply about the one before.
 *
 * v->body has what came and was not used; v->flag: it is a form; v->full: the upload has enough.
 */

static void e2b_content_pump(struct e2b_request *v);

static void e2b_content_pause(struct e2b_request *v, bool on)
{
	if (v->paused == on || v->body_done)
		return;
	v->paused = on;
	if (on)
		request_pause_body(v->rq);
	else
		request_resume_body(v->rq);
}

static void on_e2b_content_drain(void *arg)
{
	struct e2b_request *v = arg;

	if (!v->full)
		return;
	v->full = false;
	e2b_content_pump(v);
}

static void on_e2b_content_written(struct e2b_request *v)
{
	const char *slash = strrchr(v->target, '/');

	if (!v->file_ended) { /* there is no file of bytes that were not sent */
		e2b_refuse(v, CAY_E_MISBEHAVED, "the sandbox replied before it had the file");
		return;
	}
	if (!v->kept)
		v->kept = json_array();
	if (json_array_append_new(v->kept,
				  json_pack("{s:s,s:s,s:s}", "path", v->target, "name",
					    slash ? slash + 1 : v->target, "type", "file")) < 0)
		e2b_refuse(v, CAY_E_NO_MEMORY, "out of memory");
	else if (v->flag)
		e2b_content_pump(v);
	else
		e2b_reply(v, 200, json_incref(v->kept));
}

static bool e2b_content_is_repeated(const struct e2b_request *v)
{
	json_t *row;
	size_t i;

	json_array_foreach(v->kept, i, row) if (json_text_eq(json_object_get(row, "path"),
							     v->target)) return true;
	return false;
}

static void e2b_content_open(struct e2b_request *v)
{
	struct e2b_transfer how = { .upload = true, .drain = on_e2b_content_drain };
	const char *user = v->user ? v->user : e2b_query(v, "username");
	json_t *m = json_pack("{s:s,s:b}", "path", v->target, "parents", true);
	struct cay_err err = {};

	if (m && user && user[0])
		(void)json_object_set_new(m, "owner", json_string(user));
	v->then = on_e2b_content_written;
	v->full = v->file_ended = false;
	if (e2b_content_is_repeated(v)) {
		json_decref(m);
		e2b_refuse(v, CAY_E_INVALID, "two parts have the same path");
	} else if (e2b_transfer(v, OP_FILE_WRITE, m, &how, &err) < 0) {
		e2b_fail(v, &err);
	} else {
		v->uploading = true;
		e2b_content_pump(v);
	}
}

static void e2b_content_end_file(struct e2b_request *v)
{
	v->uploading = false;
	v->file_ended = true;
	(void)client_call_write(v->call, (struct slice){});
}

static void e2b_content_open_part(struct e2b_request *v)
{
	const char *name = v->path ? v->path : v->parts.file;

	name = arena_strndup(&v->arena, name, strlen(name));
	if (!name || json_array_size(v->kept) == FILES_MAX)
		e2b_refuse(v, CAY_E_TOO_LARGE, "the form has too many files");
	else if (!v->parts.has_file || !name[0])
		e2b_refuse(v, CAY_E_INVALID, "a part has no file name");
	else
		e2b_resolve_paths(v, name, NULL, e2b_content_open);
}

static void e2b_content_finish_form(struct e2b_request *v)
{
	if (!multipart_is_complete(&v->parts))
		e2b_refuse(v, CAY_E_INVALID, "the form is incomplete");
	else
		e2b_reply(v, 200, v->kept ? json_incref(v->kept) : json_array());
}

/* Until the form needs more, or a call. */
static void e2b_content_pump_form(struct e2b_request *v)
{
	for (;;) {
		struct slice in = { buf_str(&v->body), v->body.len }, data = {};
		struct cay_err err = {};
		int r = multipart_next(&v->parts, &in, &data, &err);

		buf_consume(&v->body, v->body.len - in.n);
		if (r < 0) {
			e2b_fail(v, &err);
			return;
		}
		if (r == MULTIPART_PART) {
			e2b_content_open_part(v);
			return;
		}
		if (r == MULTIPART_PART_END) {
			e2b_content_end_file(v);
			return;
		}
		if (r == MULTIPART_MORE) {
			if (v->body_done)
				e2b_content_finish_form(v);
			else
				e2b_content_pause(v, false);
			return;
		}
		v->full = client_call_write(v->call, data);
		if (v->full)
			return;
	}
}

static void e2b_content_pump(struct e2b_request *v)
{
	bool waits = v->full || (v->call && !v->uploading);

	if (waits) {
		e2b_content_pause(v, true);
	} else if (v->flag) {
		e2b_content_pump_form(v);
	} else {
		v->full = v->body.len &&
			  client_call_write(v->call, (struct slice){ v->body.data, v->body.len });
		buf_clear(&v->body);
		if (v->body_done)
			e2b_content_end_file(v);
		else
			e2b_content_pause(v, v->full);
	}
}

static void on_e2b_content_body(struct request *rq, struct slice bytes)
{
	struct e2b_request *v = rq->data;

	if (buf_append(&v->body, bytes.p, bytes.n) < 0)
		e2b_refuse(v, CAY_E_NO_MEMORY, "out of memory");
	else
		e2b_content_pump(v);
}

static void on_e2b_content_body_end(struct request *rq)
{
	struct e2b_request *v = rq->data;

	v->body_done = true;
	e2b_content_pump(v);
}

static void on_e2b_content_gone(struct request *rq)
{
	e2b_request_free(rq->data);
}

void e2b_content_write(struct e2b_request *v)
{
	static const struct request_events events = { .body = on_e2b_content_body,
						      .body_end = on_e2b_content_body_end,
						      .gone = on_e2b_content_gone };
	struct slice type = http_header_find(v->rq->head, "content-type"), media = type;
	struct cay_err err = {};

	v->rq->events = &events;
	v->path = e2b_query(v, "path");
	media = slice_trim(slice_cut(&media, ';'));
	v->flag = !http_equals_nocase(media, "application/octet-stream");
	if (http_header_find(v->rq->head, "e2b-content-encoding").p)
		e2b_refuse(v, CAY_E_MEDIA_TYPE, "compressed uploads are not supported by Cay");
	else if (!v->flag)
		e2b_resolve_paths(v, v->path, NULL, e2b_content_open);
	else if (multipart_init(&v->parts, type, &err) < 0)
		e2b_fail(v, &err);
}
