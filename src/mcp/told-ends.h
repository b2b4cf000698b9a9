/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_TOLD_ENDS_H
#define CAY_MCP_TOLD_ENDS_H
/*
 * told-ends - the ended sandboxes that a model knows of
 *
 * A conversation whose sandbox has ended is told so once, before it gets a new one.  This is the
 * only thing cay-mcp remembers between requests.  A slot belongs to the id that hashes to it: an
 * entry that another one replaces, or that a restart loses, costs one repeated message.
 */
#include "base/id.h"

#define TOLD_ENDS_MAX 4096

struct told_ends {
	struct id ids[TOLD_ENDS_MAX];
};

void told_ends_add(struct told_ends *t, const struct id *id);
bool told_ends_has(const struct told_ends *t, const struct id *id);
#endif
