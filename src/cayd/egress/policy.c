/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/egress/policy.h"

#include "cayd/egress/credential-policy.h"
#include "cayd/egress/egress-link.h"
#include "cayd/egress/preset-files.h"
#include "cayd/tenant/tenant.h"

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

const struct egress_spec *egress_of_tenant(const struct cayd *c, const struct id *tenant)
{
	const struct tenant_info *row = tenant_get_info(c, tenant);

	return row && row->has_egress_max ? &row->egress_max : NULL;
}

/* A copy: the tenant's may be replaced while the create waits. */
int egress_copy_spec(const struct egress_spec *from, struct arena *arena, struct egress_spec *ret)
{
	struct field_list one;

	if (field_list_copy(&egress_spec_table, &(struct field_list){ (void *)(uintptr_t)from, 1 },
			    arena, &one) < 0)
		return -ENOMEM;
	*ret = *(const struct egress_spec *)one.v;
	return 0;
}

int egress_apply_default(const struct cayd *c, const struct id *tenant, struct sandbox_create *spec,
			 struct arena *arena)
{
	const struct tenant_info *row = tenant_get_info(c, tenant);
	const char *preset = c->settings.egress_default;
	struct egress_spec of_node = { .presets = { &preset, 1 },
				       .has_presets = true,
				       .otherwise = EGRESS_SPEC_DENY };
	bool has = row && row->has_egress_default;

	/* what bounds sandboxes of a snapshot is not their policy */
	if (spec->has_egress || (spec->template_egress && !spec->template_egress_bounds) ||
	    (!has && !spec->template_egress && str_eq(preset, "none")))
		return 0;
	spec->has_egress = spec->egress_is_default = true;
	return egress_copy_spec(has ? &row->egress_default : &of_node, arena, &spec->egress);
}

bool egress_policies_can_allow(const struct egress_policies *p)
{
	return (p->own || p->template) && (!p->own || egress_spec_can_allow(p->own)) &&
	       (!p->template || egress_spec_can_allow(p->template));
}

void egress_get_layers(const struct cayd *c, const struct egress_policies *p,
		       const struct egress_spec *ret[static EGRESS_LAYER_NUM])
{
	static const struct egress_spec nothing = { .otherwise = EGRESS_SPEC_DENY };

	ret[EGRESS_NODE] = c->egress->node;
	ret[EGRESS_TENANT] = p->tenant;
	ret[EGRESS_TEMPLATE] = p->template;
	ret[EGRESS_SANDBOX] = p->own || p->template ? p->own : &nothing;
	ret[EGRESS_ANSWERS] = p->answers;
}

int egress_compile(const struct cayd *c, const struct egress_policies *p, uint64_t generation,
		   struct buf *ret, struct cay_err *err)
{
	const struct egress_spec *layers[EGRESS_LAYER_NUM];

	egress_get_layers(c, p, layers);
	return egress_layers_compile(layers, &c->egress->presets, generation, ret, err);
}

static struct egress_policies egress_of_create(const struct sandbox_create *spec)
{
	return (struct egress_policies){ .template = spec->template_egress,
					 .own = spec->has_egress ? &spec->egress : NULL };
}

int egress_create_check(const struct cayd *c, const struct id *tenant,
			const struct sandbox_create *spec, struct cay_err *err)
{
	auto_buf compiled = BUF_INIT(EGRESS_POLICY_MAX);
	struct egress_policies p = egress_of_create(spec);
	int r = p.own ? egress_policy_check_spec(c, p.own, "egress", err) : 0;

	if (r < 0 || !egress_policies_can_allow(&p))
		return r;
	if (credential_policy_check(c, tenant, p.own, err) < 0 ||
	    credential_policy_check(c, tenant, p.template, err) < 0) {
		cay_err_prefix_field(err, "egress");
		return -EINVAL;
	}
	p.tenant = egress_of_tenant(c, tenant);
	r = egress_compile(c, &p, SANDBOX_FIRST_GENERATION, &compiled, err);
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
	struct egress_policies p = egress_of_create(spec);

	return egress_policies_can_allow(&p) ? egress_require_link(c, err) : 0;
}

