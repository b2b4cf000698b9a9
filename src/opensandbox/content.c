/* SPDX-License-Identifier: Apache-2.0 */
#include "opensandbox/opensandbox.h"

#define LINES_TEXT_MAX MIB(4)
#define LINES_PAGE 10000
#define LINE_WIDTH 65536

/* Download */

static bool on_osb_content_piece(void *arg, const struct http_head *head, struct slice bytes)
{
	struct osb_request *v = arg;
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

static void on_osb_content_done(void *arg, const struct http_head *head, struct slice body,
				const struct cay_err *err)
{
	struct osb_request *v = arg;
	struct request *rq = v->rq;

	if (!head || head->status >= 400) {
		osb_take_answer(v, head, body, err);
		return;
	}
	v->call = NULL;
	osb_request_free(v);
	request_end_stream(rq);
}

static void osb_download_bytes(struct osb_request *v)
{
	struct slice range = http_header_find(v->rq->head, "range");
	struct face_operation how = { .accept = "application/octet-stream",
				      .piece = on_osb_content_piece,
				      .done = on_osb_content_done };
	struct cay_err err = {};

	if (range.n && range.n < 128)
		how.range = arena_strndup(&v->arena, range.p, range.n);
	if (osb_transfer(v, OP_FILE_READ, json_pack("{s:s}", "path", v->target), how, &err) < 0)
		osb_fail(v, &err);
}

/* Lines v->first and v->most after it; v->body has those that came. */
static void osb_download_lines(struct osb_request *v);

static void on_osb_lines_known(struct osb_request *v)
{
	const json_t *text = json_object_get(v->answer, "text");
	uint64_t n = (uint64_t)json_integer_value(json_object_get(v->answer, "lines"));
	struct request *rq = v->rq;
	auto_buf body = BUF_INIT(OSB_BODY_MAX);
	struct cay_err err = {};

	if (!json_is_string(text) && n)
		osb_refuse(v, CAY_E_INVALID, "the file is not text: read it by bytes");
	else if (json_integer_value(json_object_get(v->answer, "cut")))
		osb_refuse(v, CAY_E_TOO_LARGE, "a line is longer than 64 KiB: read it by bytes");
	else if (text &&
		 buf_append(&v->body, json_string_value(text), json_string_length(text)) < 0)
		osb_refuse(v, CAY_E_TOO_LARGE, "the lines are more than 3 MiB: read fewer");
	else if (!osb_hold(v, OSB_MEM_BODY, v->body.cap, &err))
		osb_fail(v, &err);
	else if (n && n < v->most && json_is_true(json_object_get(v->answer, "more"))) {
		v->first += n;
		v->most -= n;
		osb_download_lines(v);
	} else {
		body = v->body;
		v->body = BUF_INIT(1);
		osb_request_free(v);
		request_reply(rq, 200, "text/plain; charset=utf-8", &body);
	}
}

static void osb_download_lines(struct osb_request *v)
{
	osb_call(v, OP_FILE_VIEW, on_osb_lines_known, "{s:s,s:I,s:I,s:b,s:i}", "path", v->target,
		 "first", (json_int_t)v->first, "limit",
		 (json_int_t)(v->most < LINES_PAGE ? v->most : LINES_PAGE), "numbers", false,
		 "width", LINE_WIDTH);
}

static void osb_download_begin(struct osb_request *v)
{
	const char *offset = osb_query(v, "offset"), *limit = osb_query(v, "limit");

	v->target = osb_absolute(v, osb_query(v, "path"));
	v->first = 1;
	v->most = INT64_MAX;
	if (!v->target || !v->target[0]) {
		osb_refuse(v, CAY_E_INVALID, "path is missing");
	} else if (!offset && !limit) {
		osb_download_bytes(v);
	} else if ((offset && str_parse_u64(slice_of(offset), 1, INT64_MAX, &v->first) < 0) ||
		   (limit && str_parse_u64(slice_of(limit), 1, INT64_MAX, &v->most) < 0)) {
		osb_refuse(v, CAY_E_INVALID, "offset and limit are numbers of lines, from 1");
	} else if (http_header_find(v->rq->head, "range").n) {
		osb_refuse(v, CAY_E_INVALID, "a range of bytes and one of lines");
	} else {
		osb_download_lines(v);
	}
}

void osb_file_download(struct osb_request *v)
{
	osb_with_info(v, osb_download_begin);
}

/*
 * Upload: parts in pairs, `metadata`, which is JSON, and `file`.  Bytes go to the file as they
 * come; between parts the body waits for the reply about the one before.
 *
 * v->body has what came and was not used; v->json is the metadata of the next file; v->full: the
 * upload has enough.
 */

static const struct json_limits osb_metadata_limits = { OSB_METADATA_MAX, 4, 64 };

static void osb_upload_pump(struct osb_request *v);

static void osb_upload_pause(struct osb_request *v, bool on)
{
	if (v->paused == on || v->body_done)
		return;
	v->paused = on;
	if (on)
		request_pause_body(v->rq);
	else
		request_resume_body(v->rq);
}

static void on_osb_upload_drain(void *arg)
{
	struct osb_request *v = arg;

	if (!v->full)
		return;
	v->full = false;
	osb_upload_pump(v);
}

static void on_osb_upload_written(struct osb_request *v)
{
	if (!v->file_ended) { /* there is no file of bytes that were not sent */
		osb_refuse(v, CAY_E_MISBEHAVED, "the sandbox replied before it had the file");
		return;
	}
	json_decref(v->json);
	v->json = NULL;
	osb_upload_pump(v);
}

/* 0, or the request ended. */
static int osb_upload_open(struct osb_request *v)
{
	const char *path = osb_absolute(v, osb_text(v->json, "path")), *owner;
	char mode[TRANSLATE_MODE_TEXT];
	struct cay_err err = {};
	json_t *m;

	if (!v->json || !path || !path[0]) {
		osb_refuse(v, CAY_E_INVALID, "a file without its metadata, which names the path");
		return -EINVAL;
	}
	if (osb_mode(v->json, mode, &err) < 0) {
		osb_fail(v, &err);
		return -EINVAL;
	}
	owner = osb_owner(v, v->json);
	m = json_pack("{s:s,s:b}", "path", path, "parents", true);
	if (m && mode[0])
		(void)json_object_set_new(m, "mode", json_string(mode));
	if (m && owner)
		(void)json_object_set_new(m, "owner", json_string(owner));
	v->then = on_osb_upload_written;
	v->full = v->file_ended = false;
	if (osb_transfer(v, OP_FILE_WRITE, m,
			 (struct face_operation){ .upload = true, .drain = on_osb_upload_drain },
			 &err) < 0) {
		osb_fail(v, &err);
		return -EIO;
	}
	v->uploading = true;
	return 0;
}

static int osb_upload_begin_part(struct osb_request *v)
{
	if (str_eq(v->parts.name, "metadata")) {
		buf_clear(&v->metadata);
		v->reads_metadata = true;
		return 0;
	}
	if (str_eq(v->parts.name, "file"))
		return osb_upload_open(v);
	osb_refuse(v, CAY_E_INVALID, "a part is neither metadata nor file");
	return -EINVAL;
}

static int osb_upload_end_part(struct osb_request *v)
{
	struct slice text = { buf_str(&v->metadata), v->metadata.len };
	struct cay_err err = {};

	if (!v->reads_metadata) {
		v->uploading = false;
		v->file_ended = true;
		(void)client_call_write(v->call, (struct slice){});
		return 0;
	}
	v->reads_metadata = false;
	json_decref(v->json);
	v->json = NULL;
	if (json_parse(text, &osb_metadata_limits, &v->json, &err) >= 0)
		return 0;
	osb_fail(v, &err);
	return -EINVAL;
}

static int osb_upload_take(struct osb_request *v, struct slice data)
{
	if (!v->reads_metadata) {
		/* between parts there is nothing to write to */
		v->full = v->uploading && client_call_write(v->call, data);
		return 0;
	}
	if (buf_append(&v->metadata, data.p, data.n) >= 0)
		return 0;
	osb_refuse(v, CAY_E_TOO_LARGE, "the metadata of a file are too long");
	return -E2BIG;
}

static void osb_upload_finish(struct osb_request *v)
{
	if (!multipart_is_complete(&v->parts))
		osb_refuse(v, CAY_E_INVALID, "the form is incomplete");
	else
		osb_reply_status(v, 200);
}

/* Until the form needs more, or the upload does not. */
static void osb_upload_pump(struct osb_request *v)
{
	while (v->workspace && !v->full && (!v->call || v->uploading)) {
		struct slice in = { buf_str(&v->body), v->body.len }, data = {};
		struct cay_err err = {};
		int r = multipart_next(&v->parts, &in, &data, &err);

		buf_consume(&v->body, v->body.len - in.n);
		if (r < 0) {
			osb_fail(v, &err);
			return;
		}
		if (r == MULTIPART_MORE) {
			if (v->body_done)
				osb_upload_finish(v);
			else
				osb_upload_pause(v, false);
			return;
		}
		if ((r == MULTIPART_PART       ? osb_upload_begin_part(v)
		     : r == MULTIPART_PART_END ? osb_upload_end_part(v)
					       : osb_upload_take(v, data)) < 0)
			return;
	}
	osb_upload_pause(v, true);
}

static void on_osb_upload_body(struct request *rq, struct slice bytes)
{
	struct osb_request *v = rq->data;
	struct cay_err err = {};

	if (buf_append(&v->body, bytes.p, bytes.n) < 0)
		osb_refuse(v, CAY_E_TOO_LARGE, "the form came faster than it is written");
	else if (!osb_hold(v, OSB_MEM_BODY, v->body.cap, &err))
		osb_fail(v, &err);
	else
		osb_upload_pump(v);
}

static void on_osb_upload_body_end(struct request *rq)
{
	struct osb_request *v = rq->data;

	v->body_done = true;
	osb_upload_pump(v);
}

static void on_osb_upload_gone(struct request *rq)
{
	osb_request_free(rq->data);
}

void osb_file_upload(struct osb_request *v)
{
	static const struct request_events events = { .body = on_osb_upload_body,
						      .body_end = on_osb_upload_body_end,
						      .gone = on_osb_upload_gone };
	struct cay_err err = {};

	v->rq->events = &events;
	if (multipart_init(&v->parts, http_header_find(v->rq->head, "content-type"), &err) < 0)
		osb_fail(v, &err);
	else
		osb_with_info(v, osb_upload_pump);
}
