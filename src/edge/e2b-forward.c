/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/key.h"
#include "edge/edge.h"
#include "http/e2b-error.h"

#define BEARER "Bearer "
#define TOKEN_MAX KIB(4)
#define PREFIX "/e2b"
#define ENVD_PORT 49983
#define CODE_PORT 49999

/* Where the SDKs send a credential: the first that is there decides, alone. */
static const char *const e2b_forward_credentials[] = { "x-access-token", "e2b-traffic-access-token",
						       "x-api-key" };

/* What cay-e2b gets beside the credential; no others are forwarded. */
static const struct {
	const char *name, *written;
} e2b_forward_header_names[] = {
	{ "connect-timeout-ms", "Connect-Timeout-Ms" },
	{ "content-encoding", "E2b-Content-Encoding" },
	{ "keepalive-ping-interval", "Keepalive-Ping-Interval" },
};

/* The sandbox and the service that a request is for: its host says so, or else its headers do. */
struct e2b_forward_place {
	bool by_host;
	const char *sandbox, *port;
};

bool e2b_forward_serves_port(const struct edge *e, uint16_t port)
{
	return e->faces[FACE_E2B].upstream && (port == ENVD_PORT || port == CODE_PORT);
}

static int e2b_forward_find_place(const struct edge *e, struct request *rq,
				  struct e2b_forward_place *ret, struct cay_err *err)
{
	struct id sandbox;
	uint16_t port;
	char *id;
	int r;

	*ret = (struct e2b_forward_place){};
	if (preview_host_parse(&e->preview_base, http_header_find(rq->head, "host"), &sandbox,
			       &port)) {
		id = arena_alloc(&rq->arena, 1, ID_TEXT_LEN + 1);
		if (!id)
			return cay_no_memory(err);
		id_format(&sandbox, id);
		*ret = (struct e2b_forward_place){ true, id,
						   port == CODE_PORT ? "49999" : "49983" };
		return 0;
	}
	r = face_copy_header(rq, "e2b-sandbox-id", &ret->sandbox, err);
	return r < 0 ? r : face_copy_header(rq, "e2b-sandbox-port", &ret->port, err);
}

/* As if the request were for our own host.  What follows checks that, and the face calls back with
 * it. */
static int e2b_forward_move_to_prefix(struct http_head *h, struct request *rq, struct cay_err *err)
{
	size_t n = sizeof(PREFIX) - 1;
	char *target = arena_alloc(&rq->arena, 1, n + h->target.n);

	if (!target)
		return cay_no_memory(err);
	memcpy(target, PREFIX, n);
	memcpy(target + n, h->target.p, h->target.n);
	h->target = (struct slice){ target, n + h->target.n };
	for (size_t i = 0; i < h->n_headers; i++)
		if (http_equals_nocase(h->headers[i].name, "host"))
			h->headers[i].value = SLICE("localhost");
	return 0;
}

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
static int e2b_forward_spell_credential(struct request *rq, bool by_host, struct cay_err *err)
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
	else if (given.p)
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
	r = by_host ? e2b_forward_move_to_prefix(h, rq, err) : 0;
	rq->head = h;
	return r;
}

static void e2b_forward_start(struct edge *e, struct request *rq, const char *user,
			      const struct e2b_forward_place *place)
{
	struct relay_header headers[FACE_HEADERS + 3 + ARRAY_SIZE(e2b_forward_header_names)];
	struct edge_face *face = &e->faces[FACE_E2B];
	struct cay_err err = {};
	size_t n = FACE_HEADERS;
	int r = face_write_headers(face, rq, headers, &err);

	if (user)
		headers[n++] = (struct relay_header){ "E2b-User", user };
	if (place->sandbox)
		headers[n++] = (struct relay_header){ "E2b-Sandbox-Id", place->sandbox };
	if (place->port)
		headers[n++] = (struct relay_header){ "E2b-Sandbox-Port", place->port };
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

void e2b_forward_request(struct request *rq, void *arg)
{
	struct e2b_forward_place place = {};
	struct edge *e = arg;
	struct cay_err err = {};
	const char *user;
	int r;

	rq->write_error = e2b_error_write;
	r = face_copy_header(rq, "authorization", &user, &err);
	if (r >= 0)
		r = e2b_forward_find_place(e, rq, &place, &err);
	if (r >= 0)
		r = e2b_forward_spell_credential(rq, place.by_host, &err);
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
		e2b_forward_start(e, rq, user, &place);
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
