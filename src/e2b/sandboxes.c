/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "e2b/e2b.h"
#include "e2b/metadata.h"
#include "text/time.h"

#define TOKEN_MS 86400000 /* as long as a token can be valid */
#define LIST_MAX 100
#define SELECTOR_MAX KIB(4)

/* Names that the SDKs ask for by themselves, and the image that serves for them, unless a template
 * has the name. */
static const struct {
	const char *name, *image;
} e2b_images[] = { { "code-interpreter-v1", "code" } };

static const char *const e2b_ended[] = { "ending", "terminated", "failed" };

static bool e2b_state_in(const char *state, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(state, words[i]))
			return true;
	return false;
}

static bool e2b_answer_has_ended(const struct e2b_request *v)
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

/* The last call of create and connect: v->kept is the sandbox, v->flag says that it was created or
 * resumed. */
static void e2b_reply_session(struct e2b_request *v)
{
	const char *token = e2b_answer_text(v, "token"), *template = e2b_template_of(v->kept);

	e2b_reply(v, v->flag ? 201 : 200,
		  json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:n}", "sandboxID", v->sandbox,
			    "templateID", template, "alias", template, "clientID", "cay",
			    "envdVersion", E2B_ENVD_VERSION, "envdAccessToken", token,
			    "trafficAccessToken", token, "domain"));
}

static void e2b_make_token(struct e2b_request *v)
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
		 TOKEN_MS);
}

/* What would change what the sandbox may do or where it goes is refused, never ignored. */
static int e2b_check_create(const json_t *body, struct cay_err *err)
{
	static const char *const unsupported[] = { "autoPause",   "autoPauseMemory",
						   "autoResume",  "iam",
						   "mcp",         "network",
						   "volumeMounts" };

	for (size_t i = 0; i < ARRAY_SIZE(unsupported); i++) {
		const json_t *m = json_object_get(body, unsupported[i]);
		const json_t *enabled = json_object_get(m, "enabled");

		if (!m || json_is_null(m) || json_is_false(m) || json_is_false(enabled) ||
		    (json_is_object(m) && !json_object_size(m)) ||
		    (json_is_array(m) && !json_array_size(m)))
			continue;
		return cay_fail(err, CAY_E_INVALID, "%s is not supported by Cay", unsupported[i]);
	}
	return 0;
}

static int e2b_read_labels(const json_t *body, json_t *to, struct cay_err *err)
{
	const char *key;
	json_t *value;
	int r = 0;

	json_object_foreach (json_object_get(body, "metadata"), key, value) {
		if (r >= 0 && !json_is_string(value))
			r = cay_fail(err, CAY_E_INVALID, "metadata '%.40s' is not text", key);
		if (r >= 0)
			r = metadata_add_label(key, json_string_value(value), to, err);
	}
	return r;
}

static int e2b_read_timeout(const struct e2b_request *v, uint64_t fallback, uint64_t *ret_ms,
			    struct cay_err *err)
{
	const json_t *t = json_object_get(v->json, "timeout");
	double s = t && !json_is_null(t) ? json_number_value(t) : (double)fallback;

	if ((t && !json_is_null(t) && !json_is_number(t)) || s < 0 || s > 31622400)
		return cay_fail(err, CAY_E_INVALID, "timeout is not a number of seconds");
	*ret_ms = (uint64_t)(s * 1000);
	return 0;
}

static void on_e2b_sandbox_created(struct e2b_request *v);

