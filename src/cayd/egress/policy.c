/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/egress/policy.h"

#include "cayd/egress/egress-link.h"
#include "cayd/egress/preset-files.h"

#define NODE_ARENA_MAX MIB(8) /* 64 presets of 256 rules */

struct egress {
	struct egress_presets presets;
	struct egress_spec *node; /* egress.max; NULL: everything */
	struct arena arena;
};

int egress_open(struct cayd *c, struct cay_err *err)
{
	struct egress *e = calloc(1, sizeof(*e));
	const struct settings *s = &c->settings;

	c->egress = e;
	if (!e)
		return cay_no_memory(err);
	e->arena = ARENA_INIT(NODE_ARENA_MAX);
	if (preset_files_read(s->egress_dir, &e->arena, &e->presets, err) < 0)
		return -EINVAL;
	if (!egress_preset_find(&e->presets, s->egress_default))
		return cay_fail(err, CAY_E_INVALID, "egress.default: there is no preset '%s'",
				s->egress_default);
	if (!s->egress_max[0])
		return 0;
	e->node = egress_spec_from_words(s->egress_max, &e->arena, err);
	if (e->node && egress_spec_check(e->node, &e->presets, err) >= 0)
		return 0;
	return err->code ? cay_err_wrap(err, -EINVAL, "egress.max") : cay_no_memory(err);
}

const struct egress_presets *egress_get_presets(const struct cayd *c)
{
	return &c->egress->presets;
}

int egress_policy_check_spec(const struct cayd *c, const struct egress_spec *spec,
			     const char *field, struct cay_err *err)
{
	int r = egress_spec_check(spec, &c->egress->presets, err);

	if (r < 0)
		cay_err_prefix_field(err, field);
	return r;
}

int egress_apply_default(const struct cayd *c, struct sandbox_create *spec, struct arena *arena)
{
	const char **preset;

	if (spec->has_egress || spec->template_egress || str_eq(c->settings.egress_default, "none"))
		return 0;
	preset = arena_alloc(arena, 1, sizeof(*preset));
	if (!preset)
		return -ENOMEM;
	*preset = c->settings.egress_default;
	spec->has_egress = spec->egress_is_default = true;
	spec->egress = (struct egress_spec){ .presets = { preset, 1 },
					     .has_presets = true,
					     .otherwise = EGRESS_SPEC_DENY };
	return 0;
}

bool egress_policies_can_allow(const struct egress_spec *own, const struct egress_spec *template)
{
	return (own || template) && (!own || egress_spec_can_allow(own)) &&
	       (!template || egress_spec_can_allow(template));
}

void egress_get_layers(const struct cayd *c, const struct egress_spec *own,
		       const struct egress_spec *template,
		       const struct egress_spec *ret[static EGRESS_LAYER_NUM])
{
	static const struct egress_spec nothing = { .otherwise = EGRESS_SPEC_DENY };

	ret[EGRESS_NODE] = c->egress->node;
	ret[EGRESS_TENANT] = NULL;
	ret[EGRESS_TEMPLATE] = template;
	ret[EGRESS_SANDBOX] = own || template ? own : &nothing;
}

int egress_compile(const struct cayd *c, const struct egress_spec *own,
		   const struct egress_spec *template, uint64_t generation, struct buf *ret,
		   struct cay_err *err)
{
	const struct egress_spec *layers[EGRESS_LAYER_NUM];

	egress_get_layers(c, own, template, layers);
	return egress_layers_compile(layers, &c->egress->presets, generation, ret, err);
}

/* The policies of a create: those of the sandbox and of its template. */
int egress_create_check(const struct cayd *c, const struct sandbox_create *spec,
			struct cay_err *err)
{
	auto_buf compiled = BUF_INIT(EGRESS_POLICY_MAX);
	const struct egress_spec *own = spec->has_egress ? &spec->egress : NULL;
	int r = own ? egress_policy_check_spec(c, own, "egress", err) : 0;

	if (r < 0 || !egress_policies_can_allow(own, spec->template_egress))
		return r;
	r = egress_compile(c, own, spec->template_egress, SANDBOX_FIRST_GENERATION, &compiled, err);
	if (r < 0)
		cay_err_prefix_field(err, "egress");
	return r;
}

int egress_require_link(const struct cayd *c, struct cay_err *err)
{
	if (egress_link_is_ready(c))
		return 0;
	return cay_fail_field(
		err, CAY_E_EGRESS, "egress",
		"cay-egress is not running, so no connection could leave the sandbox");
}

int egress_create_require_link(const struct cayd *c, const struct sandbox_create *spec,
			       struct cay_err *err)
{
	const struct egress_spec *own = spec->has_egress ? &spec->egress : NULL;

	return egress_policies_can_allow(own, spec->template_egress) ? egress_require_link(c, err)
								     : 0;
}

bool sandbox_has_egress(const struct sandbox *sb)
{
	const struct sandbox_egress *e = sb->egress;

	return e && egress_policies_can_allow(e->has_own ? &e->own : NULL,
					      e->has_template ? &e->template : NULL);
}

uint64_t sandbox_egress_generation(const struct sandbox *sb)
{
	return sb->egress ? sb->egress->generation : SANDBOX_FIRST_GENERATION;
}

int sandbox_egress_compile(struct cayd *c, const struct sandbox *sb, struct buf *ret,
			   struct cay_err *err)
{
	const struct sandbox_egress *e = sb->egress;

	return egress_compile(c, e && e->has_own ? &e->own : NULL,
			      e && e->has_template ? &e->template : NULL,
			      sandbox_egress_generation(sb), ret, err);
}
