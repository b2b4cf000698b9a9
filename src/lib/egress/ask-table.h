/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_ASK_TABLE_H
#define CAY_EGRESS_ASK_TABLE_H
/*
 * ask-table - what programs in sandboxes asked for, and what became of it
 *
 * A sandbox has one row for each name and port: connections that ask for the same join it, at once
 * or later.  Its id follows from the three, so it is the same after a restart.  A row that nothing
 * waits for makes room for others, the one that changed first is the first to go.  Pure.
 */
#include "base/id.h"
#include "base/str.h"

#define ASKS_OF_SANDBOX_MAX 64
#define ASKS_OF_TENANT_MAX 1024
#define ASK_BUCKETS 1024
#define ASK_GROUP_MAX 63
#define ASK_TO_MAX 253

/* In the order of ask_states in ops/schemas.c. */
enum ask_state {
	ASK_WAITING, /* connections wait for an answer */
	ASK_ALLOWED,
	ASK_DENIED,
	ASK_EXPIRED, /* no answer came in time */
	ASK_GONE,    /* the programs did not wait */
	ASK_NOBODY,  /* no client could answer */
	ASK_NUM_STATES
};

struct ask {
	struct ask *next;          /* of its bucket */
	struct ask *newer, *older; /* of its tenant, by the last change */
	struct ask_tenant *of;
	struct id id, sandbox;
	char group[ASK_GROUP_MAX + 1]; /* "": none */
	char to[ASK_TO_MAX + 1];       /* a name or an address */
	uint16_t port;
	enum ask_state state;
	unsigned kind;     /* of the first bytes that were sent */
	unsigned remember; /* how the last answer is */
	unsigned waiting;  /* connections that wait now */
	uint64_t count;    /* connections that have asked */
	uint64_t generation;
	uint64_t since_ns, changed_ns, until_ns; /* wall time; until_ns of the answer, 0: no end */
	uint64_t expires_ns; /* boot clock: nothing waits after it, whatever was reported */
	uint64_t told_ns;    /* boot clock: of the last event */
	uint64_t seq;        /* of the last change of state, among those of its tenant */
};

struct ask_tenant {
	struct ask_tenant *next; /* of its bucket */
	struct id id;
	struct ask *newest, *oldest;
	size_t n;
	uint64_t seq; /* of the last change; begins with the time, so that it only ever grows */
};

struct ask_table {
	struct ask *by_id[ASK_BUCKETS];
	struct ask_tenant *tenants[ASK_BUCKETS];
};

/* What a row is about. */
struct ask_target {
	const struct id *sandbox, *tenant;
	const char *group; /* NULL: none */
	const char *to;
	uint16_t port;
};

struct id ask_id(const struct id *sandbox, const char *to, uint16_t port);
struct ask *ask_find(const struct ask_table *t, const struct id *id);
/* The row of a target, which is made if there is none; NULL: no room or no memory. */
struct ask *ask_table_get(struct ask_table *t, const struct ask_target *target, uint64_t now_ns);
/* A connection asks; held: it waits. */
void ask_count(struct ask *a, bool held, uint64_t now_ns);
/* Set its state, of which lists and followers are told. */
void ask_set_state(struct ask *a, enum ask_state state, uint64_t now_ns);
/* A connection no longer waits; the row has `ended` when it was the last that no answer was for. */
void ask_leave(struct ask *a, enum ask_state ended, uint64_t now_ns);
/* The oldest row of a tenant that changed after `after`, or NULL; a->newer is the next. */
struct ask *ask_find_after(const struct ask_table *t, const struct id *tenant, uint64_t after);
/* The number of the last change among its rows; 0: it has none. */
uint64_t ask_last_seq(const struct ask_table *t, const struct id *tenant);
void ask_remove(struct ask_table *t, struct ask *a);
void ask_remove_of_sandbox(struct ask_table *t, const struct id *tenant, const struct id *sandbox);
void ask_table_fini(struct ask_table *t);
#endif
