/* SPDX-License-Identifier: Apache-2.0 */
/* profile-network - which hosts a sandbox may connect to: shown, checked, and set by OpenSandbox's
 * network_policy
 *
 * No native tool changes a policy: a model that reads a hostile page must not be able to. */
#include "mcp/profiles/profile-network.h"

#include <string.h>

#include "mcp/profiles/profile-parts.h"

int native_network_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *to = tool_run_arg_text(run, "to");

	if (run->step)
		return TOOL_FINISHED;
	if (!to)
		return tool_run_call(run, OP_EGRESS_GET, err, "{}");
	return tool_run_call(run, OP_EGRESS_CHECK, err, "{s:s, s:I}", "to", to, "port",
			     (json_int_t)tool_run_arg_number(run, "port"));
}

/* Ports of a rule: numbers, and texts such as "8000-8010". */
static void network_add_ports(const json_t *ports, struct buf *out)
{
	const json_t *p;
	size_t i;

	if (!json_array_size(ports))
		(void)buf_printf(out, ":443");
	json_array_foreach(ports, i, p)
	{
		(void)buf_printf(out, i ? "," : ":");
		if (json_is_string(p))
			(void)buf_printf(out, "%s", json_string_value(p));
		else
			(void)buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(p));
	}
}

static void network_add_policy(const json_t *policy, struct result_lines *lines)
{
	const json_t *row;
	size_t i;

	json_array_foreach(json_object_get(policy, "rules"), i, row)
	{
		auto_buf to = BUF_INIT(KIB(1));

		(void)buf_printf(&to, "%s", json_member_str(row, "to"));
		network_add_ports(json_object_get(row, "ports"), &to);
		result_lines_printf(lines, "%s %s", json_member_str(row, "action"), buf_str(&to));
	}
	json_array_foreach(json_object_get(policy, "presets"), i, row)
	{
		if (json_is_string(row))
			result_lines_printf(lines, "allow the hosts of the preset %s",
					    json_string_value(row));
	}
	result_lines_printf(lines, "%s all others",
			    json_member_str(policy, "default")[0]
				    ? json_member_str(policy, "default")
				    : "deny");
}

static bool network_is_empty(const json_t *policy)
{
	const char *otherwise = json_member_str(policy, "default");

	return !json_array_size(json_object_get(policy, "rules")) &&
	       !json_array_size(json_object_get(policy, "presets")) &&
	       (!otherwise[0] || str_eq(otherwise, "deny"));
}

/* Whether a connection may wait for an answer. */
static bool network_asks(const json_t *policy)
{
	const json_t *row;
	size_t i;

	json_array_foreach(json_object_get(policy, "rules"), i, row)
	{
		if (str_eq(json_member_str(row, "action"), "ask"))
			return true;
	}
	return str_eq(json_member_str(policy, "default"), "ask");
}

/* The verdict about a host, and how to get to it.  The host was checked to be a name or an address,
 * so it has nothing that a shell would read. */
static int network_write_verdict(struct tool_run *run, const json_t *j, struct tool_result *out)
{
	const char *verdict = json_member_str(j, "verdict"), *reason = json_member_str(j, "reason");
	const char *layer = json_member_str(j, "layer");

	if (str_eq(verdict, "ask"))
		return tool_result_printf(
			out, "ask: %s\n%s", reason,
			json_member_true(j, "waits")
				? "Connect once: the connection waits while your user is asked."
				: "Your user must run 'cay ask watch' before you connect.");
	if (str_eq(verdict, "deny") && str_eq(layer, "sandbox"))
		return tool_result_printf(out,
					  "deny: %s\nIf you need it, ask your user to run: cay "
					  "egress allow %s %s:%llu",
					  reason, run->sandbox, tool_run_arg_text(run, "to"),
					  (unsigned long long)tool_run_arg_number(run, "port"));
	if (str_eq(verdict, "deny"))
		return tool_result_printf(out, "deny: %s\nOnly an operator can change that.",
					  reason);
	return tool_result_printf(out, "%s: %s", verdict, reason);
}

