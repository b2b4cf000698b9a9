/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FACE_FACE_H
#define CAY_FACE_FACE_H
/*
 * face - a daemon that speaks another protocol for the edges, without any authority of its own
 *
 * An edge checks Host, Origin and credential, and forwards the request together with that
 * credential.  Everything a face does is a request to the same edge with the same credential:
 * nothing can be done here that could not be done there, and an attacker in control of this
 * program has the data that passes through it and no more (docs/adr/0048, 0128).
 *
 * Once it serves it is confined: no file, no program, no network.
 */
#include <uv.h>

#include "base/log.h"
#include "net/server.h"
#include "net/upstream-pool.h"
#include "ops/actor.h"
#include "ops/settings.h"

#define FACE_EDGES 64
#define FACE_EDGE_HEADER "cay-back"
#define FACE_HOST_HEADER "cay-host"

#define FACE_MEMORY_KINDS 8

struct face {
	struct settings settings;
	struct log log;
	uv_loop_t loop;
	const char *dir; /* of the sockets */
	struct server_conf conf;
	struct server *server;
	struct upstream_pool *edges[FACE_EDGES]; /* NULL: not connected yet */
};

struct face_conf {
	const char *program, *setting, *socket; /* "cay-mcp", "mcp.run", "mcp.sock" */
	size_t dir;                             /* offset in struct settings */
	request_fn *(*find_handler)(struct request *rq, void *arg);
	void (*init)(void *arg); /* with the loop; may be NULL */
	void *arg;
};

/* The whole of main(). */
int face_main(int argc, char **argv, struct face *f, const struct face_conf *conf);
/* Connections to an edge; NULL without memory. */
struct upstream_pool *face_open_edge(struct face *f, unsigned edge, struct cay_err *err);
/* Headers of the edge: the caller, its number, and the Host of the client in the request's arena.
 */
[[nodiscard]] int face_read_headers(struct request *rq, struct actor *ret, unsigned *ret_edge,
				    const char **ret_host, struct cay_err *err);
/* For the head of each call: the edge limits the call to the caller's group again, which the
 * credential need not have.  NULL or "": no group. */
[[nodiscard]] int face_write_group(const char *group, struct buf *head);
/* Whether the body of a request has not arrived within that time: a byte now and then holds what
 * came before. */
bool face_body_is_late(const struct request *rq, uint64_t ms);

/* What a request holds, in bytes of each kind that its face has. */
struct face_memory {
	size_t kinds[FACE_MEMORY_KINDS];
};
/* It holds n bytes of that kind now.  False: its tenant holds too much, so refuse the request.
 * rq NULL: it is not counted. */
[[nodiscard]] bool face_hold(struct request *rq, struct face_memory *m, unsigned kind, size_t n);
#endif
