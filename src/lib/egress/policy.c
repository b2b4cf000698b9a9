/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/policy.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define POLICY_MAGIC UINT32_C(0x31475945) /* "EYG1" */
#define PORT_BY_DEFAULT 443

const char *const egress_layer_names[EGRESS_LAYER_NUM + 1] = {
	[EGRESS_NODE] = "node",       [EGRESS_TENANT] = "tenant", [EGRESS_TEMPLATE] = "template",
	[EGRESS_SANDBOX] = "sandbox", [EGRESS_LAYER_NUM] = NULL,
};

/* The compiled form; numbers are in the machine's byte order, both programs run on one. */
struct policy_head {
	uint32_t magic;
	uint32_t size; /* of all */
	uint64_t generation;
	uint16_t n_layers, n_rules;
	uint32_t zero;
};
static_assert(sizeof(struct policy_head) == 24);

struct policy_layer_row {
	uint16_t n_rules;
	uint8_t otherwise;
	uint8_t zero;
};
static_assert(sizeof(struct policy_layer_row) == 4);

struct policy_rule_row {
	uint8_t action, kind;
	uint8_t n;       /* length of the name, or of the prefix */
	uint8_t n_ports; /* at least 1 */
	uint32_t at;     /* offset of the name in all, or the network */
	struct egress_ports ports[EGRESS_PORTS_MAX];
};
static_assert(sizeof(struct policy_rule_row) == 24);

/* Rules */

static bool target_has_name(unsigned kind)
{
	return kind == EGRESS_TO_NAME || kind == EGRESS_TO_BELOW;
}

static uint32_t prefix_mask(unsigned prefix)
{
	return prefix ? UINT32_MAX << (32 - prefix) : 0;
}

/* Four numbers without leading zeros, so that no two readers disagree. */
static int address_parse(struct slice text, uint32_t *ret)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < 4; i++) {
		struct slice one = slice_cut(&text, '.');
		uint64_t v;

		if (!one.p || !one.n || (one.n > 1 && one.p[0] == '0') || !(i == 3) != !!text.p ||
		    str_parse_u64(one, 0, 255, &v) < 0)
			return -EINVAL;
		sum = sum << 8 | (uint32_t)v;
	}
	*ret = sum;
	return 0;
}

static int net_parse(struct slice text, struct egress_target *ret)
{
	struct slice address = slice_cut(&text, '/');
	uint64_t prefix = 32;

	if (address_parse(address, &ret->net) < 0 ||
	    (text.p && str_parse_u64(text, 0, 32, &prefix) < 0) ||
	    ret->net & ~prefix_mask((unsigned)prefix))
		return -EINVAL;
	ret->kind = EGRESS_TO_NET;
	ret->prefix = (uint8_t)prefix;
	return 0;
}

int egress_target_parse(struct slice text, struct egress_target *ret, struct cay_err *err)
{
	struct slice below = { text.p + 2, text.n - 2 };

	*ret = (struct egress_target){};
	if (slice_eq(text, SLICE("*"))) {
		ret->kind = EGRESS_TO_NAMES;
		return 0;
	}
	if (text.n > 2 && memcmp(text.p, "*.", 2) == 0) {
		ret->kind = EGRESS_TO_BELOW;
		if (host_name_parse(below, &ret->name) == 0)
			return 0;
	} else if (net_parse(text, ret) == 0 || host_name_parse(text, &ret->name) == 0) {
		return 0;
	}
	return cay_fail(err, CAY_E_INVALID,
			"expected a name such as api.example.com, *.example.com, *, or an IPv4 "
			"network such as 192.0.2.0/24");
}

/* Writing */

static int policy_write_rule(const struct egress_rule *rule, uint32_t *name_at, struct buf *out)
{
	struct policy_rule_row row = { .action = (uint8_t)rule->action,
				       .kind = (uint8_t)rule->to.kind,
				       .n_ports = (uint8_t)rule->n_ports };

	if (rule->n_ports > EGRESS_PORTS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < rule->n_ports; i++)
		row.ports[i] = rule->ports[i];
	if (!row.n_ports)
		row.ports[row.n_ports++] =
			(struct egress_ports){ PORT_BY_DEFAULT, PORT_BY_DEFAULT };
	if (target_has_name(row.kind)) {
		row.n = rule->to.name.n;
		row.at = *name_at;
		*name_at += row.n;
	} else if (row.kind == EGRESS_TO_NET) {
		row.n = rule->to.prefix;
		row.at = rule->to.net;
	}
	return buf_append(out, &row, sizeof(row));
}