static void e2b_create_from(struct e2b_request *v, const char *what, const char *name)
{
	json_t *m = json_deep_copy(v->kept);

	if (!m || json_object_set_new(m, what, json_string(name)) < 0) {
		json_decref(m);
		e2b_refuse(v, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	v->accepts_failure = v->number < 2;
	e2b_call(v, OP_SANDBOX_CREATE, on_e2b_sandbox_created, "{s:s,s:O,s:O,s:O,s:O*}", what, name,
		 "env", json_object_get(m, "env"), "labels", json_object_get(m, "labels"), "ttl_ms",
		 json_object_get(m, "ttl_ms"), "egress", json_object_get(m, "egress"));
	json_decref(m);
}

static void on_e2b_sandbox_created(struct e2b_request *v)
{
	const char *image = v->target;

	if (v->status < 400) {
		v->flag = true;
		e2b_make_token(v);
		return;
	}
	if (v->number || v->failure.code != CAY_E_NOT_FOUND) {
		if (v->failure.code == CAY_E_NOT_FOUND) {
			v->failure = (struct cay_err){};
			(void)cay_fail(&v->failure, CAY_E_NOT_FOUND, "template '%.100s' not found",
				       v->target);
		}
		e2b_fail(v, &v->failure);
		return;
	}
	v->number = 1;
	for (size_t i = 0; i < ARRAY_SIZE(e2b_images); i++)
		if (str_eq(image, e2b_images[i].name))
			image = e2b_images[i].image;
	e2b_create_from(v, "image", image);
}

static bool e2b_is_template_name(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if (!ascii_is_lower(s[i]) && !ascii_is_digit(s[i]) && s[i] != '-')
			return false;
	return n && n <= 63 && s[0] != '-' && s[n - 1] != '-';
}

void e2b_sandbox_create(struct e2b_request *v)
{
	const char *name = json_string_value(json_object_get(v->json, "templateID"));
	json_t *env = json_object_get(v->json, "envVars"), *labels = json_object();
	struct cay_err err = {};
	struct id id;
	uint64_t ms;
	int r = e2b_check_create(v->json, &err);

	if (r >= 0 && !name)
		r = cay_fail(&err, CAY_E_INVALID, "templateID is missing");
	if (r >= 0)
		r = e2b_read_labels(v->json, labels, &err);
	if (r >= 0)
		r = e2b_read_timeout(v, v->rq->head->target.p[5] == 'v' ? 300 : 15, &ms, &err);
	if (r >= 0 && ms < 1000)
		r = cay_fail(&err, CAY_E_INVALID, "timeout must be at least 1 second");
	if (r < 0) {
		json_decref(labels);
		e2b_fail(v, &err);
		return;
	}
	v->kept = json_pack("{s:o,s:I}", "labels", labels, "ttl_ms", (json_int_t)ms);
	(void)json_object_set_new(v->kept, "env",
				  json_is_object(env) ? json_incref(env) : json_object());
	/* true is E2B's default, which clients also send: what the node allows decides */
	if (json_is_false(json_object_get(v->json, "allow_internet_access")))
		(void)json_object_set_new(v->kept, "egress", json_object());
	v->target = arena_strndup(&v->arena, name, strlen(name));
	if (!v->kept || !v->target) {
		e2b_refuse(v, CAY_E_NO_MEMORY, "out of memory");
	} else if (id_parse(ID_SNAPSHOT, slice_of(name), &id) >= 0) {
		v->number = 1;
		e2b_create_from(v, "snapshot", name);
	} else if (e2b_is_template_name(name)) {
		e2b_create_from(v, "template", name);
	} else {
		v->number = 1;
		e2b_create_from(v, "image", name);
	}
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

static void on_e2b_connect_state(struct e2b_request *v)
{
	const char *state = e2b_answer_text(v, "state");
	bool stopped = str_eq(state, "stopped");

	if (e2b_answer_has_ended(v)) {
		e2b_refuse(v, CAY_E_NOT_FOUND, "sandbox not found");
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

		if (state && !e2b_state_in(state, e2b_ended, ARRAY_SIZE(e2b_ended)))
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
	if (!state || strchr(state, ','))
		state = "live";
	m = json_pack("{s:s,s:I}", "state", state, "limit", (json_int_t)most);
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
	uint64_t ms;

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

static void on_e2b_pause_state(struct e2b_request *v)
{
	if (e2b_answer_has_ended(v))
		e2b_refuse(v, CAY_E_NOT_FOUND, "sandbox not found");
	else if (str_eq(e2b_state_of(v->answer), "paused"))
		e2b_refuse(v, CAY_E_CONFLICT, "sandbox is already paused");
	else
		e2b_call(v, OP_SANDBOX_PAUSE, on_e2b_sandbox_done, "{}");
}

void e2b_sandbox_pause(struct e2b_request *v)
{
	if (json_is_false(json_object_get(v->json, "memory")))
		e2b_refuse(v, CAY_E_INVALID, "a pause without memory is not supported by Cay");
	else
		e2b_call(v, OP_SANDBOX_GET, on_e2b_pause_state, "{}");
}

/* Cay keeps no history of what a sandbox used, and an empty list says so. */
static void on_e2b_metrics_state(struct e2b_request *v)
{
	if (e2b_answer_has_ended(v))
		e2b_refuse(v, CAY_E_NOT_FOUND, "sandbox not found");
	else
		e2b_reply(v, 200, json_array());
}

void e2b_sandbox_metrics(struct e2b_request *v)
{
	e2b_call(v, OP_SANDBOX_GET, on_e2b_metrics_state, "{}");
}

static void on_e2b_health_known(struct e2b_request *v)
{
	if (v->status == 200 && str_eq(e2b_answer_text(v, "state"), "running"))
		e2b_reply_status(v, 204);
	else
		e2b_fail_gone(v);
}

void e2b_envd_health(struct e2b_request *v)
{
	v->accepts_failure = true;
	e2b_call(v, OP_SANDBOX_GET, on_e2b_health_known, "{}");
}
