/* SPDX-License-Identifier: Apache-2.0 */
#include "life/egress-layers.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/port-range.h"

#define WORDS_MAX 64 /* of egress.max */

static_assert((int)EGRESS_SPEC_ALLOW == (int)EGRESS_ALLOW &&
	      (int)EGRESS_SPEC_ASK == (int)EGRESS_ASK && (int)EGRESS_SPEC_DENY == (int)EGRESS_DENY);

static const char *const action_names[] = {
	[EGRESS_ALLOW] = "allow",
	[EGRESS_ASK] = "ask",
	[EGRESS_DENY] = "deny",
};

const struct egress_preset *egress_preset_find(const struct egress_presets *presets,
					       const char *name)
{
	static const struct egress_preset none = { .name = "none",
						   .help = "No connection; the default" };

	for (size_t i = 0; i < presets->n; i++)
		if (str_eq(presets->v[i].name, name))
			return &presets->v[i];
	return str_eq(name, none.name) ? &none : NULL;
}

/* Checking */

static bool text_is_ascii(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text > 0x7f)
			return false;
	return true;
}

static int egress_term_add(struct egress_rule *rule, enum egress_term_kind kind, const char *text,
			   const char *field, struct cay_err *err)
{
	struct cay_err why = {};

	if (egress_terms_add(&rule->terms, kind, slice_of(text), &why) < 0)
		return cay_fail_field(err, CAY_E_INVALID, field, "%s", why.msg);
	return 0;
}

static int egress_rule_read_terms(const struct egress_rule_spec *spec, struct egress_rule *ret,
				  struct cay_err *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < spec->methods.n; i++)
		r = egress_term_add(ret, EGRESS_TERM_METHOD, spec->methods.v[i], "methods", err);
	for (size_t i = 0; r >= 0 && i < spec->paths.n; i++)
		r = egress_term_add(ret, EGRESS_TERM_PATH, spec->paths.v[i], "paths", err);
	if (r >= 0 && spec->credential)
		r = egress_term_add(ret, EGRESS_TERM_CREDENTIAL, spec->credential, "credential",
				    err);
	if (r >= 0 && spec->has_inspect && spec->inspect)
		r = egress_term_add(ret, EGRESS_TERM_INSPECT, "", "inspect", err);
	if (r >= 0 && (spec->methods.n || spec->paths.n) && ret->action == EGRESS_ASK)
		return cay_fail_field(err, CAY_E_INVALID, "action",
				      "a rule for some methods or paths cannot ask: a connection "
				      "waits before its first request");
	return r < 0 ? r : egress_rule_check_terms(ret, err);
}

static int egress_rule_read(const struct egress_rule_spec *spec, struct egress_rule *ret,
			    struct cay_err *err)
{
	struct cay_err why = {};

	*ret = (struct egress_rule){ .action = (enum egress_action)spec->action };
	if (!text_is_ascii(spec->to))
		return cay_fail_field(err, CAY_E_INVALID, "to",
				      "'%.200s' has letters beyond ASCII: write the name in its "
				      "'xn--' form",
				      spec->to);
	if (egress_target_parse(slice_of(spec->to), &ret->to, &why) < 0)
		return cay_fail_field(err, CAY_E_INVALID, "to", "%s", why.msg);
	if (spec->ports.n > EGRESS_PORTS_MAX)
		return cay_fail_field(err, CAY_E_INVALID, "ports", "a rule has at most %d ports",
				      EGRESS_PORTS_MAX);
	for (size_t i = 0; i < spec->ports.n; i++)
		if (port_range_parse(slice_of(spec->ports.v[i]), &ret->ports[i].from,
				     &ret->ports[i].to) < 0)
			return cay_fail_field(err, CAY_E_INVALID, "ports",
					      "'%.32s' is not a port or a range of ports",
					      spec->ports.v[i]);
	ret->n_ports = spec->ports.n;
	return egress_rule_read_terms(spec, ret, err);
}

static int egress_rule_read_at(const struct egress_spec *spec, size_t i, struct egress_rule *ret,
			       struct cay_err *err)
{
	const struct egress_rule_spec *rules = spec->rules.v;
	char at[32];
	int r = egress_rule_read(&rules[i], ret, err);

	if (r < 0 && snprintf(at, sizeof(at), "rules[%zu]", i) < (int)sizeof(at))
		cay_err_prefix_field(err, at);
	return r;
}

int egress_spec_check(const struct egress_spec *spec, const struct egress_presets *presets,
		      struct cay_err *err)
{
	struct egress_rule rule;
	size_t n = spec->rules.n;

