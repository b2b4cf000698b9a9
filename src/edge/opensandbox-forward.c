/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/edge.h"
#include "http/opensandbox-error.h"

#define BEARER "Bearer "
#define TOKEN_MAX KIB(4)

/* Where the SDKs send a credential: the first that is there decides, alone.  Some send their key
 * together with the token of an endpoint. */
static const char *const opensandbox_forward_credentials[] = { "open-sandbox-api-key",
							       "x-execd-access-token" };

static int opensandbox_forward_find_credential(const struct http_head *h, struct slice *ret,
					       struct cay_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(opensandbox_forward_credentials); i++) {
		size_t n = 0;

		for (size_t k = 0; k < h->n_headers; k++)
			if (http_equals_nocase(h->headers[k].name,
					       opensandbox_forward_credentials[i])) {
				*ret = h->headers[k].value;
				n++;
			}
		if (n > 1)
			return cay_fail(err, CAY_E_UNAUTHENTICATED, "more than one credential");
		if (n)
			return ret->n && ret->n <= TOKEN_MAX
				       ? 0
				       : cay_fail(err, CAY_E_UNAUTHENTICATED, "malformed key");
	}
	return cay_fail(err, CAY_E_UNAUTHENTICATED,
			"no OPEN-SANDBOX-API-KEY and no X-EXECD-ACCESS-TOKEN");
}

static bool opensandbox_forward_is_credential(struct slice name)
{
	for (size_t i = 0; i < ARRAY_SIZE(opensandbox_forward_credentials); i++)
		if (http_equals_nocase(name, opensandbox_forward_credentials[i]))
			return true;
	return http_equals_nocase(name, "authorization");
}

/* Spell the credential as every client of Cay does. */
static int opensandbox_forward_spell_credential(struct request *rq, struct cay_err *err)
{
	struct http_head *h = arena_alloc(&rq->arena, 1, sizeof(*h));
	char *text = arena_alloc(&rq->arena, 1, sizeof(BEARER) + TOKEN_MAX);
	struct slice given = {};
	size_t n = 0;
	int r;

	if (!h || !text)
		return cay_no_memory(err);
	r = opensandbox_forward_find_credential(rq->head, &given, err);
	if (r < 0)
		return r;
	memcpy(text, BEARER, sizeof(BEARER) - 1);
	memcpy(text + sizeof(BEARER) - 1, given.p, given.n);
	*h = *rq->head;
	h->upgrade = (struct slice){};
	/* the one that was found makes room for the new one */
	for (size_t i = 0; i < rq->head->n_headers; i++)
		if (!opensandbox_forward_is_credential(rq->head->headers[i].name))
			h->headers[n++] = rq->head->headers[i];
	h->headers[n++] = (struct http_header){ SLICE("authorization"),
						{ text, sizeof(BEARER) - 1 + given.n } };
	h->n_headers = n;
	rq->head = h;
	return 0;
}

static void opensandbox_forward_request(struct request *rq, void *arg)
{
	struct edge *e = arg;
	struct edge_face *face = &e->faces[FACE_OPENSANDBOX];
	struct relay_header headers[FACE_HEADERS];
	struct cay_err err = {};
	int r;

	rq->write_error = opensandbox_error_write;
	/* the SDKs show it with an error */
	if (request_add_reply_header(rq, "X-Request-ID", rq->id) < 0) {
		request_no_memory(rq);
		return;
	}
	r = opensandbox_forward_spell_credential(rq, &err);
	if (r < 0 && err.code == CAY_E_UNAUTHENTICATED)
		r = admission_check_authenticated(e, rq, r, &err);
	else if (r >= 0)
		r = admission_admit_request(rq, e, &err);
	if (r >= 0)
		r = request_charge_tenant(rq, &rq->actor.tenant, 0, &err);
	if (r >= 0 && !face->upstream)
		r = cay_fail(&err, CAY_E_UNAVAILABLE,
			     "OpenSandbox's API is not available: opensandbox.run did not exist "
			     "when this edge started");
	if (r >= 0)
		r = face_write_headers(face, rq, headers, &err);
	if (r < 0)
		request_fail(rq, &err);
	else
		face_forward(e, face, rq, headers, ARRAY_SIZE(headers));
}

request_fn *opensandbox_forward_find_handler(struct request *rq, void *arg)
{
	static const char prefix[] = "/opensandbox/";
	struct slice target = rq->head->target;

	(void)arg;
	return target.n >= sizeof(prefix) - 1 && memcmp(target.p, prefix, sizeof(prefix) - 1) == 0
		       ? opensandbox_forward_request
		       : NULL;
}
