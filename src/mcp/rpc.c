/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/rpc.h"

#include <stdio.h>

#include "text/base64.h"

#define META "io.modelcontextprotocol/"
#define NAME_MAX_ 512 /* of a tool, in a header */

const char *const rpc_versions[] = { RPC_MODERN, RPC_LEGACY, "2025-06-18", NULL };

static const struct {
	const char *name;
	bool modern, legacy, has_id;
} methods[RPC_NUM] = {
#define CAY_RPC(sym, name_, modern_, legacy_, id_) [RPC_##sym] = { name_, modern_, legacy_, id_ },
#include "mcp/methods.def"
#undef CAY_RPC
};

__attribute__((format(printf, 4, 5))) static int refuse(struct rpc_fault *f, int code, int status,
							const char *fmt, ...)
{
	va_list ap;

	f->code = code;
	f->status = status;
	va_start(ap, fmt);
	if (vsnprintf(f->msg, sizeof(f->msg), fmt, ap) < 0)
		f->msg[0] = 0;
	va_end(ap);
	return -EINVAL;
}

static struct slice text_of(const json_t *j)
{
	return (struct slice){ json_string_value(j), json_string_length(j) };
}

/* Text or a whole number: what can be given back as it came. */
static bool is_token(const json_t *j)
{
	return json_is_integer(j) || (json_is_string(j) && json_string_length(j) <= RPC_ID_MAX);
}

static int read_shape(struct rpc *r, struct rpc_fault *f)
{
	json_t *m = r->message, *method = json_object_get(m, "method");
	json_t *id = json_object_get(m, "id"), *params = json_object_get(m, "params");

	if (json_is_array(m))
		return refuse(f, RPC_INVALID, 400, "one message a request: there are no batches");
	if (!json_is_object(m))
		return refuse(f, RPC_INVALID, 400, "a message is an object");
	if (id && !is_token(id))
		return refuse(f, RPC_INVALID, 400, "an id is text or a whole number");
	r->id = id;
	if (!slice_eq(text_of(json_object_get(m, "jsonrpc")), SLICE("2.0")))
		return refuse(f, RPC_INVALID, 400, "jsonrpc must be \"2.0\"");
	if (!json_is_string(method))
		return refuse(
			f, RPC_INVALID, 400,
			"there is no method: answers are not taken, because nothing is asked");
	if (params && !json_is_object(params))
		return refuse(f, RPC_PARAMS, 400, "params must be an object");
	r->params = params;
	return 0;
}

/* Which era, and is it one we know? */
static int read_version(struct rpc *r, const struct rpc_headers *h, const json_t *meta,
			struct rpc_fault *f)
{
	const json_t *version = json_object_get(meta, META "protocolVersion");
	struct slice said = version ? text_of(version) : h->version;
	size_t known = 0;

	if (!said.p)
		return 0; /* the first word of a legacy client, or a very old one */
	while (rpc_versions[known] && !slice_eq(said, slice_of(rpc_versions[known])))
		known++;
	r->modern = version || slice_eq(said, SLICE(RPC_MODERN)) || !rpc_versions[known];
	if (version && !slice_eq(text_of(version), h->version))
		return refuse(f, RPC_HEADER, 400,
			      "Header mismatch: MCP-Protocol-Version is not "
			      "what the body's _meta says");
	if (rpc_versions[known] && (!r->modern || known == 0))
		return 0;
	if (snprintf(f->version, sizeof(f->version), "%.*s", (int)(said.n > 60 ? 60 : said.n),
		     said.p) < 0)
		f->version[0] = 0;
	return refuse(f, RPC_VERSION, 400, "Unsupported protocol version");
}

bool rpc_header_is(struct slice value, struct slice want)
{
	static const char begin[] = "=?base64?", end[] = "?=";
	const size_t b = sizeof(begin) - 1, e = sizeof(end) - 1;
	uint8_t plain[NAME_MAX_];
	size_t n;

	value = slice_trim(value);
	if (!value.p)
		return false;
	if (value.n < b + e || memcmp(value.p, begin, b) != 0 ||
	    memcmp(value.p + value.n - e, end, e) != 0)
		return slice_eq(value, want);
	value = (struct slice){ value.p + b, value.n - b - e };
	if (BASE64_BYTES(value.n) > sizeof(plain) || base64_decode(value.p, value.n, plain, &n) < 0)
		return false;
	return slice_eq((struct slice){ (const char *)plain, n }, want);
}

/* What a modern request must say twice, and must say at all. */
static int check_modern(const struct rpc *r, const struct rpc_headers *h, const json_t *meta,
			struct rpc_fault *f)
{
	struct slice method = text_of(json_object_get(r->message, "method"));
	const json_t *name = json_object_get(r->params, "name");

