/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_CONTROL_STATE_H
#define CAY_EDGE_CONTROL_STATE_H
/*
 * table - what an edge knows: whose each sandbox is and how it is, keys by their hash,
 * what tokens are signed with
 *
 * Filled by records of wire/push.h and by nothing else; read by every request.  While
 * control is away it stays as it was.  Bounded: TABLE_SANDBOXES, TABLE_KEYS.
 */
#include "wire/push.h"

#define CONTROL_STATE_SANDBOXES 65536
#define CONTROL_STATE_KEYS 65536
#define CONTROL_STATE_SIGNERS 2
#define CONTROL_STATE_USED_KEYS 256 /* keys control has yet to hear were used */
#define CONTROL_STATE_USED_S 60     /* how often it hears of one */

struct control_state_sandbox {
	struct id id, tenant;
	uint8_t state; /* enum sandbox_state */
	uint16_t app_port;
	uint64_t epoch;        /* older tokens of it are void */
	uint8_t (*revoked)[8]; /* PUSH_REVOKED_MAX of them, zeros where none is; or NULL */
	uint32_t n_requests;   /* requests inside now */
	bool changed;          /* control has not heard how busy it is */
	bool gone;             /* control has forgotten it, somebody is still inside */
	bool seen;             /* since the last ALL */
	struct control_state_sandbox *next, *prev_changed, *next_changed;
};

struct control_state_key {
	struct id id, tenant;
	uint8_t scope;  /* enum op_scope */
	uint64_t until; /* unix ms, PUSH_NEVER */
	uint8_t hash[32];
	uint64_t used_s; /* when control was told so */
	bool seen;
	struct control_state_key *next;
};

struct control_state_signer {
	bool present, seen;
	uint8_t number;
	uint32_t generation; /* another one when the key is */
	uint64_t until;      /* unix ms, PUSH_NEVER */
	uint8_t key[32];
};

struct control_state;

struct control_state *control_state_new(void);
void control_state_free(struct control_state *t);
/* A record from control.  -EPROTO: it is none of control's; -ENOSPC, -ENOMEM. */
[[nodiscard]] int control_state_apply(struct control_state *t, const struct push *p);
/* Whether it was ever told all there is. */
bool control_state_is_ready(const struct control_state *t);

/* NULL: there is none. */
struct control_state_sandbox *control_state_find_sandbox(struct control_state *t,
							 const struct id *id);
struct control_state_key *control_state_find_key(const struct control_state *t,
						 const uint8_t hash[static 32]);
/* Of those below TABLE_SIGNS; a number's place is its remainder. */
const struct control_state_signer *control_state_find_signer(const struct control_state *t,
							     unsigned which);
uint32_t control_state_epoch(const struct control_state *t);
/* Whether a token of it was taken back.  Of a sandbox nobody has told us of: no. */
bool control_state_token_is_revoked(struct control_state *t, const struct id *sandbox,
				    uint32_t epoch, const uint8_t nonce[static 8]);

/* A request goes inside; it has left.  What is given to enter() is good until leave(). */
void control_state_enter_sandbox(struct control_state *t, struct control_state_sandbox *s);
void control_state_leave_sandbox(struct control_state *t, struct control_state_sandbox *s);
/* Somebody was let in with it. */
void control_state_mark_key_used(struct control_state *t, struct control_state_key *k,
				 uint64_t now_s);
/* The next record control has not heard; false when it has heard all. */
[[nodiscard]] bool control_state_next_report(struct control_state *t, struct push *ret);
/* Another control: it has heard nothing. */
void control_state_mark_unreported(struct control_state *t);
unsigned control_state_count_sandboxes(const struct control_state *t);
unsigned control_state_count_keys(const struct control_state *t);
#endif
