/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp-rpc.h"

#include <stdio.h>

#include "text/base64.h"

#define META "io.modelcontextprotocol/"
#define NAME_MAX_ 512 /* of a tool, in a header */

const char *const rpc_versions[] = { RPC_MODERN, RPC_LEGACY, "2025-06-18", NULL };

static const struct {
	const char *name;
	bool modern, legacy, has_id;
} mcp_rpc_methods[RPC_NUM] = {
#define CAY_RPC(sym, name_, modern_, legacy_, id_) [RPC_##sym] = { name_, modern_, legacy_, id_ },
#include "mcp/methods.def"
#undef CAY_RPC
};

__attribute__((format(printf, 4, 5))) static int mcp_rpc_refuse(struct mcp_rpc_fault *f, int code,
								int status, const char *fmt, ...)
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

/* Text or an integer, which can be returned unchanged. */
static bool mcp_rpc_is_token(const json_t *j)
{
	return json_is_integer(j) || (json_is_string(j) && json_string_length(j) <= RPC_ID_MAX);
}

static int mcp_rpc_read_shape(struct mcp_rpc *r, struct mcp_rpc_fault *f)
{
	json_t *m = r->message, *method = json_object_get(m, "method");
	json_t *id = json_object_get(m, "id"), *params = json_object_get(m, "params");

	if (json_is_array(m))
		return mcp_rpc_refuse(f, RPC_INVALID, 400,
				      "batches are not supported: send one message per request");
	if (!json_is_object(m))
		return mcp_rpc_refuse(f, RPC_INVALID, 400, "a message must be an object");
	if (id && !mcp_rpc_is_token(id))
		return mcp_rpc_refuse(f, RPC_INVALID, 400, "an id must be a string or an integer");
	r->id = id;
	if (!slice_eq(json_slice(json_object_get(m, "jsonrpc")), SLICE("2.0")))
		return mcp_rpc_refuse(f, RPC_INVALID, 400, "jsonrpc must be \"2.0\"");
	if (!json_is_string(method))
		return mcp_rpc_refuse(f, RPC_INVALID, 400,
				      "method is missing: responses are not accepted, because the "
				      "server sends no requests");
	if (params && !json_is_object(params))
		return mcp_rpc_refuse(f, RPC_PARAMS, 400, "params must be an object");
	r->params = params;
	return 0;
}

/* Determine the version, and whether it is supported. */
static int mcp_rpc_read_version(struct mcp_rpc *r, const struct mcp_rpc_headers *h,
				const json_t *meta, struct mcp_rpc_fault *f)
{
	const json_t *version = json_object_get(meta, META "protocolVersion");
	struct slice said = version ? json_slice(version) : h->version;
	size_t known = 0;

	if (!said.p)
		return 0; /* initialize of a legacy client, or a very old client */
	while (rpc_versions[known] && !slice_eq(said, slice_of(rpc_versions[known])))
		known++;
	r->modern = version || slice_eq(said, SLICE(RPC_MODERN)) || !rpc_versions[known];
	if (version && !slice_eq(json_slice(version), h->version))
		return mcp_rpc_refuse(f, RPC_HEADER, 400,
				      "Header mismatch: MCP-Protocol-Version is not "
				      "the version in the body's _meta");
	if (rpc_versions[known] && (!r->modern || known == 0))
		return 0;
	if (snprintf(f->version, sizeof(f->version), "%.*s", (int)(said.n > 60 ? 60 : said.n),
		     said.p) < 0)
		f->version[0] = 0;
	return mcp_rpc_refuse(f, RPC_VERSION, 400, "Unsupported protocol version");
}

bool mcp_rpc_header_equals(struct slice value, struct slice want)
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

/* Members a modern request must have, and headers that must repeat them. */
static int mcp_rpc_check_modern(const struct mcp_rpc *r, const struct mcp_rpc_headers *h,
				const json_t *meta, struct mcp_rpc_fault *f)
{
	struct slice method = json_slice(json_object_get(r->message, "method"));
	const json_t *name = json_object_get(r->params, "name");

	if (!json_is_string(json_object_get(meta, META "protocolVersion")))
		return mcp_rpc_refuse(f, RPC_PARAMS, 400,
				      "params._meta needs " META "protocolVersion");
	if (!json_is_object(json_object_get(meta, META "clientCapabilities")))
		return mcp_rpc_refuse(f, RPC_PARAMS, 400,
				      "params._meta needs " META "clientCapabilities");
	if (!mcp_rpc_header_equals(h->method, method))
		return mcp_rpc_refuse(f, RPC_HEADER, 400, "Header mismatch: Mcp-Method is %s",
				      h->method.p ? "not the body's method" : "missing");
	if (r->method == RPC_TOOLS_CALL && json_is_string(name) &&
	    !mcp_rpc_header_equals(h->name, json_slice(name)))
		return mcp_rpc_refuse(f, RPC_HEADER, 400, "Header mismatch: Mcp-Name is %s",
				      h->name.p ? "not the body's params.name" : "missing");
	return 0;
}

static enum rpc_method mcp_rpc_find_method(const struct mcp_rpc *r)
{
	struct slice name = json_slice(json_object_get(r->message, "method"));