	if (!json_is_string(json_object_get(meta, META "protocolVersion")))
		return refuse(f, RPC_PARAMS, 400, "params._meta needs " META "protocolVersion");
	if (!json_is_object(json_object_get(meta, META "clientCapabilities")))
		return refuse(f, RPC_PARAMS, 400, "params._meta needs " META "clientCapabilities");
	if (!rpc_header_is(h->method, method))
		return refuse(f, RPC_HEADER, 400, "Header mismatch: Mcp-Method is %s",
			      h->method.p ? "not the body's method" : "missing");
	if (r->method == RPC_TOOLS_CALL && json_is_string(name) &&
	    !rpc_header_is(h->name, text_of(name)))
		return refuse(f, RPC_HEADER, 400, "Header mismatch: Mcp-Name is %s",
			      h->name.p ? "not the body's params.name" : "missing");
	return 0;
}

static enum rpc_method find_method(const struct rpc *r)
{
	struct slice name = text_of(json_object_get(r->message, "method"));

	for (size_t i = RPC_NONE + 1; i < RPC_NUM; i++)
		if (slice_eq(name, slice_of(methods[i].name)) &&
		    (r->modern ? methods[i].modern : methods[i].legacy))
			return (enum rpc_method)i;
	return RPC_NONE;
}

static int read_rest(struct rpc *r, const struct rpc_headers *h, const json_t *meta,
		     struct rpc_fault *f)
{
	json_t *progress = json_object_get(meta, "progressToken");
	int e = 0;

	r->method = find_method(r);
	if (r->modern)
		e = check_modern(r, h, meta, f);
	if (e < 0)
		return e;
	if (!r->method && r->id)
		return refuse(f, RPC_NO_METHOD, r->modern ? 404 : 200, "Method not found");
	if (r->method && methods[r->method].has_id != (r->id != NULL))
		return refuse(f, RPC_INVALID, 400,
			      methods[r->method].has_id ? "this method needs an id"
							: "this is a notification: no id");
	if (progress && !is_token(progress))
		return refuse(f, RPC_PARAMS, 400, "a progressToken is text or a whole number");
	r->progress = progress;
	return 0;
}

int rpc_read(struct slice body, const struct rpc_headers *h, struct rpc *ret,
	     struct rpc_fault *fault)
{
	static const struct json_limits limits = { RPC_BYTES, RPC_DEPTH, RPC_VALUES };
	struct cay_err err = {};
	const json_t *meta;
	int e;

	*ret = (struct rpc){ .modern = slice_eq(h->version, SLICE(RPC_MODERN)) };
	*fault = (struct rpc_fault){};
	if (jr_read(body, &limits, &ret->message, &err) < 0)
		return refuse(fault, err.code == CAY_E_TOO_LARGE ? RPC_INVALID : RPC_PARSE,
			      err.code == CAY_E_TOO_LARGE ? 413 : 400, "%s", err.msg);
	e = read_shape(ret, fault);
	if (e < 0)
		return e;
	meta = json_object_get(ret->params, "_meta");
	if (meta && !json_is_object(meta))
		return refuse(fault, RPC_PARAMS, 400, "params._meta must be an object");
	e = read_version(ret, h, meta, fault);
	return e < 0 ? e : read_rest(ret, h, meta, fault);
}

void rpc_fini(struct rpc *r)
{
	json_decref(r->message);
	*r = (struct rpc){};
}

/* Out */

static void envelope(const struct rpc *r, struct jw *w)
{
	jw_object(w, NULL);
	jw_str(w, "jsonrpc", "2.0");
	if (r->id)
		jr_write(r->id, "id", w);
	else if (!r->modern)
		jw_null(w, "id");
}

static void server_info(const char *key, struct jw *w)
{
	jw_object(w, key);
	jw_str(w, "name", "cay");
	jw_str(w, "title", "Cay");
	jw_str(w, "version", CAY_VERSION);
	jw_end(w);
}

void rpc_begin(const struct rpc *r, struct jw *w)
{
	envelope(r, w);
	jw_object(w, "result");
	if (!r->modern)
		return;
	jw_str(w, "resultType", "complete");
	jw_object(w, "_meta");
	server_info(META "serverInfo", w);
	jw_end(w);
}

void rpc_end(struct jw *w)
{
	jw_end(w);
	jw_end(w);
}

void rpc_write_fault(const struct rpc *r, const struct rpc_fault *fault, struct jw *w)
{
	envelope(r, w);
	jw_object(w, "error");
	jw_i64(w, "code", fault->code);
	jw_str(w, "message", fault->msg);
	if (fault->code == RPC_VERSION) {
		jw_object(w, "data");
		jw_array(w, "supported");
		for (size_t i = 0; rpc_versions[i]; i++)
			jw_str(w, NULL, rpc_versions[i]);
		jw_end(w);
		jw_str(w, "requested", fault->version);
		jw_end(w);
	}
	jw_end(w);
	jw_end(w);
}

void rpc_write_progress(const struct rpc *r, uint64_t ms, const char *says, struct jw *w)
{
	jw_object(w, NULL);
	jw_str(w, "jsonrpc", "2.0");
	jw_str(w, "method", "notifications/progress");
	jw_object(w, "params");
	jr_write(r->progress, "progressToken", w);
	jw_u64(w, "progress", ms);
	jw_str(w, "message", says);
	jw_end(w);
	jw_end(w);
}
