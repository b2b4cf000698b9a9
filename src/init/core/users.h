/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_USERS_H
#define CAY_INIT_CORE_USERS_H
/*
 * users - user and group ids of a name, from the image's own passwd and group files
 *
 * No NSS: the files are untrusted text, read in the child that is about to become the user.
 * A request names a user as NAME, UID, NAME:GROUP or UID:GID; a number needs no line in
 * passwd.  Malformed lines are skipped and the first match counts.  Pure: the caller reads
 * the files.
 */
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

#define USERS_FILE_MAX MIB(1)
#define USERS_GROUPS_MAX 64
#define USERS_ID_MAX 4294967294u /* the kernel reads the last number as "unchanged" */

struct user {
	uid_t uid;
	gid_t gid;
	struct slice name, home; /* into the passwd text; name empty and home "/" without a line */
	gid_t groups[USERS_GROUPS_MAX];
	size_t n_groups; /* gid is the first */
};

/* CAY_E_INVALID for field "user" when there is no such user or group. */
[[nodiscard]] int user_find(struct slice spec, struct slice passwd, struct slice group,
			    struct user *ret, struct cay_err *err);
#endif