/* Without the tenant's. */
static struct egress_policies sandbox_get_kept_policies(const struct sandbox *sb)
{
	const struct sandbox_egress *e = sb->egress;

	return (struct egress_policies){ .template = e && e->has_template ? &e->template : NULL,
					 .own = e && e->has_own ? &e->own : NULL,
					 .answers = sb->answers ? &sb->answers->spec : NULL };
}

const struct id *sandbox_get_egress_tenant(const struct sandbox *sb)
{
	return sb->egress_tenant.noun == ID_NONE ? &sb->info.tenant : &sb->egress_tenant;
}

static struct sandbox *sandbox_skip_unbound(struct sandbox *sb, const struct id *tenant)
{
	while (sb && !id_eq(sandbox_get_egress_tenant(sb), tenant))
		sb = sandbox_next_of_tenant(sb);
	return sb;
}

static struct sandbox *sandbox_first_build_for(struct cayd *c, const struct id *tenant)
{
	return sandbox_skip_unbound(sandbox_find_before(c->sandboxes, &build_tenant, 0), tenant);
}

struct sandbox *sandbox_first_bound_by(struct cayd *c, const struct id *tenant)
{
	struct sandbox *sb = sandbox_find_before(c->sandboxes, tenant, 0);

	return sb ? sb : sandbox_first_build_for(c, tenant);
}

struct sandbox *sandbox_next_bound_by(const struct sandbox *sb, const struct id *tenant)
{
	struct sandbox *next = sandbox_skip_unbound(sandbox_next_of_tenant(sb), tenant);

	if (next || tenant_is_for_builds(&sb->info.tenant))
		return next;
	return sandbox_first_build_for(sb->cayd, tenant);
}

struct egress_policies sandbox_get_policies(const struct sandbox *sb)
{
	struct egress_policies p = sandbox_get_kept_policies(sb);

	p.tenant = egress_of_tenant(sb->cayd, sandbox_get_egress_tenant(sb));
	return p;
}

bool sandbox_has_egress(const struct sandbox *sb)
{
	struct egress_policies p = sandbox_get_kept_policies(sb);

	return egress_policies_can_allow(&p);
}

uint64_t sandbox_egress_generation(const struct sandbox *sb)
{
	return sb->egress ? sb->egress->generation : SANDBOX_FIRST_GENERATION;
}

int sandbox_egress_compile(struct cayd *c, const struct sandbox *sb, struct buf *ret,
			   struct cay_err *err)
{
	struct egress_policies p = sandbox_get_policies(sb);

	return egress_compile(c, &p, sandbox_egress_generation(sb), ret, err);
}

static void egress_limit_lower(uint64_t *limit, bool has, uint64_t to)
{
	if (has && (!*limit || to < *limit))
		*limit = to;
}

static void egress_limits_lower(struct egress_limits *l, const struct egress_spec *spec)
{
	const struct egress_limits_spec *to = spec && spec->has_limits ? &spec->limits : NULL;

	if (!to)
		return;
	egress_limit_lower(&l->flows, to->has_flows, to->flows);
	egress_limit_lower(&l->new_per_s, to->has_new_per_s, to->new_per_s);
	egress_limit_lower(&l->bytes[0], to->has_up_bytes, to->up_bytes);
	egress_limit_lower(&l->bytes[1], to->has_down_bytes, to->down_bytes);
	egress_limit_lower(&l->rate[0], to->has_up_rate, to->up_rate);
	egress_limit_lower(&l->rate[1], to->has_down_rate, to->down_rate);
}

struct egress_limits sandbox_get_egress_limits(const struct sandbox *sb)
{
	struct egress_policies p = sandbox_get_policies(sb);
	struct egress_limits l = { .flows = sb->cayd->settings.egress_connections,
				   .new_per_s = EGRESS_LIMIT_NEW_PER_S_MAX };

	egress_limits_lower(&l, p.tenant);
	egress_limits_lower(&l, p.template);
	egress_limits_lower(&l, p.own);
	return l;
}
