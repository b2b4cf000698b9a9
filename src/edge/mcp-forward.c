/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/edge.h"

/* The headers of MCP; no others are forwarded. */
static const struct {
	const char *name, *written;
} mcp_forward_header_names[] = {
	{ "mcp-protocol-version", "MCP-Protocol-Version" },
	{ "mcp-method", "Mcp-Method" },
	{ "mcp-name", "Mcp-Name" },
	{ "mcp-session-id", "Mcp-Session-Id" },
};

static void mcp_forward_start(struct edge *e, struct request *rq)
{
	struct relay_header headers[FACE_HEADERS + ARRAY_SIZE(mcp_forward_header_names)];
	struct edge_face *face = &e->faces[FACE_MCP];
	struct cay_err err = {};
	size_t n = FACE_HEADERS;
	int r = face_write_headers(face, rq, headers, &err);

	for (size_t i = 0; i < ARRAY_SIZE(mcp_forward_header_names) && r >= 0; i++) {
		headers[n].name = mcp_forward_header_names[i].written;
		r = face_copy_header(rq, mcp_forward_header_names[i].name, &headers[n].value, &err);
		n += r >= 0 && headers[n].value;
	}
	if (r < 0)
		request_fail(rq, &err);
	else
		face_forward(e, face, rq, headers, n);
}

static void mcp_forward_request(struct request *rq, void *arg)
{
	struct edge *e = arg;
	struct cay_err err = {};

	if (admission_admit_request(rq, e, &err) < 0 ||
	    request_charge_tenant(rq, &rq->actor.tenant, 0, &err) < 0)
		request_fail(rq, &err);
	else if (!e->faces[FACE_MCP].upstream)
		request_refuse(
			rq, CAY_E_UNAVAILABLE,
			"MCP is not available: mcp.run did not exist when this edge started");
	else
		mcp_forward_start(e, rq);
}

request_fn *mcp_forward_find_handler(struct request *rq, void *arg)
{
	struct slice query = rq->head->target, path = slice_cut(&query, '?');

	(void)arg;
	return slice_eq(path, SLICE("/mcp")) ? mcp_forward_request : NULL;
}