static int policy_write_layers(const struct egress_layer *layers, size_t n, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct policy_layer_row row = { .n_rules = (uint16_t)layers[i].n_rules,
						.otherwise = (uint8_t)layers[i].otherwise };

		r = buf_append(out, &row, sizeof(row));
	}
	return r;
}

static int policy_write_names(const struct egress_layer *layers, size_t n, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; r >= 0 && k < layers[i].n_rules; k++) {
			const struct egress_target *to = &layers[i].rules[k].to;

			if (target_has_name(to->kind))
				r = buf_append(out, to->name.text, to->name.n);
		}
	return r;
}

int egress_policy_write(const struct egress_layer *layers, size_t n, uint64_t generation,
			struct buf *ret)
{
	struct policy_head head = { .magic = POLICY_MAGIC,
				    .generation = generation,
				    .n_layers = (uint16_t)n };
	size_t begin = ret->len, rules = 0;
	uint32_t name_at;
	int r;

	for (size_t i = 0; i < n && n <= EGRESS_LAYERS_MAX; i++)
		rules += layers[i].n_rules;
	if (!n || n > EGRESS_LAYERS_MAX || rules > EGRESS_RULES_MAX)
		return -E2BIG;
	head.n_rules = (uint16_t)rules;
	name_at = (uint32_t)(sizeof(head) + n * sizeof(struct policy_layer_row) +
			     rules * sizeof(struct policy_rule_row));
	r = buf_append(ret, &head, sizeof(head));
	if (r >= 0)
		r = policy_write_layers(layers, n, ret);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; r >= 0 && k < layers[i].n_rules; k++)
			r = policy_write_rule(&layers[i].rules[k], &name_at, ret);
	if (r >= 0)
		r = policy_write_names(layers, n, ret);
	if (r >= 0 && ret->len - begin > EGRESS_POLICY_MAX)
		r = -E2BIG;
	if (r < 0)
		return r;
	head.size = (uint32_t)(ret->len - begin);
	memcpy(ret->data + begin, &head, sizeof(head));
	return 0;
}

/* Reading */

static struct policy_head policy_head(struct slice policy)
{
	struct policy_head head;

	memcpy(&head, policy.p, sizeof(head));
	return head;
}

static struct policy_layer_row policy_layer(struct slice policy, size_t i)
{
	struct policy_layer_row row;

	memcpy(&row, policy.p + sizeof(struct policy_head) + i * sizeof(row), sizeof(row));
	return row;
}

static struct policy_rule_row policy_rule(struct slice policy, size_t n_layers, size_t i)
{
	struct policy_rule_row row;

	memcpy(&row,
	       policy.p + sizeof(struct policy_head) + n_layers * sizeof(struct policy_layer_row) +
		       i * sizeof(row),
	       sizeof(row));
	return row;
}

static bool policy_rule_is_valid(struct slice policy, const struct policy_rule_row *row)
{
	struct host_name name;

	if (row->action >= EGRESS_ACTION_NUM || row->kind >= EGRESS_TARGET_NUM || !row->n_ports ||
	    row->n_ports > EGRESS_PORTS_MAX)
		return false;
	for (size_t i = 0; i < EGRESS_PORTS_MAX; i++) {
		struct egress_ports p = row->ports[i];

		if (i < row->n_ports ? !p.from || p.from > p.to : p.from || p.to)
			return false;
	}
	if (row->kind == EGRESS_TO_NAMES)
		return !row->n && !row->at;
	if (row->kind == EGRESS_TO_NET)
		return row->n <= 32 && !(row->at & ~prefix_mask(row->n));
	return row->at <= policy.n && row->n <= policy.n - row->at &&
	       host_name_parse((struct slice){ policy.p + row->at, row->n }, &name) == 0 &&
	       memcmp(name.text, policy.p + row->at, row->n) == 0;
}

int egress_policy_check(struct slice policy)
{
	struct policy_head head;
	size_t rules = 0;

	if (policy.n < sizeof(head) || policy.n > EGRESS_POLICY_MAX)
		return -EBADMSG;
	head = policy_head(policy);
	if (head.magic != POLICY_MAGIC || head.size != policy.n || head.zero || !head.n_layers ||
	    head.n_layers > EGRESS_LAYERS_MAX || head.n_rules > EGRESS_RULES_MAX ||
	    policy.n - sizeof(head) < head.n_layers * sizeof(struct policy_layer_row) +
					      head.n_rules * sizeof(struct policy_rule_row))
		return -EBADMSG;
	for (size_t i = 0; i < head.n_layers; i++) {
		struct policy_layer_row row = policy_layer(policy, i);

		if (row.otherwise >= EGRESS_ACTION_NUM || row.zero)
			return -EBADMSG;
		rules += row.n_rules;
	}
	if (rules != head.n_rules)
		return -EBADMSG;
	for (size_t i = 0; i < rules; i++) {
		struct policy_rule_row row = policy_rule(policy, head.n_layers, i);

		if (!policy_rule_is_valid(policy, &row))
			return -EBADMSG;
	}
	return 0;
}

