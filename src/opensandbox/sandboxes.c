/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "opensandbox/opensandbox.h"

#define TOKEN_MS 86400000 /* as long as a token can be valid */
#define PAGE_MAX 200
#define ROWS_MAX 200 /* of a call of sandbox.list */
#define CALLS_MAX 100
#define SELECTOR_MAX 400
#define TIMEOUT_MIN_S 60
#define TIMEOUT_MAX_S 31622400
#define SAMPLE_MS 500
#if defined(__x86_64__)
#define ARCH "amd64"
#else
#define ARCH "arm64"
#endif

/* What their SDKs ask for by default; a sandbox of Cay needs no program to stay. */
static const char *const osb_idle_entrypoint[] = { "tail", "-f", "/dev/null" };

static const struct {
	const char *state, *theirs;
} osb_states[] = {
	{ "pending", "Pending" },   { "running", "Running" },  { "paused", "Paused" },
	{ "suspended", "Paused" },  { "stopping", "Pausing" }, { "stopped", "Paused" },
	{ "starting", "Resuming" }, { "ending", "Stopping" },  { "terminated", "Terminated" },
	{ "failed", "Failed" },
};

static const char *osb_state_of(const json_t *sandbox)
{
	const char *state = osb_text(sandbox, "state");

	for (size_t i = 0; i < ARRAY_SIZE(osb_states); i++)
		if (str_eq(osb_states[i].state, state))
			return osb_states[i].theirs;
	return "Unknown";
}

/* OpenSandbox forgets what was deleted or has expired. */
static bool osb_is_gone(const json_t *sandbox)
{
	static const char *const forgotten[] = { "killed", "ttl", "idle", "lease" };
	const char *reason = osb_text(json_object_get(sandbox, "end"), "reason");

	for (size_t i = 0; i < ARRAY_SIZE(forgotten); i++)
		if (str_eq(forgotten[i], reason))
			return true;
	return false;
}

static bool osb_refuse_gone(struct osb_request *v)
{
	bool gone = osb_is_gone(v->answer);

	if (gone)
		osb_refuse(v, CAY_E_NOT_FOUND, "sandbox not found");
	return gone;
}

static void osb_set_text(json_t *to, const char *name, const char *text)
{
	if (text[0])
		(void)json_object_set_new(to, name, json_string(text));
}

/* Cay does not say what an entrypoint was: only whether there is one. */
static json_t *osb_entrypoint_of(const json_t *sandbox)
{
	if (osb_text(sandbox, "entry")[0])
		return json_array();
	return json_pack("[s,s,s]", osb_idle_entrypoint[0], osb_idle_entrypoint[1],
			 osb_idle_entrypoint[2]);
}

static json_t *osb_describe(const json_t *s, json_t *entrypoint)
{
	const json_t *end = json_object_get(s, "end");
	json_t *labels = json_object_get(s, "labels"), *ret, *status;

	status = json_pack("{s:s,s:s}", "state", osb_state_of(s), "lastTransitionAt",
			   osb_text(s, "last_transition_at"));
	if (status) {
		osb_set_text(status, "reason", osb_text(end, "reason"));
		osb_set_text(status, "message",
			     osb_text(s, "hold")[0] ? osb_text(s, "hold")
						    : osb_text(end, "detail"));
	}
	ret = json_pack("{s:s,s:o,s:s,s:o,s:o}", "id", osb_text(s, "id"), "status", status,
			"createdAt", osb_text(s, "created_at"), "entrypoint", entrypoint,
			"metadata", labels ? json_incref(labels) : json_object());
	if (ret) {
		osb_set_text(ret, "expiresAt", osb_text(s, "expires_at"));
		if (osb_text(s, "snapshot")[0])
			osb_set_text(ret, "snapshotId", osb_text(s, "snapshot"));
		else
			(void)json_object_set_new(ret, "image",
						  json_pack("{s:s}", "uri", osb_text(s, "image")));
	}
	return ret;
}

/* Create */