int native_network_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	static const char *const bounds[] = { "template", "tenant" };
	const json_t *j = run->answer.json, *policy = json_object_get(j, "policy");
	auto_lines lines = RESULT_LINES_INIT;

	out->data = j;
	if (run->call.op == OP_EGRESS_CHECK)
		return network_write_verdict(run, j, out);
	if (network_is_empty(policy))
		return tool_result_printf(
			out, "No host can be reached, so pip, npm, apt, git clone and downloads "
			     "fail. Use what the image has, or ask your user to allow a host.");
	result_lines_printf(&lines, "The first line that matches decides:");
	network_add_policy(policy, &lines);
	for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
		const json_t *bound = json_object_get(j, bounds[i]);

		if (!bound)
			continue;
		result_lines_printf(&lines, "and the %s allows no more than:", bounds[i]);
		network_add_policy(bound, &lines);
	}
	if (network_asks(policy))
		result_lines_printf(&lines, "ask: the connection waits while your user is asked");
	if (!json_member_true(j, "attached"))
		result_lines_printf(&lines, "[cay-egress is not running: every connection is "
					    "refused now]");
	return result_lines_end(&lines, "", false, out);
}

/* OpenSandbox */

static int osb_policy_refuse(struct cay_err *err, const char *why)
{
	return cay_fail_field(err, CAY_E_INVALID, "network_policy", "%s", why);
}

/* Their model has two spellings of a name. */
static const json_t *osb_policy_default(const json_t *policy)
{
	const json_t *v = json_object_get(policy, "defaultAction");

	return v ? v : json_object_get(policy, "default_action");
}

static bool osb_is_action(const json_t *v)
{
	const char *s = json_string_value(v);

	return s && (str_eq(s, "allow") || str_eq(s, "deny"));
}

/* A target is a name, *.NAME, or an address or network; on every port. */
static int osb_policy_add_rule(json_t *rules, const json_t *rule, struct cay_err *err)
{
	json_t *action = json_object_get(rule, "action");
	const char *target = json_string_value(json_object_get(rule, "target"));

	if (!osb_is_action(action) || !target || json_object_size(rule) != 2)
		return osb_policy_refuse(err, "each entry of egress has action (allow or deny) and "
					      "target, and nothing else");
	if (strchr(target, ':'))
		return osb_policy_refuse(err, "a target is a name, *.NAME or an IPv4 network; "
					      "sandboxes have no IPv6");
	if (json_array_append_new(rules, json_pack("{s:O, s:s, s:[s]}", "action", action, "to",
						   target, "ports", "1-65535")) < 0)
		return cay_no_memory(err);
	return 0;
}

static int osb_policy_check(json_t *policy, struct cay_err *err)
{
	const json_t *otherwise = osb_policy_default(policy);
	const json_t *egress = json_object_get(policy, "egress");
	const char *key;
	json_t *v;

	json_object_foreach (policy, key, v)
		if (!str_eq(key, "egress") && !str_eq(key, "defaultAction") &&
		    !str_eq(key, "default_action"))
			return osb_policy_refuse(err, "has defaultAction and egress, and nothing "
						      "else");
	if (otherwise && !json_is_null(otherwise) && !osb_is_action(otherwise))
		return osb_policy_refuse(err, "defaultAction is allow or deny");
	if (egress && !json_is_null(egress) && !json_is_array(egress))
		return osb_policy_refuse(err, "egress is a list of rules");
	return 0;
}

int osb_create_set_policy(struct tool_run *run, struct cay_err *err)
{
	json_t *policy = json_object_get(run->args, "network_policy");
	const char *otherwise = json_string_value(osb_policy_default(policy));
	json_t *rules, *rule;
	size_t i;
	int r = policy ? osb_policy_check(policy, err) : 0;

	if (r < 0 || !policy)
		return r;
	rules = json_array();
	json_array_foreach(json_object_get(policy, "egress"), i, rule)
	{
		if (r >= 0)
			r = osb_policy_add_rule(rules, rule, err);
	}
	if (r >= 0)
		return tool_run_set(run, err, "{s:{s:o, s:s}}", "egress", "rules", rules, "default",
				    otherwise ? otherwise : "deny");
	json_decref(rules);
	return r;
}
