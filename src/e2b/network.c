/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/network.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/str.h"
#include "text/json.h"

#define EVERYTHING "0.0.0.0/0"
#define RULES_MAX 256
#define TO_MAX 256

static const char *const network_unsupported[] = { "rules", "egressProxy", "maskRequestHost",
						   "httpsPorts" };

static bool network_is_given(const json_t *m)
{
	return m && !json_is_null(m) && !json_is_false(m) &&
	       !(json_is_object(m) && !json_object_size(m)) &&
	       !(json_is_array(m) && !json_array_size(m));
}

static int network_check(const json_t *network, struct cay_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(network_unsupported); i++)
		if (network_is_given(json_object_get(network, network_unsupported[i])))
			return cay_fail(err, CAY_E_INVALID, "network.%s is not supported by Cay",
					network_unsupported[i]);
	return 0;
}

static int network_read_denied(const json_t *list, bool *ret_all, struct cay_err *err)
{
	json_t *row;
	size_t i;

	if (list && !json_is_null(list) && !json_is_array(list))
		return cay_fail(err, CAY_E_INVALID, "denyOut is not a list");
	json_array_foreach((json_t *)(uintptr_t)list, i, row)
	{
		if (!json_text_eq(row, EVERYTHING))
			return cay_fail(err, CAY_E_INVALID,
					"denyOut can only be " EVERYTHING
					" with Cay; list in allowOut what is allowed");
		*ret_all = true;
	}
	return 0;
}

/* An address is a network of one. */
static int network_add_rule(const json_t *to, json_t *rules, struct cay_err *err)
{
	const char *text = json_string_value(to);
	struct in_addr address;
	char name[TO_MAX];
	int n;

	if (!text || !text[0] || strlen(text) >= TO_MAX - 4)
		return cay_fail(err, CAY_E_INVALID, "allowOut has an entry that is no text");
	n = snprintf(name, sizeof(name), "%s%s", text,
		     inet_pton(AF_INET, text, &address) == 1 ? "/32" : "");
	if (n < 0 || json_array_append_new(rules, json_pack("{s:s,s:s,s:[s]}", "action", "allow",
							    "to", name, "ports", "1-65535")) < 0)
		return cay_no_memory(err);
	return 0;
}

static int network_add_rules(const json_t *list, json_t *rules, struct cay_err *err)
{
	json_t *row;
	size_t i;
	int r = 0;

	if (list && !json_is_null(list) && !json_is_array(list))
		return cay_fail(err, CAY_E_INVALID, "allowOut is not a list");
	if (json_array_size(list) > RULES_MAX)
		return cay_fail(err, CAY_E_INVALID, "allowOut has more than %d entries", RULES_MAX);
	json_array_foreach((json_t *)(uintptr_t)list, i, row) r =
		r < 0 ? r : network_add_rule(row, rules, err);
	return r;
}

int network_to_egress(const json_t *network, const json_t *internet, json_t **ret,
		      struct cay_err *err)
{
	bool all = json_is_false(internet);
	json_t *rules = NULL;
	int r = 0;

	*ret = NULL;
	if (network && !json_is_null(network) && !json_is_object(network))
		return cay_fail(err, CAY_E_INVALID, "network is not an object");
	if (json_is_object(network))
		r = network_check(network, err);
	if (r >= 0)
		r = network_read_denied(json_object_get(network, "denyOut"), &all, err);
	rules = json_array();
	if (r >= 0)
		r = rules ? network_add_rules(json_object_get(network, "allowOut"), rules, err)
			  : cay_no_memory(err);
	/* without a denial the list allows what is allowed anyway */
	if (r >= 0 && all) {
		*ret = json_array_size(rules)
			       ? json_pack("{s:O,s:s}", "rules", rules, "default", "deny")
			       : json_object();
		r = *ret ? 0 : cay_no_memory(err);
	}
	json_decref(rules);
	return r;
}
