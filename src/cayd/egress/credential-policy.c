/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/egress/credential-policy.h"

#include <stdio.h>

#include "cayd/egress/credential-store.h"
#include "egress/host-name.h"

static bool credential_is_for_target(const struct credential_row *row, const char *to)
{
	struct host_name name;

	if (host_name_parse(slice_of(to), &name) < 0)
		return false;
	for (size_t i = 0; i < row->put.n_hosts; i++)
		if (host_name_eq(&name, slice_of(row->put.hosts[i])))
			return true;
	return false;
}

static int credential_rule_check(const struct cayd *c, const struct id *tenant,
				 const struct egress_rule_spec *rule, size_t i, struct cay_err *err)
{
	const struct credential_row *row =
		rule->credential ? credential_store_find(c, tenant, slice_of(rule->credential))
				 : NULL;
	char field[64];
	int n = snprintf(field, sizeof(field), "rules[%zu].credential", i);

	if (!rule->credential || n < 0 || n >= (int)sizeof(field))
		return 0;
	if (!row)
		return cay_fail_field(
			err, CAY_E_INVALID, field,
			"there is no credential '%.63s'; 'cay credential put' stores one",
			rule->credential);
	if (!credential_is_for_target(row, rule->to))
		return cay_fail_field(err, CAY_E_INVALID, field,
				      "the credential '%.63s' is not for '%.200s'; name one of its "
				      "hosts",
				      rule->credential, rule->to);
	return 0;
}

int credential_policy_check(const struct cayd *c, const struct id *tenant,
			    const struct egress_spec *spec, struct cay_err *err)
{
	const struct egress_rule_spec *rules = spec ? spec->rules.v : NULL;
	int r = 0;

	for (size_t i = 0; r >= 0 && spec && i < spec->rules.n; i++)
		r = credential_rule_check(c, tenant, &rules[i], i, err);
	return r;
}

static bool variables_have(const struct field_map *env, const char *key)
{
	for (size_t i = 0; i < env->n; i++)
		if (str_eq(env->keys[i], key))
			return true;
	return false;
}

/* env has room for one more for each rule. */
static int credential_placeholders_add(const struct cayd *c, const struct id *tenant,
				       const struct egress_spec *spec, struct field_map *env,
				       struct arena *arena)
{
	const struct egress_rule_spec *rules = spec ? spec->rules.v : NULL;

	for (size_t i = 0; spec && i < spec->rules.n; i++) {
		const struct credential_row *row =
			rules[i].credential
				? credential_store_find(c, tenant, slice_of(rules[i].credential))
				: NULL;

		if (!row || !row->env[0] || variables_have(env, row->env))
			continue;
		env->keys[env->n] = arena_strndup(arena, row->env, strlen(row->env));
		env->values[env->n] =
			arena_strndup(arena, row->placeholder, strlen(row->placeholder));
		if (!env->keys[env->n] || !env->values[env->n])
			return -ENOMEM;
		env->n++;
	}
	return 0;
}

int credential_placeholders_apply(const struct cayd *c, const struct id *tenant,
				  struct sandbox_create *spec, struct arena *arena)
{
	const struct egress_spec *own = spec->has_egress ? &spec->egress : NULL;
	const size_t more = (own ? own->rules.n : 0) +
			    (spec->template_egress ? spec->template_egress->rules.n : 0);
	struct field_map env;
	int r;

	if (!more || !credential_store_count(c))
		return 0;
	env = (struct field_map){ arena_alloc(arena, spec->env.n + more, sizeof(*env.keys)),
				  arena_alloc(arena, spec->env.n + more, sizeof(*env.values)),
				  spec->env.n };
	if (!env.keys || !env.values)
		return -ENOMEM;
	for (size_t i = 0; i < spec->env.n; i++) {
		env.keys[i] = spec->env.keys[i];
		env.values[i] = spec->env.values[i];
	}
	r = credential_placeholders_add(c, tenant, own, &env, arena);
	if (r >= 0)
		r = credential_placeholders_add(c, tenant, spec->template_egress, &env, arena);
	if (r >= 0)
		spec->env = env;
	return r;
}
