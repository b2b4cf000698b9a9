/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TEMPLATE_BUILD_H
#define CAY_CAYD_TEMPLATE_BUILD_H
/*
 * build - a layer over an image: files, setup commands and packages, put there inside
 * a sandbox
 *
 *	build.c       which layers there are and are being made, and who waits
 *	build-run.c   the commands, one behind the other
 *
 * The sandbox is an ordinary one of a tenant that nobody is: no list shows it and no
 * request reaches it.  Its commands run as root inside; then the keeper makes an image
 * of its disk.  A layer is known by the hash of all that went into it and of whose it
 * is: the same again is there already, and who asks while it is built waits for that.
 *
 * A build that a restart of cayd cut off is over: its sandbox is removed, and so is a
 * layer nobody knows.
 */
#include "cayd/image/image.h"
#include "cayd/sandbox/sandbox.h"

#define BUILD_HASH_LEN 64
#define BUILD_LOG_MAX KIB(256)
#define BUILDS_LIVE 8
#define BUILDS_TENANT 2 /* of them for one tenant */
#define BUILDS_KEPT 32  /* that are over, for their logs */
#define BUILD_TTL_MS (UINT64_C(3600) * 1000)
#define BUILD_ALONE_NS (5 * NS_PER_S) /* who asks again finds it */

struct build;

struct build_request {
	struct layer_spec spec;
	const struct sandbox_create *sandbox; /* limits, runtime and storage are its sandbox's */
	const struct id *tenant;              /* whose layer it is; NULL: a template's */
	bool by_operator;                     /* as many as there may be at all */
};

/* The layer, or why there is none; once, from the loop. */
typedef void build_fn(void *arg, const struct image *layer, const struct cay_err *err);

[[nodiscard]] int builds_open(struct cayd *c, struct cay_err *err);
/* After recovery: take away what the builds of an earlier life left. */
void builds_recover(struct cayd *c);
/* Is there anything to do at all? */
bool layer_spec_has_steps(const struct layer_spec *spec);
/* *ret_layer is the layer when there is one already; else *ret_build is what makes it,
 * and fn is called when it is over.  CAY_E_OVERLOADED when there are too many, of all or of
 * the tenant. */
[[nodiscard]] int build_start_or_join(struct cayd *c, const struct build_request *order,
				      build_fn *fn, void *arg, const struct image **ret_layer,
				      struct build **ret_build, struct cay_err *err);
/* Nobody waits with this arg any more.  A template's build goes on; a tenant's that nobody
 * waits for ends soon. */
void build_remove_waiter(struct build *b, const void *arg);
/* What its commands wrote, from an offset on; *at is where that begins: the first of it
 * may be gone.  NULL when the build is not remembered. */
struct build *build_find(struct cayd *c, const char *hash);
struct slice build_log_read(const struct build *b, uint64_t offset, uint64_t *at);
bool build_is_finished(const struct build *b);
const char *build_hash(const struct build *b);
#endif