	for (size_t i = 0; i < spec->rules.n; i++)
		if (egress_rule_read_at(spec, i, &rule, err) < 0)
			return -EINVAL;
	for (size_t i = 0; i < spec->presets.n; i++) {
		const struct egress_preset *p = egress_preset_find(presets, spec->presets.v[i]);

		if (!p)
			return cay_fail_field(err, CAY_E_INVALID, "presets",
					      "there is no preset '%.63s' on this node",
					      spec->presets.v[i]);
		n += p->n_rules;
	}
	if (n > EGRESS_RULES_MAX)
		return cay_fail_field(err, CAY_E_INVALID, "rules",
				      "there are more than %d rules, with those of presets",
				      EGRESS_RULES_MAX);
	return 0;
}

bool egress_spec_can_allow(const struct egress_spec *spec)
{
	const struct egress_rule_spec *rules = spec->rules.v;

	for (size_t i = 0; i < spec->rules.n; i++)
		if (rules[i].action != EGRESS_SPEC_DENY)
			return true;
	for (size_t i = 0; i < spec->presets.n; i++)
		if (!str_eq(spec->presets.v[i], "none"))
			return true;
	return spec->otherwise != EGRESS_SPEC_DENY;
}

bool egress_spec_has_effect(const struct egress_spec *spec)
{
	return spec->expose.n || egress_spec_can_allow(spec);
}

/* The node's policy, from words */

static bool word_is_target(struct slice word)
{
	return memchr(word.p, '.', word.n) || memchr(word.p, '*', word.n);
}

static int egress_word_add(struct slice word, struct arena *arena, struct egress_spec *to)
{
	struct egress_rule_spec *rules = to->rules.v;
	struct egress_rule_spec *rule = &rules[to->rules.n];

	if (!word_is_target(word)) {
		to->presets.v[to->presets.n] = arena_strndup(arena, word.p, word.n);
		return to->presets.v[to->presets.n++] ? 0 : -ENOMEM;
	}
	to->rules.n++;
	*rule = (struct egress_rule_spec){ .action = EGRESS_SPEC_ALLOW };
	struct slice target = slice_cut(&word, ':');

	rule->to = arena_strndup(arena, target.p, target.n);
	rule->has_ports = word.p != NULL;
	rule->ports.n = rule->has_ports;
	if (rule->has_ports)
		rule->ports.v = arena_alloc(arena, 1, sizeof(*rule->ports.v));
	if (!rule->to || (rule->has_ports && !rule->ports.v))
		return -ENOMEM;
	if (rule->has_ports)
		rule->ports.v[0] = arena_strndup(arena, word.p, word.n);
	return rule->has_ports && !rule->ports.v[0] ? -ENOMEM : 0;
}

struct egress_spec *egress_spec_from_words(const char *words, struct arena *arena,
					   struct cay_err *err)
{
	struct egress_spec *spec = arena_alloc(arena, 1, sizeof(*spec));
	struct slice rest = slice_of(words);

	if (!spec)
		return NULL;
	spec->otherwise = EGRESS_SPEC_DENY;
	spec->presets.v = arena_alloc(arena, WORDS_MAX, sizeof(*spec->presets.v));
	spec->rules.v = arena_alloc(arena, WORDS_MAX, sizeof(struct egress_rule_spec));
	if (!spec->presets.v || !spec->rules.v)
		return NULL;
	while (rest.n) {
		struct slice word = slice_cut(&rest, ' ');

		if (word.n && spec->presets.n + spec->rules.n == WORDS_MAX) {
			(void)cay_fail(err, CAY_E_INVALID, "it has more than %d words", WORDS_MAX);
			return NULL;
		}
		if (word.n && egress_word_add(word, arena, spec) < 0)
			return NULL;
	}
	spec->has_presets = true;
	return spec;
}

/* Compiling */

static int egress_layer_fill(const struct egress_spec *spec, const struct egress_presets *presets,
			     struct egress_rule *rules, size_t room, struct egress_layer *ret,
			     struct cay_err *err)
{
	size_t n = 0;

	if (spec->rules.n > room)
		return -E2BIG;
	for (; n < spec->rules.n; n++)
		if (egress_rule_read_at(spec, n, &rules[n], err) < 0)
			return -EINVAL;
	for (size_t i = 0; i < spec->presets.n; i++) {
		const struct egress_preset *p = egress_preset_find(presets, spec->presets.v[i]);

		for (size_t k = 0; p && k < p->n_rules; k++) {
			if (n == room)
				return -E2BIG;
			rules[n++] = p->rules[k];
		}
	}
	*ret = (struct egress_layer){ .otherwise = (enum egress_action)spec->otherwise,
				      .rules = rules,
				      .n_rules = n };
	return 0;
}

/* The innermost policy that says it; 0: none does. */
static uint32_t egress_layers_ask_ms(const struct egress_spec *const specs[static EGRESS_LAYER_NUM])
{
	for (size_t i = EGRESS_SANDBOX + 1; i-- > 0;)
		if (specs[i] && specs[i]->has_ask)
			return (uint32_t)specs[i]->ask.timeout_ms;
	return 0;
}

