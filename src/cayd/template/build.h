/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TEMPLATE_BUILD_H
#define CAY_CAYD_TEMPLATE_BUILD_H
/*
 * build - build a layer over an image: files, setup commands and packages
 *
 *	build.c       layers that exist or are being built, and their waiters
 *	build-run.c   the commands, one after the other
 *	build-egress.c   where they may connect to
 *
 * A build runs in an ordinary sandbox of build_tenant: no list shows it and no request reaches
 * it.  Its commands run as root inside; then the keeper commits its disk as an image.  A layer
 * is identified by the hash of its inputs and its owner: the same request again returns the
 * same layer, or joins its build.  Its policy is not part of the hash: a layer that exists needs no
 * network, and a build is joined only by requests with the same policy.
 *
 * A restart of cayd ends a build: its sandbox is removed, and so is an unregistered layer.
 */
#include "cayd/image/image.h"
#include "cayd/sandbox/sandbox.h"

#define BUILD_HASH_LEN 64
#define BUILD_LOG_MAX KIB(256)
#define BUILDS_LIVE 8
#define BUILDS_TENANT 2 /* of one tenant */
#define BUILDS_KEPT 32  /* finished, kept for their logs */
#define BUILD_TTL_MS (UINT64_C(3600) * 1000)
#define BUILD_ALONE_NS (5 * NS_PER_S) /* a client that comes back in time finds it */

struct build;

struct build_request {
	struct layer_spec spec;
	const struct sandbox_create *sandbox; /* gives limits, runtime, storage, egress */
	const struct id *tenant;              /* owner of the layer; NULL: a template's */
	bool by_operator;                     /* BUILDS_TENANT does not apply */
};

/* Called once, from the loop, with the layer or the error. */
typedef void build_fn(void *arg, const struct image *layer, const struct cay_err *err);

[[nodiscard]] int builds_open(struct cayd *c, struct cay_err *err);
/* After recovery: remove what builds of an earlier cayd left. */
int builds_recover(struct cayd *c, struct cay_err *err);
bool layer_spec_has_steps(const struct layer_spec *spec);
/* *ret_layer is the layer if it exists; else *ret_build is its build, and fn is called when that
 * ends. CAY_E_OVERLOADED: too many builds, of all or of the tenant. */
[[nodiscard]] int build_start_or_join(struct cayd *c, const struct build_request *order,
				      build_fn *fn, void *arg, const struct image **ret_layer,
				      struct build **ret_build, struct cay_err *err);
/* Remove the waiter with this arg. A template's build goes on without waiters; a tenant's is
 * stopped after BUILD_ALONE_NS. */
void build_remove_waiter(struct build *b, const void *arg);
/* Output of its commands from an offset; *at is where the slice begins, because the first part may
 * be dropped. build_find() returns NULL for a forgotten build. */
struct build *build_find(struct cayd *c, const char *hash);
struct slice build_log_read(const struct build *b, uint64_t offset, uint64_t *at);
const char *build_hash(const struct build *b);
#endif
