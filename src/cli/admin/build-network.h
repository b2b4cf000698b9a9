/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_ADMIN_BUILD_NETWORK_H
#define CAY_CLI_ADMIN_BUILD_NETWORK_H
/*
 * build-network - the network of a build on this machine: that of a sandbox with a policy
 *
 * The sandbox is created for the build and does nothing else.  A program that joins its user and
 * network namespaces connects where the policy lets it, and is root of nothing but the sandbox's
 * 65,536 ids.  Only root of this machine can join them (docs/adr/0124).
 */
#include "cli/core/command.h"

struct build_network {
	bool open;
	struct id sandbox, image;
	int user_ns, net_ns;
	uid_t root; /* of the sandbox, as this machine sees it */
};

#define BUILD_NETWORK_INIT ((struct build_network){ .user_ns = -EBADF, .net_ns = -EBADF })

/* Create the sandbox; dir: a directory for a file.  The caller closes it, also on failure. */
[[nodiscard]] int build_network_open(struct cli *c, const struct egress_spec *policy,
				     const char *dir, struct build_network *ret,
				     struct cay_err *err);
/* Print where the policy let it not connect to. */
void build_network_print_denied(struct cli *c, const struct build_network *n);
void build_network_close(struct cli *c, struct build_network *n);
#endif
