/* SPDX-License-Identifier: Apache-2.0 */
/* who, passwd and group of a stranger, separated by 0xFF: what is found points
 * into the text, and a number that is found is the number that was asked for. */
#include "fuzz.h"
#include "init/core/users.h"

static bool inside(struct slice s, struct slice text)
{
	return !s.n || slice_eq(s, SLICE("/")) || (s.p >= text.p && s.p + s.n <= text.p + text.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct slice group = { in, size };
	struct slice who = slice_cut(&group, '\xff');
	struct slice passwd = slice_cut(&group, '\xff');
	struct cay_err err = {};
	struct user u;

	if (user_find(who, passwd, group, &u, &err) == 0) {
		struct slice name = who;
		uint64_t id;

		name = slice_cut(&name, ':');
		CHECK(u.n_groups >= 1 && u.n_groups <= USERS_GROUPS_MAX && u.groups[0] == u.gid);
		CHECK(inside(u.name, passwd) && inside(u.home, passwd));
		CHECK(u.home.n && u.home.p[0] == '/');
		CHECK(u.uid <= USERS_ID_MAX && u.gid <= USERS_ID_MAX);
		if (name.n && ascii_is_digit(name.p[0]))
			CHECK(str_parse_u64(name, 0, USERS_ID_MAX, &id) == 0 && id == u.uid);
		else
			CHECK(slice_eq(u.name, name));
	} else {
		CHECK(err.code == CAY_E_INVALID && err.msg[0]);
	}
	free(in);
	return 0;
}
