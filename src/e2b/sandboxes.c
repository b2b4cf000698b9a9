/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "e2b/e2b.h"
#include "e2b/metadata.h"
#include "text/time.h"

#define LIST_MAX 100
#define SELECTOR_MAX KIB(4)
#define PAUSED_MS 2592000000 /* 30 days */

static const char *const e2b_ended[] = { "ending", "terminated", "failed" };

static bool e2b_state_in(const char *state, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(state, words[i]))
			return true;
	return false;
}

bool e2b_answer_has_ended(const struct e2b_request *v)
{
	return e2b_state_in(e2b_answer_text(v, "state"), e2b_ended, ARRAY_SIZE(e2b_ended));
}

static const char *e2b_template_of(const json_t *sandbox)
{
	static const char *const from[] = { "template", "snapshot", "image" };
	const char *s = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(from) && !s; i++)
		s = json_string_value(json_object_get(sandbox, from[i]));
	return s ? s : "";
}

/* E2B knows these two. */
static const char *e2b_state_of(const json_t *sandbox)
{
	static const char *const paused[] = { "paused", "suspended", "stopping", "stopped" };
	const char *state = json_string_value(json_object_get(sandbox, "state"));

	if (json_is_true(json_object_get(sandbox, "dozing")))
		return "running"; /* its next request is carried out */
	return state && e2b_state_in(state, paused, ARRAY_SIZE(paused)) ? "paused" : "running";
}

static uint64_t e2b_limit(const json_t *sandbox, const char *name)
{
	const json_t *limits = json_object_get(sandbox, "limits");

	return (uint64_t)json_integer_value(json_object_get(limits, name));
}

static json_t *e2b_describe(const json_t *s)
{
	const char *template = e2b_template_of(s);
	const char *begun = json_string_value(json_object_get(s, "created_at"));
	const char *until = json_string_value(json_object_get(s, "expires_at"));

	return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:s,s:o}", "sandboxID",
			 json_string_value(json_object_get(s, "id")), "templateID", template,
			 "alias", template, "clientID", "cay", "startedAt", begun, "endAt",
			 until ? until : "9999-12-31T23:59:59Z", "state", e2b_state_of(s),
			 "cpuCount", (json_int_t)((e2b_limit(s, "cpu_milli") + 999) / 1000),
			 "memoryMB", (json_int_t)(e2b_limit(s, "memory_bytes") >> 20), "diskSizeMB",
			 (json_int_t)(e2b_limit(s, "disk_bytes") >> 20), "envdVersion",
			 E2B_ENVD_VERSION, "metadata",
			 metadata_from_labels(json_object_get(s, "labels")));
}

/* The hosts of its ports are below this name, which may have a port; NULL: there are none. */
static const char *e2b_domain(const struct e2b *d)
{
	const char *at = strstr(d->face.settings.edge_previews, "://");

	return at ? at + 3 : NULL;
}

json_t *e2b_describe_session(const struct e2b *d, const char *id, const json_t *sandbox,
			     const char *token)
{
	const char *template = e2b_template_of(sandbox);

	return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s?}", "sandboxID", id, "templateID",
			 template, "alias", template, "clientID", "cay", "envdVersion",
			 E2B_ENVD_VERSION, "envdAccessToken", token, "trafficAccessToken", token,
			 "domain", e2b_domain(d));
}

/* The last call of create and connect: v->kept is the sandbox, v->flag says that it was created or
 * resumed. */
static void e2b_reply_session(struct e2b_request *v)
{
	e2b_reply(v, v->flag ? 201 : 200,
		  e2b_describe_session(v->door, v->sandbox, v->kept, e2b_answer_text(v, "token")));
}

void e2b_make_token(struct e2b_request *v)
{
	struct id id;

	json_decref(v->kept);
	v->kept = json_incref(v->answer);
	if (id_parse(ID_SANDBOX, slice_of(e2b_answer_text(v, "id")), &id) < 0) {
		e2b_refuse(v, CAY_E_INTERNAL, "the reply has no sandbox");
		return;
	}
	id_format(&id, v->sandbox);
	e2b_call(v, OP_SANDBOX_TOKEN, e2b_reply_session, "{s:s,s:i}", "scope", "write", "ttl_ms",
		 E2B_TOKEN_MS);
}

int e2b_read_timeout(const struct e2b_request *v, uint64_t fallback, uint64_t *ret_ms,
		     struct cay_err *err)
{
	const json_t *t = json_object_get(v->json, "timeout");
	double s = t && !json_is_null(t) ? json_number_value(t) : (double)fallback;

