/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/key.h"
#include "edge/edge.h"
#include "http/e2b-error.h"

#define BEARER "Bearer "
#define TOKEN_MAX KIB(4)

/* Where the SDKs send a credential: the first that is there decides, alone. */
static const char *const e2b_forward_credentials[] = { "x-access-token", "e2b-traffic-access-token",
						       "x-api-key" };

/* What cay-e2b gets beside the credential; no others are forwarded. */
static const struct {
	const char *name, *written;
} e2b_forward_header_names[] = {
	{ "connect-timeout-ms", "Connect-Timeout-Ms" },
	{ "content-encoding", "E2b-Content-Encoding" },
	{ "e2b-sandbox-id", "E2b-Sandbox-Id" },
	{ "e2b-sandbox-port", "E2b-Sandbox-Port" },
	{ "keepalive-ping-interval", "Keepalive-Ping-Interval" },
};

static int e2b_forward_find_credential(const struct http_head *h, struct slice *ret,
				       struct cay_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(e2b_forward_credentials); i++) {
		size_t n = 0;

		for (size_t k = 0; k < h->n_headers; k++)
			if (http_equals_nocase(h->headers[k].name, e2b_forward_credentials[i])) {
				*ret = h->headers[k].value;
				n++;
			}
		if (n > 1)
			return cay_fail(err, CAY_E_UNAUTHENTICATED, "more than one credential");
		if (n)
			return ret->n <= TOKEN_MAX
				       ? 0
				       : cay_fail(err, CAY_E_UNAUTHENTICATED, "malformed key");
	}
	return cay_fail(err, CAY_E_UNAUTHENTICATED, "no X-API-Key and no X-Access-Token");
}

static bool e2b_forward_is_credential(struct slice name)
{
	for (size_t i = 0; i < ARRAY_SIZE(e2b_forward_credentials); i++)
		if (http_equals_nocase(name, e2b_forward_credentials[i]))
			return true;
	return http_equals_nocase(name, "authorization");
}

/* Spell the credential as every client of Cay does.  Authorization of the SDKs names a user of the
 * sandbox, and cay-e2b gets it under another name. */
static int e2b_forward_spell_credential(struct request *rq, struct cay_err *err)
{
	struct http_head *h = arena_alloc(&rq->arena, 1, sizeof(*h));
	char *text = arena_alloc(&rq->arena, 1, sizeof(BEARER) + TOKEN_MAX);
	struct slice given = {};
	size_t n = 0;
	int r;

	if (!h || !text)
		return cay_no_memory(err);
	r = e2b_forward_find_credential(rq->head, &given, err);
	if (r < 0)
		return r;
	memcpy(text, BEARER, sizeof(BEARER) - 1);
	if (given.n == KEY_E2B_LEN && key_from_e2b(given, text + sizeof(BEARER) - 1) >= 0)
		given.n = KEY_TEXT_LEN;
	else
		memcpy(text + sizeof(BEARER) - 1, given.p, given.n);
	*h = *rq->head;
	h->upgrade = (struct slice){};
	/* the one that was found makes room for the new one */
	for (size_t i = 0; i < rq->head->n_headers; i++)
		if (!e2b_forward_is_credential(rq->head->headers[i].name))
			h->headers[n++] = rq->head->headers[i];
	h->headers[n++] = (struct http_header){ SLICE("authorization"),
						{ text, sizeof(BEARER) - 1 + given.n } };
	h->n_headers = n;
	rq->head = h;
	return 0;
}

static void e2b_forward_start(struct edge *e, struct request *rq, const char *user)
{
	struct relay_header headers[FACE_HEADERS + 1 + ARRAY_SIZE(e2b_forward_header_names)];
	struct edge_face *face = &e->faces[FACE_E2B];
	struct cay_err err = {};
	size_t n = FACE_HEADERS;
	int r = face_write_headers(face, rq, headers, &err);

	if (user)
		headers[n++] = (struct relay_header){ "E2b-User", user };
	for (size_t i = 0; i < ARRAY_SIZE(e2b_forward_header_names) && r >= 0; i++) {
		headers[n].name = e2b_forward_header_names[i].written;
		r = face_copy_header(rq, e2b_forward_header_names[i].name, &headers[n].value, &err);
		n += r >= 0 && headers[n].value;
	}
	if (r < 0)
		request_fail(rq, &err);
	else
		face_forward(e, face, rq, headers, n);
}

static void e2b_forward_request(struct request *rq, void *arg)
{
	struct edge *e = arg;
	struct cay_err err = {};
	const char *user;
	int r;

	rq->write_error = e2b_error_write;
	r = face_copy_header(rq, "authorization", &user, &err);
	if (r >= 0)
		r = e2b_forward_spell_credential(rq, &err);
	if (r < 0 && err.code == CAY_E_UNAUTHENTICATED)
		r = admission_check_authenticated(e, rq, r, &err);
	else if (r >= 0)
		r = admission_admit_request(rq, e, &err);
	if (r < 0 || request_charge_tenant(rq, &rq->actor.tenant, 0, &err) < 0)
		request_fail(rq, &err);
	else if (!e->faces[FACE_E2B].upstream)
		request_refuse(rq, CAY_E_UNAVAILABLE,
			       "E2B's API is not available: e2b.run did not exist when this edge "
			       "started");
	else
		e2b_forward_start(e, rq, user);
}

request_fn *e2b_forward_find_handler(struct request *rq, void *arg)
{
	static const char prefix[] = "/e2b/";
	struct slice target = rq->head->target;

	(void)arg;
	return target.n >= sizeof(prefix) - 1 && memcmp(target.p, prefix, sizeof(prefix) - 1) == 0
		       ? e2b_forward_request
		       : NULL;
}
