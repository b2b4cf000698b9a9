/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/users.h"

/* name:x:uid:gid:gecos:home:shell and name:x:gid:members */
enum { PW_NAME, PW_X, PW_UID, PW_GID, PW_GECOS, PW_HOME, PW_SHELL, PW_NUM };
enum { GR_NAME, GR_X, GR_GID, GR_MEMBERS, GR_NUM };

/* The next line that has exactly n fields; false at the end. */
static bool passwd_next_line(struct slice *text, struct slice *fields, size_t n)
{
	while (text->p) {
		struct slice line = slice_cut(text, '\n');
		size_t i = 0;

		while (i < n && line.p)
			fields[i++] = slice_cut(&line, ':');
		if (i == n && !line.p && fields[0].n)
			return true;
	}
	return false;
}

static bool user_id_parse(struct slice s, uint32_t *ret)
{
	uint64_t v;

	if (str_parse_u64(s, 0, USERS_ID_MAX, &v) < 0)
		return false;
	*ret = (uint32_t)v;
	return true;
}

static bool user_find_in_passwd(struct slice text, struct slice name, bool number, struct user *ret)
{
	struct slice f[PW_NUM];
	uint32_t wanted = 0, uid, gid;

	if (number && !user_id_parse(name, &wanted))
		return false;
	while (passwd_next_line(&text, f, PW_NUM)) {
		if (!user_id_parse(f[PW_UID], &uid) || !user_id_parse(f[PW_GID], &gid))
			continue;
		if (number ? uid != wanted : !slice_eq(f[PW_NAME], name))
			continue;
		ret->uid = uid;
		ret->gid = gid;
		ret->name = f[PW_NAME];
		if (f[PW_HOME].n && f[PW_HOME].p[0] == '/')
			ret->home = f[PW_HOME];
		return true;
	}
	return false;
}

static bool group_find_by_name(struct slice text, struct slice name, gid_t *ret)
{
	struct slice f[GR_NUM];
	uint32_t gid;

	while (passwd_next_line(&text, f, GR_NUM))
		if (slice_eq(f[GR_NAME], name) && user_id_parse(f[GR_GID], &gid)) {
			*ret = gid;
			return true;
		}
	return false;
}

static void user_add_group(struct user *u, gid_t gid)
{
	for (size_t i = 0; i < u->n_groups; i++)
		if (u->groups[i] == gid)
			return;
	if (u->n_groups < USERS_GROUPS_MAX)
		u->groups[u->n_groups++] = gid;
}

static void user_add_memberships(struct user *u, struct slice text)
{
	struct slice f[GR_NUM];
	uint32_t gid;

	while (u->name.n && passwd_next_line(&text, f, GR_NUM)) {
		struct slice members = f[GR_MEMBERS];

		if (!user_id_parse(f[GR_GID], &gid))
			continue;
		while (members.p)
			if (slice_eq(slice_cut(&members, ','), u->name))
				user_add_group(u, gid);
	}
}

static int slice_print_width(struct slice s)
{
	return (int)(s.n < 64 ? s.n : 64);
}

int user_find(struct slice spec, struct slice passwd, struct slice group, struct user *ret,
	      struct cay_err *err)
{
	struct slice group_name = spec;
	struct slice name = slice_cut(&group_name, ':');
	struct user u = { .home = SLICE("/") };
	uint32_t id = 0;
	bool number = name.n && ascii_is_digit(name.p[0]);

	if (!user_find_in_passwd(passwd, name, number, &u)) {
		if (!number || !user_id_parse(name, &id))
			return cay_fail_field(err, CAY_E_INVALID, "user",
					      "no such user '%.*s' in /etc/passwd",
					      slice_print_width(name), name.p);
		u.uid = id;
		u.gid = id;
	}
	if (group_name.p) { /* it is the only one */
		if (!user_id_parse(group_name, &id) && !group_find_by_name(group, group_name, &id))
			return cay_fail_field(err, CAY_E_INVALID, "user",
					      "no such group '%.*s' in /etc/group",
					      slice_print_width(group_name), group_name.p);
		u.gid = id;
	}
	user_add_group(&u, u.gid);
	if (!group_name.p)
		user_add_memberships(&u, group);
	*ret = u;
	return 0;
}