	if ((t && !json_is_null(t) && !json_is_number(t)) || s < 0 || s > 31622400)
		return cay_fail(err, CAY_E_INVALID, "timeout is not a number of seconds");
	*ret_ms = (uint64_t)(s * 1000);
	return 0;
}

/* Connect: get, resume or start, extend, token. */

static void on_e2b_connect_awake(struct e2b_request *v)
{
	uint64_t until = 0, now = clk_wall_ns(&clk_system);
	uint64_t ms = v->number;

	(void)time_parse(slice_of(e2b_answer_text(v, "expires_at")), &until);
	/* never earlier than it is, unless it was paused */
	if (!v->flag && (!until || until >= now + ms * NS_PER_MS))
		e2b_make_token(v);
	else
		e2b_call(v, OP_SANDBOX_EXTEND, e2b_make_token, "{s:I}", "ttl_ms", (json_int_t)ms);
}

static void on_e2b_connect_stopped(struct e2b_request *v)
{
	e2b_call(v, OP_SANDBOX_START, on_e2b_connect_awake, "{}");
}

static void on_e2b_connect_state(struct e2b_request *v)
{
	const char *state = e2b_answer_text(v, "state");
	bool stopped = str_eq(state, "stopped");
	bool reboot = json_is_false(json_object_get(v->json, "memory"));

	if (e2b_answer_has_ended(v)) {
		e2b_refuse(v, CAY_E_NOT_FOUND, "sandbox not found");
	} else if (reboot && str_eq(state, "paused")) {
		v->flag = true;
		e2b_call(v, OP_SANDBOX_STOP, on_e2b_connect_stopped, "{}");
	} else if (stopped || str_eq(state, "paused")) {
		v->flag = true;
		e2b_call(v, stopped ? OP_SANDBOX_START : OP_SANDBOX_RESUME, on_e2b_connect_awake,
			 "{}");
	} else if (v->uid) { /* resume, which is for paused ones only */
		e2b_refuse(v, CAY_E_CONFLICT, "sandbox is already running");
	} else {
		on_e2b_connect_awake(v);
	}
}

static void e2b_connect_after(struct e2b_request *v, uint64_t fallback)
{
	struct cay_err err = {};

	if (e2b_read_timeout(v, fallback, &v->number, &err) < 0)
		e2b_fail(v, &err);
	else if (v->number < 1000)
		e2b_refuse(v, CAY_E_INVALID, "timeout must be at least 1 second");
	else
		e2b_call(v, OP_SANDBOX_GET, on_e2b_connect_state, "{}");
}

void e2b_sandbox_connect(struct e2b_request *v)
{
	e2b_connect_after(v, 300);
}

void e2b_sandbox_resume(struct e2b_request *v)
{
	v->uid = 1;
	e2b_connect_after(v, 15);
}

static void on_e2b_sandbox_got(struct e2b_request *v)
{
	if (e2b_answer_has_ended(v))
		e2b_refuse(v, CAY_E_NOT_FOUND, "sandbox not found");
	else
		e2b_reply(v, 200, e2b_describe(v->answer));
}

void e2b_sandbox_get(struct e2b_request *v)
{
	e2b_call(v, OP_SANDBOX_GET, on_e2b_sandbox_got, "{}");
}

static void on_e2b_sandbox_listed(struct e2b_request *v)
{
	const char *next = json_string_value(json_object_get(v->answer, "next_cursor"));
	json_t *rows = json_array(), *row;
	size_t i;

	json_array_foreach(json_object_get(v->answer, "sandboxes"), i, row)
	{
		const char *state = json_string_value(json_object_get(row, "state"));

		if (state && !e2b_state_in(state, e2b_ended, ARRAY_SIZE(e2b_ended)) &&
		    (!v->target || str_eq(v->target, e2b_state_of(row))))
			(void)json_array_append_new(rows, e2b_describe(row));
	}
	if (next && request_add_reply_header(v->rq, "X-Next-Token", next) < 0)
		e2b_refuse(v, CAY_E_NO_MEMORY, "out of memory");
	else
		e2b_reply(v, 200, rows);
}

