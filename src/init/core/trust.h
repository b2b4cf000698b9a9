/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_TRUST_H
#define CAY_INIT_CORE_TRUST_H
/*
 * trust - programs trust one more CA: that of the inspected connections of this sandbox
 *
 * The certificate is appended to each bundle that the image has, and put where the tools that make
 * bundles look, so that it stays when they run.  A policy names it to Chromium.  Execs get
 * variables for programs that have certificates of their own; those of the image, the sandbox and
 * the exec win.
 */
#include "ops/field.h"

/* Does not fail: a program that does not trust the CA says so, and so does the egress log. */
void trust_add(struct slice pem);
/* For execs, with the lowest priority; NULL: nothing was added. */
const struct field_map *trust_env(void);
#endif
