/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_TABLE_H
#define CAY_EDGE_TABLE_H
/*
 * table - what an edge knows: whose each sandbox is and how it is, keys by their hash,
 * what tokens are signed with
 *
 * Filled by records of wire/push.h and by nothing else; read by every request.  While
 * control is away it stays as it was.  Bounded: TABLE_SANDBOXES, TABLE_KEYS.
 */
#include "wire/push.h"

#define TABLE_SANDBOXES 65536
#define TABLE_KEYS 65536
#define TABLE_SIGNS 2
#define TABLE_USED 256  /* keys control has yet to hear were used */
#define TABLE_USED_S 60 /* how often it hears of one */

struct table_sandbox {
	struct id id, tenant;
	uint8_t state; /* enum sandbox_state */
	uint16_t app_port;
	uint64_t epoch;        /* older tokens of it are void */
	uint8_t (*revoked)[8]; /* PUSH_REVOKED_MAX of them, zeros where none is; or NULL */
	uint32_t busy;         /* requests inside now */
	bool touched;          /* control has not heard how busy it is */
	bool gone;             /* control has forgotten it, somebody is still inside */
	bool seen;             /* since the last ALL */
	struct table_sandbox *next, *prev_touched, *next_touched;
};

struct table_key {
	struct id id, tenant;
	uint8_t scope;  /* enum op_scope */
	uint64_t until; /* unix ms, PUSH_NEVER */
	uint8_t hash[32];
	uint64_t used_s; /* when control was told so */
	bool seen;
	struct table_key *next;
};

struct table_sign {
	bool there, seen;
	uint8_t number;
	uint32_t born;  /* another one when the key is */
	uint64_t until; /* unix ms, PUSH_NEVER */
	uint8_t key[32];
};

struct table;

struct table *table_new(void);
void table_free(struct table *t);
/* A record from control.  -EPROTO: it is none of control's; -ENOSPC, -ENOMEM. */
[[nodiscard]] int table_apply(struct table *t, const struct push *p);
/* Whether it was ever told all there is. */
bool table_ready(const struct table *t);

/* NULL: there is none. */
struct table_sandbox *table_sandbox(struct table *t, const struct id *id);
struct table_key *table_key(const struct table *t, const uint8_t hash[static 32]);
/* Of those below TABLE_SIGNS; a number's place is its remainder. */
const struct table_sign *table_sign(const struct table *t, unsigned which);
uint32_t table_epoch(const struct table *t);
/* Whether a token of it was taken back.  Of a sandbox nobody has told us of: no. */
bool table_revoked(struct table *t, const struct id *sandbox, uint32_t epoch,
		   const uint8_t nonce[static 8]);

/* A request goes inside; it has left.  What is given to enter() is good until leave(). */
void table_enter(struct table *t, struct table_sandbox *s);
void table_leave(struct table *t, struct table_sandbox *s);
/* Somebody was let in with it. */
void table_used(struct table *t, struct table_key *k, uint64_t now_s);
/* The next record control has not heard; false when it has heard all. */
[[nodiscard]] bool table_news(struct table *t, struct push *ret);
/* Another control: it has heard nothing. */
void table_untold(struct table *t);
unsigned table_sandboxes(const struct table *t);
unsigned table_keys(const struct table *t);
#endif