void e2b_sandbox_list(struct e2b_request *v)
{
	const char *query = e2b_query(v, "metadata"), *state = e2b_query(v, "state");
	const char *limit = e2b_query(v, "limit"), *cursor = e2b_query(v, "nextToken");
	auto_buf selector = BUF_INIT(SELECTOR_MAX);
	struct cay_err err = {};
	uint64_t most = LIST_MAX;
	json_t *m;

	if (limit && str_parse_u64(slice_of(limit), 1, LIST_MAX, &most) < 0) {
		e2b_refuse(v, CAY_E_INVALID, "limit must be between 1 and 100");
		return;
	}
	if (query && metadata_add_query(query, &selector, &err) < 0) {
		e2b_fail(v, &err);
		return;
	}
	/* each is several states here; pages may have fewer rows then */
	v->target = state && !strchr(state, ',') ? state : NULL;
	m = json_pack("{s:s,s:I}", "state", "live", "limit", (json_int_t)most);
	if (cursor)
		(void)json_object_set_new(m, "cursor", json_string(cursor));
	if (selector.len)
		(void)json_object_set_new(m, "label", json_string(buf_str(&selector)));
	v->then = on_e2b_sandbox_listed;
	if (e2b_transfer(v, OP_SANDBOX_LIST, m, &(struct e2b_transfer){}, &err) < 0)
		e2b_fail(v, &err);
}

static void on_e2b_sandbox_done(struct e2b_request *v)
{
	e2b_reply_status(v, 204);
}

static void on_e2b_kill_state(struct e2b_request *v)
{
	if (e2b_answer_has_ended(v))
		e2b_refuse(v, CAY_E_NOT_FOUND, "sandbox not found");
	else
		e2b_call(v, OP_SANDBOX_DELETE, on_e2b_sandbox_done, "{}");
}

void e2b_sandbox_kill(struct e2b_request *v)
{
	e2b_call(v, OP_SANDBOX_GET, on_e2b_kill_state, "{}");
}

void e2b_sandbox_timeout(struct e2b_request *v)
{
	struct cay_err err = {};
	uint64_t ms = 0;

	if (!json_object_get(v->json, "timeout"))
		e2b_refuse(v, CAY_E_INVALID, "timeout is missing");
	else if (e2b_read_timeout(v, 0, &ms, &err) < 0)
		e2b_fail(v, &err);
	else if (!ms)
		e2b_sandbox_kill(v);
	else
		e2b_call(v, OP_SANDBOX_EXTEND, on_e2b_sandbox_done, "{s:I}", "ttl_ms",
			 (json_int_t)(ms < 1000 ? 1000 : ms));
}

/* With E2B a paused sandbox has no deadline.  Where so much is not allowed, it keeps its own. */
static void on_e2b_paused(struct e2b_request *v)
{
	v->accepts_failure = true;
	e2b_call(v, OP_SANDBOX_EXTEND, on_e2b_sandbox_done, "{s:I}", "ttl_ms",
		 (json_int_t)PAUSED_MS);
}

/* Without memory it is stopped: its files stay, and a start is a reboot. */
static void on_e2b_pause_state(struct e2b_request *v)
{
	const char *state = e2b_answer_text(v, "state");
	bool files = json_is_false(json_object_get(v->json, "memory"));

	if (e2b_answer_has_ended(v))
		e2b_refuse(v, CAY_E_NOT_FOUND, "sandbox not found");
	else if (str_eq(e2b_state_of(v->answer), "paused") &&
		 !json_is_true(json_object_get(v->answer, "dozing")) &&
		 !(files && str_eq(state, "paused")))
		e2b_refuse(v, CAY_E_CONFLICT, "sandbox is already paused");
	else if (files)
		e2b_call(v, OP_SANDBOX_STOP, on_e2b_sandbox_done, "{}");
	else
		e2b_call(v, OP_SANDBOX_PAUSE, on_e2b_paused, "{}");
}

void e2b_sandbox_pause(struct e2b_request *v)
{
	e2b_call(v, OP_SANDBOX_GET, on_e2b_pause_state, "{}");
}

/* One that dozes is: its next request wakes it. */
bool e2b_answer_is_running(const struct e2b_request *v)
{
	return str_eq(e2b_answer_text(v, "state"), "running") ||
	       json_is_true(json_object_get(v->answer, "dozing"));
}

static void on_e2b_health_known(struct e2b_request *v)
{
	if (v->status == 200 && e2b_answer_is_running(v))
		e2b_reply_status(v, 204);
	else
		e2b_fail_gone(v);
}

void e2b_envd_health(struct e2b_request *v)
{
	v->accepts_failure = true;
	e2b_call(v, OP_SANDBOX_GET, on_e2b_health_known, "{}");
}