/* What would change what the sandbox may do or how long it lives is refused, never ignored. */
static int osb_create_check(const json_t *body, struct cay_err *err)
{
	const json_t *platform = json_object_get(body, "platform");
	const json_t *extensions = json_object_get(body, "extensions");
	const char *os = osb_text(platform, "os"), *arch = osb_text(platform, "arch");

	if (json_is_true(json_object_get(json_object_get(body, "credentialProxy"), "enabled")))
		return cay_fail(err, CAY_E_INVALID,
				"credentialProxy is not supported by Cay: use a "
				"rule of egress with a credential");
	if (json_object_size(json_object_get(body, "lifecycle")))
		return cay_fail(err, CAY_E_INVALID, "lifecycle is not supported by Cay");
	if (json_array_size(json_object_get(body, "volumes")))
		return cay_fail(err, CAY_E_INVALID,
				"volumes are not supported by Cay's OpenSandbox "
				"API: mount them by sandbox.create");
	if (json_object_get(extensions, "access.renew.extend.seconds"))
		return cay_fail(err, CAY_E_INVALID,
				"access.renew.extend.seconds is not supported by Cay");
	if ((os[0] && !str_eq(os, "linux")) || (arch[0] && !str_eq(arch, ARCH)))
		return cay_fail(err, CAY_E_INVALID, "the platform of this node is linux/" ARCH);
	return 0;
}

static int osb_create_limits(const json_t *body, json_t *to, struct cay_err *err)
{
	static const struct {
		const char *theirs, *ours;
	} names[] = { { "cpu", "cpu_milli" }, { "memory", "memory_bytes" } };
	const char *key;
	json_t *value, *limits = json_object();

	(void)json_object_set_new(to, "limits", limits);
	json_object_foreach (json_object_get(body, "resourceLimits"), key, value) {
		size_t i = 0;

		while (i < ARRAY_SIZE(names) && !str_eq(names[i].theirs, key))
			i++;
		if (i == ARRAY_SIZE(names))
			return cay_fail(err, CAY_E_INVALID,
					"resourceLimits.%.40s is not supported by Cay", key);
		(void)json_object_set(limits, names[i].ours, value);
	}
	return 0;
}

static int osb_labels_check(const json_t *labels, bool patch, struct cay_err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)labels, key, value) {
		if (strncmp(key, "opensandbox.io/", 15) == 0)
			return cay_fail(err, CAY_E_INVALID,
					"metadata of opensandbox.io/ is reserved");
		if (!json_is_string(value) && !(patch && json_is_null(value)))
			return cay_fail(err, CAY_E_INVALID, "metadata '%.40s' is not text", key);
	}
	return 0;
}

static int osb_create_timeout(const json_t *body, json_t *to, struct cay_err *err)
{
	const json_t *t = json_object_get(body, "timeout");

	if (!t || json_is_null(t))
		return 0;
	if (!json_is_integer(t) || json_integer_value(t) < TIMEOUT_MIN_S ||
	    json_integer_value(t) > TIMEOUT_MAX_S)
		return cay_fail(err, CAY_E_INVALID, "timeout must be at least %d seconds",
				TIMEOUT_MIN_S);
	(void)json_object_set_new(to, "ttl_ms", json_integer(json_integer_value(t) * 1000));
	return 0;
}

static bool osb_is_idle_entrypoint(const json_t *list)
{
	for (size_t i = 0; i < ARRAY_SIZE(osb_idle_entrypoint); i++)
		if (!json_text_eq(json_array_get(list, i), osb_idle_entrypoint[i]))
			return false;
	return json_array_size(list) == ARRAY_SIZE(osb_idle_entrypoint);
}

static void osb_create_program(const json_t *body, json_t *to)
{
	json_t *entrypoint = json_object_get(body, "entrypoint"), *env = json_object(), *value;
	const char *key;

	json_object_foreach (json_object_get(body, "env"), key, value)
		if (!json_is_null(value))
			(void)json_object_set(env, key, value);
	(void)json_object_set_new(to, "env", env);
	if (!json_array_size(entrypoint) || osb_is_idle_entrypoint(entrypoint))
		return;
	/* the end of a container's main program is the container's */
	(void)json_object_set(to, "entrypoint", entrypoint);
	(void)json_object_set_new(to, "on_exit", json_string("end"));
}

static void on_osb_sandbox_created(struct osb_request *v);

static void osb_create_from(struct osb_request *v, const char *what, const char *name)
{
	json_t *m = json_copy(v->kept);

	if (m)
		(void)json_object_set_new(m, what, json_string(name));
	v->accepts_failure = true;
	osb_call_with(v, OP_SANDBOX_CREATE, on_osb_sandbox_created, m);
}

/* A name may be that of a template, else it is an image; the image of the code interpreter is
 * `code` where it was not imported by its own name. */