	for (size_t i = RPC_NONE + 1; i < RPC_NUM; i++)
		if (slice_eq(name, slice_of(mcp_rpc_methods[i].name)) &&
		    (r->modern ? mcp_rpc_methods[i].modern : mcp_rpc_methods[i].legacy))
			return (enum rpc_method)i;
	return RPC_NONE;
}

static int mcp_rpc_read_method(struct mcp_rpc *r, const struct mcp_rpc_headers *h,
			       const json_t *meta, struct mcp_rpc_fault *f)
{
	json_t *progress = json_object_get(meta, "progressToken");
	int e = 0;

	r->method = mcp_rpc_find_method(r);
	if (r->modern)
		e = mcp_rpc_check_modern(r, h, meta, f);
	if (e < 0)
		return e;
	if (!r->method && r->id)
		return mcp_rpc_refuse(f, RPC_NO_METHOD, r->modern ? 404 : 200, "Method not found");
	if (r->method && mcp_rpc_methods[r->method].has_id != (r->id != NULL))
		return mcp_rpc_refuse(f, RPC_INVALID, 400,
				      mcp_rpc_methods[r->method].has_id
					      ? "this method needs an id"
					      : "this method is a notification: omit id");
	if (progress && !mcp_rpc_is_token(progress))
		return mcp_rpc_refuse(f, RPC_PARAMS, 400,
				      "a progressToken must be a string or an integer");
	r->progress = progress;
	return 0;
}

int mcp_rpc_parse(struct slice body, const struct mcp_rpc_headers *h, struct mcp_rpc *ret,
		  struct mcp_rpc_fault *fault)
{
	static const struct json_limits limits = { RPC_BYTES, RPC_DEPTH, RPC_VALUES };
	struct cay_err err = {};
	const json_t *meta;
	int e;

	*ret = (struct mcp_rpc){ .modern = slice_eq(h->version, SLICE(RPC_MODERN)) };
	*fault = (struct mcp_rpc_fault){};
	if (json_parse(body, &limits, &ret->message, &err) < 0)
		return mcp_rpc_refuse(fault, err.code == CAY_E_TOO_LARGE ? RPC_INVALID : RPC_PARSE,
				      err.code == CAY_E_TOO_LARGE ? 413 : 400, "%s", err.msg);
	e = mcp_rpc_read_shape(ret, fault);
	if (e < 0)
		return e;
	meta = json_object_get(ret->params, "_meta");
	if (meta && !json_is_object(meta))
		return mcp_rpc_refuse(fault, RPC_PARAMS, 400, "params._meta must be an object");
	e = mcp_rpc_read_version(ret, h, meta, fault);
	return e < 0 ? e : mcp_rpc_read_method(ret, h, meta, fault);
}

void mcp_rpc_fini(struct mcp_rpc *r)
{
	json_decref(r->message);
	*r = (struct mcp_rpc){};
}

static void mcp_rpc_begin_envelope(const struct mcp_rpc *r, struct jw *w)
{
	jw_object_begin(w, NULL);
	jw_str(w, "jsonrpc", "2.0");
	if (r->id)
		json_write(r->id, "id", w);
	else if (!r->modern)
		jw_null(w, "id");
}

void mcp_rpc_write_server_info(const char *key, struct jw *w)
{
	jw_object_begin(w, key);
	jw_str(w, "name", "cay");
	jw_str(w, "title", "Cay");
	jw_str(w, "version", CAY_VERSION);
	jw_end(w);
}

void mcp_rpc_write_versions(const char *key, struct jw *w)
{
	jw_array_begin(w, key);
	for (size_t i = 0; rpc_versions[i]; i++)
		jw_str(w, NULL, rpc_versions[i]);
	jw_end(w);
}

void mcp_rpc_begin_result(const struct mcp_rpc *r, struct jw *w)
{
	mcp_rpc_begin_envelope(r, w);
	jw_object_begin(w, "result");
	if (!r->modern)
		return;
	jw_str(w, "resultType", "complete");
	jw_object_begin(w, "_meta");
	mcp_rpc_write_server_info(META "serverInfo", w);
	jw_end(w);
}

void mcp_rpc_end_result(struct jw *w)
{
	jw_end(w);
	jw_end(w);
}

void mcp_rpc_write_fault(const struct mcp_rpc *r, const struct mcp_rpc_fault *fault, struct jw *w)
{
	mcp_rpc_begin_envelope(r, w);
	jw_object_begin(w, "error");
	jw_i64(w, "code", fault->code);
	jw_str(w, "message", fault->msg);
	if (fault->code == RPC_VERSION) {
		jw_object_begin(w, "data");
		mcp_rpc_write_versions("supported", w);
		jw_str(w, "requested", fault->version);
		jw_end(w);
	}
	jw_end(w);
	jw_end(w);
}

void mcp_rpc_write_progress(const struct mcp_rpc *r, uint64_t ms, const char *says, struct jw *w)
{
	jw_object_begin(w, NULL);
	jw_str(w, "jsonrpc", "2.0");
	jw_str(w, "method", "notifications/progress");
	jw_object_begin(w, "params");
	json_write(r->progress, "progressToken", w);
	jw_u64(w, "progress", ms);
	jw_str(w, "message", says);
	jw_end(w);
	jw_end(w);
}
