/* SPDX-License-Identifier: Apache-2.0 */
/* policy-ports - the verdict about a name on all ports */
#include "egress/policy-internal.h"

/* A bit for each port. */
struct port_set {
	uint64_t words[1024];
};

/* Add the ports of a range that `not` does not have. */
static void port_set_add(struct port_set *set, struct egress_ports range,
			 const struct port_set * not)
{
	for (unsigned i = range.from / 64; i <= range.to / 64; i++) {
		uint64_t bits = UINT64_MAX;

		if (i == range.from / 64)
			bits &= UINT64_MAX << range.from % 64;
		if (i == range.to / 64)
			bits &= UINT64_MAX >> (63 - range.to % 64);
		set->words[i] |= bits & ~not->words[i];
	}
}

static bool port_set_is_empty(const struct port_set *set)
{
	uint64_t any = 0;

	for (size_t i = 0; i < ARRAY_SIZE(set->words); i++)
		any |= set->words[i];
	return !any;
}

/* Remove from *ret the ports on which this layer's verdict about the name is above `most`; `first`
 * is the number of its first rule among all. */
static void layer_remove_stricter(struct slice policy, unsigned layer, size_t first,
				  const struct host_name *name, enum egress_action most,
				  struct port_set *ret)
{
	const size_t n_layers = policy_head(policy).n_layers;
	const struct policy_layer_row row = policy_layer(policy, layer);
	const unsigned otherwise =
		layer == EGRESS_ANSWERS ? EGRESS_ASK : policy_layer_otherwise(&row, name);
	struct port_set decided = {}, good = {};

	for (size_t k = 0; k < row.n_rules; k++) {
		struct policy_rule_row rule = policy_rule(policy, n_layers, first + k);

		if (!rule_has_name(policy, &rule, name))
			continue;
		for (size_t i = 0; rule.action <= most && i < rule.n_ports; i++)
			port_set_add(&good, rule.ports[i], &decided);
		if (egress_terms_select(rule_terms(policy, &rule)))
			continue; /* other rules decide about other requests */
		for (size_t i = 0; i < rule.n_ports; i++)
			port_set_add(&decided, rule.ports[i], &decided);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ret->words); i++)
		ret->words[i] &= good.words[i] | (otherwise > most ? 0 : ~decided.words[i]);
}

/* The ports on which no layer's verdict is above `most`; those of the answers apart. */
static size_t policy_get_ports(struct slice policy, const struct host_name *name,
			       enum egress_action most, struct port_set *ret)
{
	size_t first = 0;

	*ret = (struct port_set){};
	port_set_add(ret, (struct egress_ports){ 1, UINT16_MAX }, ret);
	for (unsigned i = 0; i < policy_head(policy).n_layers && i < EGRESS_ANSWERS; i++) {
		layer_remove_stricter(policy, i, first, name, most, ret);
		first += policy_layer(policy, i).n_rules;
	}
	return first;
}

enum egress_action egress_judge_name_on_any_port(struct slice policy, const struct host_name *name)
{
	struct port_set asked, answered;
	size_t first = policy_get_ports(policy, name, EGRESS_ALLOW, &asked);

	if (!port_set_is_empty(&asked))
		return EGRESS_ALLOW;
	(void)policy_get_ports(policy, name, EGRESS_ASK, &asked);
	if (policy_head(policy).n_layers > EGRESS_ANSWERS) {
		answered = asked;
		layer_remove_stricter(policy, EGRESS_ANSWERS, first, name, EGRESS_ALLOW, &answered);
		if (!port_set_is_empty(&answered))
			return EGRESS_ALLOW;
		layer_remove_stricter(policy, EGRESS_ANSWERS, first, name, EGRESS_ASK, &asked);
	}
	return port_set_is_empty(&asked) ? EGRESS_DENY : EGRESS_ASK;
}
