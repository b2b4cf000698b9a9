/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to files, as a stream of events or as those of a moment */
#include "file/watch.h"
#include "init/file.h"

#define EVENTS_POOL KIB(256)
#define LIVE_MS 15000 /* a stream in which nothing happens has a comment so often */

struct telling {
	struct work *work;
	uint64_t number;
	bool stream;
	size_t limit;
	struct file_event *v; /* of a reply that is no stream */
	size_t n;
};

static void telling_fini(struct telling *t)
{
	for (size_t i = 0; i < t->n; i++)
		file_forget_bytes(t->v[i].path, t->v[i].path_b64);
}

static int send_event(struct telling *t, const struct file_event *e)
{
	auto_buf text = BUF_INIT(KIB(32)), line = BUF_INIT(KIB(33));
	struct jw jw = jw_to(&text);
	int r;

	field_encode(&file_event_table, NULL, e, &jw);
	r = jw_done(&jw);
	if (r >= 0)
		r = buf_printf(&line, "id: %llu\nevent: file\ndata: %s\n\n",
			       (unsigned long long)e->number, buf_str(&text));
	return r < 0 ? r : work_write(t->work, line.data, line.len);
}

static int on_event(void *arg, const struct watch_event *e)
{
	struct telling *t = arg;
	struct file_event told = { .number = t->number++,
				   .event = e->kind,
				   .directory = e->dir,
				   .move = e->move,
				   .has_move = e->move };
	int r = file_tell_bytes(e->path, &told.path, &told.path_b64);

	/* nothing can go wrong any more when the first comes */
	if (r >= 0 && t->stream && !told.number)
		r = work_stream(t->work, 200, "text/event-stream", REQUEST_LENGTH_UNKNOWN);
	if (r >= 0 && t->stream)
		r = send_event(t, &told);
	if (r >= 0 && !t->stream && t->n < t->limit)
		t->v[t->n++] = told; /* and its path */
	else
		file_forget_bytes(told.path, told.path_b64);
	return r;
}

/* Until the client leaves (then we are killed, or cannot write) or the directory does. */
static void stream_events(struct telling *t, struct watch *w)
{
	int r = 0;

	while (r >= 0) {
		r = watch_read(w, LIVE_MS);
		if (r == 0)
			r = work_write(t->work, ":\n\n", 3);
	}
	if (r == -ENOENT)
		work_end(t->work);
}

/* Whatever comes with the first event, or nothing. */
static void list_events(struct telling *t, struct watch *w, uint64_t wait_ms)
{
	uint64_t end = clk_boot_ns(&clk_system) + wait_ms * NS_PER_MS;
	struct file_event_list told;
	int r = 0;

	while (r == 0 && t->n < 2) {
		uint64_t now = clk_boot_ns(&clk_system);

		if (now >= end)
			break;
		r = watch_read(w, (int)((end - now) / NS_PER_MS) + 1);
	}
	told = (struct file_event_list){ { t->v, t->n } };
	work_reply_json(t->work, &file_event_list_table, &told);
}

void file_watch_work(struct work *w)
{
	const struct file_watch_query *q = work_query(w);
	auto_pool pool = POOL_INIT(EVENTS_POOL);
	CAY_CLEANUP(telling_fini)
	struct telling t = { .work = w,
			     .stream = http_accepts(work_head(w), "text/event-stream"),
			     .limit = (size_t)q->limit };
	auto_ptr(watch) watch = NULL;
	struct cay_err err = {};
	const char *path;

	t.v = pool_take(&pool, t.limit, sizeof(*t.v));
	if (!t.v)
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for an answer");
	else if (file_place(q->path, q->path_b64, work_pool(w), &path, &err) >= 0)
		(void)watch_open(path, !q->flat, on_event, &t, &watch, &err);
	if (err.code && (!t.stream || !t.number))
		work_fail(w, &err);
	else if (err.code)
		return; /* the client left */
	else if (t.stream)
		stream_events(&t, watch);
	else
		list_events(&t, watch, q->wait_ms);
}
