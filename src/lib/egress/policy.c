/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/policy-internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define POLICY_MAGIC UINT32_C(0x32475945) /* "EYG2" */
#define PORT_BY_DEFAULT 443
#define PORT_OF_HTTP 80

const char *const egress_layer_names[EGRESS_LAYER_NUM + 1] = {
	[EGRESS_NODE] = "node",       [EGRESS_TENANT] = "tenant",   [EGRESS_TEMPLATE] = "template",
	[EGRESS_SANDBOX] = "sandbox", [EGRESS_ANSWERS] = "answers", [EGRESS_LAYER_NUM] = NULL,
};

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

static bool target_is_of_group(const struct egress_target *to)
{
	struct slice label;

	return target_has_name(to->kind) && (host_name_eq(&to->name, SLICE(HOST_GROUP_PARENT)) ||
					     host_name_is_of_group(&to->name, &label));
}

int egress_rule_check_terms(const struct egress_rule *rule, struct cay_err *err)
{
	const bool has_credential = egress_terms_credential(egress_terms_slice(&rule->terms)).n;

	if (!rule->terms.n)
		return 0;
	if (target_is_of_group(&rule->to))
		return cay_fail_field(err, CAY_E_INVALID, "to",
				      "requests to sandboxes of the group are not read");
	if (rule->to.kind == EGRESS_TO_NET)
		return cay_fail_field(err, CAY_E_INVALID, "to",
				      "requests are read for names only, not for networks");
	for (size_t i = 0; i < rule->n_ports; i++) {
		const struct egress_ports p = rule->ports[i];

		if (p.from != p.to ||
		    (p.from != PORT_BY_DEFAULT && (p.from != PORT_OF_HTTP || has_credential)))
			return cay_fail_field(err, CAY_E_INVALID, "ports",
					      "requests are read on the ports 80 and 443, and "
					      "credentials set on 443 alone");
	}
	return 0;
}

/* Writing */

static int policy_write_rule(const struct egress_rule *rule, uint32_t *text_at, struct buf *out)
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
		row.at = *text_at;
		*text_at += row.n;
	} else if (row.kind == EGRESS_TO_NET) {
		row.n = rule->to.prefix;
		row.at = rule->to.net;
	}
	row.n_terms = rule->terms.n;
	row.terms_at = row.n_terms ? *text_at : 0;
	*text_at += row.n_terms;
	return buf_append(out, &row, sizeof(row));
}

static int policy_write_layers(const struct egress_layer *layers, size_t n, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct policy_layer_row row = { .n_rules = (uint16_t)layers[i].n_rules,
						.otherwise = (uint8_t)layers[i].otherwise,
						.absent = layers[i].absent };

		r = buf_append(out, &row, sizeof(row));
	}
	return r;
}

static int policy_write_texts(const struct egress_layer *layers, size_t n, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; r >= 0 && k < layers[i].n_rules; k++) {
			const struct egress_rule *rule = &layers[i].rules[k];

			if (target_has_name(rule->to.kind))
				r = buf_append(out, rule->to.name.text, rule->to.name.n);
			if (r >= 0)
				r = buf_append(out, rule->terms.bytes, rule->terms.n);
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
	uint32_t text_at;
	int r;

	for (size_t i = 0; i < n && n <= EGRESS_LAYERS_MAX; i++)
		rules += layers[i].n_rules;
	if (!n || n > EGRESS_LAYERS_MAX || rules > EGRESS_RULES_MAX)
		return -E2BIG;
	head.n_rules = (uint16_t)rules;
	text_at = (uint32_t)(sizeof(head) + n * sizeof(struct policy_layer_row) +
			     rules * sizeof(struct policy_rule_row));
	r = buf_append(ret, &head, sizeof(head));
	if (r >= 0)
		r = policy_write_layers(layers, n, ret);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; r >= 0 && k < layers[i].n_rules; k++)
			r = policy_write_rule(&layers[i].rules[k], &text_at, ret);
	if (r >= 0)
		r = policy_write_texts(layers, n, ret);
	if (r >= 0 && ret->len - begin > EGRESS_POLICY_MAX)
		r = -E2BIG;
	if (r < 0)
		return r;
	head.size = (uint32_t)(ret->len - begin);
	memcpy(ret->data + begin, &head, sizeof(head));
	return 0;
}

/* Reading */

struct policy_head policy_head(struct slice policy)
{
	struct policy_head head;

	memcpy(&head, policy.p, sizeof(head));
	return head;
}

struct policy_layer_row policy_layer(struct slice policy, size_t i)
{
	struct policy_layer_row row;