static int egress_layers_fill(const struct egress_spec *const specs[static EGRESS_LAYER_NUM],
			      const struct egress_presets *presets, struct egress_rule *rules,
			      struct egress_layer layers[static EGRESS_LAYER_NUM],
			      struct cay_err *err)
{
	size_t used = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < EGRESS_LAYER_NUM; i++) {
		layers[i] = (struct egress_layer){ .absent = true, .otherwise = EGRESS_ALLOW };
		if (specs[i])
			r = egress_layer_fill(specs[i], presets, rules + used,
					      EGRESS_RULES_MAX - used, &layers[i], err);
		used += layers[i].n_rules;
	}
	return r;
}

int egress_layers_compile(const struct egress_spec *const specs[static EGRESS_LAYER_NUM],
			  const struct egress_presets *presets, uint64_t generation,
			  struct buf *ret, struct cay_err *err)
{
	struct egress_rule *rules = calloc(EGRESS_RULES_MAX, sizeof(*rules));
	struct egress_layer layers[EGRESS_LAYER_NUM];
	const size_t begin = ret->len;
	int r;

	if (!rules)
		return cay_no_memory(err);
	r = egress_layers_fill(specs, presets, rules, layers, err);
	if (r >= 0)
		r = egress_policy_write(layers, EGRESS_LAYER_NUM, generation, ret);
	if (r >= 0)
		egress_policy_set_ask_ms(ret->data + begin, egress_layers_ask_ms(specs));
	free(rules);
	if (r == -E2BIG || r == -ENOBUFS)
		return cay_fail_field(err, CAY_E_INVALID, "rules",
				      "all layers together have more than %d rules or %d KiB",
				      EGRESS_RULES_MAX, (int)(EGRESS_POLICY_MAX / KIB(1)));
	return r == -ENOMEM ? cay_no_memory(err) : r;
}

/* Describing */

static int egress_target_write(const struct egress_target *to, struct buf *ret)
{
	uint32_t net = to->net;

	if (to->kind == EGRESS_TO_NAMES)
		return buf_puts(ret, "*");
	if (to->kind == EGRESS_TO_NET)
		return buf_printf(ret, "%u.%u.%u.%u/%u", net >> 24, net >> 16 & 255, net >> 8 & 255,
				  net & 255, to->prefix);
	return buf_printf(ret, "%s%s", to->kind == EGRESS_TO_BELOW ? "*." : "", to->name.text);
}

static int egress_terms_write(const struct egress_terms *terms, struct buf *ret)
{
	static const char *const words[EGRESS_TERM_NUM] = { [EGRESS_TERM_METHOD] = " methods=",
							    [EGRESS_TERM_PATH] = " paths=",
							    [EGRESS_TERM_CREDENTIAL] =
								    " credential=",
							    [EGRESS_TERM_INSPECT] = " inspect" };
	struct slice left = egress_terms_slice(terms);
	enum egress_term_kind last = EGRESS_TERM_NUM;
	struct egress_term t;
	int r = 0;

	while (r >= 0 && egress_terms_next(&left, &t)) {
		r = buf_puts(ret, t.kind == last ? "," : words[t.kind]);
		if (r >= 0)
			r = buf_append(ret, t.text.p, t.text.n);
		last = t.kind;
	}
	return r;
}

int egress_rule_write(const struct egress_rule *rule, struct buf *ret)
{
	int r = buf_printf(ret, "%s ", action_names[rule->action]);

	if (r >= 0)
		r = egress_target_write(&rule->to, ret);
	if (r >= 0)
		r = buf_puts(ret, rule->n_ports ? " " : " 443");
	for (size_t i = 0; r >= 0 && i < rule->n_ports; i++) {
		struct egress_ports p = rule->ports[i];

		r = p.from == p.to ? buf_printf(ret, "%s%u", i ? "," : "", p.from)
				   : buf_printf(ret, "%s%u-%u", i ? "," : "", p.from, p.to);
	}
	return r < 0 ? r : egress_terms_write(&rule->terms, ret);
}

int egress_rule_describe(const struct egress_spec *spec, const struct egress_presets *presets,
			 int rule, struct buf *ret)
{
	size_t at = (size_t)rule;
	struct egress_rule own;

	if (rule < 0)
		return -EINVAL;
	if (at < spec->rules.n)
		return egress_rule_read_at(spec, at, &own, NULL) < 0 ? -EINVAL
								     : egress_rule_write(&own, ret);
	at -= spec->rules.n;
	for (size_t i = 0; i < spec->presets.n; i++) {
		const struct egress_preset *p = egress_preset_find(presets, spec->presets.v[i]);

		if (p && at < p->n_rules)
			return egress_rule_write(&p->rules[at], ret);
		at -= p ? p->n_rules : 0;
	}
	return -EINVAL;
}