static void on_osb_sandbox_created(struct osb_request *v)
{
	json_t *entrypoint = json_object_get(v->json, "entrypoint");
	bool absent = v->status >= 400 && v->failure.code == CAY_E_NOT_FOUND;

	if (v->status < 400) {
		osb_reply(v, 202,
			  osb_describe(v->answer, json_array_size(entrypoint)
							  ? json_incref(entrypoint)
							  : osb_entrypoint_of(v->answer)));
	} else if (absent && v->at == 0 && v->target) {
		v->at = 1;
		osb_create_from(v, "image", v->target);
	} else if (absent && v->at == 1 && strstr(v->target, "code-interpreter")) {
		v->at = 2;
		osb_create_from(v, "image", "code");
	} else {
		osb_fail(v, &v->failure);
	}
}

static bool osb_is_template_name(const char *s)
{
	return strlen(s) <= 63 && str_is_dns_label(slice_of(s));
}

static void osb_create_start(struct osb_request *v)
{
	const json_t *image = json_object_get(v->json, "image");
	const char *snapshot = osb_text(v->json, "snapshotId"), *uri = osb_text(image, "uri");
	const char *template = osb_text(v->json, "templateId");
	const char *pool = osb_text(json_object_get(v->json, "extensions"), "poolRef");
	json_t *auth = json_object_get(image, "auth");

	if (!template[0])
		template = pool;
	if ((snapshot[0] != 0) + (uri[0] != 0) + (template[0] != 0) != 1 &&
	    !(pool[0] && uri[0] && !snapshot[0])) {
		osb_refuse(v, CAY_E_INVALID, "name one of image, snapshotId and templateId");
	} else if (template[0]) {
		/* whose limits its sandboxes have */
		(void)json_object_del(v->kept, "limits");
		osb_create_from(v, "template", template);
	} else if (snapshot[0]) {
		osb_create_from(v, "snapshot", snapshot);
	} else {
		if (json_object_size(auth))
			(void)json_object_set(v->kept, "registry_auth", auth);
		v->target = uri;
		v->at = osb_is_template_name(uri) && !json_object_size(auth) ? 0 : 1;
		osb_create_from(v, v->at ? "image" : "template", uri);
	}
}

void osb_sandbox_create(struct osb_request *v)
{
	const json_t *policy = json_object_get(v->json, "networkPolicy");
	json_t *labels = json_object_get(v->json, "metadata");
	struct cay_err err = {};
	int r = osb_create_check(v->json, &err);

	v->kept = json_pack("{s:o}", "labels",
			    json_is_object(labels) ? json_incref(labels) : json_object());
	if (r >= 0 && !v->kept)
		r = cay_no_memory(&err);
	if (r >= 0)
		r = osb_labels_check(labels, false, &err);
	if (r >= 0)
		r = osb_create_limits(v->json, v->kept, &err);
	if (r >= 0)
		r = osb_create_timeout(v->json, v->kept, &err);
	if (r >= 0 && json_is_object(policy))
		r = osb_policy_read(policy, v->kept, &err);
	if (r < 0) {
		osb_fail(v, &err);
		return;
	}
	osb_create_program(v->json, v->kept);
	osb_create_start(v);
}

/* Get, delete, metadata */

static void on_osb_sandbox_known(struct osb_request *v)
{
	if (!osb_refuse_gone(v))
		osb_reply(v, 200, osb_describe(v->answer, osb_entrypoint_of(v->answer)));
}

void osb_sandbox_get(struct osb_request *v)
{
	osb_call(v, OP_SANDBOX_GET, on_osb_sandbox_known, "{}");
}

static void on_osb_sandbox_deleted(struct osb_request *v)
{
	osb_reply_status(v, 204);
}

static void on_osb_delete_state(struct osb_request *v)
{
	if (!osb_refuse_gone(v))
		osb_call(v, OP_SANDBOX_DELETE, on_osb_sandbox_deleted, "{}");
}

void osb_sandbox_delete(struct osb_request *v)
{
	osb_call(v, OP_SANDBOX_GET, on_osb_delete_state, "{}");
}

void osb_sandbox_metadata(struct osb_request *v)
{
	struct cay_err err = {};

	if (osb_labels_check(v->json, true, &err) < 0)
		osb_fail(v, &err);
	else if (!json_object_size(v->json))
		osb_sandbox_get(v);
	else
		osb_call(v, OP_SANDBOX_LABELS, on_osb_sandbox_known, "{s:O}", "labels", v->json);
}

/* List: pages have numbers and a total, so all rows are read. */

static bool osb_list_wants(struct osb_request *v, const json_t *row)
{
	return !osb_is_gone(row) && osb_wants_state(v, osb_state_of(row));
}

