/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_ACTOR_H
#define CAY_OPS_ACTOR_H
/* actor - the caller of a request, and its permissions
 *
 * cay-edge authenticates the caller and passes it to cayd in one header; cayd limits the request to
 * it, and trusts the header no more than it must (cayd/listeners.h).
 *
 *	Cay-Actor: TENANT SCOPE KEY SANDBOX [GROUP]
 *
 * Ids in their usual form, "-" for none.  An unauthenticated caller is "- public - -"; all others
 * have a tenant.  There is one spelling of each.
 *
 * A caller with a group has that group's sandboxes and uploads and no others: those of other groups
 * look absent.  Its key is bound to the group, or it limits itself to one:
 *
 *	Cay-Group: GROUP
 *
 * For operations that return a link, also the origin at which the client reached the edge, by a
 * Host that is one of the edge's names.
 *
 *	Cay-Origin: SCHEME://HOST[:PORT]
 */
#include "ops/op.h"

#define ACTOR_HEADER "cay-actor"
#define ACTOR_ORIGIN "cay-origin"
#define ACTOR_GROUP_HEADER "cay-group"
#define ACTOR_GROUP_MAX 63
#define ACTOR_TEXT_MAX (3 * ID_TEXT_LEN + 8 + 3 + 1 + ACTOR_GROUP_MAX)

struct actor {
	struct id tenant;
	struct id key;     /* ky..., or nothing: the operator's own socket, another issuer */
	struct id sandbox; /* with one_sandbox */
	bool one_sandbox;  /* only operations on that sandbox */
	enum op_scope scope;
	char group[ACTOR_GROUP_MAX + 1]; /* only that group; "": all of the tenant's */
};

void actor_format(const struct actor *a, char ret[static ACTOR_TEXT_MAX + 1]);
/* -EINVAL; *ret is touched only on success. */
[[nodiscard]] int actor_parse(struct slice text, struct actor *ret);
/* Limit the actor to a group.  -EINVAL: not a group's name; -EACCES: it has another one. */
[[nodiscard]] int actor_set_group(struct actor *a, struct slice group);
/* Whether the actor may have what belongs to this group; NULL: to none. */
bool actor_has_group(const struct actor *a, const char *group);
/* CAY_OK or CAY_E_FORBIDDEN. sandbox is the one in the path, or NULL.  Its owner is checked
 * later: foreign and absent look the same. */
enum cay_code actor_check_access(const struct actor *a, const struct op *op,
				 const struct id *sandbox);
#endif
