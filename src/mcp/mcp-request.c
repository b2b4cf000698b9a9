/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp.h"

void mcp_request_free(struct mcp_request *v)
{
	if (v->next)
		v->next->prev = v->prev;
	if (v->prev)
		v->prev->next = v->next;
	else
		v->mcp->requests = v->next;
	if (v->call)
		client_call_cancel(v->call);
	json_decref(v->run.call.members);
	json_decref(v->run.answer.json);
	json_decref(v->run.args);
	arena_fini(&v->run.arena);
	mcp_rpc_fini(&v->rpc);
	buf_fini(&v->body);
	explicit_bzero(v->auth, v->n_auth);
	free(v);
}

void mcp_request_send_event(struct mcp_request *v, struct buf *body)
{
	static const char begin[] = "event: message\ndata: ", end[] = "\n\n";

	if (!v->stream_begun)
		request_start_stream(v->rq, 200, MCP_STREAM, REQUEST_LENGTH_UNKNOWN);
	v->stream_begun = true;
	(void)request_write_stream(v->rq, begin, sizeof(begin) - 1);
	(void)request_write_stream(v->rq, body->data, body->len);
	(void)request_write_stream(v->rq, end, sizeof(end) - 1);
	buf_clear(body);
}

void mcp_request_reply(struct mcp_request *v, int status, struct buf *body)
{
	struct request *rq = v->rq;

	if (v->stream_begun) {
		if (body)
			mcp_request_send_event(v, body);
		mcp_request_free(v);
		request_end_stream(rq);
		return;
	}
	mcp_request_free(v);
	request_reply(rq, status, body ? "application/json" : NULL, body);
}

void mcp_request_reply_fault(struct mcp_request *v, const struct mcp_rpc_fault *fault)
{
	auto_buf b = BUF_INIT(KIB(8));
	struct jw w = jw_to(&b);

	mcp_rpc_write_fault(&v->rpc, fault, &w);
	/* ids and messages are bounded, so this fits */
	if (jw_finish(&w) < 0)
		mcp_request_reply(v, 500, NULL);
	else
		mcp_request_reply(v, fault->status, &b);
}