/* Once: there may be many rows. */
int osb_read_states(struct osb_request *v, struct cay_err *err)
{
	const char *state;

	while ((state = osb_query_nth(v, "state", v->n_states))) {
		if (v->n_states == OSB_STATES_MAX)
			return cay_fail(err, CAY_E_INVALID, "state occurs more than %d times",
					OSB_STATES_MAX);
		v->states[v->n_states++] = state;
	}
	return 0;
}

bool osb_wants_state(const struct osb_request *v, const char *state)
{
	for (unsigned i = 0; i < v->n_states; i++)
		if (strcasecmp(v->states[i], state) == 0)
			return true;
	return !v->n_states;
}

int osb_add_row(struct osb_request *v, json_t *row)
{
	if (json_array_append_new(v->rows, row) >= 0)
		return 0;
	osb_refuse(v, CAY_E_NO_MEMORY, "out of memory");
	return -ENOMEM;
}

json_t *osb_page(struct osb_request *v, uint64_t total)
{
	uint64_t pages = (total + v->most - 1) / v->most;

	return json_pack("{s:O,s:{s:I,s:I,s:I,s:I,s:b}}", "items", v->rows, "pagination", "page",
			 (json_int_t)v->first, "pageSize", (json_int_t)v->most, "totalItems",
			 (json_int_t)total, "totalPages", (json_int_t)pages, "hasNextPage",
			 v->first < pages);
}

bool osb_page_has(const struct osb_request *v, uint64_t row)
{
	return row / v->most + 1 == v->first;
}

static void on_osb_sandboxes_listed(struct osb_request *v);

static void osb_list_call(struct osb_request *v, const char *cursor)
{
	json_t *m = json_pack("{s:s,s:i}", "state", v->flag ? "" : "live", "limit", ROWS_MAX);

	if (v->flag)
		(void)json_object_del(m, "state");
	if (v->target && v->target[0])
		(void)json_object_set_new(m, "label", json_string(v->target));
	if (cursor[0])
		(void)json_object_set_new(m, "cursor", json_string(cursor));
	osb_call_with(v, OP_SANDBOX_LIST, on_osb_sandboxes_listed, m);
}

static void on_osb_sandboxes_listed(struct osb_request *v)
{
	const char *next = osb_answer_text(v, "next_cursor");
	json_t *row;
	size_t i;

	json_array_foreach(json_object_get(v->answer, "sandboxes"), i, row)
	{
		if (!osb_list_wants(v, row))
			continue;
		if (osb_page_has(v, v->number++) &&
		    osb_add_row(v, osb_describe(row, osb_entrypoint_of(row))) < 0)
			return;
	}
	if (next[0] && ++v->at == CALLS_MAX)
		osb_refuse(v, CAY_E_TOO_LARGE, "there are too many sandboxes: filter by metadata");
	else if (next[0])
		osb_list_call(v, next);
	else
		osb_reply(v, 200, osb_page(v, v->number));
}

/* page and pageSize, and an empty list. */
int osb_read_page(struct osb_request *v, struct cay_err *err)
{
	const char *page = osb_query(v, "page"), *size = osb_query(v, "pageSize");

	v->first = 1;
	v->most = 20;
	if ((page && str_parse_u64(slice_of(page), 1, UINT32_MAX, &v->first) < 0) ||
	    (size && str_parse_u64(slice_of(size), 1, PAGE_MAX, &v->most) < 0))
		return cay_fail(err, CAY_E_INVALID,
				"page is a number from 1, and pageSize one from 1 to 200");
	v->rows = json_array();
	return v->rows ? 0 : cay_no_memory(err);
}

void osb_sandbox_list(struct osb_request *v)
{
	auto_buf selector = BUF_INIT(SELECTOR_MAX);
	const char *filter = osb_query(v, "metadata");
	struct cay_err err = {};
	int r = osb_read_page(v, &err);

	if (r >= 0)
		r = osb_read_states(v, &err);

	if (r >= 0 && filter)
		r = translate_filter(filter, &selector, &err);
	/* ended ones are listed where they were asked for */
	v->flag = v->n_states && (osb_wants_state(v, "Terminated") || osb_wants_state(v, "Failed"));
	v->target = arena_strndup(&v->arena, buf_str(&selector), selector.len);
	if (r >= 0 && !v->target)
		r = cay_no_memory(&err);
	if (r < 0)
		osb_fail(v, &err);
	else
		osb_list_call(v, "");
}

/* Pause, resume, renew */

