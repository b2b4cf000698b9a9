/* SPDX-License-Identifier: Apache-2.0 */
#include "opensandbox/opensandbox.h"

#define ROWS_MAX 200 /* of a call of snapshot.list */
#define CALLS_MAX 100

static const char *osb_snapshot_state(const json_t *s)
{
	return str_eq(osb_text(s, "state"), "ready") ? "Ready" : "Creating";
}

static json_t *osb_snapshot(const json_t *s)
{
	const char *name = osb_text(s, "name");
	json_t *ret = json_pack("{s:s,s:s,s:{s:s},s:s}", "id", osb_text(s, "id"), "sandboxId",
				osb_text(s, "sandbox"), "status", "state", osb_snapshot_state(s),
				"createdAt", osb_text(s, "created_at"));

	if (ret && name[0])
		(void)json_object_set_new(ret, "name", json_string(name));
	return ret;
}

static void on_osb_snapshot_created(struct osb_request *v)
{
	osb_reply(v, 202, osb_snapshot(v->answer));
}

void osb_snapshot_create(struct osb_request *v)
{
	const char *name = osb_text(v->json, "name");

	if (name[0])
		osb_call(v, OP_SNAPSHOT_CREATE, on_osb_snapshot_created, "{s:s}", "name", name);
	else
		osb_call(v, OP_SNAPSHOT_CREATE, on_osb_snapshot_created, "{}");
}

static void on_osb_snapshot_known(struct osb_request *v)
{
	osb_reply(v, 200, osb_snapshot(v->answer));
}

void osb_snapshot_get(struct osb_request *v)
{
	osb_call(v, OP_SNAPSHOT_GET, on_osb_snapshot_known, "{s:s}", "snapshot", v->segment);
}

static void on_osb_snapshot_deleted(struct osb_request *v)
{
	osb_reply_status(v, 204);
}

void osb_snapshot_delete(struct osb_request *v)
{
	osb_call(v, OP_SNAPSHOT_DELETE, on_osb_snapshot_deleted, "{s:s}", "snapshot", v->segment);
}

static void on_osb_snapshots_listed(struct osb_request *v);

static void osb_snapshots_call(struct osb_request *v, const char *cursor)
{
	const char *sandbox = osb_query(v, "sandboxId"), *name = osb_query(v, "name");
	json_t *m = json_pack("{s:i}", "limit", ROWS_MAX);

	if (sandbox && sandbox[0])
		(void)json_object_set_new(m, "sandbox", json_string(sandbox));
	if (name && name[0])
		(void)json_object_set_new(m, "name", json_string(name));
	if (cursor[0])
		(void)json_object_set_new(m, "cursor", json_string(cursor));
	osb_call_with(v, OP_SNAPSHOT_LIST, on_osb_snapshots_listed, m);
}

static void on_osb_snapshots_listed(struct osb_request *v)
{
	const char *next = osb_answer_text(v, "next_cursor");
	json_t *row;
	size_t i;

	json_array_foreach(json_object_get(v->answer, "snapshots"), i, row)
	{
		if (osb_wants_state(v, osb_snapshot_state(row)) && osb_page_has(v, v->number++) &&
		    osb_add_row(v, osb_snapshot(row)) < 0)
			return;
	}
	if (next[0] && ++v->at == CALLS_MAX)
		osb_refuse(v, CAY_E_TOO_LARGE, "there are too many snapshots: name their sandbox");
	else if (next[0])
		osb_snapshots_call(v, next);
	else
		osb_reply(v, 200, osb_page(v, v->number));
}

void osb_snapshot_list(struct osb_request *v)
{
	struct cay_err err = {};

	if (osb_read_page(v, &err) < 0 || osb_read_states(v, &err) < 0)
		osb_fail(v, &err);
	else
		osb_snapshots_call(v, "");
}
