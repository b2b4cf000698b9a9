/* SPDX-License-Identifier: Apache-2.0 */
#include "opensandbox/opensandbox.h"

#define RULES_MAX 256
#define ANY_PORT "1-65535"

/* Rules of OpenSandbox have no ports. */
static json_t *osb_policy_rules(const json_t *list, struct cay_err *err)
{
	json_t *rules = json_array(), *row;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)list, i, row)
	{
		const char *action = osb_text(row, "action"), *target = osb_text(row, "target");

		if ((!str_eq(action, "allow") && !str_eq(action, "deny")) || !target[0] ||
		    i >= RULES_MAX) {
			json_decref(rules);
			(void)cay_fail(
				err, CAY_E_INVALID,
				"a rule has an action, allow or deny, and a target; there are "
				"at most %d",
				RULES_MAX);
			return NULL;
		}
		(void)json_array_append_new(rules, json_pack("{s:s,s:s,s:[s]}", "action", action,
							     "to", target, "ports", ANY_PORT));
	}
	return rules;
}

int osb_policy_read(const json_t *policy, json_t *to, struct cay_err *err)
{
	const char *otherwise = osb_text(policy, "defaultAction");
	json_t *rules;

	if (otherwise[0] && !str_eq(otherwise, "allow") && !str_eq(otherwise, "deny"))
		return cay_fail(err, CAY_E_INVALID, "defaultAction is neither allow nor deny");
	rules = osb_policy_rules(json_object_get(policy, "egress"), err);
	if (!rules)
		return -EINVAL;
	(void)json_object_set_new(to, "egress",
				  json_pack("{s:o,s:s}", "rules", rules, "default",
					    otherwise[0] ? otherwise : "deny"));
	return 0;
}

/* A preset is a target "@NAME". */
static void on_osb_policy_known(struct osb_request *v)
{
	const json_t *own = json_object_get(v->answer, "policy");
	const char *otherwise = osb_text(own, "default");
	json_t *rules = json_array(), *row;
	size_t i;

	json_array_foreach(json_object_get(own, "rules"), i, row)
	{
		(void)json_array_append_new(rules, json_pack("{s:s,s:s}", "action",
							     osb_text(row, "action"), "target",
							     osb_text(row, "to")));
	}
	json_array_foreach(json_object_get(own, "presets"), i, row)
	{
		char name[80];

		if (snprintf(name, sizeof(name), "@%s", json_string_value(row)) > 0)
			(void)json_array_append_new(
				rules, json_pack("{s:s,s:s}", "action", "allow", "target", name));
	}
	osb_reply(v, 200,
		  json_pack("{s:s,s:s,s:s,s:{s:s,s:o}}", "status", "ok", "mode",
			    json_array_size(rules)       ? "rules"
			    : str_eq(otherwise, "allow") ? "allow_all"
							 : "deny_all",
			    "enforcementMode", "proxy", "policy", "defaultAction",
			    otherwise[0] ? otherwise : "deny", "egress", rules));
}

void osb_policy_get(struct osb_request *v)
{
	osb_call(v, OP_EGRESS_GET, on_osb_policy_known, "{}");
}

/* The first rule for a target counts, before those there are. */
void osb_policy_patch(struct osb_request *v)
{
	struct cay_err err = {};
	json_t *rules = osb_policy_rules(v->json, &err), *targets = json_array(), *row;
	size_t i;

	if (!rules) {
		json_decref(targets);
		osb_fail(v, &err);
		return;
	}
	json_array_foreach(rules, i, row)(void)
		json_array_append(targets, json_object_get(row, "to"));
	osb_call(v, OP_EGRESS_PATCH, on_osb_policy_known, "{s:o,s:o}", "rules", rules, "remove",
		 targets);
}

void osb_policy_delete(struct osb_request *v)
{
	osb_call(v, OP_EGRESS_PATCH, on_osb_policy_known, "{s:O}", "remove", v->json);
}
