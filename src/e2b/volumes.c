/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes.  Their files are read and written in a sandbox that has them: the token of a reply,
 * with which E2B's clients do that without one, is empty. */
#include "e2b/e2b.h"

#define LIST_MAX 1000

static json_t *volume_describe(const json_t *row)
{
	return json_pack("{s:O,s:O,s:s}", "volumeID", json_object_get(row, "id"), "name",
			 json_object_get(row, "name"), "token", "");
}

static void on_volume_created(struct e2b_request *v)
{
	e2b_reply(v, 201, volume_describe(v->answer));
}

void e2b_volume_create(struct e2b_request *v)
{
	json_t *name = json_object_get(v->json, "name");

	if (!json_is_string(name))
		e2b_refuse(v, CAY_E_INVALID, "name is missing");
	else
		e2b_call(v, OP_VOLUME_CREATE, on_volume_created, "{s:O}", "name", name);
}

static void on_volumes_listed(struct e2b_request *v)
{
	json_t *rows = json_array(), *row;
	size_t i;

	json_array_foreach(json_object_get(v->answer, "volumes"), i, row)(void)
		json_array_append_new(rows, volume_describe(row));
	e2b_reply(v, 200, rows);
}

void e2b_volume_list(struct e2b_request *v)
{
	e2b_call(v, OP_VOLUME_LIST, on_volumes_listed, "{s:i}", "limit", LIST_MAX);
}

static bool volume_is_named(struct e2b_request *v)
{
	struct id id;

	if (id_parse(ID_VOLUME, slice_of(v->segment), &id) >= 0)
		return true;
	e2b_refuse(v, CAY_E_NOT_FOUND, "volume not found");
	return false;
}

static void on_volume_got(struct e2b_request *v)
{
	e2b_reply(v, 200, volume_describe(v->answer));
}

void e2b_volume_get(struct e2b_request *v)
{
	if (volume_is_named(v))
		e2b_call(v, OP_VOLUME_GET, on_volume_got, "{s:s}", "volume", v->segment);
}

static void on_volume_deleted(struct e2b_request *v)
{
	e2b_reply_status(v, 204);
}

void e2b_volume_delete(struct e2b_request *v)
{
	if (volume_is_named(v))
		e2b_call(v, OP_VOLUME_DELETE, on_volume_deleted, "{s:s}", "volume", v->segment);
}
