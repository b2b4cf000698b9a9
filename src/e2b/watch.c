/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watchers of a directory: one that is a stream, and one that is asked.
 *
 * The second stays when its request has been replied to: its stream of events goes on, with the
 * credential that made it, so it ends with that credential, and with the sandbox.  Who asks it
 * must be able to see the sandbox now.
 */
#include "base/clock.h"
#include "e2b/e2b.h"

#define KEEPALIVE_S 90
#define WRITE "EVENT_TYPE_WRITE"
#define WRITING_PREFIX ".cay-" /* lib/file/tmpfile.h */
#define WRITING_LEN 22
#define WATCHERS_MAX 1024
#define TENANT_WATCHERS_MAX 128
#define WATCHER_EVENTS_MAX KIB(128) /* as text */
#define WATCHER_ID_LEN 16
#define WATCHER_IDLE_MS 3600000 /* without a question */

static const struct {
	const char *event, *type;
} watch_types[] = {
	{ "created", "EVENT_TYPE_CREATE" },
	{ "moved_to", "EVENT_TYPE_CREATE" },
	{ "modified", WRITE },
	{ "deleted", "EVENT_TYPE_REMOVE" },
	{ "attrib", "EVENT_TYPE_CHMOD" },
	{ "moved_from", "EVENT_TYPE_RENAME" },
};

/*
 * Cay writes a file in one step: a nameless one gets the name, or a name of its own which is then
 * moved over the old file.  Watchers see that as the writing of a file, and none of those names:
 * v->uid counts nameless files, v->number is the move of such a name.
 */
static bool watch_is_nameless(const char *name)
{
	return name[0] == '#' && name[1] && strspn(name + 1, "0123456789") == strlen(name + 1);
}

static bool watch_is_temporary(const char *name)
{
	return strncmp(name, WRITING_PREFIX, sizeof(WRITING_PREFIX) - 1) == 0 &&
	       strlen(name) == WRITING_LEN;
}

static bool watch_hides(struct e2b_request *v, const json_t *event, const char *name)
{
	const json_t *kind = json_object_get(event, "event");

	if (watch_is_nameless(name)) {
		v->uid += json_text_eq(kind, "attrib");
		return true;
	}
	if (!watch_is_temporary(name))
		return false;
	if (json_text_eq(kind, "created"))
		v->uid -= v->uid > 0;
	else if (json_text_eq(kind, "moved_from"))
		v->number = (uint64_t)json_integer_value(json_object_get(event, "move"));
	return true;
}

/* Append what E2B says of an event: nothing, one or two of its events. */
static void watch_describe(struct e2b_request *v, const json_t *event, json_t *to)
{
	const json_t *path = json_object_get(event, "path"),
		     *kind = json_object_get(event, "event");
	const char *text = json_string_value(path), *slash = text ? strrchr(text, '/') : NULL;
	uint64_t move = (uint64_t)json_integer_value(json_object_get(event, "move"));
	const char *type = NULL;
	bool whole = false;

	if (!text || !text[0] || watch_hides(v, event, slash ? slash + 1 : text))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(watch_types) && !type; i++)
		if (json_text_eq(kind, watch_types[i].event))
			type = watch_types[i].type;
	if (move && move == v->number && json_text_eq(kind, "moved_to")) {
		type = WRITE;
	} else if (v->uid && json_text_eq(kind, "created") &&
		   !json_is_true(json_object_get(event, "directory"))) {
		v->uid--;
		whole = true;
	}
	if (type)
		(void)json_array_append_new(to, json_pack("{s:O,s:s}", "name", path, "type", type));
	if (whole)
		(void)json_array_append_new(to,
					    json_pack("{s:O,s:s}", "name", path, "type", WRITE));
}

static void watch_resolved(struct e2b_request *v, e2b_event *event, e2b_step *end)
{
	bool flat = !json_is_true(json_object_get(v->json, "recursive"));

	v->uid = v->number = 0;
	e2b_call_events(v, OP_FILE_WATCH, json_pack("{s:s,s:b}", "path", v->target, "flat", flat),
			event, end);
}

/* A stream */

static void watch_begin_stream(struct e2b_request *v)
{
	uint64_t s = KEEPALIVE_S;

	(void)str_parse_u64(http_header_find(v->rq->head, "keepalive-ping-interval"), 1, 3600, &s);
	v->keepalive_ms = s * 1000;
	(void)e2b_stream_send(v, json_pack("{s:{}}", "start"));
	e2b_start_ticks(v->door);
}

static enum e2b_event_result on_watch_event(struct e2b_request *v, const json_t *event)
{
	json_t *told = json_array(), *row;
	bool full = false;
	size_t i;

	watch_describe(v, event, told);
	if (!v->begun)
		watch_begin_stream(v);
	if (json_text_eq(json_object_get(event, "event"), "gone"))
		v->flag = true;
	json_array_foreach(told, i, row) full |=
		e2b_stream_send(v, json_pack("{s:O}", "filesystem", row));
	json_decref(told);
	return full ? E2B_EVENT_FULL : E2B_EVENT_TAKEN;
}

static void on_watch_ended(struct e2b_request *v)
{
	if (v->flag)
		e2b_stream_end(v, NULL, NULL);
	else
		e2b_refuse(v, CAY_E_UNAVAILABLE, "the stream of changes was interrupted");
}

static void watch_dir_resolved(struct e2b_request *v)
{
	watch_resolved(v, on_watch_event, on_watch_ended);
}

void e2b_watch_dir(struct e2b_request *v)
{
	e2b_resolve_paths(v, json_string_value(json_object_get(v->json, "path")), NULL,
			  watch_dir_resolved);
}

/* Asked */

static bool watcher_is_idle(const struct e2b_request *w)
{
	return uv_now(&w->door->face.loop) - w->written_ms > WATCHER_IDLE_MS;
}

