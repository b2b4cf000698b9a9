/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CORE_KEEPER_LINK_H
#define CAY_CAYD_CORE_KEEPER_LINK_H
/*
 * keeper-link - the connection to cay-keeper
 *
 * A call is a message and a callback that is called once with the outcome: from the loop, or
 * at once when the link is down or full.  When the connection is lost, every call under way
 * fails with CAY_E_UNAVAILABLE (it may or may not have been carried out: `remove` and `list`
 * can be repeated) and the link reconnects every 200 ms.  While it cannot, it logs once a minute.
 *
 * How long a verb takes may be a tenant's choice, so the keeper's workers are divided by class of
 * verb and, within a class, by tenant; what exceeds a share waits here (docs/adr/0062).
 */
#include "cayd/core/cayd.h"
#include "wire/verb.h"

#define KEEPER_WAITING_MAX 8192 /* calls of a class without a worker */
#define KEEPER_OPEN_MS 30000

/* reply is the whole message or NULL; the callback owns fd. */
typedef void keeper_call_fn(void *arg, const struct cay_err *outcome, const void *reply, int fd);

/* Connect and exchange hello, waiting at most KEEPER_OPEN_MS; blocks. */
[[nodiscard]] int keeper_link_open(struct cayd *c, struct cay_err *err);
/* request begins with a head, which is filled in here; fd < 0: none; it is dup'ed. */
void keeper_call(struct keeper_link *l, enum verb verb, void *request, int fd, keeper_call_fn *fn,
		 void *arg);
/* The same for a sandbox of a tenant, in its share of the workers. */
void keeper_call_for(struct keeper_link *l, const struct id *tenant, enum verb verb, void *request,
		     keeper_call_fn *fn, void *arg);
/* The same with an fd, as keeper_call(). */
void keeper_call_for_with_fd(struct keeper_link *l, const struct id *tenant, enum verb verb,
			     void *request, int fd, keeper_call_fn *fn, void *arg);
/* The same, blocking; only before the loop runs. reply has room for VERB_MESSAGE_MAX. */
[[nodiscard]] int keeper_call_blocking(struct keeper_link *l, enum verb verb, void *request,
				       void *reply, struct cay_err *err);
bool keeper_is_up(const struct keeper_link *l);
/* Whether VERB_SNAPSHOT or VERB_PACK for the tenant would start at once, or fail at once. */
bool keeper_can_copy_now(const struct keeper_link *l, const struct id *tenant);
/* Whether it is down for longer than a restart takes. */
bool keeper_is_gone(const struct keeper_link *l, uint64_t now_boot_ns);
/* Runtimes that passed the keeper's probes, a bit each. */
uint32_t keeper_runtimes(const struct keeper_link *l);
/* How disks are limited, as of the last hello. */
enum verb_disk keeper_disk_kind(const struct keeper_link *l);
/* Copy the path of the cgroup that holds all sandboxes, as of the last hello.  Only the keeper
 * reads cgroup.path: its unit sets it. */
void keeper_cgroup_copy(const struct keeper_link *l, char ret[static VERB_CGROUP_MAX + 1]);
#endif
