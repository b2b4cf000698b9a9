/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_CONTROL_STATE_H
#define CAY_EDGE_CONTROL_STATE_H
/*
 * control-state - control's state as the edge knows it: owner and state of each sandbox, keys by
 * their hash, keys that sign tokens
 *
 * Filled only by records of wire/push.h; read by every request.  It stays unchanged while
 * control is not running.  Bounded: CONTROL_STATE_SANDBOXES, CONTROL_STATE_KEYS.
 */
#include "ops/types.h"
#include "wire/push.h"

#define CONTROL_STATE_SANDBOXES 65536
#define CONTROL_STATE_KEYS 65536
#define CONTROL_STATE_SIGNERS 2
#define CONTROL_STATE_USED_KEYS 256 /* used keys not yet reported to control */
#define CONTROL_STATE_USED_S 60     /* between reports of one key */

struct control_state_sandbox {
	struct id id, tenant;
	uint8_t state;     /* enum sandbox_state */
	bool dozes;        /* paused, and a request wakes it */
	bool public_ports; /* previews need no token */
	uint16_t app_port;
	uint8_t group_tag[PUSH_GROUP_TAG];
	uint8_t name_tag[PUSH_NAME_TAG]; /* zero: no name */
	uint64_t epoch;                  /* older tokens are revoked */
	uint8_t (*revoked)[8];           /* PUSH_REVOKED_MAX nonces, zero when unused; or NULL */
	uint8_t (*exports)[PUSH_EXPORT_TAG]; /* n_exports tags, of PUSH_EXPORTS_MAX; or NULL */
	uint32_t n_exports;
	uint32_t n_requests;     /* in progress */
	bool changed;            /* n_requests is not reported yet */
	bool gone;               /* removed by control, requests are still in progress */
	bool seen, exports_seen; /* since the last PUSH_ALL */
	struct control_state_sandbox *next, *next_named, *prev_changed, *next_changed;
};

struct control_state_key {
	struct id id, tenant;
	uint8_t scope;  /* enum op_scope */
	uint64_t until; /* unix ms, PUSH_NEVER */
	bool bound;     /* to a group: refused until that is known */
	char group[33]; /* "": none, or not known yet */
	uint8_t hash[32];
	uint64_t used_s; /* last report to control */
	bool seen;
	struct control_state_key *next;
};

struct control_state_signer {
	bool present, seen;
	uint8_t number;
	uint32_t generation; /* changes with the key */
	uint64_t until;      /* unix ms, PUSH_NEVER */
	uint8_t key[32];
};

struct control_state;

struct control_state *control_state_new(void);
void control_state_free(struct control_state *t);
/* Apply a record.  -EPROTO: not one control may send; -ENOSPC, -ENOMEM. */
[[nodiscard]] int control_state_apply(struct control_state *t, const struct push *p);
/* Whether a full synchronisation has ever completed. */
bool control_state_is_ready(const struct control_state *t);

/* NULL: not known. */
struct control_state_sandbox *control_state_find_sandbox(struct control_state *t,
							 const struct id *id);
/* The one that has the name now: a sandbox that is ending has lost it. */
const struct control_state_sandbox *control_state_find_named(
	struct control_state *t, const struct id *tenant,
	const uint8_t name_tag[static PUSH_NAME_TAG]);
struct control_state_key *control_state_find_key(struct control_state *t,
						 const uint8_t hash[static 32]);
/* i: a key's number modulo CONTROL_STATE_SIGNERS. */
const struct control_state_signer *control_state_find_signer(struct control_state *t, unsigned i);
uint32_t control_state_epoch(const struct control_state *t);
/* Whether a token was revoked.  False for an unknown sandbox. */
bool control_state_token_is_revoked(struct control_state *t, const struct id *sandbox,
				    uint32_t epoch, const uint8_t nonce[static 8]);
/* Whether it has an export with this tag.  False for an unknown sandbox. */
bool control_state_has_export(struct control_state *t, const struct id *sandbox,
			      const uint8_t tag[static PUSH_EXPORT_TAG]);

/* Whether a request may be sent to it. */
static inline bool control_state_takes_requests(const struct control_state_sandbox *s)
{
	return s->state == SB_RUNNING || s->dozes;
}

/* Count a request to a sandbox.  The pointer stays valid from enter to leave. */
void control_state_enter_sandbox(struct control_state *t, struct control_state_sandbox *s);
void control_state_leave_sandbox(struct control_state *t, struct control_state_sandbox *s);
void control_state_mark_key_used(struct control_state *t, struct control_state_key *k,
				 uint64_t now_s);
/* The next record to report; false when there is none. */
[[nodiscard]] bool control_state_next_report(struct control_state *t, struct push *ret);
/* A new control connection: report everything again. */
void control_state_mark_unreported(struct control_state *t);
unsigned control_state_count_sandboxes(const struct control_state *t);
unsigned control_state_count_keys(const struct control_state *t);
#endif
