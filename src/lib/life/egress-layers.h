/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_LIFE_EGRESS_LAYERS_H
#define CAY_LIFE_EGRESS_LAYERS_H
/*
 * egress-layers - policies as clients and operators write them, and what they compile to
 *
 * A policy (struct egress_spec) has rules, presets and a default.  It becomes a layer: its rules in
 * their order, then those of its presets, so that a rule of its own precedes a preset.  A sandbox
 * has the layers of enum egress_layer_id; a policy that is absent becomes a layer that allows
 * everything, so a layer has the same number in every compiled policy.  Pure.
 */
#include "egress/policy.h"
#include "ops/types-egress.h"

/* Rules with a name; none of them denies. */
struct egress_preset {
	const char *name, *help; /* help may be NULL */
	const struct egress_rule *rules;
	size_t n_rules;
};

struct egress_presets {
	const struct egress_preset *v;
	size_t n;
};

/* NULL if there is none; "none" always exists and has no rules. */
const struct egress_preset *egress_preset_find(const struct egress_presets *presets,
					       const char *name);
/* Whether it can be enforced; the error names the member. */
[[nodiscard]] int egress_spec_check(const struct egress_spec *spec,
				    const struct egress_presets *presets, struct cay_err *err);
/* Whether a connection exists that it does not deny, by itself; presets are not looked up. */
bool egress_spec_can_allow(const struct egress_spec *spec);
/* Whether it says anything beyond `{}`: a connection that it does not deny, or exposes. */
bool egress_spec_has_effect(const struct egress_spec *spec);
/* "git *.example.com db.example.com:5432": presets and targets to allow.  NULL: no memory, or err
 * says which word is none of these. */
[[nodiscard]] struct egress_spec *egress_spec_from_words(const char *words, struct arena *arena,
							 struct cay_err *err);
/* Append the compiled form of policies that egress_spec_check() accepted; NULL: that layer allows
 * everything.  A preset that no longer exists allows nothing. */
[[nodiscard]] int egress_layers_compile(
	const struct egress_spec *const specs[static EGRESS_LAYER_NUM],
	const struct egress_presets *presets, uint64_t generation, struct buf *ret,
	struct cay_err *err);
/* "allow api.example.com 443", for a rule of a layer that the judge returned. */
[[nodiscard]] int egress_rule_describe(const struct egress_spec *spec,
				       const struct egress_presets *presets, int rule,
				       struct buf *ret);
/* Append a rule in the form of a preset file. */
[[nodiscard]] int egress_rule_write(const struct egress_rule *rule, struct buf *ret);
#endif
