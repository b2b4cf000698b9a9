/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b.h"

#define LIST_MAX 100
#define FORKS_MAX 100

static json_t *snapshot_describe(const json_t *s)
{
	const json_t *name = json_object_get(s, "name");
	json_t *names = json_array();

	if (name)
		(void)json_array_append(names, (json_t *)(uintptr_t)name);
	return json_pack("{s:O,s:o}", "snapshotID", json_object_get(s, "id"), "names", names);
}

static void on_snapshot_created(struct e2b_request *v)
{
	e2b_reply(v, 201, snapshot_describe(v->answer));
}

void e2b_snapshot_create(struct e2b_request *v)
{
	json_t *name = json_object_get(v->json, "name");

	e2b_call(v, OP_SNAPSHOT_CREATE, on_snapshot_created, "{s:O*}", "name",
		 json_is_null(name) ? NULL : name);
}

static void on_snapshots_listed(struct e2b_request *v)
{
	const char *next = json_string_value(json_object_get(v->answer, "next_cursor"));
	json_t *rows = json_array(), *row;
	size_t i;

	json_array_foreach(json_object_get(v->answer, "snapshots"), i, row)
	{
		if (json_text_eq(json_object_get(row, "state"), "ready"))
			(void)json_array_append_new(rows, snapshot_describe(row));
	}
	if (next && request_add_reply_header(v->rq, "X-Next-Token", next) < 0)
		e2b_refuse(v, CAY_E_NO_MEMORY, "out of memory");
	else
		e2b_reply(v, 200, rows);
}

void e2b_snapshot_list(struct e2b_request *v)
{
	static const struct {
		const char *e2b, *ours;
	} names[] = { { "sandboxID", "sandbox" }, { "name", "name" }, { "nextToken", "cursor" } };
	const char *limit = e2b_query(v, "limit");
	struct cay_err err = {};
	uint64_t most = LIST_MAX;
	json_t *m;

	if (limit && str_parse_u64(slice_of(limit), 1, LIST_MAX, &most) < 0) {
		e2b_refuse(v, CAY_E_INVALID, "limit must be between 1 and 100");
		return;
	}
	m = json_pack("{s:I}", "limit", (json_int_t)most);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = e2b_query(v, names[i].e2b);

		if (value)
			(void)json_object_set_new(m, names[i].ours, json_string(value));
	}
	v->then = on_snapshots_listed;
	if (e2b_transfer(v, OP_SNAPSHOT_LIST, m, &(struct e2b_transfer){}, &err) < 0)
		e2b_fail(v, &err);
}

static void on_snapshot_deleted(struct e2b_request *v)
{
	e2b_reply_status(v, 204);
}

/* To E2B a snapshot is a template.  Those of Cay are the operator's. */
void e2b_template_delete(struct e2b_request *v)
{
	struct id id;

	if (id_parse(ID_SNAPSHOT, slice_of(v->segment), &id) < 0)
		e2b_refuse(v, CAY_E_NOT_FOUND, "template not found");
	else
		e2b_call(v, OP_SNAPSHOT_DELETE, on_snapshot_deleted, "{s:s}", "snapshot",
			 v->segment);
}

/* Fork: v->kept are the outcomes, and v->number says whose token is next. */

static json_t *fork_error(const json_t *error)
{
	const char *says = json_string_value(json_object_get(error, "message"));

	return json_pack("{s:{s:i,s:s}}", "error", "code", 500, "message",
			 says ? says : "the fork failed");
}

static void fork_continue(struct e2b_request *v);

static void on_fork_token(struct e2b_request *v)
{
	const json_t *sandbox = json_object_get(json_array_get(v->kept, v->number), "sandbox");
	const char *id = json_string_value(json_object_get(sandbox, "id"));
	const char *token = e2b_answer_text(v, "token");

	json_t *row = v->status >= 400
			      ? fork_error(json_object_get(v->answer, "error"))
			      : json_pack("{s:o}", "sandbox",
					  e2b_describe_session(v->door, id, sandbox, token));

	(void)json_array_set_new(v->kept, v->number++, row);
	fork_continue(v);
}

static void fork_continue(struct e2b_request *v)
{
	const json_t *outcome, *sandbox;
	struct id id;

	while ((outcome = json_array_get(v->kept, v->number))) {
		sandbox = json_object_get(outcome, "sandbox");
		if (sandbox && id_parse(ID_SANDBOX,
					slice_of(json_string_value(json_object_get(sandbox, "id"))),
					&id) >= 0) {
			id_format(&id, v->sandbox);
			v->accepts_failure = true;
			e2b_call(v, OP_SANDBOX_TOKEN, on_fork_token, "{s:s,s:i}", "scope", "write",
				 "ttl_ms", E2B_TOKEN_MS);
			return;
		}
		(void)json_array_set_new(v->kept, v->number++,
					 fork_error(json_object_get(outcome, "error")));
	}
	e2b_reply(v, 201, json_incref(v->kept));
}

static enum e2b_event_result on_fork_outcome(struct e2b_request *v, const json_t *outcome)
{
	if (json_array_size(v->kept) < FORKS_MAX)
		(void)json_array_append(v->kept, (json_t *)(uintptr_t)outcome);
	return E2B_EVENT_TAKEN;
}

void e2b_sandbox_fork(struct e2b_request *v)
{
	const json_t *count = json_object_get(v->json, "count");
	json_int_t n = count && !json_is_null(count) ? json_integer_value(count) : 1;
	struct cay_err err = {};
	uint64_t ms;

	if (n < 1 || n > FORKS_MAX) {
		e2b_refuse(v, CAY_E_INVALID, "count must be between 1 and 100");
		return;
	}
	if (e2b_read_timeout(v, 300, &ms, &err) < 0) {
		e2b_fail(v, &err);
		return;
	}
	v->kept = json_array();
	e2b_call_events(
		v, OP_SANDBOX_FORK,
		json_pack("{s:I,s:I}", "count", n, "ttl_ms", (json_int_t)(ms < 1000 ? 1000 : ms)),
		on_fork_outcome, fork_continue);
}
