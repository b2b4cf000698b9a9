/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp/bridge-rpc.h"

#include "base/jsonw.h"
#include "text/base64.h"

#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define HEADER_MAX 1024

static const struct json_limits rpc_limits = { .bytes = RPC_MAX, .depth = 64, .values = 400000 };

/* The member of params that the Mcp-Name header repeats. */
static const struct {
	const char *method, *member;
} name_members[] = {
	{ "tools/call", "name" },  { "prompts/get", "name" },    { "resources/read", "uri" },
	{ "tasks/get", "taskId" }, { "tasks/update", "taskId" }, { "tasks/cancel", "taskId" },
};

int bridge_rpc_parse(struct slice text, struct bridge_rpc *ret, enum bridge_rpc_code *ret_code,
		     struct cay_err *err)
{
	auto_json tree = NULL;
	const json_t *method, *id;
	int r = json_parse(text, &rpc_limits, &tree, err);

	*ret_code = RPC_UNREADABLE;
	if (r < 0)
		return r;
	*ret_code = RPC_NO_REQUEST;
	method = json_object_get(tree, "method");
	id = json_object_get(tree, "id");
	if (json_is_array(tree))
		return cay_fail(err, CAY_E_INVALID,
				"batches are not supported: send one message a line");
	if (!json_is_string(json_object_get(tree, "jsonrpc")))
		return cay_fail(err, CAY_E_INVALID, "not a JSON-RPC 2.0 message");
	if (method && !json_is_string(method))
		return cay_fail(err, CAY_E_INVALID, "method is not a string");
	if (method && id && !json_is_string(id) && !json_is_integer(id))
		return cay_fail(err, CAY_E_INVALID, "id is neither a string nor an integer");
	if (!method && !json_object_get(tree, "result") && !json_object_get(tree, "error"))
		return cay_fail(err, CAY_E_INVALID, "the message has no method");
	*ret = (struct bridge_rpc){ tree, json_string_value(method), id };
	tree = NULL;
	return 0;
}

void bridge_rpc_fini(struct bridge_rpc *m)
{
	json_decref(m->tree);
	m->tree = NULL;
}

/* Whether a header can carry the text unencoded. */
static bool bridge_rpc_value_is_plain(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~')
			return false;
	return n && s[0] != ' ' && s[n - 1] != ' ' && strncmp(s, "=?", 2) != 0;
}

static int bridge_rpc_add_header(struct buf *out, const char *name, const char *value,
				 struct cay_err *err)
{
	size_t n = strlen(value);
	char text[BASE64_TEXT(HEADER_MAX) + 1];
	int r;

	if (n > HEADER_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, "%s is longer than %d bytes", name,
				HEADER_MAX);
	if (bridge_rpc_value_is_plain(value)) {
		r = buf_printf(out, "%s: %s\r\n", name, value);
	} else {
		base64_encode((const uint8_t *)value, n, text);
		text[BASE64_TEXT(n)] = 0;
		r = buf_printf(out, "%s: =?base64?%s?=\r\n", name, text);
	}
	return r < 0 ? cay_no_memory(err) : 0;
}

static const char *bridge_rpc_find_name(const struct bridge_rpc *m, const json_t *params)
{
	for (size_t i = 0; i < ARRAY_SIZE(name_members); i++)
		if (str_eq(m->method, name_members[i].method))
			return json_string_value(json_object_get(params, name_members[i].member));
	return NULL;
}

int bridge_rpc_format_headers(const struct bridge_rpc *m, const char *version, struct buf *out,
			      struct cay_err *err)
{
	const json_t *params = json_object_get(m->tree, "params");
	const char *claims =
		json_string_value(json_object_get(json_object_get(params, "_meta"), META_VERSION));
	const char *name, *stated = claims ? claims : version;
	int r = stated[0] || claims
			? bridge_rpc_add_header(out, "MCP-Protocol-Version", stated, err)
			: 0;

	/* legacy clients negotiate a version by initialize; modern ones state it in each
	 * message, and only those have the other two headers */
	if (r < 0 || !claims || !m->method)
		return r;
	r = bridge_rpc_add_header(out, "Mcp-Method", m->method, err);
	name = bridge_rpc_find_name(m, params);
	return r < 0 || !name ? r : bridge_rpc_add_header(out, "Mcp-Name", name, err);
}

void bridge_rpc_read_version(const struct bridge_rpc *answer, char ret[static RPC_VERSION_MAX])
{
	const char *v = json_string_value(
		json_object_get(json_object_get(answer->tree, "result"), "protocolVersion"));
	size_t n = v && bridge_rpc_value_is_plain(v) ? strlen(v) : 0;

	if (n >= RPC_VERSION_MAX)
		n = 0;
	if (n)
		memcpy(ret, v, n);
	ret[n] = 0;
}

const json_t *bridge_rpc_find_cancelled_id(const struct bridge_rpc *m)
{
	if (!m->method || !str_eq(m->method, "notifications/cancelled"))
		return NULL;
	return json_object_get(json_object_get(m->tree, "params"), "requestId");
}

bool bridge_rpc_is_answer_to(const struct bridge_rpc *m, const json_t *id)
{
	return !m->method && m->id && json_equal(m->id, id);
}

int bridge_rpc_format_line(struct slice text, struct buf *out)
{
	size_t from = out->len;
	int r = buf_append(out, text.p, text.n);

	/* outside strings they are white space, and JSON strings cannot contain them */
	for (size_t i = from; r >= 0 && i < out->len; i++)
		if (out->data[i] == '\n' || out->data[i] == '\r')
			out->data[i] = ' ';
	return r < 0 ? r : buf_putc(out, '\n');
}

int bridge_rpc_format_error(const json_t *id, enum bridge_rpc_code code, const struct cay_err *why,
			    const char *hint, struct buf *out)
{
	struct jw w = jw_to(out);
	int r;

	jw_object_begin(&w, NULL);
	jw_str(&w, "jsonrpc", "2.0");
	if (json_is_integer(id))
		jw_i64(&w, "id", json_integer_value(id));
	else
		jw_str(&w, "id", json_string_value(id));
	jw_object_begin(&w, "error");
	jw_i64(&w, "code", code);
	jw_str(&w, "message", why->msg);
	if (code == RPC_SERVER) {
		jw_object_begin(&w, "data");
		jw_str(&w, "code", cay_error_row(why->code)->name);
		if (hint[0])
			jw_str(&w, "hint", hint);
		jw_end(&w);
	}
	jw_end(&w);
	jw_end(&w);
	r = jw_finish(&w);
	return r < 0 ? r : buf_putc(out, '\n');
}
