/* SPDX-License-Identifier: Apache-2.0 */
#include "opensandbox/opensandbox.h"

#define REPLY_MAX (SERVER_OUT_MAX - KIB(64))

/* The words of execd. */
void osb_execd_error_write(const struct cay_err *err, struct jw *w)
{
	static const struct {
		enum cay_code code;
		const char *word;
	} words[] = {
		{ CAY_E_INVALID, "INVALID_REQUEST_BODY" },
		{ CAY_E_UNAUTHENTICATED, "INVALID_API_KEY" },
		{ CAY_E_FORBIDDEN, "FORBIDDEN" },
		{ CAY_E_NOT_FOUND, "FILE_NOT_FOUND" },
		{ CAY_E_METHOD, "NOT_SUPPORTED" },
		{ CAY_E_UNSUPPORTED, "NOT_SUPPORTED" },
	};
	const char *word = "RUNTIME_ERROR";

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (words[i].code == err->code)
			word = words[i].word;
	jw_object_begin(w, NULL);
	jw_str(w, "code", word);
	jw_str(w, "message", err->msg[0] ? err->msg : word);
	jw_end(w);
}

void osb_reply(struct osb_request *v, int status, json_t *body)
{
	auto_buf b = BUF_INIT(REPLY_MAX);
	struct request *rq = v->rq;
	struct jw w = jw_to(&b);

	if (!rq) { /* the client left */
		json_decref(body);
		osb_request_free(v);
		return;
	}
	if (!body) {
		osb_refuse(v, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	json_write(body, NULL, &w);
	json_decref(body);
	osb_request_free(v);
	if (jw_finish(&w) < 0)
		request_refuse(rq, CAY_E_TOO_LARGE, "the reply is too large");
	else
		request_reply(rq, status, "application/json", &b);
}

/* Without a body, which the server says with "Content-Length: 0", or with 204. */
void osb_reply_status(struct osb_request *v, int status)
{
	struct request *rq = v->rq;

	osb_request_free(v);
	if (rq)
		request_reply(rq, status, NULL, NULL);
}

void osb_fail(struct osb_request *v, const struct cay_err *err)
{
	struct cay_err copy = *err;
	struct request *rq = v->rq;
	bool begun = v->begun;

	if (rq && begun && v->is_stream) {
		(void)osb_stream_send(v, json_pack("{s:s,s:{s:s,s:s,s:[s]}}", "type", "error",
						   "error", "ename", "CommandExecError", "evalue",
						   copy.msg, "traceback", copy.msg));
		osb_request_free(v);
		request_end_stream(rq);
		return;
	}
	osb_request_free(v);
	if (rq && begun)
		request_abort(rq);
	else if (rq)
		request_fail(rq, &copy);
}

void osb_refuse(struct osb_request *v, enum cay_code code, const char *why)
{
	struct cay_err err = {};

	(void)cay_fail(&err, code, "%s", why);
	osb_fail(v, &err);
}

void osb_not_served(struct osb_request *v, const char *what)
{
	char text[200];

	if (snprintf(text, sizeof(text), "Cay does not serve this part of OpenSandbox: %s", what) <
	    0)
		text[0] = 0;
	osb_reply(v, 501,
		  json_pack("{s:s,s:s}", "code",
			    v->route && v->route->plane != OSB_LIFECYCLE
				    ? "NOT_SUPPORTED"
				    : "SANDBOX::API_NOT_SUPPORTED",
			    "message", text));
}