static void on_osb_sandbox_moved(struct osb_request *v)
{
	osb_reply_status(v, 202);
}

static void on_osb_pause_state(struct osb_request *v)
{
	if (osb_refuse_gone(v))
		return;
	if (!str_eq(osb_state_of(v->answer), "Running"))
		osb_refuse(v, CAY_E_STATE, "the sandbox is not running");
	else
		osb_call(v, OP_SANDBOX_PAUSE, on_osb_sandbox_moved, "{}");
}

void osb_sandbox_pause(struct osb_request *v)
{
	osb_call(v, OP_SANDBOX_GET, on_osb_pause_state, "{}");
}

static void on_osb_resume_state(struct osb_request *v)
{
	if (osb_refuse_gone(v))
		return;
	if (!str_eq(osb_state_of(v->answer), "Paused"))
		osb_refuse(v, CAY_E_STATE, "the sandbox is not paused");
	else
		osb_call(v,
			 str_eq(osb_answer_text(v, "state"), "stopped") ? OP_SANDBOX_START
									: OP_SANDBOX_RESUME,
			 on_osb_sandbox_moved, "{}");
}

void osb_sandbox_resume(struct osb_request *v)
{
	osb_call(v, OP_SANDBOX_GET, on_osb_resume_state, "{}");
}

static void on_osb_renewed(struct osb_request *v)
{
	osb_reply(v, 200, json_pack("{s:s}", "expiresAt", osb_answer_text(v, "expires_at")));
}

void osb_sandbox_renew(struct osb_request *v)
{
	const char *at = osb_text(v->json, "expiresAt");
	uint64_t until, now = clk_wall_ns(&clk_system);

	if (translate_time(slice_of(at), &until) < 0)
		osb_refuse(v, CAY_E_INVALID,
			   "expiresAt is not a time such as 2026-01-02T03:04:05Z");
	else if (until < now + NS_PER_S)
		osb_refuse(v, CAY_E_INVALID, "expiresAt is not in the future");
	else
		osb_call(v, OP_SANDBOX_EXTEND, on_osb_renewed, "{s:I}", "ttl_ms",
			 (json_int_t)((until - now) / NS_PER_MS));
}

/* Endpoints: of execd and of the egress API below this API, of other ports where Cay has them.
 * Programs show the endpoint of a port to those who may see that port, so where there are previews
 * its header is one of a preview, which is good for nothing else. */

static bool osb_endpoint_is_own(const struct osb_request *v)
{
	return v->first == 44772 || v->first == 18080;
}

static void on_osb_endpoint_token(struct osb_request *v)
{
	const char *token = osb_answer_text(v, "token");
	char place[OSB_PATH_MAX], bearer[160];
	bool own = osb_endpoint_is_own(v);
	int n = snprintf(place, sizeof(place),
			 own ? "%s" OSB_PREFIX "/sandboxes/%s/proxy/%s"
			     : "%s/v1/sandboxes/%s/ports/%s",
			 v->host, v->sandbox, v->segment);
	int m = snprintf(bearer, sizeof(bearer), own ? "%s" : "Bearer %s", token);

	if (n < 0 || n >= (int)sizeof(place) || m < 0 || m >= (int)sizeof(bearer))
		place[0] = bearer[0] = 0;
	osb_reply(v, 200,
		  json_pack("{s:s,s:{s:s}}", "endpoint", place, "headers",
			    own ? "X-EXECD-ACCESS-TOKEN" : "Authorization", bearer));
	explicit_bzero(bearer, sizeof(bearer));
}

static void on_osb_endpoint_preview(struct osb_request *v)
{
	const char *origin = osb_answer_text(v, "origin"), *host = strstr(origin, "://");
	json_t *headers = json_object_get(v->answer, "headers");

	osb_reply(v, 200,
		  json_pack("{s:s,s:O}", "endpoint", host ? host + 3 : origin, "headers", headers));
}

static void osb_endpoint_token(struct osb_request *v)
{
	osb_call(v, OP_SANDBOX_TOKEN, on_osb_endpoint_token, "{s:s,s:i}", "scope", "write",
		 "ttl_ms", TOKEN_MS);
}

static void on_osb_endpoint_tried(struct osb_request *v)
{
	if (v->status < 400)
		on_osb_endpoint_preview(v);
	else if (v->failure.code == CAY_E_UNSUPPORTED)
		osb_endpoint_token(v);
	else
		osb_fail(v, &v->failure);
}

