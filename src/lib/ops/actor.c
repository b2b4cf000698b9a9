/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/actor.h"

#include <assert.h>

static size_t actor_format_id(const struct id *id, char *ret)
{
	char text[ID_TEXT_LEN + 1] = "-";
	size_t n;

	if (id->noun != ID_NONE)
		id_format(id, text);
	n = strlen(text);
	memcpy(ret, text, n);
	ret[n] = ' ';
	return n + 1;
}

void actor_format(const struct actor *a, char ret[static ACTOR_TEXT_MAX + 1])
{
	const char *scope = op_scope_name(a->scope);
	size_t at = actor_format_id(&a->tenant, ret);

	assert(a->one_sandbox == (a->sandbox.noun != ID_NONE) && strlen(scope) <= 8);
	memcpy(ret + at, scope, strlen(scope));
	at += strlen(scope);
	ret[at++] = ' ';
	at += actor_format_id(&a->key, ret + at);
	at += actor_format_id(&a->sandbox, ret + at);
	memcpy(ret + at, a->group, strlen(a->group) + 1);
	if (!a->group[0])
		ret[at - 1] = 0;
}

static int actor_parse_id(struct slice word, enum id_noun noun, struct id *ret)
{
	*ret = (struct id){};
	return slice_eq(word, SLICE("-")) ? 0 : id_parse(noun, word, ret);
}

static int actor_parse_scope(struct slice word, enum op_scope *ret)
{
	for (unsigned i = SCOPE_NONE + 1; i < SCOPE_NUM; i++)
		if (slice_eq(word, slice_of(op_scope_name((enum op_scope)i)))) {
			*ret = (enum op_scope)i;
			return 0;
		}
	return -EINVAL;
}

int actor_set_group(struct actor *a, struct slice group)
{
	char name[ACTOR_GROUP_MAX + 1] = "";

	if (!group.n || group.n > ACTOR_GROUP_MAX || slice_eq(group, SLICE("-")))
		return -EINVAL;
	for (size_t i = 0; i < group.n; i++)
		if (group.p[i] < '!' || group.p[i] > '~')
			return -EINVAL;
	memcpy(name, group.p, group.n);
	if (a->group[0] && !str_eq(a->group, name))
		return -EACCES;
	memcpy(a->group, name, sizeof(name));
	return 0;
}

bool actor_has_group(const struct actor *a, const char *group)
{
	return !a->group[0] || (group && str_eq(a->group, group));
}

int actor_parse(struct slice text, struct actor *ret)
{
	struct slice tenant = slice_cut(&text, ' '), scope = slice_cut(&text, ' ');
	struct slice key = slice_cut(&text, ' '), sandbox = slice_cut(&text, ' ');
	struct actor a = {};

	if (!sandbox.p || actor_parse_id(tenant, ID_TENANT, &a.tenant) < 0 ||
	    actor_parse_scope(scope, &a.scope) < 0 || actor_parse_id(key, ID_KEY, &a.key) < 0 ||
	    actor_parse_id(sandbox, ID_SANDBOX, &a.sandbox) < 0 ||
	    (text.p && actor_set_group(&a, text) < 0))
		return -EINVAL;
	a.one_sandbox = a.sandbox.noun != ID_NONE;
	if ((a.scope == SCOPE_PUBLIC) != (a.tenant.noun == ID_NONE))
		return -EINVAL;
	if (a.scope == SCOPE_PUBLIC && (a.key.noun != ID_NONE || a.one_sandbox || a.group[0]))
		return -EINVAL;
	*ret = a;
	return 0;
}

enum cay_code actor_check_access(const struct actor *a, const struct op *op,
				 const struct id *sandbox)
{
	if (op->scope == SCOPE_PUBLIC)
		return CAY_OK;
	if (a->scope < op->scope)
		return CAY_E_FORBIDDEN;
	if (a->one_sandbox && !(sandbox && id_eq(sandbox, &a->sandbox)))
		return CAY_E_FORBIDDEN;
	if (a->group[0] && !(op->flags & OP_GROUPS) && !(sandbox && sandbox->noun == ID_SANDBOX))
		return CAY_E_FORBIDDEN;
	return CAY_OK;
}
