/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_OBSERVER_H
#define CAY_CAYD_SANDBOX_OBSERVER_H
/*
 * observer - other modules that act when something happens to a sandbox
 *
 * One table, defined in main.c; for each notice its rows are called in the order of the
 * table.  Observers run on the loop, inside sandbox_apply_event(): they must not free the
 * sandbox and must not apply an event to it.
 */

struct sandbox;

enum sandbox_notice {
	SANDBOX_STATE_CHANGED, /* in memory; its row is not queued for the journal yet */
	SANDBOX_STATE_QUEUED,  /* its row with the new state is queued before whatever follows */
	SANDBOX_KEPT_PAUSED,   /* one that dozed is to stay paused; its row is not queued yet */
	SANDBOX_STEPPED,       /* any event was applied and its effect has begun */
	SANDBOX_RESTORED,      /* read from the journal at start, not in the table yet */
	SANDBOX_REVOKED,       /* its tokens were revoked; the row is not queued yet */
	SANDBOX_EXPORTED,      /* its exports have changed; the row is not queued yet */
};

struct sandbox_observer {
	enum sandbox_notice notice;
	void (*fn)(struct sandbox *sb);
};

void sandbox_notify_observers(struct sandbox *sb, enum sandbox_notice notice);
#endif
