/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/users.h"
#include "unit.h"

static const char passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
			     "\n"
			     "# a comment\n"
			     "broken:x:12\n"
			     "long:x:13:13:a:/h:/s:more\n"
			     "neg:x:-1:5::/h:/s\n"
			     "big:x:4294967295:5::/h:/s\n"
			     "zeros:x:007:5::/h:/s\n"
			     ":x:5:5::/h:/s\n"
			     "ann:x:1000:100:Ann,,,:/h/ann:/bin/sh\n"
			     "ann:x:2000:200::/second:/bin/sh\n"
			     "rel:x:1001:1001::home:/bin/sh\n"
			     "nohome:x:1002:1002:::\n"
			     "99:x:1003:1003::/odd:/bin/sh\n"
			     "last:x:4294967294:4294967294::/last:/bin/sh";
static const char group[] = "root:x:0:\n"
			    "wheel:x:10:root,ann\n"
			    "broken:x\n"
			    "bad:x:x:ann\n"
			    "users:x:100:ann\n"
			    "video:x:44:bob,ann,eve\n"
			    "almost:x:45:anna,an\n"
			    "empty:x:46:";

static void the_files_say_who(void **)
{
	static const struct {
		const char *who;
		uid_t uid;
		gid_t gid;
		const char *name, *home;
		size_t n;
		gid_t groups[4];
	} rows[] = {
		{ "root", 0, 0, "root", "/root", 2, { 0, 10 } },
		{ "0", 0, 0, "root", "/root", 2, { 0, 10 } },
		{ "ann", 1000, 100, "ann", "/h/ann", 3, { 100, 10, 44 } },
		{ "1000", 1000, 100, "ann", "/h/ann", 3, { 100, 10, 44 } },
		{ "2000", 2000, 200, "ann", "/second", 4, { 200, 10, 100, 44 } },
		{ "ann:44", 1000, 44, "ann", "/h/ann", 1, { 44 } },
		{ "ann:video", 1000, 44, "ann", "/h/ann", 1, { 44 } },
		{ "ann:empty", 1000, 46, "ann", "/h/ann", 1, { 46 } },
		{ "5:7", 5, 7, "", "/", 1, { 7 } },
		{ "777", 777, 777, "", "/", 1, { 777 } },
		{ "777:video", 777, 44, "", "/", 1, { 44 } },
		{ "rel", 1001, 1001, "rel", "/", 1, { 1001 } },
		{ "nohome", 1002, 1002, "nohome", "/", 1, { 1002 } },
		{ "99", 99, 99, "", "/", 1, { 99 } }, /* digits are a number, whatever is called so
						       */
		{ "last", 4294967294u, 4294967294u, "last", "/last", 1, { 4294967294u } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cay_err err = {};
		struct user u;

		row_check(i, user_find(slice_of(rows[i].who), slice_of(passwd), slice_of(group), &u,
				       &err) == 0);
		row_check(i, u.uid == rows[i].uid && u.gid == rows[i].gid);
		row_check(i, slice_eq(u.name, slice_of(rows[i].name)));
		row_check(i, slice_eq(u.home, slice_of(rows[i].home)));
		row_check(i, u.n_groups == rows[i].n);
		row_check(i, memcmp(u.groups, rows[i].groups, rows[i].n * sizeof(gid_t)) == 0);
	}
}

static void who_is_not_there_is_refused_by_name(void **)
{
	static const char *const rows[] = {
		"",      "nosuch",     "broken",      "long",     "neg",     "big",
		"zeros", "root:",      "root:nosuch", ":0",       "-1",      "007",
		"0x1",   "4294967295", "1000x",       "root:x:0", "ann:bad",
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cay_err err = {};
		struct user u;

		row_check(i, user_find(slice_of(rows[i]), slice_of(passwd), slice_of(group), &u,
				       &err) == -EINVAL);
		row_check(i, err.code == CAY_E_INVALID && str_eq(err.field, "user"));
	}
}

static void without_files_numbers_still_work(void **)
{
	struct cay_err err = {};
	struct user u;

	assert_int_equal(user_find(SLICE("0"), (struct slice){}, (struct slice){}, &u, &err), 0);
	assert_int_equal(u.uid, 0);
	assert_true(user_find(SLICE("root"), (struct slice){}, (struct slice){}, &u, &err) < 0);
}

static void groups_are_bounded(void **)
{
	auto_buf many = BUF_INIT(KIB(64));
	struct cay_err err = {};
	struct user u;

	for (int i = 0; i < 1000; i++)
		assert_int_equal(buf_printf(&many, "g%d:x:%d:ann\n", i, 5000 + i), 0);
	assert_int_equal(user_find(SLICE("ann"), slice_of(passwd),
				   (struct slice){ many.data, many.len }, &u, &err),
			 0);
	assert_int_equal(u.n_groups, USERS_GROUPS_MAX);
	assert_int_equal(u.groups[0], 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_files_say_who),
		cmocka_unit_test(who_is_not_there_is_refused_by_name),
		cmocka_unit_test(without_files_numbers_still_work),
		cmocka_unit_test(groups_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