static void on_osb_endpoint_state(struct osb_request *v)
{
	uint64_t now = clk_wall_ns(&clk_system) / NS_PER_S;

	if (osb_refuse_gone(v))
		return;
	if (!v->number && osb_endpoint_is_own(v)) {
		osb_endpoint_token(v);
	} else if (!v->number) {
		v->accepts_failure = true;
		osb_call(v, OP_SANDBOX_PREVIEW, on_osb_endpoint_tried, "{s:I,s:i}", "port",
			 (json_int_t)v->first, "ttl_ms", TOKEN_MS);
	} else if (v->number <= now) {
		osb_refuse(v, CAY_E_INVALID, "expires is not in the future");
	} else {
		uint64_t ms = (v->number - now) * 1000;

		osb_call(v, OP_SANDBOX_PREVIEW, on_osb_endpoint_preview, "{s:I,s:I}", "port",
			 (json_int_t)v->first, "ttl_ms", (json_int_t)ms);
	}
}

void osb_sandbox_endpoint(struct osb_request *v)
{
	const char *expires = osb_query(v, "expires");

	if (str_parse_u64(slice_of(v->segment), 1, 65535, &v->first) < 0)
		osb_refuse(v, CAY_E_INVALID, "the port is not a number from 1 to 65535");
	else if (expires && str_parse_u64(slice_of(expires), 1, UINT32_MAX, &v->number) < 0)
		osb_refuse(v, CAY_E_INVALID, "expires is not a number of seconds since 1970");
	else
		osb_call(v, OP_SANDBOX_GET, on_osb_endpoint_state, "{}");
}

/* Health and metrics */

static void on_osb_node_known(struct osb_request *v)
{
	osb_reply(v, 200, json_pack("{s:s}", "status", "healthy"));
}

void osb_health(struct osb_request *v)
{
	osb_call(v, OP_SYSTEM_HEALTH, on_osb_node_known, "{}");
}

/* How long a create took, as the SDK saw it: Cay measures that itself. */
void osb_telemetry(struct osb_request *v)
{
	osb_reply_status(v, 204);
}

static void on_osb_ping_state(struct osb_request *v)
{
	if (osb_refuse_gone(v))
		return;
	if (str_eq(osb_state_of(v->answer), "Running"))
		osb_reply_status(v, 200);
	else
		osb_refuse(v, CAY_E_UNAVAILABLE, "the sandbox is not running");
}

void osb_ping(struct osb_request *v)
{
	osb_call(v, OP_SANDBOX_GET, on_osb_ping_state, "{}");
}

static uint64_t osb_number(const json_t *j, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(j, name));
}

/* v->kept is the sandbox; v->number the CPU time of the first sample, v->first its time. */
static void on_osb_second_sample(struct osb_request *v)
{
	const json_t *limits = json_object_get(v->kept, "limits");
	uint64_t now = uv_now(&v->door->face.loop), wall = clk_wall_ns(&clk_system) / NS_PER_MS;
	uint64_t ms = now > v->first ? now - v->first : 1, used = osb_number(v->answer, "cpu_ms");
	uint64_t milli = osb_number(limits, "cpu_milli");
	double cpus = milli ? (double)milli / 1000 : 1;
	double part = used > v->number ? (double)(used - v->number) / (double)ms / cpus * 100 : 0;

	osb_reply(v, 200,
		  json_pack("{s:f,s:f,s:f,s:f,s:I}", "cpu_count", cpus, "cpu_used_pct",
			    part > 100 ? 100.0 : part, "mem_total_mib",
			    (double)osb_number(limits, "memory_bytes") / (1 << 20), "mem_used_mib",
			    (double)osb_number(v->answer, "memory_bytes") / (1 << 20), "timestamp",
			    (json_int_t)wall));
}

static void osb_sample_again(struct osb_request *v)
{
	osb_call(v, OP_SANDBOX_USAGE, on_osb_second_sample, "{}");
}

static void on_osb_first_sample(struct osb_request *v)
{
	v->number = osb_number(v->answer, "cpu_ms");
	v->first = uv_now(&v->door->face.loop);
	osb_wait(v, SAMPLE_MS, osb_sample_again);
}

static void on_osb_metrics_state(struct osb_request *v)
{
	v->kept = json_incref(v->answer);
	osb_call(v, OP_SANDBOX_USAGE, on_osb_first_sample, "{}");
}

void osb_metrics(struct osb_request *v)
{
	osb_call(v, OP_SANDBOX_GET, on_osb_metrics_state, "{}");
}
