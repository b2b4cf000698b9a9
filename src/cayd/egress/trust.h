/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EGRESS_TRUST_H
#define CAY_CAYD_EGRESS_TRUST_H
/* trust - programs in a sandbox that is inspected trust the CA that cay-egress has for it */
#include "cayd/egress/egress-link.h"

/* Give PID 1 the certificate, once; fn is called then, or at once if there is nothing to do. */
void sandbox_trust_ca(struct sandbox *sb, struct slice pem, egress_link_fn *fn, void *arg);
/* Give it to one that was paused when that was to be done, and runs again. */
void sandbox_trust_ca_if_due(struct sandbox *sb);
#endif