	memcpy(&row, policy.p + sizeof(struct policy_head) + i * sizeof(row), sizeof(row));
	return row;
}

struct policy_rule_row policy_rule(struct slice policy, size_t n_layers, size_t i)
{
	struct policy_rule_row row;

	memcpy(&row,
	       policy.p + sizeof(struct policy_head) + n_layers * sizeof(struct policy_layer_row) +
		       i * sizeof(row),
	       sizeof(row));
	return row;
}

struct slice rule_terms(struct slice policy, const struct policy_rule_row *row)
{
	return row->n_terms ? (struct slice){ policy.p + row->terms_at, row->n_terms }
			    : (struct slice){};
}

static bool policy_terms_are_valid(struct slice policy, const struct policy_rule_row *row)
{
	if (row->zero || !row->n_terms)
		return !row->zero && !row->terms_at;
	return row->terms_at <= policy.n && row->n_terms <= policy.n - row->terms_at &&
	       egress_terms_are_valid(rule_terms(policy, row));
}

static bool policy_rule_is_valid(struct slice policy, const struct policy_rule_row *row)
{
	struct host_name name;

	if (!policy_terms_are_valid(policy, row) || row->action >= EGRESS_ACTION_NUM ||
	    row->kind >= EGRESS_TARGET_NUM || !row->n_ports || row->n_ports > EGRESS_PORTS_MAX)
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
	if (head.magic != POLICY_MAGIC || head.size != policy.n ||
	    head.ask_ms > EGRESS_ASK_MS_MAX || !head.n_layers ||
	    head.n_layers > EGRESS_LAYERS_MAX || head.n_rules > EGRESS_RULES_MAX ||
	    policy.n - sizeof(head) < head.n_layers * sizeof(struct policy_layer_row) +
					      head.n_rules * sizeof(struct policy_rule_row))
		return -EBADMSG;
	for (size_t i = 0; i < head.n_layers; i++) {
		struct policy_layer_row row = policy_layer(policy, i);

		if (row.otherwise >= EGRESS_ACTION_NUM || row.absent > 1 ||
		    (row.absent && (row.n_rules || row.otherwise != EGRESS_ALLOW)))
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

void egress_policy_set_ask_ms(char *policy, uint32_t ms)
{
	memcpy(policy + offsetof(struct policy_head, ask_ms), &ms, sizeof(ms));
}

uint32_t egress_policy_ask_ms(struct slice policy)
{
	const uint32_t ms = policy_head(policy).ask_ms;

	return ms ? ms : EGRESS_ASK_MS;
}

/* Judging */

unsigned policy_layer_otherwise(const struct policy_layer_row *row, const struct host_name *name)
{
	struct slice label;

	return name && !row->absent && host_name_is_of_group(name, &label) ? EGRESS_DENY
									   : row->otherwise;
}

bool rule_has_port(const struct policy_rule_row *row, uint16_t port)
{
	for (size_t i = 0; i < row->n_ports; i++)
		if (port >= row->ports[i].from && port <= row->ports[i].to)
			return true;
	return false;
}

bool rule_has_name(struct slice policy, const struct policy_rule_row *row,
		   const struct host_name *name)
{
	struct slice text = { policy.p + row->at, row->n }, label;

	switch ((enum egress_target_kind)row->kind) {
	case EGRESS_TO_NAMES:
		return !host_name_is_of_group(name, &label);
	case EGRESS_TO_NAME:
		return host_name_eq(name, text);
	case EGRESS_TO_BELOW: /* of a group: not by a rule that is for more than groups */
		return host_name_is_below(name, text) && (!host_name_is_of_group(name, &label) ||
							  text.n >= sizeof(HOST_GROUP_PARENT) - 1);
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

#define NO_RULE_YET (-2)

/* The connection or request to judge: name NULL for an address; rq NULL for a connection. */
struct judged {
	const struct host_name *name;
	uint32_t address;
	uint16_t port;
	const struct egress_request *rq;
	struct slice credential;
};

static bool rule_is_for(struct slice policy, const struct policy_rule_row *row,
			const struct judged *what)
{
	return rule_has_port(row, what->port) &&
	       (what->name ? rule_has_name(policy, row, what->name)
			   : rule_has_address(row, what->address));
}

/* Of a connection: a rule for some requests may decide about them, so those behind it are looked at
 * as well. */
static bool rule_decides(struct slice terms, struct egress_verdict *mildest,
			 struct egress_verdict v)
{
	mildest->inspect |= terms.n > 0;
	if (v.action < mildest->action || mildest->rule == NO_RULE_YET) {
		v.inspect = mildest->inspect;
		*mildest = v;
	}
	return !egress_terms_select(terms);
}

static bool rule_decides_request(struct slice terms, struct judged *what,
				 struct egress_verdict *ret, struct egress_verdict v)
{
	const enum egress_match match = egress_terms_match(terms, what->rq);
	const struct slice credential = egress_terms_credential(terms);

	if (match == EGRESS_NO_MATCH)
		return false;
	*ret = v;
	if (match == EGRESS_UNCLEAR)
		ret->action = EGRESS_DENY;
	if (credential.n)
		what->credential = credential;
	return true;
}

static struct egress_verdict layer_judge(struct slice policy, struct policy_layer_row layer,
					 unsigned number, size_t first, struct judged *what)
{
	const size_t n_layers = policy_head(policy).n_layers;
	struct egress_verdict v = { EGRESS_DENY, number, NO_RULE_YET, false };
	struct egress_verdict otherwise = {
		(enum egress_action)policy_layer_otherwise(&layer, what->name), number, -1, false
	};
	bool decided = false;

	for (size_t k = 0; k < layer.n_rules && !decided; k++) {
		struct policy_rule_row row = policy_rule(policy, n_layers, first + k);
		struct slice terms = rule_terms(policy, &row);
		struct egress_verdict by = { (enum egress_action)row.action, number, (int)k,
					     false };

		if (rule_is_for(policy, &row, what))
			decided = what->rq ? rule_decides_request(terms, what, &v, by)
					   : rule_decides(terms, &v, by);
	}
	if (!decided)
		(void)rule_decides((struct slice){}, &v, otherwise);
	return v;
}

static struct egress_verdict policy_judge(struct slice policy, struct judged *what)
{
	struct policy_head head = policy_head(policy);
	struct egress_verdict strictest = { .action = EGRESS_ALLOW };
	bool inspect = false;
	size_t first = 0;

	for (unsigned i = 0; i < head.n_layers; i++) {
		struct policy_layer_row layer = policy_layer(policy, i);
		struct egress_verdict v = layer_judge(policy, layer, i, first, what);

		first += layer.n_rules;
		inspect |= v.inspect;
		if (i == EGRESS_ANSWERS ? strictest.action == EGRESS_ASK && v.rule >= 0
					: i == 0 || v.action > strictest.action)
			strictest = v;
	}
	strictest.inspect = inspect;
	return strictest;
}

struct egress_verdict egress_judge_name(struct slice policy, const struct host_name *name,
					uint16_t port)
{
	return policy_judge(policy, &(struct judged){ .name = name, .port = port });
}

struct egress_verdict egress_judge_request(struct slice policy, const struct host_name *name,
					   uint16_t port, const struct egress_request *rq,
					   struct slice *ret_credential)
{
	struct judged what = { .name = name, .port = port, .rq = rq };
	struct egress_verdict v = policy_judge(policy, &what);

	*ret_credential = what.credential;
	return v;
}

struct egress_verdict egress_judge_address(struct slice policy, uint32_t address, uint16_t port)
{
	return policy_judge(policy, &(struct judged){ .address = address, .port = port });
}

bool egress_policy_inspects(struct slice policy)
{
	struct policy_head head = policy_head(policy);

	for (size_t i = 0; i < head.n_rules; i++)
		if (policy_rule(policy, head.n_layers, i).n_terms)
			return true;
	return false;
}

static bool layer_allows_every_name(struct slice policy, struct policy_layer_row layer,
				    size_t first, uint16_t port)
{
	struct policy_head head = policy_head(policy);

	for (size_t k = 0; k < layer.n_rules; k++) {
		struct policy_rule_row row = policy_rule(policy, head.n_layers, first + k);

		if (row.kind == EGRESS_TO_NET || !rule_has_port(&row, port))
			continue;
		if (row.action != EGRESS_ALLOW || row.n_terms)
			return false;
		if (row.kind == EGRESS_TO_NAMES)
			return true;
	}
	return layer.otherwise == EGRESS_ALLOW;
}

bool egress_allows_every_name(struct slice policy, uint16_t port)
{
	struct policy_head head = policy_head(policy);
	size_t first = 0;

	for (unsigned i = 0; i < head.n_layers && i < EGRESS_ANSWERS; i++) {
		struct policy_layer_row layer = policy_layer(policy, i);

		if (!layer_allows_every_name(policy, layer, first, port))
			return false;
		first += layer.n_rules;
	}
	return true;
}
