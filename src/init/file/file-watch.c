/* SPDX-License-Identifier: Apache-2.0 */
/* file.watch: a stream of events, or those of the next moment */
#include "file/watch.h"
#include "init/file/file-read.h"

#define EVENTS_POOL KIB(256)
#define LIVE_MS 15000 /* between comments in a stream without events */

struct watch_reply {
	struct child_op *op;
	uint64_t number;
	bool stream;
	size_t limit;
	struct file_event *v; /* of a reply that is not a stream */
	size_t n;
};

static void watch_reply_fini(struct watch_reply *t)
{
	for (size_t i = 0; i < t->n; i++)
		file_bytes_free(t->v[i].path, t->v[i].path_b64);
}

static int watch_reply_send_event(struct watch_reply *t, const struct file_event *e)
{
	auto_buf text = BUF_INIT(KIB(32)), line = BUF_INIT(KIB(33));
	struct jw jw = jw_to(&text);
	int r;

	field_encode(&file_event_table, NULL, e, &jw);
	r = jw_finish(&jw);
	if (r >= 0)
		r = buf_printf(&line, "id: %llu\nevent: file\ndata: %s\n\n",
			       (unsigned long long)e->number, buf_str(&text));
	return r < 0 ? r : child_op_write(t->op, line.data, line.len);
}

static int on_file_watch_event(void *arg, const struct watch_event *e)
{
	struct watch_reply *t = arg;
	struct file_event reply = { .number = t->number++,
				    .event = e->kind,
				    .directory = e->dir,
				    .move = e->move,
				    .has_move = e->move };
	int r = file_bytes_to_text(e->path, &reply.path, &reply.path_b64);

	/* after the first event nothing can fail any more */
	if (r >= 0 && t->stream && !reply.number)
		r = child_op_start_stream(t->op, 200, "text/event-stream", REQUEST_LENGTH_UNKNOWN);
	if (r >= 0 && t->stream)
		r = watch_reply_send_event(t, &reply);
	if (r >= 0 && !t->stream && t->n < t->limit)
		t->v[t->n++] = reply; /* with its path */
	else
		file_bytes_free(reply.path, reply.path_b64);
	return r;
}

/* Until the client leaves (then the child is killed, or cannot write) or the directory is
 * removed. */
static void watch_reply_stream_events(struct watch_reply *t, struct watch *w)
{
	int r = 0;

	while (r >= 0) {
		r = watch_read(w, LIVE_MS);
		if (r == 0)
			r = child_op_write(t->op, ":\n\n", 3);
	}
	if (r == -ENOENT)
		child_op_end_stream(t->op);
}

/* The events that arrive with the first one, or none. */
static void watch_reply_list_events(struct watch_reply *t, struct watch *w, uint64_t wait_ms)
{
	uint64_t end = clk_boot_ns(&clk_system) + wait_ms * NS_PER_MS;
	int r = 0;

	while (r == 0 && t->n < 2) {
		uint64_t now = clk_boot_ns(&clk_system);

		if (now >= end)
			break;
		r = watch_read(w, (int)((end - now) / NS_PER_MS) + 1);
	}
	child_op_reply_json(t->op, &file_event_list_table,
			    &(struct file_event_list){ { t->v, t->n } }, &(struct cay_err){});
}

void child_file_watch(struct child_op *w, struct request *rq)
{
	const struct file_watch_query *q = rq->query;
	auto_arena arena = ARENA_INIT(EVENTS_POOL);
	CAY_CLEANUP(watch_reply_fini)
	struct watch_reply t = { .op = w,
				 .stream = http_accepts_media_type(rq->head, "text/event-stream"),
				 .limit = (size_t)q->limit };
	auto_ptr(watch) watch = NULL;
	struct cay_err err = {};
	const char *path;

	t.v = arena_alloc(&arena, t.limit, sizeof(*t.v));
	if (!t.v)
		(void)cay_no_memory(&err);
	else if (file_path_or_workspace(q->path, q->path_b64, &rq->arena, &path, &err) >= 0)
		(void)watch_open(path, !q->flat, on_file_watch_event, &t, &watch, &err);
	if (err.code && (!t.stream || !t.number))
		child_op_fail(w, &err);
	else if (err.code)
		return; /* the client left */
	else if (t.stream)
		watch_reply_stream_events(&t, watch);
	else
		watch_reply_list_events(&t, watch, q->wait_ms);
}