uint64_t egress_policy_generation(struct slice policy)
{
	return policy_head(policy).generation;
}

/* Judging: name NULL for an address. */

static bool rule_has_port(const struct policy_rule_row *row, uint16_t port)
{
	for (size_t i = 0; i < row->n_ports; i++)
		if (port >= row->ports[i].from && port <= row->ports[i].to)
			return true;
	return false;
}

static bool rule_has_name(struct slice policy, const struct policy_rule_row *row,
			  const struct host_name *name)
{
	struct slice text = { policy.p + row->at, row->n };

	switch ((enum egress_target_kind)row->kind) {
	case EGRESS_TO_NAMES:
		return true;
	case EGRESS_TO_NAME:
		return host_name_eq(name, text);
	case EGRESS_TO_BELOW:
		return host_name_is_below(name, text);
	case EGRESS_TO_NET:
	case EGRESS_TARGET_NUM:
		break;
	}
	return false;
}

static bool rule_has_address(const struct policy_rule_row *row, uint32_t address)
{
	return row->kind == EGRESS_TO_NET && (address & prefix_mask(row->n)) == row->at;
}

static struct egress_verdict policy_judge(struct slice policy, const struct host_name *name,
					  uint32_t address, uint16_t port)
{
	struct policy_head head = policy_head(policy);
	struct egress_verdict strictest = { .action = EGRESS_ALLOW };
	size_t first = 0;

	for (unsigned i = 0; i < head.n_layers; i++) {
		struct policy_layer_row layer = policy_layer(policy, i);
		struct egress_verdict v = { (enum egress_action)layer.otherwise, i, -1 };

		for (size_t k = 0; k < layer.n_rules && v.rule < 0; k++) {
			struct policy_rule_row row = policy_rule(policy, head.n_layers, first + k);

			if (rule_has_port(&row, port) && (name ? rule_has_name(policy, &row, name)
							       : rule_has_address(&row, address)))
				v = (struct egress_verdict){ (enum egress_action)row.action, i,
							     (int)k };
		}
		first += layer.n_rules;
		if (i == 0 || v.action > strictest.action)
			strictest = v;
	}
	return strictest;
}

struct egress_verdict egress_judge_name(struct slice policy, const struct host_name *name,
					uint16_t port)
{
	return policy_judge(policy, name, 0, port);
}

struct egress_verdict egress_judge_address(struct slice policy, uint32_t address, uint16_t port)
{
	return policy_judge(policy, NULL, address, port);
}

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

/* Remove from *ret the ports on which this layer denies the name. */
static void layer_remove_denied(struct slice policy, struct policy_layer_row layer, size_t first,
				const struct host_name *name, struct port_set *ret)
{
	struct policy_head head = policy_head(policy);
	struct port_set decided = {}, good = {};

	for (size_t k = 0; k < layer.n_rules; k++) {
		struct policy_rule_row row = policy_rule(policy, head.n_layers, first + k);

		if (!rule_has_name(policy, &row, name))
			continue;
		for (size_t i = 0; row.action != EGRESS_DENY && i < row.n_ports; i++)
			port_set_add(&good, row.ports[i], &decided);
		for (size_t i = 0; i < row.n_ports; i++)
			port_set_add(&decided, row.ports[i], &decided);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ret->words); i++)
		ret->words[i] &=
			good.words[i] | (layer.otherwise == EGRESS_DENY ? 0 : ~decided.words[i]);
}

bool egress_name_may_connect(struct slice policy, const struct host_name *name)
{
	struct policy_head head = policy_head(policy);
	struct port_set left = {};
	size_t first = 0;
	uint64_t any = 0;

	port_set_add(&left, (struct egress_ports){ 1, UINT16_MAX }, &left);
	for (unsigned i = 0; i < head.n_layers; i++) {
		struct policy_layer_row layer = policy_layer(policy, i);

		layer_remove_denied(policy, layer, first, name, &left);
		first += layer.n_rules;
	}
	for (size_t i = 0; i < ARRAY_SIZE(left.words); i++)
		any |= left.words[i];
	return any;
}
