/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b.h"
#include "e2b/metadata.h"
#include "e2b/network.h"
#include "text/percent.h"

#define MOUNTS_MAX 8
#define IMAGES_MAX 1000

/* Names that the SDKs ask for by themselves, and the image that serves for them, unless a template
 * has the name. */
static const struct {
	const char *name, *image;
} create_images[] = { { "code-interpreter-v1", "code" } };

/* What would change what the sandbox may do or where it goes is refused, never ignored. */
static int create_check(const json_t *body, struct cay_err *err)
{
	static const char *const unsupported[] = { "autoResume", "iam", "mcp" };

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

/* At its deadline a sandbox can stop, which keeps its files. */
static int create_read_pause(const json_t *body, json_t *to, struct cay_err *err)
{
	const json_t *memory = json_object_get(body, "autoPauseMemory");

	if (!json_is_true(json_object_get(body, "autoPause")))
		return json_is_false(memory)
			       ? cay_fail(err, CAY_E_INVALID, "autoPauseMemory needs autoPause")
			       : 0;
	if (json_is_true(memory))
		return cay_fail(err, CAY_E_INVALID,
				"Cay keeps files and no memory at the deadline of a sandbox: set "
				"autoPauseMemory (keepMemory) to false");
	return json_object_set_new(to, "on_expire", json_string("stop")) < 0 ? cay_no_memory(err)
									     : 0;
}

static int create_read_labels(const json_t *body, json_t *to, struct cay_err *err)
{
	json_t *labels = json_object(), *value;
	const char *key;
	int r = 0;

	json_object_foreach (json_object_get(body, "metadata"), key, value) {
		if (r >= 0 && !json_is_string(value))
			r = cay_fail(err, CAY_E_INVALID, "metadata '%.40s' is not text", key);
		if (r >= 0)
			r = metadata_add_label(key, json_string_value(value), labels, err);
	}
	return json_object_set_new(to, "labels", labels) < 0 && r >= 0 ? cay_no_memory(err) : r;
}

/* Programs know by E2B_SANDBOX that they run in one. */
static int create_read_env(const json_t *body, json_t *to, struct cay_err *err)
{
	const json_t *given = json_object_get(body, "envVars");
	json_t *env = json_is_object(given) ? json_copy((json_t *)(uintptr_t)given) : json_object();

	if (env && !json_object_get(env, "E2B_SANDBOX"))
		(void)json_object_set_new(env, "E2B_SANDBOX", json_string("true"));
	return json_object_set_new(to, "env", env) < 0 ? cay_no_memory(err) : 0;
}

static int create_read_network(const json_t *body, json_t *to, struct cay_err *err)
{
	json_t *policy = NULL;
	int r = network_to_egress(json_object_get(body, "network"),
				  json_object_get(body, "allow_internet_access"), &policy, err);

	/* without a policy of its own, what the node allows decides */
	if (r >= 0 && policy && json_object_set_new(to, "egress", policy) < 0)
		return cay_no_memory(err);
	return r;
}

/* Ports are open to everybody unless they are closed, as with E2B, where the node allows that. */
static int create_read_ports(const struct e2b_request *v, json_t *to, struct cay_err *err)
{
	const json_t *asked =
		json_object_get(json_object_get(v->json, "network"), "allowPublicTraffic");
	bool can = v->door->face.settings.edge_public_ports;

	if (json_is_true(asked) && !can)
		return cay_fail(err, CAY_E_INVALID,
				"allowPublicTraffic: edge.public_ports of this node is no");
	if (!can || json_is_false(asked))
		return 0;
	return json_object_set_new(to, "public_ports", json_true()) < 0 ? cay_no_memory(err) : 0;
}

static void on_create_done(struct e2b_request *v);

static void create_from(struct e2b_request *v, const char *what, const char *name)
{
	struct cay_err err = {};
	json_t *m = json_copy(v->kept);

	if (!m || json_object_set_new(m, what, json_string(name)) < 0) {
		json_decref(m);
		e2b_refuse(v, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	v->accepts_failure = true;
	v->then = on_create_done;
	if (e2b_transfer(v, OP_SANDBOX_CREATE, m, &(struct e2b_transfer){}, &err) < 0)
		e2b_fail(v, &err);
}

static const char *create_image_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(create_images); i++)
		if (str_eq(name, create_images[i].name))
			return create_images[i].image;
	return name;
}

static void on_create_done(struct e2b_request *v)
{
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
	create_from(v, "image", create_image_of(v->target));
}

static bool create_is_template_name(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if (!ascii_is_lower(s[i]) && !ascii_is_digit(s[i]) && s[i] != '-')
			return false;
	return n && n <= 63 && s[0] != '-' && s[n - 1] != '-';
}

static void create_begin(struct e2b_request *v)
{
	const char *name = v->target;
	struct id id;

	v->number = 0;
	if (id_parse(ID_SNAPSHOT, slice_of(name), &id) >= 0) {
		v->number = 1;
		create_from(v, "snapshot", name);
	} else if (create_is_template_name(name)) {
		create_from(v, "template", name);
	} else {
		v->number = 1;
		create_from(v, "image", name);
	}
}

/* Volumes are mounted by their names: v->number says which one is looked for. */

static void create_find_volume(struct e2b_request *v);

static void on_create_volume_found(struct e2b_request *v)
{
	const json_t *mount = json_array_get(json_object_get(v->json, "volumeMounts"), v->number);
	const json_t *found = json_array_get(json_object_get(v->answer, "volumes"), 0);
	struct cay_err err = {};
	json_t *row;

	if (!found) {
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "volume '%.100s' not found",
			       json_string_value(json_object_get(mount, "name")));
		e2b_fail(v, &err);
		return;
	}
	row = json_pack("{s:O,s:O}", "volume", json_object_get(found, "id"), "path",
			json_object_get(mount, "path"));
	if (json_array_append_new(json_object_get(v->kept, "volumes"), row) < 0) {
		e2b_refuse(v, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	v->number++;
	create_find_volume(v);
}

static void create_find_volume(struct e2b_request *v)
{
	const json_t *mounts = json_object_get(v->json, "volumeMounts");
	const json_t *mount = json_array_get(mounts, v->number);

	if (!mount)
		create_begin(v);
	else if (!json_is_string(json_object_get(mount, "name")) ||
		 !json_is_string(json_object_get(mount, "path")))
		e2b_refuse(v, CAY_E_INVALID, "a mount of a volume has no name or no path");
	else
		e2b_call(v, OP_VOLUME_LIST, on_create_volume_found, "{s:O}", "name",
			 json_object_get(mount, "name"));
}

static int create_read_mounts(const json_t *body, json_t *to, struct cay_err *err)
{
	const json_t *mounts = json_object_get(body, "volumeMounts");

	if (!json_array_size(mounts))
		return !mounts || json_is_null(mounts) || json_is_array(mounts)
			       ? 0
			       : cay_fail(err, CAY_E_INVALID, "volumeMounts is not a list");
	if (json_array_size(mounts) > MOUNTS_MAX)
		return cay_fail(err, CAY_E_INVALID, "a sandbox can have %d volumes", MOUNTS_MAX);
	return json_object_set_new(to, "volumes", json_array()) < 0 ? cay_no_memory(err) : 0;
}

static int create_read(struct e2b_request *v, struct cay_err *err)
{
	static int (*const readers[])(const json_t *body, json_t *to, struct cay_err *err) = {
		create_read_labels,  create_read_env,    create_read_pause,
		create_read_network, create_read_mounts,
	};
	uint64_t ms, fallback = v->route->path[1] == 'v' ? 300 : 15;
	int r = create_check(v->json, err);

	v->kept = json_object();
	if (!v->kept)
		return cay_no_memory(err);
	for (size_t i = 0; i < ARRAY_SIZE(readers) && r >= 0; i++)
		r = readers[i](v->json, v->kept, err);
	if (r >= 0)
		r = create_read_ports(v, v->kept, err);
	if (r >= 0)
		r = e2b_read_timeout(v, fallback, &ms, err);
	if (r >= 0 && ms < 1000)
		r = cay_fail(err, CAY_E_INVALID, "timeout must be at least 1 second");
	if (r >= 0 && json_object_set_new(v->kept, "ttl_ms", json_integer((json_int_t)ms)) < 0)
		r = cay_no_memory(err);
	return r;
}

void e2b_sandbox_create(struct e2b_request *v)
{
	const char *name = json_string_value(json_object_get(v->json, "templateID"));
	struct cay_err err = {};

	if (!name)
		(void)cay_fail(&err, CAY_E_INVALID, "templateID is missing");
	else if (create_read(v, &err) >= 0) {
		v->target = arena_strndup(&v->arena, name, strlen(name));
		if (!v->target)
			(void)cay_no_memory(&err);
	}
	if (err.code)
		e2b_fail(v, &err);
	else
		create_find_volume(v);
}

/* A change of the network of a sandbox.  One that opens it is refused: what the node allows by
 * itself is not known here. */

static void on_network_changed(struct e2b_request *v)
{
	e2b_reply_status(v, 204);
}

void e2b_sandbox_network(struct e2b_request *v)
{
	struct cay_err err = {};
	json_t *policy = NULL;
	int r = network_to_egress(v->json, json_object_get(v->json, "allow_internet_access"),
				  &policy, &err);

	if (r >= 0 && !policy)
		r = cay_fail(&err, CAY_E_INVALID,
			     "with Cay a change of the network needs denyOut 0.0.0.0/0, and what "
			     "is allowed in allowOut");
	v->then = on_network_changed;
	if (r < 0 || e2b_transfer(v, OP_EGRESS_PUT, policy, &(struct e2b_transfer){}, &err) < 0)
		e2b_fail(v, &err);
}

/* Whether there is something that a create with this name would use. */

static void alias_reply(struct e2b_request *v)
{
	e2b_reply(v, 200, json_pack("{s:s,s:b}", "templateID", v->target, "public", false));
}

static void on_alias_images(struct e2b_request *v)
{
	const char *want = create_image_of(v->target);
	json_t *row;
	size_t i;

	json_array_foreach(json_object_get(v->answer, "images"), i, row)
	{
		if (json_text_eq(json_object_get(row, "name"), want)) {
			alias_reply(v);
			return;
		}
	}
	e2b_refuse(v, CAY_E_NOT_FOUND, "template not found");
}

static void alias_find_image(struct e2b_request *v)
{
	e2b_call(v, OP_IMAGE_LIST, on_alias_images, "{s:i}", "limit", IMAGES_MAX);
}

static void on_alias_template(struct e2b_request *v)
{
	if (v->status < 400)
		alias_reply(v);
	else if (v->failure.code == CAY_E_NOT_FOUND)
		alias_find_image(v);
	else
		e2b_fail(v, &v->failure);
}

void e2b_template_alias(struct e2b_request *v)
{
	size_t n = strlen(v->segment);
	char *name = arena_alloc(&v->arena, 1, n + 1);

	if (!name || percent_decode(v->segment, n, name, &n) < 0) {
		e2b_refuse(v, CAY_E_NOT_FOUND, "template not found");
		return;
	}
	name[n] = 0;
	v->target = name;
	v->accepts_failure = create_is_template_name(name);
	if (v->accepts_failure)
		e2b_call(v, OP_TEMPLATE_GET, on_alias_template, "{s:s}", "template", name);
	else
		alias_find_image(v);
}