/* How many there are; those that nobody asks end. */
static void watcher_count(struct e2b *d, const struct id *tenant, unsigned *ret_all,
			  unsigned *ret_tenant)
{
	struct e2b_request *next;

	*ret_all = *ret_tenant = 0;
	for (struct e2b_request *w = d->requests; w; w = next) {
		next = w->next;
		if (!w->watcher)
			continue;
		if (!w->rq && watcher_is_idle(w)) {
			e2b_request_free(w);
			continue;
		}
		++*ret_all;
		*ret_tenant += id_eq(&w->actor.tenant, tenant);
	}
}

static void watcher_format_id(const struct e2b_request *w, char ret[static WATCHER_ID_LEN + 1])
{
	if (snprintf(ret, WATCHER_ID_LEN + 1, "%016llx", (unsigned long long)w->watcher) < 0)
		ret[0] = 0;
}

/* The reply of CreateWatcher; the request stays without its client, and without what is counted as
 * the client's.  False: v is gone. */
static bool watcher_begin(struct e2b_request *v)
{
	struct request *rq = v->rq;
	auto_buf b = BUF_INIT(128);
	struct jw w = jw_to(&b);
	char id[WATCHER_ID_LEN + 1];

	watcher_format_id(v, id);
	jw_object_begin(&w, NULL);
	jw_str(&w, "watcherId", id);
	jw_end(&w);
	if (jw_finish(&w) < 0) {
		e2b_request_free(v);
		request_no_memory(rq);
		return false;
	}
	json_decref(cay_take(v->json));
	json_decref(cay_take(v->answer));
	v->rq = NULL;
	v->written_ms = uv_now(&v->door->face.loop);
	request_reply(rq, 200, "application/json", &b);
	return true;
}

/* As text, with a comma before each but the first.  One that does not fit is lost. */
static void watcher_keep(struct e2b_request *v, const json_t *event)
{
	char *text = json_dumps(event, JSON_COMPACT);
	size_t was = v->line.len;

	if (!text || (was && buf_putc(&v->line, ',') < 0) || buf_puts(&v->line, text) < 0)
		buf_truncate(&v->line, was);
	free(text);
}

static enum e2b_event_result on_watcher_event(struct e2b_request *v, const json_t *event)
{
	auto_json told = json_array();
	json_t *row;
	size_t i;

	watch_describe(v, event, told);
	json_array_foreach(told, i, row)
	{
		watcher_keep(v, row);
	}
	return v->rq && !watcher_begin(v) ? E2B_EVENT_LAST : E2B_EVENT_TAKEN;
}

static void on_watcher_ended(struct e2b_request *v)
{
	if (v->rq)
		e2b_refuse(v, CAY_E_UNAVAILABLE, "the stream of changes was interrupted");
	else
		e2b_request_free(v);
}

static void watcher_resolved(struct e2b_request *v)
{
	unsigned all, tenant;

	watcher_count(v->door, &v->actor.tenant, &all, &tenant);
	if (all >= WATCHERS_MAX || tenant >= TENANT_WATCHERS_MAX) {
		e2b_refuse(v, CAY_E_LIMIT, "too many watchers; remove some");
		return;
	}
	/* after a restart none has the number of an old one */
	v->watcher = clk_wall_ns(&clk_system) + v->door->watchers++;
	v->line = BUF_INIT(WATCHER_EVENTS_MAX);
	watch_resolved(v, on_watcher_event, on_watcher_ended);
}

void e2b_watcher_create(struct e2b_request *v)
{
	e2b_resolve_paths(v, json_string_value(json_object_get(v->json, "path")), NULL,
			  watcher_resolved);
}

static struct e2b_request *watcher_find(struct e2b_request *v)
{
	const char *want = json_string_value(json_object_get(v->json, "watcherId"));
	char id[WATCHER_ID_LEN + 1];

	for (struct e2b_request *w = v->door->requests; w && want; w = w->next) {
		watcher_format_id(w, id);
		if (w->watcher && !w->rq && str_eq(w->sandbox, v->sandbox) && str_eq(id, want))
			return w;
	}
	e2b_refuse(v, CAY_E_NOT_FOUND, "there is no such watcher");
	return NULL;
}

static void watcher_ask_allowed(struct e2b_request *v)
{
	static const struct json_limits limits = { WATCHER_EVENTS_MAX + 2, 4, 65536 };
	struct e2b_request *w = watcher_find(v);
	auto_buf text = BUF_INIT(WATCHER_EVENTS_MAX + 2);
	json_t *events = NULL;

	if (!w)
		return;
	if (buf_putc(&text, '[') < 0 || buf_append(&text, buf_str(&w->line), w->line.len) < 0 ||
	    buf_putc(&text, ']') < 0 ||
	    json_parse((struct slice){ text.data, text.len }, &limits, &events, NULL) < 0) {
		e2b_refuse(v, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	buf_fini(&w->line);
	w->line = BUF_INIT(WATCHER_EVENTS_MAX);
	w->written_ms = uv_now(&v->door->face.loop);
	e2b_reply(v, 200, json_pack("{s:o}", "events", events));
}

/* The call decides whether the caller may see the sandbox. */
void e2b_watcher_ask(struct e2b_request *v)
{
	e2b_call(v, OP_SANDBOX_GET, watcher_ask_allowed, "{}");
}

static void watcher_remove_allowed(struct e2b_request *v)
{
	struct e2b_request *w = watcher_find(v);

	if (!w)
		return;
	e2b_request_free(w);
	e2b_reply(v, 200, json_object());
}

void e2b_watcher_remove(struct e2b_request *v)
{
	e2b_call(v, OP_SANDBOX_GET, watcher_remove_allowed, "{}");
}
