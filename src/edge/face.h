/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_FACE_H
#define CAY_EDGE_FACE_H
/*
 * face - a program that speaks another protocol, and asks this edge with the caller's credential
 *
 * cay-mcp, cay-e2b and cay-opensandbox parse what the edge must not: the edge authenticates a
 * request, forwards it with the credential, and answers what the program asks in return by the
 * rules for every client (docs/adr/0048, 0128).  They meet in a directory of the face: an edge
 * holds the lock of a number there, listens at that number's socket, and says the number with each
 * request.
 */
#include "edge/live-request.h"
#include "net/relay.h"

enum face_number { FACE_MCP, FACE_E2B, FACE_OPENSANDBOX, FACES };

struct edge_face {
	const char *program, *setting, *dir;
	struct upstream_pool *upstream; /* NULL: not configured */
	unsigned slot;
	int callback_fd;
	struct server_conf callback_conf;
	struct server *callback_server;
};

/* Claim a number and open the socket of each face, and serve what they ask.  A face without a
 * directory is off, and everything else works. */
[[nodiscard]] int faces_open(struct edge *e, struct cay_err *err);
[[nodiscard]] int faces_serve(struct edge *e, struct cay_err *err);
unsigned faces_count(const struct edge *e);
/* The headers that each face gets: caller, number of the edge, the client's Host and the credential
 * of the request, whose texts are in its arena. */
#define FACE_HEADERS 4
[[nodiscard]] int face_write_headers(const struct edge_face *f, struct request *rq,
				     struct relay_header to[static FACE_HEADERS],
				     struct cay_err *err);
/* A header of the client, checked, as text in the request's arena; NULL: there is none. */
[[nodiscard]] int face_copy_header(struct request *rq, const char *name, const char **ret,
				   struct cay_err *err);
/* Forward an admitted request; takes it. */
void face_forward(struct edge *e, struct edge_face *f, struct request *rq,
		  const struct relay_header *headers, size_t n);
#endif
